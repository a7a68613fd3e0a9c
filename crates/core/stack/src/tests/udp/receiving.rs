//! Datagrams that arrive: of known flows and of new ones, one at a time, many in a burst, and
//! joined by the device.

use base::{Counter, DropReason, IpVersion, Switch};

use super::super::craft::Rng;
use super::*;
use crate::Event;

/// A known flow saves look-ups, but no check of the datagram.
#[test]
fn a_known_flow_is_checked_like_any_other() {
    for version in BOTH {
        let mut bench = bench(version);
        let socket = bound(&mut bench, 9);
        let unsummed = frame_with_checksum(&bench, [0, 0], b"12");
        let sound = udp_frame(&bench, (7, 9), b"12");
        let at = sound.len() - 2 - 8;
        let broken = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut frame = sound.clone();
            change(&mut frame);
            frame
        };
        bench.exchange(&sound, NOW);
        for (frame, reason) in [
            (broken(&|f| f[at + 9] ^= 1), DropReason::UdpChecksum),
            (broken(&|f| f[at + 6] ^= 1), DropReason::UdpChecksum),
            (broken(&|f| f[at + 5] = 7), DropReason::UdpShort),
            (broken(&|f| f[at + 5] = 11), DropReason::UdpShort),
            (broken(&|f| f[at + 5] = 9), DropReason::UdpChecksum),
            (broken(&|f| f[at + 3] = 10), DropReason::UdpChecksum),
        ] {
            let before = bench.stack.drops().of(reason);
            bench.exchange(&frame, NOW);
            assert_eq!(bench.stack.drops().of(reason), before + 1, "{reason:?}");
        }
        let zero = bench.stack.drops().of(DropReason::UdpZeroChecksum);
        bench.exchange(&unsummed, NOW);
        let v6 = u64::from(version == IpVersion::V6);
        assert_eq!(bench.stack.drops().of(DropReason::UdpZeroChecksum), zero + v6);
        let expected = 2 - v6 as usize;
        assert_eq!(taken(&mut bench.stack, socket).len(), expected);
    }
}

/// A socket that is not read holds at most `udp_queue_bytes`, and takes datagrams again once it has
/// been read. RFC 1122 section 4.1.4 leaves this to the host.
#[test]
fn what_nobody_reads_is_bounded() {
    for version in BOTH {
        let mut bench = bench(version);
        let socket = bound(&mut bench, 9);
        bench.stack.core.cx.budget.set(base::Limit::UdpQueueBytes, 16_384);
        let frame = udp_frame(&bench, (7, 9), &[0x77; 1_000]);
        for _ in 0..200 {
            bench.exchange(&frame, NOW);
        }
        let full = bench.stack.drops().of(DropReason::UdpQueueFull);
        let queued = taken(&mut bench.stack, socket).len() as u64;
        assert!((1..=16).contains(&queued), "{queued} datagrams of 1,000 bytes in 16,384");
        assert_eq!(queued + full, 200);
        assert!(bench.stack.budget().hits(base::Limit::UdpQueueBytes) > 0);
        bench.exchange(&frame, NOW);
        assert_eq!(taken(&mut bench.stack, socket).len(), 1);
    }
}

/// A UDP length of less than the IP packet's payload: the bytes after it are not data (RFC 768).
#[test]
fn bytes_behind_the_datagram_are_no_data() {
    for version in BOTH {
        let mut bench = bench(version);
        let socket = bound(&mut bench, 9);
        let frame = udp_frame(&bench, (7, 9), b"12");
        let transport = &frame[frame.len() - 10..];
        let frame = bench.frame(protocol::UDP, &[transport, b"rest"].concat());
        bench.exchange(&frame, NOW);
        let datagram = bench.stack.udp_receive(socket).expect("it is sound");
        assert_eq!(datagram.payload.as_slice(), b"12");
    }
}

/// Sockets are opened, closed and connected while flows are known: with the cache and without it,
/// the same datagrams reach the same sockets, and the same are dropped.
#[test]
fn known_flows_differ_in_nothing() {
    for version in BOTH {
        for seed in 0..20 {
            let [on, off] = [true, false].map(|cache| traffic(version, seed, cache));
            assert_eq!(on, off, "seed {seed}");
        }
    }
}

fn traffic(version: IpVersion, seed: u64, cache: bool) -> Vec<String> {
    let mut bench = bench(version);
    bench.stack.set_switch(Switch::FlowCache, cache);
    let mut random = Rng(seed);
    let mut sockets: Vec<UdpHandle> = Vec::new();
    let mut log = Vec::new();
    for _ in 0..400 {
        match random.below(12) {
            0 => {
                let local = SocketAddr::new(bench.ours, 9);
                let from = peer(&bench, random.below(3) as u16 + 1);
                let made = match random.one_in(2) {
                    true => bench.stack.udp_bind(local, Owner::program()),
                    false => bench.stack.udp_bind_connected(local, from, Owner::program()),
                };
                sockets.extend(made);
            }
            1 if !sockets.is_empty() => {
                let at = random.below(sockets.len() as u32) as usize;
                bench.stack.udp_close(sockets.swap_remove(at));
            }
            2 if !sockets.is_empty() => {
                let socket = random.pick(&sockets);
                let from = peer(&bench, random.below(3) as u16 + 1);
                log.push(format!("{:?}", bench.stack.udp_connect(socket, from)));
            }
            _ => {
                let from = random.below(4) as u16 + 1;
                let times = random.below(3) as usize + 1;
                arrive(&mut bench, &vec![from; times], NOW);
                bench.sent();
            }
        }
        for &socket in &sockets {
            log.push(format!("{socket:?} {:?}", taken(&mut bench.stack, socket)));
        }
        while let Some(event) = bench.stack.next_event() {
            log.push(format!("{event:?}"));
        }
    }
    log.push(format!("{:?}", bench.stack.drops().nonzero().collect::<Vec<_>>()));
    log
}

#[test]
fn many_are_taken_at_once() {
    let mut bench = bench(BOTH[0]);
    let socket = bound(&mut bench, 9);
    arrive(&mut bench, &[1, 2, 3, 4, 5], NOW);
    assert_eq!(bench.stack.next_event(), Some(Event::Udp(socket)));
    assert_eq!(bench.stack.next_event(), None, "more than one event");
    let mut all = Vec::new();
    assert_eq!(bench.stack.udp_receive_many(socket, &mut all, 2), 2);
    assert_eq!(bench.stack.udp_receive_many(socket, &mut all, 64), 3);
    assert_eq!(bench.stack.udp_receive_many(socket, &mut all, 64), 0);
    let ports: Vec<u16> = all.iter().map(|datagram| datagram.from.port()).collect();
    assert_eq!(ports, [1, 2, 3, 4, 5]);
    all.into_iter().for_each(|datagram| bench.stack.give_back(datagram.payload));
    // The queue's count of bytes is right again: there is room for as many bytes as before.
    arrive(&mut bench, &[6], NOW);
    let row = bench.stack.sockets_page(0, 9).rows.remove(0);
    assert!(format!("{row:?}").contains("waiting_bytes: 130"), "{row:?}");
}

/// Datagrams that the device joined, and that the stack takes apart again, are unchanged.
#[test]
fn joined_datagrams_are_the_same_datagrams() {
    for version in BOTH {
        for seed in 0..30 {
            let mut random = Rng(seed);
            let datagrams: Vec<(u16, usize)> = (0..60)
                .map(|_| {
                    let from = if random.one_in(8) { 2 } else { 1 };
                    (from, random.pick(&[0, 1, 100, 100, 100, 100, 99, 1_000]))
                })
                .collect();
            let room = random.pick(&[64, 1_000, 65_536]);
            let plain = received(version, &datagrams, false, room);
            let joined = received(version, &datagrams, true, room);
            assert_eq!(plain.0, joined.0, "seed {seed}");
            assert!(joined.1 < plain.1 || room == 64, "{} calls, {}", joined.1, plain.1);
        }
    }
}

/// Every datagram with its sender, and the number of calls that received them.
fn received(
    version: IpVersion,
    datagrams: &[(u16, usize)],
    coalesces: bool,
    room: usize,
) -> (Vec<(u16, Vec<u8>)>, usize) {
    let mut bench = bench(version);
    let socket = bound(&mut bench, 9);
    set(&mut bench, socket, |options| options.coalesces = coalesces);
    for (number, &(from, len)) in datagrams.iter().enumerate() {
        let frame = udp_frame(&bench, (from, 9), &vec![number as u8; len]);
        assert!(bench.inject(&frame));
    }
    bench.stack.poll(NOW);
    let (mut all, mut calls, mut into) = (Vec::new(), 0, vec![0; room]);
    while let Some(got) = bench.stack.udp_receive_into(socket, &mut into) {
        calls += 1;
        let bytes = &into[..got.len];
        assert_eq!(got.to, SocketAddr::new(bench.ours, 9));
        match got.len {
            0 => all.push((got.from.port(), Vec::new())),
            _ => bytes
                .chunks(got.segment_size)
                .for_each(|part| all.push((got.from.port(), part.to_vec()))),
        }
    }
    let taken = bench.stack.counters().of(Counter::UdpCoalesced) as usize + calls;
    assert_eq!(taken, datagrams.len());
    // A poll without work returns the buffers of other pools.
    bench.stack.poll(NOW);
    assert_eq!(bench.peers_buffers_out(), 0);
    (all, calls)
}
