//! Which segments follow a leader (are processed with the checks of the segment before them): from
//! peers that number their packets, that set PSH anywhere, and whose segments alternate.

use base::{Counter, DropReason, Instant, IpVersion, SeqNumber};
use wire::tcp::Flags;

use super::craft::{Bench, Tcp, mark, number, parse_tcp, timestamps_option};
use crate::ListenConfig;
use crate::pair::PairConfig;

const LEN: usize = 1_000;

/// A stack with some connections, and the next segment of each peer.
struct Test {
    bench: Bench,
    now: Instant,
    next: Vec<Tcp>,
}

impl Test {
    fn new(version: IpVersion, flows: u16) -> Test {
        let mut config = PairConfig::new([1, 2]);
        config.version = version;
        let mut bench = Bench::new(&config);
        let (local, now) = (bench.listen_at(80), Instant::from_nanos(1_000_000_000));
        let listener = bench.stack.tcp_listen(local, ListenConfig::default()).expect("free");
        bench.stack.poll(now);
        let mut test = Test { bench, now, next: Vec::new() };
        for flow in 0..flows {
            test.connect(5_000 + flow);
            assert!(test.bench.stack.tcp_accept(listener).is_some());
        }
        test
    }

    fn connect(&mut self, port: u16) {
        let mut options = vec![2, 4, 0x05, 0xb4];
        options.extend(timestamps_option(77, 0));
        let syn = Tcp {
            ports: (port, 80),
            seq: SeqNumber(0) - 1_500,
            ack: SeqNumber(0),
            flags: Flags::SYN,
            window: 60_000,
            urgent: 0,
            options,
            payload: Vec::new(),
        };
        let frame = self.bench.tcp_frame(&syn);
        let answers = self.bench.exchange(&frame, self.now);
        let (answer, _) = parse_tcp(answers.first().expect("a SYN-ACK")).expect("TCP");
        let options = timestamps_option(77, 0);
        let (seq, ack) = (syn.seq + 1, answer.seq + 1);
        let ack = Tcp { seq, ack, flags: Flags::ACK, options, ..syn };
        let frame = self.bench.tcp_frame(&ack);
        self.bench.exchange(&frame, self.now);
        self.next.push(Tcp { payload: vec![5; LEN], ..ack });
    }

    /// Send the next segment of a flow; `change` may modify the frame.
    fn send(&mut self, flow: usize, change: impl Fn(&mut Vec<u8>)) {
        let mut frame = self.bench.tcp_frame(&self.next[flow]);
        change(&mut frame);
        self.next[flow].seq += LEN as u32;
        assert!(self.bench.inject(&frame));
    }

    /// Poll; returns how many segments followed.
    fn followed(&mut self) -> u64 {
        let of = |bench: &Bench| bench.stack.counters().of(Counter::TcpFollowed);
        let before = of(&self.bench);
        self.bench.stack.poll(self.now);
        self.bench.sent();
        of(&self.bench) - before
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.bench.stack.drops().of(reason)
    }
}

#[test]
fn numbered_packets_follow_whatever_their_numbers() {
    let mut test = Test::new(IpVersion::V4, 1);
    for id in [1, 2, 3, 0xffff, 0xfffe, 17, 0x8000, 0x7fff] {
        test.send(0, |frame| number(frame, id));
    }
    assert_eq!(test.followed(), 7);
    for id in [0, 0, 0] {
        test.send(0, |frame| number(frame, id));
    }
    assert_eq!(test.followed(), 2, "packets without a number did not follow");
}

/// All 65,536 identifications are tried, including both one's-complement zeros: each header's
/// checksum is right.
#[test]
fn no_number_of_a_sound_header_is_dropped() {
    let mut test = Test::new(IpVersion::V4, 1);
    let handle = test.bench.stack.connections.iter().next().expect("one").0;
    let mut into = vec![0; 64 * LEN];
    for first in (0..=0xffffu16).step_by(32) {
        for id in first..=first + 31 {
            test.send(0, |frame| number(frame, id));
        }
        assert!(test.followed() >= 30, "{first}");
        assert_eq!(test.bench.stack.tcp_read(handle, &mut into), Ok(32 * LEN));
    }
    assert_eq!(test.bench.stack.drops().total(), 0);
}

/// One bit of the identification or of the header checksum is wrong, in a burst or in a frame
/// alone.
#[test]
fn a_number_that_does_not_add_up_is_dropped_by_name_as_alone() {
    for (burst, at) in [(true, 18), (true, 19), (true, 24), (true, 25), (false, 18), (false, 25)] {
        let mut test = Test::new(IpVersion::V4, 1);
        test.send(0, |frame| number(frame, 7));
        if !burst {
            assert_eq!(test.followed(), 0);
        }
        test.send(0, |frame| {
            number(frame, 8);
            frame[at] ^= 0x10;
        });
        assert_eq!(test.followed(), 0, "byte {at}");
        assert_eq!(test.dropped(DropReason::Ipv4Checksum), 1, "byte {at}");
    }
}

#[test]
fn a_push_follows_and_a_mark_ends_the_run() {
    for version in [IpVersion::V4, IpVersion::V6] {
        let mut test = Test::new(version, 1);
        for flags in [Flags::ACK, Flags::ACK | Flags::PSH, Flags::ACK, Flags::ACK | Flags::PSH] {
            test.next[0].flags = flags;
            test.send(0, |_| {});
        }
        assert_eq!(test.followed(), 3, "{version:?}");
        test.send(0, |_| {});
        test.send(0, |frame| mark(frame));
        test.send(0, |_| {});
        test.send(0, |_| {});
        assert_eq!(test.followed(), 1, "{version:?}: the mark did not end the run");
    }
}

/// The frame that ends a run is the leader of the next run.
#[test]
fn a_timestamp_that_ticks_costs_one_leader() {
    let mut test = Test::new(IpVersion::V4, 1);
    for n in 0..9u16 {
        if n == 4 {
            test.next[0].options = timestamps_option(78, 0);
        }
        test.send(0, |frame| number(frame, 100 + n));
    }
    assert_eq!(test.followed(), 7);
}

#[test]
fn flows_that_alternate_find_their_leaders() {
    for version in [IpVersion::V4, IpVersion::V6] {
        let mut test = Test::new(version, 8);
        for n in 0..40 {
            test.send(n % 8, |frame| number(frame, 100 + n as u16));
        }
        assert_eq!(test.followed(), 32, "{version:?}");
        // A damaged segment is dropped, and the later segments of its flow are queued out of order.
        for n in 0..12 {
            test.send(n % 2, |frame| {
                if n == 4 {
                    *frame.last_mut().expect("a byte") ^= 1;
                }
            });
        }
        assert_eq!(test.followed(), 6, "{version:?}: not five of one flow and one of the other");
        assert_eq!(test.dropped(DropReason::TcpChecksum), 1);
    }
}
