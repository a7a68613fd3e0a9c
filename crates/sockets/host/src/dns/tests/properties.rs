//! Any bytes from any server, at any time: nothing panics, grows or goes on for ever.

use base::Duration;
use proptest::prelude::*;

use super::super::limits::ADDRESSES_MAX;
use super::super::*;
use super::fixture::{Answer, Fixture, Query, TTL, config, respond, server};

/// A change to an answer.
#[derive(Clone, Debug)]
enum Change {
    Byte(usize, u8),
    Cut(usize),
    Append(Vec<u8>),
    Rcode(u8),
    Silence,
    Refusal,
    Pointer(usize, u16),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        any::<usize>().prop_map(Change::Cut),
        prop::collection::vec(any::<u8>(), 0..64).prop_map(Change::Append),
        (0..16u8).prop_map(Change::Rcode),
        Just(Change::Silence),
        Just(Change::Refusal),
        (any::<usize>(), 0..200u16).prop_map(|(at, to)| Change::Pointer(at, to)),
    ]
}

fn changed(q: &Query, change: &Change) -> Answer {
    let made = respond(q).alias(&q.name, "b.example", TTL);
    let mut bytes = made.address("b.example", "192.0.2.1", TTL).soa("example", TTL, 60).bytes;
    match change {
        Change::Byte(at, byte) => {
            let at = at % bytes.len();
            bytes[at] = *byte;
        }
        Change::Cut(at) => bytes.truncate(at % bytes.len()),
        Change::Append(more) => bytes.extend(more),
        Change::Rcode(rcode) => bytes = respond(q).rcode(*rcode).bytes,
        Change::Silence => return Answer::Silence,
        Change::Refusal => return Answer::Refusal,
        Change::Pointer(at, to) => {
            let at = at % (bytes.len() - 1);
            bytes[at..at + 2].copy_from_slice(&(0xc000 | to).to_be_bytes());
        }
    }
    Answer::Bytes(bytes)
}

proptest! {
    #[test]
    fn changed_answers_never_panic_and_lookups_end(
        changes in prop::collection::vec(change(), 1..20),
        host in "[a-z]{1,8}(\\.[a-z]{1,8}){0,2}\\.?",
    ) {
        let search = vec!["search.test".to_owned()];
        let mut f = Fixture::new(Config { search, cache_entries: 4, ..config(2) });
        let mut next = changes.iter().cycle();
        for _ in 0..4 {
            // The fixture fails if it asks or waits without end.
            let found = f.run(&host, |q| changed(q, next.next().expect("it cycles")));
            if let Ok(found) = found {
                prop_assert!(!found.is_empty() && found.len() <= 2 * ADDRESSES_MAX);
            }
            prop_assert!(f.r.cached() <= 4);
            f.now += Duration::from_secs(50);
        }
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), tcp: bool) {
        let mut f = Fixture::new(Config { tcp_only: tcp, ..config(1) });
        let mut lookup = f.r.lookup("www.example", Families::Both, f.now);
        lookup.on_datagram(&mut f.r, Kind::A, server(1), &bytes, f.now);
        lookup.on_bytes(&mut f.r, Kind::Aaaa, &bytes, f.now);
        lookup.on_deadline(&mut f.r, f.now);
    }

    #[test]
    fn any_host_and_any_file_never_panic(text in "\\PC{0,80}", lines in "(\\PC{0,20}[ \n]){0,20}") {
        let (config, _) = Config::from_resolv_conf(&lines);
        let (hosts, _) = Hosts::from_text(&lines);
        let keywords = format!("nameserver {lines}\nsearch {lines}\noptions {lines}");
        let _ = Config::from_resolv_conf(&keywords);
        let mut r = Resolver::new(config, hosts, [1, 2]);
        let lookup = r.lookup(&text, Families::Both, super::fixture::START);
        prop_assert!(lookup.outcome().is_some() || lookup.deadline() > super::fixture::START);
    }

    #[test]
    fn a_resolv_conf_is_read_back(
        servers in prop::collection::vec(any::<u32>(), 0..3),
        domains in prop::collection::vec("[a-z][a-z0-9-]{0,20}(\\.[a-z]{1,9}){0,3}", 0..6),
        ndots in 0..=15usize,
        attempts in 1..=5u32,
    ) {
        let mut text = String::new();
        for server in &servers {
            text += &format!("nameserver {}\n", core::net::Ipv4Addr::from(*server));
        }
        text += &format!("search {}\noptions ", domains.join(" "));
        text += &format!("attempts:{attempts} ndots:{ndots}\n");
        let (config, notes) = Config::from_resolv_conf(&text);
        prop_assert!(notes.is_empty(), "{notes:?}");
        prop_assert_eq!(config.servers.len(), servers.len());
        prop_assert_eq!(config.search, domains);
        prop_assert_eq!((config.ndots, config.attempts), (ndots, attempts));
    }
}
