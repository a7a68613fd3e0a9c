//! Several servers, time-outs, TCP, and servers that are old.

use base::Duration;

use super::super::*;
use super::fixture::{Answer, Fixture, Query, START, TTL, config, respond, server};
use super::{address, both};

fn v4(servers: usize) -> Fixture {
    let mut f = Fixture::new(config(servers));
    f.families = Families::V4;
    f
}

fn only(number: usize) -> impl Fn(&Query) -> Answer {
    move |q| if q.to == server(number) { both(q) } else { Answer::Silence }
}

fn order(f: &Fixture) -> Vec<usize> {
    f.asked.iter().map(|q| (1..=3).find(|&i| q.to == server(i)).expect("a server")).collect()
}

#[test]
fn a_silent_server_costs_a_second_and_the_next_is_asked() {
    let mut f = v4(3);
    assert!(f.run("www.example", only(3)).is_ok());
    assert_eq!(order(&f), [1, 2, 3]);
    assert_eq!(f.now, START + Duration::from_secs(2));
}

#[test]
fn the_last_round_waits_for_the_whole_time_out() {
    let mut f = v4(2);
    let error = f.run("www.example", |_| Answer::Silence).expect_err("nobody answers");
    assert!(matches!(error, LookupError::TimedOut(_)), "{error}");
    assert_eq!(order(&f), [1, 2, 1, 2]);
    assert_eq!(f.now, START + Duration::from_secs(1 + 1 + 5 + 5));
    assert_eq!(f.r.counts().timeouts, 4);
    let mut f = Fixture::new(Config { attempts: 1, ..config(1) });
    let _ = f.run("www.example", |_| Answer::Silence);
    assert_eq!(f.now, START + Duration::from_secs(5));
}

#[test]
fn every_try_has_another_id_and_other_letters() {
    let mut f = v4(1);
    let _ = f.run("abcdefghijklmnop.example", |_| Answer::Silence);
    let [first, second] = f.asked.as_slice() else { panic!("{:?}", f.asked) };
    assert_ne!(first.id, second.id);
    assert_ne!(first.wire, second.wire);
    assert_eq!(first.name, second.name);
    assert!(first.wire.iter().any(u8::is_ascii_uppercase));
    assert!(first.wire.iter().any(u8::is_ascii_lowercase));
}

#[test]
fn a_server_that_fails_is_asked_once() {
    for rcode in [2, 5, 9] {
        let mut f = v4(2);
        let found = f.run("www.example", |q| match q.to == server(1) {
            true => Answer::Bytes(respond(q).rcode(rcode).bytes),
            false => both(q),
        });
        assert!(found.is_ok());
        assert_eq!((order(&f), f.now), (vec![1, 2], START));
    }
    let mut f = v4(2);
    let error = f.run("www.example", |q| Answer::Bytes(respond(q).rcode(2).bytes));
    assert!(matches!(error, Err(LookupError::Failed(_))), "{error:?}");
    assert_eq!((order(&f), f.now), (vec![1, 2], START), "nobody is left, and nobody waits");
}

#[test]
fn a_closed_port_moves_on_at_once() {
    let mut f = v4(2);
    let found = f.run("www.example", |q| match q.to == server(1) {
        true => Answer::Refusal,
        false => both(q),
    });
    assert!(found.is_ok());
    assert_eq!((order(&f), f.now), (vec![1, 2], START));
}

#[test]
fn a_server_that_only_refers_to_others_is_not_believed() {
    let mut f = v4(2);
    let found = f.run("www.example", |q| {
        if q.to == server(2) {
            return both(q);
        }
        let mut made = respond(q).record(2, &[0], 2, TTL, &[0]);
        made.bytes[3] &= 0x7f;
        Answer::Bytes(made.bytes)
    });
    assert!(found.is_ok(), "{found:?}");
}

#[test]
fn a_truncated_answer_is_asked_for_by_tcp() {
    let mut f = v4(1);
    let found = f.run("www.example", |q| match q.tcp {
        false => Answer::Bytes(respond(q).truncated().address(&q.name, "192.0.2.66", TTL).bytes),
        true => both(q),
    });
    assert_eq!(found, Ok(vec![address("192.0.2.80")]), "nothing of the truncated answer is used");
    assert_eq!(f.asked.iter().map(|q| q.tcp).collect::<Vec<_>>(), [false, true]);
    assert_ne!(f.asked[0].id, f.asked[1].id);
    assert_eq!(f.r.counts().truncated, 1);
}

#[test]
fn a_server_without_tcp_or_truncated_over_tcp_is_left() {
    for refuses in [false, true] {
        let mut f = v4(2);
        let found = f.run("www.example", |q| match (q.to == server(1), q.tcp && refuses) {
            (true, true) => Answer::Refusal,
            (true, false) => Answer::Bytes(respond(q).truncated().bytes),
            (false, _) => both(q),
        });
        assert!(found.is_ok(), "{found:?}");
        assert_eq!(order(&f), [1, 1, 2]);
    }
    // A server that is silent over TCP has five seconds, and is not asked again.
    let mut f = v4(1);
    let silent = f.run("www.example", |q| match q.tcp {
        false => Answer::Bytes(respond(q).truncated().bytes),
        true => Answer::Silence,
    });
    assert!(matches!(silent, Err(LookupError::TimedOut(_))), "{silent:?}");
    assert_eq!((f.asked.len(), f.now), (2, START + Duration::from_secs(5)));
}

#[test]
fn a_server_without_edns_is_asked_without_and_remembered() {
    for (rcode, question) in [(1, true), (4, true), (1, false)] {
        let mut f = v4(1);
        let mut answer = |q: &Query| {
            if q.edns.is_none() {
                return both(q);
            }
            let mut bytes = respond(q).rcode(rcode).bytes;
            if !question {
                bytes.truncate(12);
                bytes[5] = 0;
            }
            Answer::Bytes(bytes)
        };
        assert!(f.run("www.example", &mut answer).is_ok());
        assert_eq!(f.asked.iter().map(|q| q.edns).collect::<Vec<_>>(), [Some(1232), None]);
        assert_eq!(f.r.counts().edns_fallbacks, 1);
        assert!(f.run("two.example", &mut answer).is_ok());
        assert_eq!(f.asked.len(), 3, "it is remembered");
    }
}

#[test]
fn a_server_that_understands_nothing_fails() {
    let mut f = v4(1);
    let error = f.run("www.example", |q| Answer::Bytes(respond(q).rcode(1).bytes));
    assert!(matches!(error, Err(LookupError::Failed(_))), "{error:?}");
    assert_eq!(f.asked.len(), 2);
    // A version of EDNS that it does not know: extended code 16.
    let mut f = v4(1);
    let found = f.run("www.example", |q| match q.edns {
        None => both(q),
        Some(_) => {
            let mut made = respond(q).record(3, &[0], 41, 1 << 24, &[]);
            let at = made.bytes.len() - 8;
            made.bytes[at..at + 2].copy_from_slice(&1232u16.to_be_bytes());
            Answer::Bytes(made.bytes)
        }
    });
    assert!(found.is_ok(), "{found:?}");
}

#[test]
fn a_server_that_changes_the_case_is_asked_by_tcp_and_then_without_mixed_case() {
    let lower = |q: &Query| {
        let mut lowered = q.clone();
        lowered.wire.make_ascii_lowercase();
        both(&lowered)
    };
    let mut f = v4(1);
    assert!(f.run("www.abcdefgh.example", lower).is_ok());
    assert_eq!(f.asked.iter().map(|q| q.tcp).collect::<Vec<_>>(), [false, true]);
    assert_eq!(f.r.drops().of(base::DropReason::DnsCase), 1);
    assert!(f.run("www.ijklmnop.example", lower).is_ok());
    assert_eq!(f.asked.len(), 3, "by UDP again");
    assert!(!f.asked[2].wire.iter().any(u8::is_ascii_uppercase));
    // A forged answer had another case, but the server keeps it: nothing is remembered.
    let mut f = v4(1);
    let forged = |q: &Query| if q.tcp { both(q) } else { lower(q) };
    assert!(f.run("www.abcdefgh.example", forged).is_ok());
    assert!(f.run("www.ijklmnop.example", both).is_ok());
    assert!(f.asked[2].wire.iter().any(u8::is_ascii_uppercase));
}

fn lowered(q: &Query) -> Query {
    let mut lowered = q.clone();
    lowered.wire.make_ascii_lowercase();
    lowered
}

#[test]
fn a_server_that_changes_the_case_and_has_no_tcp_is_believed_when_two_answers_agree() {
    for silent in [false, true] {
        let mut f = v4(1);
        let answer = |q: &Query| match (q.tcp, silent) {
            (false, _) => both(&lowered(q)),
            (true, true) => Answer::Silence,
            (true, false) => Answer::Refusal,
        };
        assert_eq!(f.run("www.abcdefgh.example", answer), Ok(vec![address("192.0.2.80")]));
        assert_eq!(f.asked.iter().map(|q| q.tcp).collect::<Vec<_>>(), [false, true, false, false]);
        assert_ne!(f.asked[2].id, f.asked[3].id, "both have to be guessed");
        let waited = if silent { 1 } else { 0 };
        assert_eq!(f.now, START + Duration::from_secs(waited));
        assert!(f.run("www.ijklmnop.example", answer).is_ok());
        assert_eq!(f.asked.len(), 5, "it is remembered");
    }
    // Somebody forges one of the two.
    let mut f = v4(1);
    let mut count = 0;
    let found = f.run("www.abcdefgh.example", |q| {
        count += 1;
        match (q.tcp, count) {
            (true, _) => Answer::Refusal,
            (false, 3) => Answer::Bytes(respond(q).address(&q.name, "192.0.2.66", TTL).bytes),
            (false, _) => both(&lowered(q)),
        }
    });
    assert_eq!(found, Ok(vec![address("192.0.2.80")]));
    assert_eq!(f.asked.len(), 5);
    // All answers differ: none is believed.
    let mut f = v4(1);
    let mut count = 0;
    let found = f.run("www.abcdefgh.example", |q| {
        count += 1;
        match q.tcp {
            true => Answer::Refusal,
            false => {
                let q = lowered(q);
                Answer::Bytes(respond(&q).address(&q.name, &format!("192.0.2.{count}"), TTL).bytes)
            }
        }
    });
    assert!(matches!(found, Err(LookupError::Failed(_))), "{found:?}");
}

/// Mixed case, or EDNS, or both, get no answer: the second try has neither.
#[test]
fn a_server_that_is_silent_to_mixed_case_or_edns_is_asked_in_plain_form() {
    let is_mixed = |q: &Query| q.wire.iter().any(u8::is_ascii_uppercase);
    let understands: [fn(bool, bool) -> bool; 3] =
        [|mixed, _| !mixed, |_, edns| !edns, |mixed, edns| !mixed && !edns];
    for answers in understands {
        let mut f = v4(1);
        let answer = |q: &Query| match answers(is_mixed(q), q.edns.is_some()) {
            true => both(q),
            false => Answer::Silence,
        };
        for name in ["www.abcdefgh.example", "www.ijklmnop.example"] {
            let before = f.now;
            assert_eq!(f.run(name, answer), Ok(vec![address("192.0.2.80")]), "{name}");
            assert_eq!(f.now, before + Duration::from_secs(1), "{name}");
        }
        assert_eq!(f.asked.len(), 6, "full, plain, and plain again to compare");
        let before = f.now;
        assert!(f.run("www.qrstuvwx.example", answer).is_ok());
        assert_eq!((f.now, f.asked.len()), (before, 7), "it is remembered");
    }
    // A datagram that was lost changes nothing for later questions.
    let mut f = v4(1);
    let mut lost = false;
    let once = |q: &Query| match core::mem::replace(&mut lost, true) {
        false => Answer::Silence,
        true => both(q),
    };
    assert!(f.run("www.abcdefgh.example", once).is_ok());
    assert!(f.run("www.ijklmnop.example", both).is_ok());
    assert!(is_mixed(&f.asked[3]) && f.asked[3].edns.is_some());
}

#[test]
fn tcp_only_asks_by_tcp_alone() {
    let mut f = Fixture::new(Config { tcp_only: true, ..config(1) });
    assert!(f.run("www.example", both).is_ok());
    assert!(f.asked.iter().all(|q| q.tcp));
}
