//! Lists that a peer can make the stack keep: holes in its SACKs, very small segments.
//! CVE-2019-11477 to 11479; the test of small segments out of order (CVE-2018-5390) is in
//! memory.rs.

use base::{Counter, DropReason, Limit};
use wire::tcp::Flags;

use super::{MSS, SACK, Scene, open, parsed};
use crate::pair::PairConfig;
use crate::tests::craft::{Tcp, timestamps_option};

/// An ACK from the victim's peer with up to four SACK blocks, as offsets from SND.UNA.
fn sacks(s: &Scene, blocks: &[(u32, u32)]) -> Tcp {
    let mut options = vec![1, 1, 5, 2 + 8 * blocks.len() as u8];
    for &(left, right) in blocks {
        for edge in [left, right] {
            options.extend((s.next.ack + edge).0.to_be_bytes());
        }
    }
    Tcp { options, ..s.next.clone() }
}

/// Opens the victim's congestion window as far as the peer's window; returns the bytes in flight.
fn all_in_flight(s: &mut Scene) -> u32 {
    for _ in 0..60 {
        s.write(s.victim, 65_000);
        let mut seen = s.sent();
        seen.extend(s.pass(1));
        for (header, payload) in seen.iter().filter(|(h, _)| h.dst_port == s.next.ports.0) {
            s.next.ack = s.next.ack.max(header.seq + payload.len() as u32);
        }
        let in_flight = s.bench.stack.tcp_info(s.victim).expect("open").in_flight;
        if in_flight > 50_000 {
            s.next.ack = s.next.ack - in_flight;
            return in_flight;
        }
        // The segments sent now are acknowledged in the next round.
        let frame = s.bench.tcp_frame(&s.next.clone());
        for (header, payload) in parsed(&s.bench.exchange(&frame, s.now)) {
            s.next.ack = s.next.ack.max(header.seq + payload.len() as u32);
        }
    }
    panic!("the congestion window never reached the peer's");
}

/// CVE-2019-11477: tiny segments, every second of which is SACKed, then a time-out. Linux merged
/// retransmitted segments until a 16-bit counter overflowed.
#[test]
fn sack_panic_cve_2019_11477() {
    let tiny = [2, 4, 0, 8, 4, 2, 1, 1];
    let mut s = Scene::new(&tiny);
    let flight = all_in_flight(&mut s);
    let mss = s.bench.stack.tcp_info(s.victim).expect("open").snd_mss as u32;
    for n in 0..flight / mss / 8 {
        let at = |k: u32| (mss * (8 * n + 2 * k + 1), mss * (8 * n + 2 * k + 2));
        let segment = sacks(&s, &[at(0), at(1), at(2), at(3)]);
        s.give(&segment);
        s.pass(1);
    }
    let info = s.bench.stack.tcp_info(s.victim).expect("open");
    assert!(info.sacked_bytes > flight / 3, "{} of {flight} bytes", info.sacked_bytes);
    for _ in 0..10 {
        for (header, payload) in s.pass(3_000) {
            assert!(header.dst_port != s.next.ports.0 || payload.len() <= mss as usize);
        }
    }
    // At last the peer acknowledges everything.
    let end = s.next.ack + flight;
    s.next.ack = end;
    let all = s.next.clone();
    s.give(&all);
    assert_eq!(s.bench.stack.tcp_info(s.victim).expect("open").sacked_bytes, 0);
    s.victim_goes_on();
    s.end();
}

/// CVE-2019-11478: ever more holes, reported again and again. The list of holes is bounded, and a
/// repeated block causes no more work.
#[test]
fn sack_slowness_cve_2019_11478() {
    let mut config = PairConfig::new([41, 42]);
    config.stack.budget.set(Limit::SackRanges, 50);
    let mut s = Scene::with(&config, tcp::Config::default(), &SACK);
    let flight = all_in_flight(&mut s);
    let held = s.held_bytes();
    // Every second byte, from the last backwards, so that no blocks merge.
    for n in (1..5_000).rev() {
        let segment = sacks(&s, &[(2 * n + 1, 2 * n + 2)]);
        s.give(&segment);
    }
    let hits = s.bench.stack.budget().hits(Limit::SackRanges);
    assert_eq!(hits, 4_999 - 50);
    let info = s.bench.stack.tcp_info(s.victim).expect("open");
    assert_eq!(info.sacked_bytes, 50);
    // Retransmissions do not copy the data: memory does not grow with the number of holes.
    assert!(s.held_bytes() <= held + 64 * 1024, "{held} bytes became {}", s.held_bytes());
    // Blocks of data that was never sent, and reversed blocks, are ignored.
    for (left, right) in [(flight, flight + 1), (1 << 31, 5), (9, 3), (0, 0)] {
        let segment = sacks(&s, &[(left, right)]);
        s.give(&segment);
    }
    assert_eq!(s.bench.stack.tcp_info(s.victim).expect("open").sacked_bytes, 50);
    s.next.ack += flight;
    let all = s.next.clone();
    s.give(&all);
    s.victim_goes_on();
    s.end();
}

/// CVE-2019-11479: a peer with an MSS option of 8 gets segments of at least 36 bytes, and cannot
/// make a send buffer's data occupy a 2 KB buffer for each segment. RFC 9293 MUST-15, MUST-16.
#[test]
fn tiny_mss_cve_2019_11479() {
    for asked in [0, 1, 8, 48] {
        let options = [&[2, 4, 0, asked][..], &timestamps_option(7, 0)].concat();
        let mut s = Scene::new(&options);
        let before = s.held_bytes();
        let taken = s.write(s.victim, 4 << 20);
        assert!(taken > 3_000, "{taken}");
        let sent = s.sent();
        // The last segment may be smaller, because the window was full.
        let full = sent.iter().rev().skip(1).filter(|(h, _)| h.dst_port == s.next.ports.0);
        assert!(full.clone().count() > 3 && full.clone().all(|(_, p)| p.len() >= 36), "{asked}");
        let held = s.held_bytes() - before;
        let most = 4 * tcp::Config::default().send_buffer_bytes as usize;
        assert!(held <= most + 64 * 1024, "{held} bytes of buffers for {taken} bytes of data");
        assert_eq!(s.dropped(DropReason::TcpOptions), 0);
        s.end();
    }
}

/// Many such connections at once, whose peers read nothing: each holds only a part of the budget,
/// and the connection beside them still gets buffers.
#[test]
fn tiny_mss_of_a_crowd() {
    let mut s = Scene::new(&MSS);
    let (mut handles, mut sent) = (Vec::new(), 0);
    for port in 0..100 {
        open(&mut s.bench, 10_000 + port, 60_000, &[2, 4, 0, 8], s.now);
        let handle = s.bench.stack.tcp_accept(s.listener).expect("established");
        s.write(handle, 1 << 20);
        sent += s.sent().len();
        handles.push(handle);
    }
    assert!(sent > 100, "{sent}");
    let (held, limit) = (s.held_bytes(), s.bench.stack.budget().of(Limit::MbufBytes));
    assert!(held < limit / 2, "{held} of {limit} bytes");
    s.beside_goes_on();
    for (port, &handle) in (0..).zip(&handles) {
        let reset = Tcp {
            ports: (10_000 + port, 80),
            seq: super::syn(0).seq + 1,
            flags: Flags::RST,
            ..super::syn(0)
        };
        let frame = s.bench.tcp_frame(&reset);
        s.bench.exchange(&frame, s.now);
        s.bench.stack.tcp_close(handle);
    }
    assert_eq!(s.bench.stack.counters().of(Counter::TcpAccepts), 102);
    assert_eq!(s.bench.stack.connection_count(), 2);
    s.end();
}
