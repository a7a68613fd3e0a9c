//! Hostile answers: forged, endless, looping, and far too many (RFC 5452, RFC 9267).

use core::net::SocketAddr;

use base::DropReason;

use super::super::limits::{ADDRESSES_MAX, WRONG_MAX};
use super::super::*;
use super::fixture::{Answer, Fixture, Query, TTL, config, respond, server};
use super::{address, both};

fn v4() -> Fixture {
    let mut f = Fixture::new(config(1));
    f.families = Families::V4;
    f
}

fn bytes(answer: Answer) -> Vec<u8> {
    let Answer::Bytes(bytes) = answer else { panic!("an answer") };
    bytes
}

fn evil(q: &Query) -> Vec<u8> {
    respond(q).address(&q.name, "192.0.2.66", TTL).bytes
}

/// The forged answers come before the right one.
fn forged(f: &mut Fixture, forge: impl Fn(&Query) -> (SocketAddr, Vec<u8>)) -> DropCounts {
    let found = f.run("www.example", |q| Answer::Several(vec![forge(q), (q.to, bytes(both(q)))]));
    assert_eq!(found, Ok(vec![address("192.0.2.80")]));
    let drops = |reason| f.r.drops().of(reason);
    (drops(DropReason::DnsNotAsked), drops(DropReason::DnsCase), drops(DropReason::DnsMalformed))
}

/// Counts of `DnsNotAsked`, `DnsCase` and `DnsMalformed`.
type DropCounts = (u64, u64, u64);

#[test]
fn a_forged_answer_is_counted_and_ignored() {
    // From another host, and from another port of the same.
    assert_eq!(forged(&mut v4(), |q| (server(9), evil(q))), (1, 0, 0));
    assert_eq!(forged(&mut v4(), |q| (SocketAddr::new(q.to.ip(), 5353), evil(q))), (1, 0, 0));
    // Another id, name, type, class; a question; none or two questions.
    let other = |change: fn(&mut Vec<u8>)| {
        forged(&mut v4(), |q| {
            let mut bytes = evil(q);
            change(&mut bytes);
            (q.to, bytes)
        })
    };
    assert_eq!(other(|b| b[1] ^= 1), (1, 0, 0));
    assert_eq!(other(|b| b[13] ^= 2), (1, 0, 0));
    assert_eq!(other(|b| b[26] = 28), (1, 0, 0));
    assert_eq!(other(|b| b[28] = 3), (1, 0, 0));
    assert_eq!(other(|b| b[2] &= 0x7f), (1, 0, 0));
    assert_eq!(other(|b| b[2] |= 0x08), (1, 0, 0));
    assert_eq!(other(|b| b[5] = 0), (1, 0, 0));
    assert_eq!(other(|b| b[5] = 2), (1, 0, 0));
    assert_eq!(other(|b| b.truncate(11)), (0, 0, 1));
    assert_eq!(other(|b| b.truncate(20)), (0, 0, 1));
}

#[test]
fn other_letter_cases_are_not_believed() {
    let mut f = v4();
    let found = f.run("www.example", |q| {
        let mut forged = evil(q);
        forged[13] ^= 0x20;
        Answer::Bytes(if q.tcp { bytes(both(q)) } else { forged })
    });
    assert_eq!(found, Ok(vec![address("192.0.2.80")]));
    assert_eq!(f.r.drops().of(DropReason::DnsCase), 1);
}

#[test]
fn a_flood_of_guesses_moves_the_question_to_tcp() {
    let mut f = v4();
    let found = f.run("www.example", |q| {
        if q.tcp {
            return both(q);
        }
        // All ids but the right one, and then the right one.
        let guess = |i: u16| {
            let mut bytes = evil(q);
            bytes[..2].copy_from_slice(&q.id.wrapping_add(i).to_be_bytes());
            (q.to, bytes)
        };
        Answer::Several((1..=u16::MAX).map(guess).chain([(q.to, evil(q))]).collect())
    });
    assert_eq!(found, Ok(vec![address("192.0.2.80")]));
    assert_eq!(f.asked.iter().map(|q| q.tcp).collect::<Vec<_>>(), [false, true]);
    assert_eq!(f.r.counts().guessed, 1);
    assert_eq!(f.r.drops().of(DropReason::DnsNotAsked), u64::from(WRONG_MAX) + 1);
}

#[test]
fn records_of_other_names_are_not_kept() {
    let mut f = v4();
    let extra = f.run("www.example", |q| {
        let made = respond(q).address(&q.name, "192.0.2.80", TTL);
        Answer::Bytes(made.address("bank.example", "192.0.2.66", TTL).bytes)
    });
    assert_eq!(extra, Ok(vec![address("192.0.2.80")]));
    assert_eq!(f.r.cached(), 1);
    assert_eq!(f.run("bank.example", both), Ok(vec![address("192.0.2.80")]));
    assert_eq!(f.asked.len(), 2);
}

#[test]
fn name_wreck_compression_loops_end() {
    // Pointers to themselves, forwards, to each other, and chains of them: in the question, as
    // owner, and as target. RFC 9267 section 2.
    let pointer = |to: usize| [0xc0 | (to >> 8) as u8, to as u8];
    for nested in [0, 1, 2, 40, 300] {
        let mut f = v4();
        let error = f.run("www.example", |q| {
            let made = respond(q);
            let end = made.bytes.len();
            let mut owner = Vec::new();
            for i in 0..nested {
                owner.extend(pointer(end + 2 * (i + 1)));
            }
            owner.extend(pointer(end));
            let looped = made.clone().record(1, &owner, 1, TTL, &[192, 0, 2, 66]).bytes;
            let data = pointer(end + 21);
            let target = made.clone().record(1, &q.wire, 5, TTL, &data).bytes;
            let mut question = made.bytes;
            question[12..14].copy_from_slice(&pointer(12));
            Answer::Several(vec![(q.to, question), (q.to, looped), (q.to, target)])
        });
        assert!(matches!(error, Err(LookupError::Failed(_))), "{nested}: {error:?}");
    }
    // A legal chain of pointers, each to the one before it: 16,000 of them, and 5,000 records that
    // begin at its end.
    let mut f = Fixture::new(Config { tcp_only: true, ..config(1) });
    f.families = Families::V4;
    let error = f.run("www.example", |q| {
        let mut made = respond(q);
        let data: Vec<u8> = (0..5_000).flat_map(|i| pointer(28 + 12 + 2 * i)).collect();
        made = made.record(1, &[0], 16, TTL, &data);
        let last = pointer(made.bytes.len() - 2);
        for _ in 0..3_000 {
            made = made.record(1, &last, 1, TTL, &[192, 0, 2, 66]);
        }
        Answer::Bytes(made.bytes)
    });
    assert!(error.is_err(), "{error:?}");
}

#[test]
fn an_answer_of_a_hundred_kilobytes_is_bounded() {
    let mut f = v4();
    let found = f.run("www.example", |q| {
        let mut made = respond(q);
        let mut number: u32 = 0;
        while made.bytes.len() < 65_000 {
            number += 1;
            let data = number.to_be_bytes();
            made = made.record(1, &[0xc0, 12], 1, TTL, &data);
        }
        match q.tcp {
            false => Answer::Bytes(respond(q).truncated().bytes),
            // Bytes behind the message are no part of it.
            true => Answer::Several(vec![(q.to, made.bytes.clone()), (q.to, made.bytes)]),
        }
    });
    assert_eq!(found.map(|addresses| addresses.len()), Ok(ADDRESSES_MAX));
    // A stream of 100 kB in which the message never ends is not kept either.
    let mut f = Fixture::new(Config { tcp_only: true, ..config(1) });
    let mut lookup = f.r.lookup("www.example", Families::V4, f.now);
    for _ in 0..100 {
        lookup.on_bytes(&mut f.r, Kind::A, &[0xff; 1_000], f.now);
    }
    assert!(lookup.outcome().is_some(), "65535 bytes of 0xff are no answer");
}

#[test]
fn an_answer_cut_anywhere_never_panics_and_is_never_half_believed() {
    let whole = |q: &Query| {
        let made = respond(q).alias(&q.name, "b.example", TTL);
        made.address("b.example", "192.0.2.80", TTL).soa("example", TTL, TTL).bytes
    };
    let mut length = 0;
    loop {
        let mut f = v4();
        let mut longest = 0;
        let found = f.run("www.example", |q| {
            let bytes = whole(q);
            longest = bytes.len();
            Answer::Bytes(bytes[..length.min(bytes.len())].to_vec())
        });
        if length == longest {
            assert_eq!(found, Ok(vec![address("192.0.2.80")]));
            return;
        }
        if let Ok(found) = found {
            assert_eq!(found, [address("192.0.2.80")], "the answer section was whole");
        }
        length += 1;
    }
}
