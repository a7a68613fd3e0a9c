//! The cost of states: ns a look-up at 1,000 to 1,000,000 random flows in bursts of 64, with TCP
//! windows checked and counters moved, and without; ns an insertion; bytes a state.
//!
//! Called by: `cargo bench -p wirespeed-filter --bench states`. A look-up takes a key that was read
//! already: it has the hash, three steps over the burst and the comparison of keys. The shortest of
//! five times counts, because another process may have had the core during the others. The flows
//! are the same in each run.

use core::hint::black_box;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use base::{Budget, Limit, SeqNumber};
use wire::protocol::{TCP, UDP};
use wire::tcp::Flags;
use wirespeed_filter::Tuple;
use wirespeed_filter::states::{
    Direction, Guess, Key, KeyV4, NewState, Segment, SourceLimits, StateId, States, Terms,
    Timeouts, Transport,
};

const BURST: usize = 64;
const LOOKUPS: usize = 1 << 20;
const SECRET: [u64; 2] = [0x6a09_e667_f3bc_c908, 0xbb67_ae85_84ca_a73b];

/// xorshift64*: the same flows in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (((self.next() >> 32) * n as u64) >> 32) as usize
    }
}

fn key(random: &mut Random, protocol: u8, is_v6: bool) -> Key {
    let (a, b, c) = (random.next(), random.next(), random.next());
    let addr = |word: u64| match is_v6 {
        false => IpAddr::V4(Ipv4Addr::from_bits(word as u32)),
        true => IpAddr::V6(Ipv6Addr::from_bits(u128::from(word) << 64 | u128::from(c))),
    };
    let (src_port, dst_port) = ((c >> 16) as u16, c as u16 | 1024);
    let tuple = Tuple { src: addr(a), dst: addr(b), protocol, src_port, dst_port };
    Key::of(&tuple).expect("one version")
}

fn now() -> base::Instant {
    base::Instant::from_nanos(1 << 40)
}

fn segment(flags: Flags, seq: u32, ack: u32) -> Segment {
    let ack = SeqNumber(ack);
    Segment { seq: SeqNumber(seq), ack, len: 0, window: 60_000, flags, scale: None, sack: ack }
}

/// A segment in a packet of a flow, as far as it is read.
fn packet(key: &KeyV4, segment: &Segment) -> [u8; 40] {
    let mut bytes = [0; 40];
    bytes[9] = key.protocol;
    bytes[12..20].copy_from_slice(&key.addrs.to_ne_bytes());
    bytes[20..24].copy_from_slice(&key.ports.to_ne_bytes());
    bytes[24..28].copy_from_slice(&segment.seq.0.to_be_bytes());
    bytes[28..32].copy_from_slice(&segment.ack.0.to_be_bytes());
    (bytes[32], bytes[33]) = (5 << 4, segment.flags.0);
    bytes[34..36].copy_from_slice(&segment.window.to_be_bytes());
    bytes
}

struct Table {
    states: States,
    budget: Budget,
}

impl Table {
    fn new() -> Table {
        let mut budget = Budget::default();
        budget.set(Limit::FilterStates, 1 << 26);
        budget.set(Limit::FilterStatesPerSource, 1 << 26);
        Table { states: States::new(&Timeouts::default(), SECRET, now()), budget }
    }

    fn insert(&mut self, original: Key, first: Transport<'_>) -> StateId {
        let new = NewState {
            original,
            reply: original.reversed(),
            first,
            icmp: None,
            len: 60,
            in_port: 0,
            out_port: 1,
            rule: 1,
            generation: 1,
            tag: 0,
            loose: false,
            limits: SourceLimits::default(),
        };
        self.states.insert(&new, &mut self.budget, now()).expect("room")
    }

    /// A state after its handshake, so that windows are checked.
    fn established(&mut self, key: Key) {
        let id = self.insert(key, Transport::Tcp(&segment(Flags::SYN, 99, 0)));
        let syn_ack = segment(Flags::SYN | Flags::ACK, 299, 100);
        for (direction, segment) in
            [(Direction::Reply, syn_ack), (Direction::Original, segment(Flags::ACK, 100, 300))]
        {
            let transport = Transport::Tcp(&segment);
            self.states.pass(id, direction, transport, 60, now()).expect("of the flow");
        }
    }
}

/// The best of five, in ns for each of `count`.
fn time(count: usize, mut work: impl FnMut() -> u64) -> f64 {
    let once = |_| {
        let begin = Instant::now();
        black_box(work());
        begin.elapsed().as_secs_f64() * 1e9 / count as f64
    };
    (0..5).map(once).fold(f64::MAX, f64::min)
}

/// Look a burst up in three steps; `each` has the last one.
#[inline(always)]
fn burst(states: &mut States, keys: &[KeyV4], mut each: impl FnMut(&mut States, &KeyV4, Guess)) {
    let hasher = states.hasher();
    let mut places = [None; BURST];
    for (place, key) in places.iter_mut().zip(keys) {
        let hash = hasher.of_v4(key);
        *place = Some((hash, states.first_bucket(hash)));
    }
    let mut guesses = [Guess::NONE; BURST];
    for (guess, (hash, place)) in guesses.iter_mut().zip(places.into_iter().flatten()) {
        *guess = states.guess(hash, place);
    }
    for (key, &guess) in keys.iter().zip(&guesses) {
        each(states, key, guess);
    }
}

fn look_up(count: usize) {
    let (mut random, mut table) = (Random(88_172_645_463_325_252), Table::new());
    let mut flows = Vec::with_capacity(count);
    for _ in 0..count {
        let Key::V4(key) = key(&mut random, TCP, false) else { continue };
        table.established(Key::V4(key));
        flows.push(key);
    }
    let packets: Vec<KeyV4> = (0..LOOKUPS).map(|_| flows[random.below(count)]).collect();
    let found = time(LOOKUPS, || {
        let mut found = 0;
        for keys in packets.chunks(BURST) {
            burst(&mut table.states, keys, |states, key, _| {
                found += u64::from(states.find(&Key::V4(*key)).is_some());
            });
        }
        assert_eq!(found, LOOKUPS as u64);
        found
    });
    let at = now() + base::Duration::from_secs(1);
    let segment = segment(Flags::ACK, 100, 300);
    let passed = time(LOOKUPS, || {
        let mut passed = 0;
        for keys in packets.chunks(BURST) {
            burst(&mut table.states, keys, |states, key, guess| {
                let (packet, terms) = (packet(key, &segment), Terms { now: at, generation: 1 });
                passed += u64::from(states.pass_v4(&packet, guess, terms, |_| true).is_some());
            });
        }
        assert_eq!(passed, LOOKUPS as u64);
        passed
    });
    println!("{count:>9} flows: find {found:6.1} ns, find and pass {passed:6.1} ns");
}

/// Insertions of random flows into an empty table, and the memory of the full one.
fn insertions(count: usize, is_v6: bool) {
    let mut best = Duration::MAX;
    let mut bytes = 0;
    for _ in 0..3 {
        let (mut random, mut table) = (Random(0x1234_5678_9abc_def1), Table::new());
        let keys: Vec<Key> = (0..count).map(|_| key(&mut random, UDP, is_v6)).collect();
        let begin = Instant::now();
        for key in keys {
            table.insert(key, Transport::Other);
        }
        best = best.min(begin.elapsed());
        bytes = table.states.memory();
    }
    let (version, ns) = (if is_v6 { 6 } else { 4 }, best.as_secs_f64() * 1e9 / count as f64);
    let each = bytes as f64 / count as f64;
    println!("{count:>9} insertions, IPv{version}: {ns:6.1} ns, {each:6.1} bytes a state");
}

fn main() {
    for count in [1_000, 10_000, 100_000, 1_000_000] {
        look_up(count);
    }
    for is_v6 in [false, true] {
        for count in [10_000, 1_000_000] {
            insertions(count, is_v6);
        }
    }
}
