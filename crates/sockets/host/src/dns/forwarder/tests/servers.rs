//! Which server is asked, for how long, and which messages are believed.

use base::DropReason;

use super::fixture::{World, question, server};
use super::{ForwarderAction, Transport, framed, plain};
use crate::dns::limits::WRONG_MAX;

fn asked(world: &mut World) {
    world.ask(1, &question(7, "www.example", 1).edns(1_232, &[]).bytes);
}

#[test]
fn the_next_server_is_asked_after_a_second_and_the_guest_is_told_in_the_end() {
    let mut world = World::new(2);
    asked(&mut world);
    let first = world.query();
    let mut waits = Vec::new();
    for number in [2, 1, 2] {
        waits.push(world.wait());
        let query = world.query();
        assert_eq!((query.to, query.id), (server(number), first.id));
        assert_eq!(query.message, first.message, "a repetition");
    }
    waits.push(world.wait());
    let (_, _, message) = world.answered();
    assert_eq!(message[3] & 0x0f, 2, "SERVFAIL");
    assert!(message.ends_with(&[0, 15, 0, 2, 0, 22]), "no reachable authority");
    assert_eq!(waits, [1_000, 1_000, 4_000, 4_000]);
    assert_eq!((world.forwarder.counts().failures, world.forwarder.counts().timeouts), (1, 4));
    // A late answer is not believed any more.
    world.hear(&first, &plain(&first).bytes);
    assert!(world.idle());
    assert_eq!(world.forwarder.drops().of(DropReason::DnsNotAsked), 1);
}

#[test]
fn a_slow_servers_answer_counts_though_the_next_was_asked() {
    let mut world = World::new(2);
    asked(&mut world);
    let first = world.query();
    world.wait();
    world.query();
    world.hear(&first, &plain(&first).bytes);
    assert_eq!(world.answered().2[3] & 0x0f, 0);
}

#[test]
fn a_server_that_cannot_answer_is_passed_over_and_the_last_refusal_is_passed_on() {
    let mut world = World::new(3);
    asked(&mut world);
    let first = world.query();
    world.hear(&first, &first.answer().code(2).bytes);
    let second = world.query();
    assert_eq!(second.to, server(2));
    world.fail(&second);
    let third = world.query();
    assert_eq!(third.to, server(3));
    world.hear(&third, &third.answer().code(5).bytes);
    assert_eq!(world.answered().2[3] & 0x0f, 5, "what the last one says");
    // NXDOMAIN is an answer.
    asked(&mut world);
    let query = world.query();
    world.hear(&query, &query.answer().code(3).bytes);
    assert_eq!(world.answered().2[3] & 0x0f, 3);
}

#[test]
fn messages_that_were_not_asked_for_are_dropped() {
    let mut world = World::new(2);
    asked(&mut world);
    let query = world.query();
    let good = plain(&query).bytes;
    let wrong = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] ^= byte;
        bytes
    };
    let not_asked =
        [wrong(0, 1), wrong(2, 0x80), wrong(2, 0x08), wrong(5, 1), wrong(13, 1), wrong(26, 1)];
    for message in &not_asked {
        world.hear(&query, message);
        assert!(world.idle(), "{message:?}");
    }
    // Of a server that was not asked yet, and of a stranger.
    world.hear_from(&query, server(2), &good);
    world.hear_from(&query, server(9), &good);
    world.hear(&query, &good[..11]);
    assert_eq!(world.forwarder.drops().of(DropReason::DnsNotAsked), 8);
    assert_eq!(world.forwarder.drops().of(DropReason::DnsMalformed), 1);
    world.hear(&query, &good);
    assert_eq!(world.answered().2[3] & 0x0f, 0);
}

#[test]
fn another_case_is_looked_at_by_tcp_which_shows_who_it_was() {
    let mut world = World::new(1);
    let other_case = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        for letter in bytes[12..25].iter_mut().filter(|b| b.is_ascii_alphabetic()) {
            *letter ^= 0x20;
        }
        bytes
    };
    // Somebody forges: the server keeps the case.
    asked(&mut world);
    let query = world.query();
    world.hear(&query, &other_case(&plain(&query).bytes));
    let by_tcp = world.query();
    assert_eq!((by_tcp.by, by_tcp.message.clone()), (Transport::Tcp, query.message.clone()));
    assert_eq!(world.forwarder.drops().of(DropReason::DnsCase), 1);
    world.bytes(&by_tcp, &framed(&plain(&by_tcp).bytes));
    assert_eq!(world.answered().2[3] & 0x0f, 0);
    // The server changes it: it is asked in lower case from then on.
    asked(&mut world);
    let query = world.query();
    world.hear(&query, &other_case(&plain(&query).bytes));
    let by_tcp = world.query();
    let mut answer = plain(&by_tcp);
    for last in 0..100 {
        answer = answer.a("www.example", [192, 0, 2, last], 300);
    }
    world.bytes(&by_tcp, &framed(&other_case(&answer.bytes)));
    let (_, by, message) = world.answered();
    // It came by TCP, and is too long for the guest's datagram.
    assert_eq!((by, message[2] & 2), (Transport::Udp, 2));
    asked(&mut world);
    let query = world.query();
    assert_eq!(query.message[12..25], *b"\x03www\x07example\0");
    world.hear(&query, &plain(&query).bytes);
    assert_eq!(world.answered().2[3] & 0x0f, 0);
}

#[test]
fn after_many_guesses_a_question_is_asked_by_tcp() {
    let mut world = World::new(1);
    asked(&mut world);
    let query = world.query();
    let mut guess = plain(&query).bytes;
    guess[0] ^= 1;
    for _ in 0..WRONG_MAX {
        world.hear(&query, &guess);
        assert!(world.idle());
    }
    world.hear(&query, &guess);
    assert_eq!(world.query().by, Transport::Tcp);
}

#[test]
fn other_servers_take_over_what_is_in_flight() {
    let mut world = World::new(2);
    asked(&mut world);
    let first = world.query();
    world.wait();
    world.query();
    world.forwarder.set_servers(vec![server(8)], world.now);
    let again = world.query();
    assert_eq!((again.to, again.id), (server(8), first.id));
    world.hear(&first, &plain(&first).bytes);
    assert!(world.idle(), "the old one is not believed any more");
    world.hear(&again, &plain(&again).bytes);
    assert_eq!(world.answered().2[3] & 0x0f, 0);
    // Without a server there is SERVFAIL at once.
    world.forwarder.set_servers(Vec::new(), world.now);
    asked(&mut world);
    assert_eq!(world.answered().2[3] & 0x0f, 2);
}

#[test]
fn a_connection_that_fails_or_says_nonsense_leads_to_the_next_server() {
    let mut world = World::new(2);
    world.ask_by(1, Transport::Tcp, &question(7, "www.example", 1).bytes);
    let first = world.query();
    world.bytes(&first, &framed(b"nonsense, and long enough"));
    let second = world.query();
    assert_eq!((second.to, second.by), (server(2), Transport::Tcp));
    world.wait();
    let (_, by, message) = world.answered();
    assert_eq!((by, message[3] & 0x0f), (Transport::Tcp, 2));
    assert!(!matches!(world.poll(), Some(ForwarderAction::Send(..))));
}
