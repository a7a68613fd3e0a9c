//! Limits of punting, what happens at each, and arbitrary bytes.

use base::{Counter, DropReason, Duration, Limit};
use wire::protocol;
use wire::tcp::Flags;

use super::super::craft::Rng;
use super::super::forward::{A, B, NOW, Router};
use super::{OURS, frame, mirrored, nothing_is_held, punted, tcp, udp, udp_frame};
use crate::{PortId, PuntClass, PuntConfig};

fn flood(router: &mut Router, bytes: &[u8], times: usize, after_ms: u64) {
    let frames: Vec<Vec<u8>> = vec![bytes.to_vec(); 50];
    for _ in 0..times / 50 {
        let now = NOW + Duration::from_millis(after_ms);
        let sent = router.exchange_burst(0, &frames, now);
        assert!(sent.iter().all(Vec::is_empty));
    }
}

/// A flood of one class leaves the other class its rate, and is not answered beyond it.
#[test]
fn each_class_has_its_rate() {
    let mut router = mirrored();
    router.stack.set_punt_config(PuntConfig {
        rate: 1_000,
        routing_rate: 2_000,
        queue: 10_000,
        ..PuntConfig::default()
    });
    flood(&mut router, &udp_frame(0, A, OURS, (40_000, 53)), 1_000, 0);
    assert_eq!(router.drops(DropReason::PuntRate), 900);
    flood(&mut router, &frame(0, A, "224.0.0.5", 89, b"hello"), 1_000, 0);
    assert_eq!(router.drops(DropReason::PuntRoutingRate), 800);
    let got = punted(&mut router);
    assert_eq!(got.len(), 300);
    assert!(got[..200].iter().all(|(_, class, _)| *class == PuntClass::Routing));
    // A second later there is room again.
    flood(&mut router, &udp_frame(0, A, OURS, (40_000, 53)), 1_000, 1_000);
    assert_eq!(punted(&mut router).len(), 100);
    nothing_is_held(&mut router);
}

/// A packet of a routing protocol evicts another one from a full queue.
#[test]
fn a_full_queue_keeps_routing_protocols() {
    let mut router = mirrored();
    router.stack.set_punt_config(PuntConfig { queue: 60, ..PuntConfig::default() });
    flood(&mut router, &udp_frame(0, A, OURS, (40_000, 53)), 100, 0);
    assert_eq!(router.drops(DropReason::PuntQueueFull), 40);
    flood(&mut router, &frame(0, A, OURS, 89, b"hello"), 50, 0);
    assert_eq!(router.drops(DropReason::PuntQueueFull), 90);
    flood(&mut router, &frame(0, A, OURS, 89, b"hello"), 50, 0);
    assert_eq!(router.drops(DropReason::PuntQueueFull), 140);
    let got = punted(&mut router);
    assert!(got.len() == 60 && got.iter().all(|(_, class, _)| *class == PuntClass::Routing));
    nothing_is_held(&mut router);
}

#[test]
fn the_bytes_that_wait_are_limited() {
    let mut router = mirrored();
    router.stack.core.cx.budget.set(Limit::PuntBytes, 20_000);
    flood(&mut router, &udp_frame(0, A, OURS, (40_000, 53)), 50, 0);
    let full = router.drops(DropReason::PuntQueueFull);
    assert!((30..50).contains(&full), "{full}");
    assert_eq!(router.stack.budget().hits(Limit::PuntBytes), full);
    assert_eq!(punted(&mut router).len() as u64, 50 - full);
    nothing_is_held(&mut router);
}

#[test]
fn frames_of_a_mirror_that_is_gone_are_dropped_by_name() {
    let mut router = mirrored();
    router.exchange(&udp_frame(0, A, OURS, (40_000, 53)));
    router.exchange_at(1, &udp_frame(1, B, "198.51.100.1", (40_000, 53)));
    router.stack.remove_port(PortId(0));
    assert_eq!(router.drops(DropReason::PuntNoMirror), 1);
    let got = punted(&mut router);
    assert!(got.len() == 1 && got[0].0 == 1);
    // There is no such port any more, and never was one of the highest number.
    for none in [0, 7, u16::MAX] {
        router.stack.set_punt(PortId(none), true);
    }
    assert!(!router.stack.has_punted());
}

/// Whatever comes, nothing panics, each frame is punted or dropped by name, and no buffer is lost.
#[test]
fn arbitrary_frames() {
    let mut rng = Rng(46);
    let mut router = mirrored();
    router.stack.set_punt_config(PuntConfig { rate: u32::MAX, ..PuntConfig::default() });
    let seeds = [
        udp_frame(0, A, OURS, (40_000, 3_784)),
        frame(0, A, "224.0.0.5", 89, &[1; 44]),
        frame(0, "fe80::9", "ff02::5", 89, &[3; 36]),
        frame(0, A, OURS, protocol::TCP, &tcp(A, OURS, (179, 2), Flags::ACK)),
        frame(0, OURS, A, protocol::UDP, &udp(OURS, A, (1, 2), &[9; 600])),
        frame(0, OURS, "224.0.0.9", protocol::UDP, &udp(OURS, "224.0.0.9", (520, 520), b"RIP")),
    ];
    for round in 0..6_000 {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..rng.below(4) {
            let at = rng.below(bytes.len() as u32) as usize;
            bytes[at] = rng.next() as u8;
        }
        if rng.one_in(4) {
            bytes.truncate(rng.below(bytes.len() as u32 + 1) as usize);
        }
        if bytes.len() >= 14 && bytes[14..].len() >= 20 && rng.one_in(2) {
            super::super::firewall::packets::fix(&mut bytes[14..]);
        }
        let outcome = router.stack.send_by_mirror(NOW, PortId((round % 2) as u16), &bytes);
        if let Err(why) = outcome {
            assert!(!why.to_string().is_empty());
        }
        if !bytes.is_empty() {
            router.exchange(&bytes);
        }
        if rng.one_in(8) {
            punted(&mut router);
        }
    }
    punted(&mut router);
    assert!(router.stack.counters().of(Counter::MirrorOut) > 100);
    assert!(router.stack.counters().of(Counter::PuntedRouting) > 100);
    // Fragments and packets that wait for neighbours go with the port.
    router.stack.remove_port(PortId(0));
    router.stack.remove_port(PortId(1));
    nothing_is_held(&mut router);
}
