//! Tests of the table: what they share.

mod fragments;
mod limits;
mod nat;
mod oracle;
mod reports;
mod timers;
mod walks;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::{Budget, DropReason, Duration, Instant, SeqNumber};
use wire::protocol;
use wire::tcp::Flags;

use super::{
    Direction, Key, NewState, Segment, SourceLimits, StateId, States, Timeouts, Transport,
};
use crate::packet::Tuple;

pub(super) const SECRET: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];

/// A table with its limits and its time.
pub(super) struct World {
    pub(super) states: States,
    pub(super) budget: Budget,
    pub(super) now: Instant,
}

impl World {
    pub(super) fn new() -> World {
        let now = Instant::from_nanos(5_000_000_000);
        let states = States::new(&Timeouts::default(), SECRET, now);
        World { states, budget: Budget::default(), now }
    }

    pub(super) fn insert(&mut self, new: &NewState<'_>) -> Result<StateId, DropReason> {
        self.states.insert(new, &mut self.budget, self.now)
    }

    pub(super) fn udp(&mut self, key: Key) -> Result<StateId, DropReason> {
        self.insert(&new(key, Transport::Other))
    }

    pub(super) fn answer(&mut self, id: StateId) {
        let passed = self.states.pass(id, Direction::Reply, Transport::Other, 100, self.now);
        assert!(passed.is_ok(), "{passed:?}");
    }

    /// Time passes, and the table is asked as often as it wants to be.
    pub(super) fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        loop {
            self.states.advance(self.now, 64, &self.budget);
            match self.states.next_deadline(self.now, &self.budget) {
                Some(next) if next <= until => self.now = self.now.max(next),
                _ => break,
            }
        }
        self.now = until;
        while self.states.advance(self.now, 64, &self.budget) == 64 {}
    }

    pub(super) fn lives(&self, id: StateId) -> bool {
        self.states.state(id, self.now).is_some()
    }
}

/// The IPv4 key number `n`.
pub(super) fn v4(protocol: u8, n: u32, dst_port: u16) -> Key {
    let tuple = Tuple {
        src: IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + (n >> 8))),
        dst: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        protocol,
        src_port: 20_000 + (n & 0xff) as u16,
        dst_port,
    };
    Key::of(&tuple).expect("one version")
}

/// The IPv6 key number `n`.
pub(super) fn v6(protocol: u8, n: u32, dst_port: u16) -> Key {
    let src = u128::from(0x2001_0db8_u32) << 96 | u128::from(n >> 8) << 64 | 7;
    let tuple = Tuple {
        src: IpAddr::V6(Ipv6Addr::from_bits(src)),
        dst: IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1)),
        protocol,
        src_port: 20_000 + (n & 0xff) as u16,
        dst_port,
    };
    Key::of(&tuple).expect("one version")
}

pub(super) fn udp(n: u32) -> Key {
    v4(protocol::UDP, n, 4_433)
}

pub(super) fn tcp(n: u32) -> Key {
    v4(protocol::TCP, n, 443)
}

/// A flow without NAT, passed by rule 3.
pub(super) fn new<'a>(original: Key, first: Transport<'a>) -> NewState<'a> {
    NewState {
        original,
        reply: original.reversed(),
        first,
        icmp: None,
        len: 100,
        in_port: 1,
        out_port: 2,
        rule: 3,
        generation: 1,
        tag: 0,
        loose: false,
        limits: SourceLimits::default(),
    }
}

/// A segment.
pub(super) fn seg(flags: Flags, seq: u32, ack: u32, len: u32) -> Segment {
    Segment {
        seq: SeqNumber(seq),
        ack: SeqNumber(ack),
        len,
        window: 65_535,
        flags,
        scale: None,
        sack: SeqNumber(ack),
    }
}

pub(super) const SYN: Flags = Flags::SYN;
pub(super) const ACK: Flags = Flags::ACK;
pub(super) const RST: Flags = Flags::RST;
pub(super) const SYN_ACK: Flags = Flags::SYN.with(Flags::ACK);
pub(super) const FIN_ACK: Flags = Flags::FIN.with(Flags::ACK);

#[test]
fn a_key_is_the_same_as_its_tuple() {
    for key in [v4(6, 70_000, 443), v6(17, 70_000, 53), v4(1, 3, 9).reversed()] {
        assert_eq!(Key::of(&key.tuple()), Some(key));
        assert_eq!(key.reversed().tuple(), key.tuple().reversed());
        assert_eq!(key.reversed().reversed(), key);
    }
}

#[test]
fn the_hash_is_symmetric_and_depends_on_everything() {
    let hash = super::KeyHash::new(SECRET);
    let other = super::KeyHash::new([SECRET[0] ^ 1, SECRET[1]]);
    for key in [v4(6, 1, 443), v6(6, 1, 443)] {
        assert_eq!(hash.of(&key), hash.of(&key.reversed()));
        assert_ne!(hash.of(&key), other.of(&key), "the secret");
    }
    let all = [v4(6, 1, 443), v4(6, 2, 443), v4(6, 257, 443), v4(6, 1, 444), v4(17, 1, 443)];
    for (at, one) in all.iter().enumerate() {
        assert!(all[..at].iter().all(|two| hash.of(one) != hash.of(two)), "{one:?}");
    }
}

#[test]
fn a_million_states_of_ipv4_need_150_bytes_each_and_of_ipv6_216() {
    const COUNT: u32 = 1 << 20;
    for (make, most) in [(v4 as fn(u8, u32, u16) -> Key, 150), (v6, 216)] {
        let mut world = World::new();
        world.budget.set(base::Limit::FilterStates, 4 << 20);
        for n in 0..COUNT {
            world.udp(make(protocol::UDP, n, 4_433)).expect("room");
        }
        let each = world.states.memory() as f64 / f64::from(COUNT);
        assert!(each <= f64::from(most), "{each} bytes a state");
    }
}
