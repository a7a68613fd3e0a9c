//! The resolver against servers made by hand, in virtual time.

mod attacks;
mod fixture;
mod properties;
mod servers;

use core::net::IpAddr;

use base::{Duration, Instant};

use super::limits::{ALIASES_MAX, OTHER_FAMILY_TIMEOUT};
use super::*;
use fixture::{Answer, Fixture, Query, TTL, config, respond};

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn text(e: &LookupError) -> String {
    e.to_string()
}

/// Answers both kinds for any name.
fn both(query: &Query) -> Answer {
    let made = respond(query);
    Answer::Bytes(match query.kind {
        Kind::A => made.address(&query.name, "192.0.2.80", TTL).bytes,
        Kind::Aaaa => made.address(&query.name, "2001:db8::80", TTL).bytes,
    })
}

#[test]
fn both_families_are_asked_at_once_and_ipv6_comes_first() {
    let mut f = Fixture::new(config(1));
    let found = f.run("www.example", both).expect("an answer");
    assert_eq!(found, [address("2001:db8::80"), address("192.0.2.80")]);
    assert_eq!(f.asked.len(), 2);
    assert_eq!(f.now, fixture::START, "no answer was waited for before the other question");
    assert!(f.asked.iter().all(|q| q.edns == Some(1232)));
    assert_ne!(f.asked[0].id, f.asked[1].id);
}

#[test]
fn one_family_is_asked_alone() {
    let mut f = Fixture::new(config(1));
    f.families = Families::V4;
    assert_eq!(f.run("www.example", both), Ok(vec![address("192.0.2.80")]));
    assert_eq!(f.asked.len(), 1);
}

#[test]
fn literals_localhost_and_the_hosts_table_ask_nobody() {
    let mut f = Fixture::new(config(1));
    let (hosts, _) = Hosts::from_text("192.0.2.9 printer Printer.example\n");
    f.r = Resolver::new(config(1), hosts, [1, 2]);
    let nobody = |_: &Query| -> Answer { panic!("asked") };
    assert_eq!(f.run("192.0.2.1", nobody), Ok(vec![address("192.0.2.1")]));
    assert_eq!(f.run("2001:db8::1", nobody), Ok(vec![address("2001:db8::1")]));
    let loopback = vec![address("::1"), address("127.0.0.1")];
    for name in ["localhost", "LocalHost.", "a.b.localhost"] {
        assert_eq!(f.run(name, nobody), Ok(loopback.clone()));
    }
    assert_eq!(f.run("PRINTER.example.", nobody), Ok(vec![address("192.0.2.9")]));
    assert!(matches!(f.run("x.invalid", nobody), Err(LookupError::NoName(_))));
    assert!(matches!(f.run("x.onion", nobody), Err(LookupError::NoName(_))));
    assert!(matches!(f.run("a..b", nobody), Err(LookupError::Name(_, NameError::EmptyLabel))));
    f.families = Families::V6;
    assert!(matches!(f.run("192.0.2.1", nobody), Err(LookupError::NoAddress(_))));
}

#[test]
fn without_servers_the_error_says_what_to_do() {
    let mut f = Fixture::new(config(0));
    let error = f.run("www.example", both).expect_err("nobody to ask");
    assert!(text(&error).contains("name one, or give an address"), "{error}");
}

#[test]
fn nxdomain_and_nodata_are_told_apart() {
    let mut f = Fixture::new(config(1));
    let none = f.run("no.example", |q| Answer::Bytes(respond(q).rcode(3).bytes));
    assert!(matches!(none, Err(LookupError::NoName(_))), "{none:?}");
    let empty = f.run("empty.example", |q| Answer::Bytes(respond(q).bytes));
    assert!(matches!(empty, Err(LookupError::NoAddress(_))), "{empty:?}");
    // One family is enough, whatever the result of the other is.
    let half = f.run("half.example", |q| match q.kind {
        Kind::A => both(q),
        Kind::Aaaa => Answer::Bytes(respond(q).rcode(3).bytes),
    });
    assert_eq!(half, Ok(vec![address("192.0.2.80")]));
}

#[test]
fn aliases_are_followed_inside_the_answer() {
    let mut f = Fixture::new(config(1));
    let found = f.run("www.example", |q| {
        let made = respond(q).alias("b.example", "c.example", TTL).alias(&q.name, "B.Example", TTL);
        Answer::Bytes(match q.kind {
            Kind::A => made.address("C.example", "192.0.2.3", TTL).bytes,
            Kind::Aaaa => {
                made.address("other.example", "2001:db8::3", TTL).soa("example", 9, 9).bytes
            }
        })
    });
    assert_eq!(found, Ok(vec![address("192.0.2.3")]), "records of other names do not count");
    assert_eq!(f.asked.len(), 2);
}

#[test]
fn aliases_are_followed_by_asking_again() {
    let mut f = Fixture::new(config(1));
    let answer = |q: &Query| match q.name.as_str() {
        "www.example" => Answer::Bytes(respond(q).alias(&q.name, "end.example", TTL).bytes),
        _ => both(q),
    };
    assert_eq!(f.run("www.example", answer).map(|a| a.len()), Ok(2));
    let names: Vec<_> = f.asked.iter().map(|q| q.name.as_str()).collect();
    assert_eq!(names.iter().filter(|n| **n == "end.example").count(), 2);
    f.asked.clear();
    assert_eq!(f.run("www.example", answer).map(|a| a.len()), Ok(2));
    assert!(f.asked.is_empty(), "the cache knows the alias and its end");
}

#[test]
fn alias_loops_end() {
    let mut f = Fixture::new(config(1));
    let inside = f.run("a.example", |q| {
        Answer::Bytes(
            respond(q)
                .alias("a.example", "b.example", TTL)
                .alias("b.example", "a.example", TTL)
                .bytes,
        )
    });
    assert!(matches!(inside, Err(LookupError::AliasLoop(_))), "{inside:?}");
    f.asked.clear();
    // A new alias each time, for ever.
    let endless = f.run("n0.example", |q| {
        let number: u64 = q.name[1..].split('.').next().and_then(|n| n.parse().ok()).expect("n1");
        Answer::Bytes(respond(q).alias(&q.name, &format!("n{}.example", number + 1), TTL).bytes)
    });
    assert!(matches!(endless, Err(LookupError::AliasLoop(_))), "{endless:?}");
    assert_eq!(f.asked.len(), 2 * (ALIASES_MAX + 1));
    // Two names that are aliases of each other, one answer each; the second time from the cache.
    for _ in 0..2 {
        let mutual = f.run("x.example", |q| {
            let other = if q.name == "x.example" { "y.example" } else { "x.example" };
            Answer::Bytes(respond(q).alias(&q.name, other, TTL).bytes)
        });
        assert!(matches!(mutual, Err(LookupError::AliasLoop(_))), "{mutual:?}");
    }
}

#[test]
fn the_search_list_follows_ndots() {
    let names = |f: &Fixture| -> Vec<String> {
        f.asked.iter().filter(|q| q.kind == Kind::A).map(|q| q.name.clone()).collect()
    };
    let none = |q: &Query| Answer::Bytes(respond(q).rcode(3).bytes);
    let searched = |ndots: usize| {
        let search = ["s1.test", "s2.test"].map(str::to_owned).to_vec();
        Fixture::new(Config { search, ndots, ..config(1) })
    };
    let mut f = searched(1);
    let error = f.run("host", none).expect_err("nowhere");
    assert!(text(&error).contains("'host'"));
    assert_eq!(names(&f), ["host.s1.test", "host.s2.test", "host"], "a single label is asked last");
    let mut f = searched(1);
    let _ = f.run("a.b", none);
    assert_eq!(names(&f), ["a.b", "a.b.s1.test", "a.b.s2.test"]);
    let mut f = searched(2);
    let _ = f.run("a.b", none);
    assert_eq!(names(&f), ["a.b.s1.test", "a.b.s2.test", "a.b"]);
    let mut f = searched(1);
    let _ = f.run("host.", none);
    assert_eq!(names(&f), ["host"], "a dot at the end: no search");
    let mut f = searched(1);
    let found = f.run("host", |q| match q.name.as_str() {
        "host.s2.test" => both(q),
        // A name without addresses and a server's failure do not end the search.
        _ => Answer::Bytes(respond(q).rcode(2).bytes),
    });
    assert_eq!(found.map(|a| a.len()), Ok(2));
}

#[test]
fn a_search_ends_when_nobody_answers() {
    let mut f = Fixture::new(Config { search: vec!["s1.test".to_owned()], ..config(1) });
    let error = f.run("host", |_| Answer::Silence).expect_err("nobody");
    assert!(matches!(error, LookupError::TimedOut(_)));
    assert!(f.asked.iter().all(|q| q.name == "host.s1.test"));
}

#[test]
fn answers_are_cached_for_their_ttl_and_no_longer_than_a_day() {
    let mut f = Fixture::new(config(1));
    let with = |ttl: u32| {
        move |q: &Query| match q.kind {
            Kind::A => Answer::Bytes(respond(q).address(&q.name, "192.0.2.1", ttl).bytes),
            Kind::Aaaa => Answer::Bytes(respond(q).soa("example", ttl, ttl).bytes),
        }
    };
    let mut asks = |name: &str, ttl: u32, after: Duration| {
        f.asked.clear();
        f.now += after;
        f.run(name, with(ttl)).expect("an address");
        f.asked.len()
    };
    let s = Duration::from_secs;
    assert_eq!(asks("a.example", 60, s(0)), 2);
    assert_eq!(asks("A.EXAMPLE", 60, s(59)), 0, "59 seconds later");
    assert_eq!(asks("a.example", 60, s(1)), 2, "60 seconds later");
    assert_eq!(asks("zero.example", 0, s(0)), 2);
    assert_eq!(asks("zero.example", 0, s(0)), 2, "a TTL of zero is used once");
    assert_eq!(asks("huge.example", i32::MAX as u32, s(0)), 2);
    assert_eq!(asks("huge.example", i32::MAX as u32, s(10_799)), 0);
    assert_eq!(
        asks("huge.example", i32::MAX as u32, s(1)),
        1,
        "three hours: no IPv6 is asked again"
    );
    assert_eq!(asks("huge.example", i32::MAX as u32, s(86_400 - 10_800)), 2, "a day");
    assert_eq!(asks("negative.example", u32::MAX, s(0)), 2);
    assert_eq!(asks("negative.example", u32::MAX, s(0)), 2, "the highest bit stands for zero");
}

#[test]
fn that_there_is_no_name_is_cached_as_the_soa_says() {
    let mut f = Fixture::new(config(1));
    let mut asks = |name: &str, zone: &str, ttl, minimum, after| {
        f.asked.clear();
        f.now += Duration::from_secs(after);
        let none =
            f.run(name, |q| Answer::Bytes(respond(q).rcode(3).soa(zone, ttl, minimum).bytes));
        assert!(matches!(none, Err(LookupError::NoName(_))), "{none:?}");
        f.asked.len()
    };
    assert_eq!(asks("a.example", "example", 900, 60, 0), 2);
    assert_eq!(asks("a.example", "example", 900, 60, 59), 0, "the minimum");
    assert_eq!(asks("a.example", "example", 900, 60, 1), 2);
    assert_eq!(asks("b.example", "example", 30, 60, 0), 2);
    assert_eq!(asks("b.example", "example", 30, 60, 30), 2, "the TTL");
    assert_eq!(asks("c.example", "elsewhere", 30, 60, 0), 2);
    assert_eq!(asks("c.example", "elsewhere", 30, 60, 0), 2, "the SOA of another zone");
}

#[test]
fn a_family_that_is_silent_holds_up_the_other_for_two_seconds_only() {
    let mut f = Fixture::new(config(1));
    let found = f.run("www.example", |q| match q.kind {
        Kind::A => both(q),
        Kind::Aaaa => Answer::Silence,
    });
    assert_eq!(found, Ok(vec![address("192.0.2.80")]));
    assert_eq!(f.now, fixture::START + OTHER_FAMILY_TIMEOUT);
    // The same when the answer is from the cache.
    let found = f.run("www.example", |_| Answer::Silence);
    assert_eq!(found, Ok(vec![address("192.0.2.80")]));
    assert_eq!(f.now, fixture::START + OTHER_FAMILY_TIMEOUT.saturating_mul(2));
}

#[test]
fn after_the_end_nothing_is_done_any_more() {
    let mut f = Fixture::new(config(1));
    let mut lookup = f.r.lookup("192.0.2.1", Families::Both, f.now);
    assert_eq!(lookup.next_action(), None);
    assert_eq!(lookup.deadline(), Instant::NEVER);
    lookup.on_deadline(&mut f.r, Instant::NEVER);
    lookup.on_failure(&mut f.r, Kind::A, f.now);
    assert!(lookup.outcome().is_some());
}
