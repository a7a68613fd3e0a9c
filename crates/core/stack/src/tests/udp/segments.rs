//! One call that sends many datagrams of one size: the frames equal those of as many single calls.

use base::{Counter, DropReason, Limit, Mtu, Switch};

use super::super::craft::Rng;
use super::*;
use crate::pair::PairConfig;
use crate::{SEGMENTS_MAX, UdpError};

/// Headers that are copied and adapted equal headers that are made one by one.
#[test]
fn segments_are_the_datagrams_that_single_calls_send() {
    for version in BOTH {
        let mut random = Rng(5);
        for _ in 0..60 {
            let size = random.pick(&[1, 7, 64, 1_000, 1_200, 1_452]);
            let most = (SEGMENTS_MAX * size).min(65_535);
            let len = random.below(most as u32 + 1) as usize;
            let payload: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
            let (no_checksum, fused) = (random.one_in(4), random.one_in(2));
            let send = |stamp: Option<bool>| {
                let mut bench = bench(version);
                bench.stack.set_switch(Switch::FusedSum, fused);
                let (socket, to) = (bound(&mut bench, 9), peer(&bench, 7));
                set(&mut bench, socket, |options| options.no_checksum = no_checksum);
                let Some(stamp) = stamp else {
                    let parts = payload.chunks(size).chain(payload.is_empty().then_some(&[][..]));
                    for part in parts {
                        assert_eq!(bench.stack.udp_send(socket, to, part, NOW), Ok(()));
                    }
                    return (bench.sent(), bench.stack.counters().of(Counter::UdpOut));
                };
                bench.stack.set_switch(Switch::Stamp, stamp);
                let sent = bench.stack.udp_send_segments(socket, to, &payload, size, NOW);
                assert_eq!(sent, Ok(len));
                let whole = (len / size).saturating_sub(1) as u64;
                let stamped = bench.stack.counters().of(Counter::UdpSegments);
                assert_eq!(stamped, if stamp { whole } else { 0 });
                (bench.sent(), bench.stack.counters().of(Counter::UdpOut))
            };
            let single = send(None);
            assert!(send(Some(true)) == single, "{len} bytes by {size}: other frames");
            assert!(send(Some(false)) == single, "{len} bytes by {size}, unstamped: other frames");
        }
    }
}

#[test]
fn what_linux_refuses_is_refused() {
    let mut bench = bench(BOTH[0]);
    let (socket, to) = (bound(&mut bench, 9), peer(&bench, 7));
    let data = vec![1; 70_000];
    let mut send =
        |len: usize, size| bench.stack.udp_send_segments(socket, to, &data[..len], size, NOW);
    assert_eq!(send(100, 0), Err(UdpError::InvalidSegments));
    assert_eq!(send(65, 1), Err(UdpError::InvalidSegments));
    assert_eq!(send(65_536, 1_472), Err(UdpError::InvalidSegments));
    let mtu = Mtu::new(1_500).expect("one");
    assert_eq!(send(3_000, 1_473), Err(UdpError::TooBig(mtu)), "a datagram left in fragments");
    assert_eq!(bench.sent().len(), 0);
    let mut send =
        |len: usize, size| bench.stack.udp_send_segments(socket, to, &data[..len], size, NOW);
    assert_eq!(send(64, 1), Ok(64));
    assert_eq!(send(65_535, 1_472), Ok(65_535));
    assert_eq!(bench.sent().len(), 64 + 45);
    // A payload that is smaller than the given size is checked by its own size.
    assert_eq!(bench.stack.udp_send_segments(socket, to, b"1", 9_000, NOW), Ok(1));
}

/// A device that is nearly full takes a part of a call, in whole datagrams; the next call continues
/// after them.
#[test]
fn a_full_device_takes_whole_segments() {
    for stamp in [true, false] {
        let mut config = PairConfig::new([8, 9]);
        config.wire.depth = 10;
        let mut bench = Bench::new(&config);
        bench.stack.set_switch(Switch::Stamp, stamp);
        let (socket, to) = (bound(&mut bench, 9), peer(&bench, 7));
        let data: Vec<u8> = (0..6_400).map(|n| (n / 100) as u8).collect();
        let (mut sent, mut arrived) = (0, Vec::new());
        for _ in 0..2 {
            while let Ok(n) = bench.stack.udp_send_segments(socket, to, &data[..], 100, NOW) {
                assert!(n > 0 && n % 100 == 0);
                sent += n;
            }
        }
        for _ in 0..40 {
            arrived.extend(bench.sent());
        }
        assert_eq!(arrived.len() * 100, sent);
        let made = bench.stack.counters().of(Counter::UdpOut) as usize;
        assert_eq!(made * 100, sent);
    }
}

/// Without the neighbour's link address the datagrams wait like any others: as many as a
/// neighbour's queue takes.
#[test]
fn segments_wait_for_a_neighbour() {
    let mut bench = Bench::among_strangers(&PairConfig::new([8, 9]));
    bench.stack.core.cx.budget.set(Limit::NeighbourQueue, 3);
    let (socket, to) = (bound(&mut bench, 9), peer(&bench, 7));
    let sent = bench.stack.udp_send_segments(socket, to, &[1; 500], 100, NOW);
    assert_eq!(sent, Ok(500));
    assert_eq!(bench.stack.drops().of(DropReason::NeighbourQueueFull), 2);
}
