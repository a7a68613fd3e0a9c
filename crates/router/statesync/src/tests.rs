//! Two sessions over a link that loses, reorders, doubles and changes datagrams.

mod codec;
mod link;

use core::net::IpAddr;

use base::{Duration, Instant};
use filter::Tuple;
use filter::firewall::{Copied, CopiedMapping, Copy};
use filter::states::Phase;

use crate::{Event, Key, Refused, Session, SessionId};

const STEP: Duration = Duration::from_millis(10);

fn key() -> Key {
    Key::new([7; 32])
}

/// A state of UDP, the number `n`, from port 3 to port 4.
fn state(n: u32) -> Copied {
    let src = IpAddr::V4(core::net::Ipv4Addr::from_bits(0x0a00_0000 + n));
    let dst = IpAddr::from([192, 0, 2, 1]);
    let original = Tuple { src, dst, protocol: 17, src_port: 5_000, dst_port: 53 };
    Copied {
        original,
        reply: original.reversed(),
        phase: Phase::UdpReplied,
        icmp: None,
        loose: false,
        in_port: 3,
        out_port: 4,
        age: Duration::from_secs(3),
        idle: Duration::from_millis(20),
        packets: [2, 1],
        bytes: [200, 1_000],
        tcp: None,
        mapping: CopiedMapping::None,
    }
}

fn ports(numbers: [u16; 2]) -> Vec<(u16, String)> {
    numbers.into_iter().zip(["lan".to_owned(), "wan".to_owned()]).collect()
}

/// Two routers, whose ports have other numbers.
struct Pair {
    sides: [Session; 2],
    events: [Vec<Event>; 2],
    now: Instant,
    /// All that was sent, by the sender.
    sent: [Vec<Vec<u8>>; 2],
}

impl Pair {
    fn new() -> Pair {
        let now = Instant::from_nanos(1_000_000_000);
        let side = |n: u8| Session::new(&key(), SessionId([n; 16]), 1_400, now);
        let mut pair = Pair {
            sides: [side(1), side(2)],
            events: [vec![], vec![]],
            now,
            sent: [vec![], vec![]],
        };
        pair.sides[0].set_ports(&ports([3, 4]));
        pair.sides[1].set_ports(&ports([13, 14]));
        pair
    }

    fn up() -> Pair {
        let mut pair = Pair::new();
        pair.run(100);
        assert!(pair.sides.iter().all(|side| side.is_up() && side.is_ready()));
        pair
    }

    /// The datagrams that a side has to send.
    fn due(&mut self, side: usize) -> Vec<Vec<u8>> {
        let now = self.now;
        let all: Vec<Vec<u8>> =
            core::iter::from_fn(|| self.sides[side].next_datagram(now)).collect();
        assert!(all.iter().all(|datagram| datagram.len() <= 1_400));
        self.sent[side].extend(all.iter().cloned());
        all
    }

    fn give(&mut self, side: usize, datagram: &[u8]) {
        let events = &mut self.events[side];
        self.sides[side].receive(datagram, self.now, |event| events.push(event));
    }

    /// So many milliseconds without losses.
    fn run(&mut self, ms: u64) {
        let until = self.now + Duration::from_millis(ms);
        while self.now < until {
            self.now += STEP;
            for side in [0, 1] {
                for datagram in self.due(side) {
                    self.give(1 - side, &datagram);
                }
                self.all(side);
            }
        }
    }

    /// A side that has no states to send says so.
    fn all(&mut self, side: usize) {
        if self.sides[side].wants_all() {
            self.sides[side].begin_all(self.now);
            self.sides[side].end_all(self.now);
        }
    }

    fn push(&mut self, side: usize, n: u32) {
        assert!(self.sides[side].room() > 0);
        assert!(self.sides[side].push(&Copy::State(state(n)), self.now));
    }

    /// The numbers of the states that a side has heard of, in order.
    fn states(&self, side: usize) -> Vec<u32> {
        let of = |event: &Event| match event {
            Event::State(copied, _) => match copied.original.src {
                IpAddr::V4(addr) => Some(addr.to_bits() - 0x0a00_0000),
                IpAddr::V6(_) => None,
            },
            _ => None,
        };
        self.events[side].iter().filter_map(of).collect()
    }
}

#[test]
fn states_cross_within_100_ms_with_ports_by_name() {
    let mut pair = Pair::up();
    pair.events = [vec![], vec![]];
    pair.push(0, 1);
    let ended = state(9).original;
    assert!(pair.sides[0].push(&Copy::Ended(ended), pair.now));
    pair.run(100);
    let version = pair.sides[1].first_version();
    let [Event::State(copied, at), Event::Ended(tuple, then)] = &pair.events[1][..] else {
        panic!("{:?}", pair.events)
    };
    assert_eq!(*copied, Copied { in_port: 13, out_port: 14, ..state(1) });
    assert_eq!(*tuple, ended);
    assert!(version < *at && at == then);
    assert_eq!(pair.sides[0].counts().sent, 2);
    assert_eq!(pair.sides[1].counts().received, 2);
}

#[test]
fn both_are_asked_for_all_states_once() {
    let mut pair = Pair::up();
    pair.run(1_000);
    for side in &pair.sides {
        assert_eq!((side.counts().bulks_sent, side.counts().bulks_received), (1, 1));
    }
    assert_eq!(pair.events[0].len(), 1, "{:?}", pair.events[0]);
    let begin = pair.sides[0].first_version();
    assert!(matches!(&pair.events[0][0], Event::AllNamed(of) if of.start == begin));
}

#[test]
fn a_port_without_a_namesake_is_no_port() {
    let mut pair = Pair::up();
    pair.sides[1].set_ports(&[(13, "lan".to_owned()), (14, "dsl".to_owned())]);
    pair.run(500);
    pair.push(0, 1);
    pair.run(100);
    assert_eq!(pair.states(1), [0; 0]);
    assert_eq!(pair.sides[1].counts().refused(Refused::NoPort), 1);
    // A port of ours that has no name is not named.
    assert!(!pair.sides[0].push(&Copy::State(Copied { in_port: 77, ..state(1) }), pair.now));
}

#[test]
fn another_key_is_refused_and_counted() {
    let mut pair = Pair::new();
    pair.sides[1] = Session::new(&Key::new([8; 32]), SessionId([2; 16]), 1_400, pair.now);
    pair.run(1_000);
    for side in &pair.sides {
        assert!(!side.is_up());
        assert!(side.counts().refused(Refused::Key) >= 3);
    }
}

#[test]
fn a_partner_that_is_silent_is_gone_and_one_that_begins_anew_gets_everything() {
    let mut pair = Pair::up();
    let first = pair.sides[1].first_version();
    for _ in 0..310 {
        pair.now += STEP;
        pair.due(0);
    }
    assert!(!pair.sides[0].is_up());
    // The link is there again.
    pair.run(400);
    assert!(pair.sides.iter().all(Session::is_up));
    assert_eq!(pair.sides[0].counts().bulks_sent, 2);
    // The first router begins anew, and nobody waits for the end of its old session.
    pair.sides[0] = Session::new(&key(), SessionId([5; 16]), 1_400, pair.now);
    pair.sides[0].set_ports(&ports([3, 4]));
    pair.run(400);
    assert!(pair.sides.iter().all(Session::is_up));
    assert_eq!(pair.sides[0].counts().bulks_received, 1);
    assert!(pair.sides[1].first_version() > first, "later versions are higher ones");
    pair.push(0, 3);
    pair.run(100);
    assert_eq!(pair.states(1), [3]);
}

/// An attacker has recorded all that two sessions said.
#[test]
fn recordings_change_nothing() {
    let mut pair = Pair::up();
    (1..40).for_each(|n| pair.push(0, n));
    pair.run(500);
    let old = pair.sent.clone();
    // The same sessions: nothing is taken twice.
    let heard = pair.states(1).len();
    for datagram in &old[0] {
        pair.give(1, datagram);
        pair.give(0, datagram);
    }
    assert_eq!(pair.states(1).len(), heard);
    assert!(pair.sides[0].counts().refused(Refused::Session) > 0, "our own datagrams");
    // The first router begins anew, and its old session is played again.
    pair.sides[0] = Session::new(&key(), SessionId([5; 16]), 1_400, pair.now);
    pair.sides[0].set_ports(&ports([3, 4]));
    pair.run(500);
    let (since, first) = (pair.sides[1].since(), pair.sides[1].first_version());
    for datagram in &old[0] {
        pair.give(1, datagram);
    }
    for datagram in &old[1] {
        pair.give(0, datagram);
    }
    pair.run(500);
    assert_eq!((pair.sides[1].since(), pair.sides[1].first_version()), (since, first));
    assert!(pair.sides.iter().all(Session::is_up));
    assert_eq!(pair.states(1).len(), heard);
    assert_eq!(pair.sides[0].counts().bulks_received, 1);
}

#[test]
fn an_authentic_partner_that_speaks_nonsense_harms_nobody() {
    let mut pair = Pair::up();
    for kind in 1..=4 {
        for len in [0, 1, 3, 4, 5, 40, 200] {
            let number = 1_000 + pair.sent[0].len() as u64 + len as u64;
            let datagram = pair.sides[0].with_body(kind, number, &vec![kind; len]);
            pair.give(1, &datagram.expect("a kind"));
        }
    }
    assert!(pair.sides[1].counts().refused(Refused::Malformed) > 5);
}

#[test]
fn the_queue_is_bounded_and_says_so() {
    let mut pair = Pair::up();
    let mut count = 0;
    while pair.sides[0].room() > 0 {
        pair.push(0, count);
        count += 1;
    }
    assert!((200..4_000).contains(&count), "{count}");
    pair.run(100);
    assert_eq!(pair.states(1), (0..count).collect::<Vec<_>>());
}
