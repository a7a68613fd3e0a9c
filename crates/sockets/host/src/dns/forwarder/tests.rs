//! The forwarder against servers made by hand, in virtual time.

mod answers;
mod fixture;
mod servers;

use core::net::IpAddr;

use base::{DropReason, Limit};
use proptest::prelude::*;

use super::*;
use fixture::{Made, Watch, World, question, server};

/// A question is passed on as it is, except for its id and its letter case; and so is the answer.
#[test]
fn a_question_and_its_answer_are_passed_on() {
    let mut world = World::new(1);
    let asked = question(7, "www.example", 1).edns(1_400, &[0, 10, 0, 2, 9, 9]);
    world.ask(1, &asked.bytes);
    let query = world.query();
    assert_eq!((query.to, query.by), (server(1), Transport::Udp));
    assert_ne!(query.message[..2], asked.bytes[..2], "an id of its own");
    assert_ne!(query.message[12..25], asked.bytes[12..25], "letters of its own");
    assert!(query.message[12..25].eq_ignore_ascii_case(&asked.bytes[12..25]));
    assert_eq!(query.message[25..], asked.bytes[25..], "EDNS stays");
    let answer = query.answer().a("www.example", [192, 0, 2, 80], 300);
    world.hear(&query, &answer.bytes);
    let (to, by, message) = world.answered();
    assert_eq!((to, by), (1, Transport::Udp));
    assert_eq!(message[..2], asked.bytes[..2]);
    assert_eq!(message[12..], [&asked.bytes[12..29], &answer.bytes[29..]].concat());
    assert_eq!(message[2..12], answer.bytes[2..12]);
    assert_eq!((world.forwarder.in_flight(), world.idle()), (0, true));
    // Another question has another id.
    world.ask(1, &asked.bytes);
    assert_ne!(world.query().message[..2], query.message[..2]);
}

#[test]
fn a_truncated_answer_is_passed_on_and_the_guest_asks_by_tcp() {
    let mut world = World::new(1);
    let asked = question(7, "www.example", 1);
    world.ask(1, &asked.bytes);
    let query = world.query();
    world.hear(&query, &query.answer().truncated().bytes);
    let (_, _, message) = world.answered();
    assert_eq!(message[2] & 2, 2, "TC");
    world.ask_by(2, Transport::Tcp, &asked.bytes);
    let query = world.query();
    assert_eq!(query.by, Transport::Tcp);
    let mut answer = query.answer();
    for last in 0..100 {
        answer = answer.a("www.example", [192, 0, 2, last], 300);
    }
    let stream = framed(&answer.bytes);
    for piece in stream.chunks(700) {
        world.bytes(&query, piece);
    }
    let (to, by, message) = world.answered();
    assert_eq!((to, by, message.len()), (2, Transport::Tcp, answer.bytes.len()));
}

#[test]
fn the_hosts_table_answers_first() {
    let mut world = World::new(1);
    let mut hosts = Hosts::default();
    for (name, address) in
        [("box.test", "192.0.2.7"), ("box.test", "2001:db8::7"), ("alias.test", "192.0.2.7")]
    {
        hosts.add(name, address.parse().expect("an address")).expect("a name");
    }
    world.forwarder.set_hosts(hosts);
    let mut local = |name: &str, rtype: u16| {
        world.ask(1, &question(7, name, rtype).edns(1_232, &[]).bytes);
        world.answered().2
    };
    let a = local("Box.Test", 1);
    assert_eq!((a[3] & 0x0f, a[7]), (0, 1));
    assert_eq!(&a[12..21], b"\x03Box\x04Test", "the guest's letters");
    assert!(a.windows(4).any(|four| four == [192, 0, 2, 7]));
    let aaaa = local("box.test", 28);
    let v6: core::net::Ipv6Addr = "2001:db8::7".parse().expect("an address");
    assert!(aaaa.windows(16).any(|sixteen| sixteen == v6.octets()));
    // The first name of an address, and names that have no address of a type.
    let ptr = local("7.2.0.192.in-addr.arpa", 12);
    assert!(ptr.windows(9).any(|name| name == b"\x03box\x04test"));
    let digits = "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
    let ptr = local(digits, 12);
    assert!(ptr.windows(9).any(|name| name == b"\x03box\x04test"));
    for (name, rtype) in [("alias.test", 28), ("box.test", 65)] {
        let none = local(name, rtype);
        assert_eq!((none[3] & 0x0f, none[7]), (0, 0), "{name}");
    }
    assert_eq!(world.forwarder.counts().from_hosts, 6);
    // Other types, names and addresses are asked upstream.
    let others = [("box.test", 15), ("other.test", 1), ("8.2.0.192.in-addr.arpa", 12)];
    for (name, rtype) in others {
        world.ask(1, &question(7, name, rtype).bytes);
        world.query();
    }
}

#[test]
fn messages_that_are_no_questions_are_counted() {
    let mut world = World::new(1);
    let good = question(7, "www.example", 1).bytes;
    let wrong = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        bytes
    };
    let dropped =
        [vec![], good[..11].to_vec(), wrong(&|b| b[2] |= 0x80), wrong(&|b| b.resize(1_233, 0))];
    for message in &dropped {
        world.ask(1, message);
        assert!(world.idle(), "{message:?}");
    }
    type Change<'a> = &'a dyn Fn(&mut Vec<u8>);
    let answered: [(Change<'_>, u8); 9] = [
        (&|b| b[2] |= 0x28, 4),
        (&|b| b[5] = 2, 1),
        (&|b| b[5] = 0, 1),
        (&|b| b[7] = 1, 1),
        (&|b| b[12] = 0xc0, 1),
        (&|b| b[12] = 64, 1),
        (&|b| b.truncate(27), 1),
        (&|b| b[28] = 3, 4),
        (&|b| b[26] = 252, 4),
    ];
    for (at, (change, code)) in answered.into_iter().enumerate() {
        world.ask(1, &wrong(change));
        let (_, _, message) = world.answered();
        assert_eq!((message[0], message[1], message[3] & 0x0f), (0, 7, code), "{at}");
        assert_eq!((message.len(), message[2] & 0x80), (12, 0x80));
    }
    let count = dropped.len() as u64 + 9;
    assert_eq!(world.forwarder.drops().of(DropReason::DnsQueryMalformed), count);
    assert_eq!(world.forwarder.counts().sent, 0);
}

#[test]
fn a_full_forwarder_and_a_question_that_comes_again() {
    let mut world = World::new(1);
    world.forwarder.budget_mut().set(Limit::DnsInFlight, 4);
    for number in 0..4 {
        world.ask(number, &question(number, "www.example", 1).bytes);
        world.query();
    }
    world.ask(0, &question(0, "www.example", 1).bytes);
    assert!(world.idle());
    assert_eq!(world.forwarder.drops().of(DropReason::DnsQueryRepeated), 1);
    world.ask(9, &question(9, "www.example", 1).edns(1_232, &[]).bytes);
    let (to, _, message) = world.answered();
    assert_eq!((to, message[3] & 0x0f), (9, 2), "SERVFAIL");
    assert_eq!(world.forwarder.counts().full, 1);
    assert_eq!(world.forwarder.budget_mut().hits(Limit::DnsInFlight), 1);
    // A guest that is gone makes room.
    world.forwarder.abandon(|&guest| guest == 2);
    assert!(matches!(world.forwarder.poll(world.now), Some(ForwarderAction::Close(_))));
    world.ask(9, &question(9, "www.example", 1).bytes);
    world.query();
}

#[test]
fn a_policy_refuses_names_before_anything_is_asked() {
    let mut world = World::new(1);
    world.watch = Watch { refuses: Some("secret.example"), ..Watch::default() };
    world.ask(1, &question(7, "Secret.example", 1).edns(1_232, &[]).bytes);
    let (_, _, message) = world.answered();
    assert_eq!(message[3] & 0x0f, 5, "REFUSED");
    assert!(message.ends_with(&[0, 6, 0, 15, 0, 2, 0, 15]), "extended error 15: {message:?}");
    // A guest without EDNS gets none.
    world.ask(1, &question(7, "secret.example", 1).bytes);
    let (_, _, message) = world.answered();
    assert_eq!((message[11], message.len()), (0, 12 + 16 + 4));
    assert_eq!((world.forwarder.counts().refused, world.forwarder.counts().sent), (2, 0));
    // A label with a dot in it is another name.
    let mut odd = question(7, "secret.example", 1).bytes;
    odd.splice(12..28, *b"\x0esecret.example\0");
    world.ask(1, &odd);
    world.query();
}

proptest! {
    /// Any questions and answers, in pieces: nothing panics, everything ends.
    #[test]
    fn any_messages_are_answered_or_counted(
        steps in prop::collection::vec(
            (0_u8..6, prop::collection::vec(any::<u8>(), 0..80), any::<bool>()), 1..40
        ),
    ) {
        let mut world = World::new(2);
        let mut query = None;
        for (step, bytes, flag) in steps {
            match step {
                0 => world.ask(1, &bytes),
                1 => {
                    let by = if flag { Transport::Tcp } else { Transport::Udp };
                    world.ask_by(1, by, &question(7, "www.example", 1).bytes);
                }
                2 | 3 => if let Some(query) = &query {
                    let query: &fixture::Query = query;
                    let mut answer = query.answer().bytes;
                    answer[7] = 3;
                    answer.extend(&bytes);
                    let message = if step == 2 { &answer } else { &bytes };
                    world.hear(query, message);
                    world.bytes(query, &framed(message));
                },
                4 => if let Some(query) = &query {
                    world.fail(query);
                },
                _ => {
                    let most = world.now + Duration::from_secs(60);
                    world.now = world.now.max(world.forwarder.deadline().min(most));
                }
            }
            while let Some(action) = world.poll() {
                if let ForwarderAction::Send(id, send) = action {
                    query = Some(fixture::Query::new(id, send));
                }
            }
            prop_assert!(world.forwarder.in_flight() <= 40);
        }
        for _ in 0..1_000 {
            while world.poll().is_some() {}
            match world.forwarder.deadline() {
                Instant::NEVER => break,
                at => world.now = world.now.max(at),
            }
        }
        prop_assert_eq!(world.forwarder.in_flight(), 0);
    }
}

/// An address of a text.
fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The records of an answer that a test makes.
fn plain(query: &fixture::Query) -> Made {
    query.answer().a("www.example", [192, 0, 2, 80], 300)
}
