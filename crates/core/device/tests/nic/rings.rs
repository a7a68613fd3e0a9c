//! Rings and the link between them: capacity, losses, and the cost of a ring of one descriptor.

use base::{DropReason, Duration, Instant};
use wirespeed_device::Device;
use wirespeed_device::nic::{Config, ConfigError, Duplex};

use crate::nic::host::{GAP_NS, Link, frame_ns, ten_megabit};

#[test]
fn frames_follow_each_other_at_the_minimum_gap_and_no_closer() {
    let mut link = Link::new(&ten_megabit());
    let start = link.now();
    assert_eq!(link.a.send(5, 1_514), 5);
    let expected: Vec<(Instant, u8)> = (0..5)
        .map(|n| {
            let ns = frame_ns(1_514) + n * (frame_ns(1_514) + GAP_NS);
            (start + Duration::from_nanos(ns), n as u8)
        })
        .collect();
    assert_eq!(link.arrivals(), expected);
    assert_eq!(frame_ns(1_514) + GAP_NS, 1_230_400, "812 frames a second");
}

#[test]
fn at_ten_gigabit_no_rounding_adds_up() {
    let mut link = Link::new(&Config { rate_bps: 10_000_000_000, ..Config::default() });
    let start = link.now();
    for _ in 0..8 {
        assert_eq!(link.a.send(64, 60), 64);
    }
    let (last, _) = *link.arrivals().last().expect("they arrive");
    // 512 frames of 672 bit times, the last without its gap, at 0.1 ns per bit.
    assert_eq!(last, start + Duration::from_nanos((512 * 672 - 96) / 10));
}

#[test]
fn a_ring_of_one_leaves_the_wire_idle_while_its_interrupt_is_served() {
    let service = Duration::from_micros(150);
    let spacing = |tx_ring: usize| {
        let mut link = Link::new(&Config { tx_ring, service, ..Config::default() });
        let (mut sent, mut arrived) = (0, Vec::new());
        while arrived.len() < 20 {
            if sent < 20 {
                sent += link.a.send(20 - sent, 1_514);
            }
            arrived.extend(link.b.receive().iter().map(|_| link.now()));
            let sleeps = [link.a.sleep(), link.b.sleep()];
            if let [Some(a), Some(b)] = sleeps {
                link.at(a.min(b));
            }
        }
        arrived[19].since(arrived[9]).as_nanos() / 10
    };
    let frame_ns = (8 + 1_514 + 4) * 8;
    assert_eq!(spacing(1), frame_ns + 150_000);
    assert_eq!(spacing(512), frame_ns + 96, "back to back");
}

#[test]
fn short_frames_are_padded_with_zeros_and_tagged_ones_no_further() {
    let mut link = Link::new(&ten_megabit());
    let start = link.now();
    for len in [1, 42, 59, 60, 61, 64] {
        assert_eq!(link.a.send(1, len), 1);
    }
    link.later(Duration::from_millis(10));
    let frames = link.b.receive();
    let lens: Vec<usize> = frames.iter().map(Vec::len).collect();
    assert_eq!(lens, [60, 60, 60, 60, 61, 64]);
    for (frame, len) in frames.iter().zip([1, 42, 59, 60]) {
        assert!(frame[1..len].iter().all(|&byte| byte == 0xee));
        assert!(frame[len..].iter().all(|&byte| byte == 0), "nobody's old bytes");
    }
    assert_eq!(link.a.nic.counts().tx_bytes, 60 * 4 + 61 + 64);
    assert!(link.now() > start);
}

#[test]
fn a_frame_that_others_read_is_padded_in_a_copy() {
    let mut link = Link::new(&ten_megabit());
    let mut frame = link.a.pool.copy_of(&[7; 20]).expect("memory");
    let kept = link.a.pool.share(&mut frame).expect("memory");
    let mut burst = wirespeed_device::Burst::new();
    burst.push(frame);
    assert_eq!(link.a.nic.tx_burst(&mut link.a.pool, &mut burst), 1);
    link.later(Duration::from_millis(1));
    assert_eq!(kept.as_slice(), [7; 20]);
    assert_eq!(link.b.receive()[0].len(), 60);
    link.a.pool.free(kept);
}

#[test]
fn a_full_transmit_ring_pushes_back_and_a_full_receive_ring_loses() {
    let mut link = Link::new(&Config { tx_ring: 8, rx_ring: 4, ..ten_megabit() });
    assert_eq!(link.a.send(20, 60), 8, "the rest stays");
    assert_eq!(link.a.send(1, 60), 0);
    assert!(!link.a.nic.tx_ready());
    link.later(Duration::from_millis(1));
    assert!(link.a.nic.tx_ready());
    assert_eq!(link.b.receive().len(), 4);
    let drops = link.b.nic.drops().expect("it counts");
    assert_eq!(drops.of(DropReason::DeviceRingFull), 4);
    assert_eq!((drops.total(), link.b.nic.counts().rx_ring_full), (4, 4));
    assert_eq!(link.a.nic.drops().expect("it counts").total(), 0);
}

#[test]
fn what_can_never_go_is_counted_and_stops_nobody() {
    let mut link = Link::new(&ten_megabit());
    assert_eq!(link.a.send(1, 1_523), 1, "longer than 1500, a header and two tags");
    assert_eq!(link.a.send(1, 1_522), 1);
    link.later(Duration::from_millis(2));
    assert_eq!(link.b.receive().len(), 1);
    assert_eq!(link.a.nic.drops().map(|d| d.of(DropReason::DeviceFrameTooBig)), Some(1));
}

/// The descriptor of a dropped frame is used for the next frame. Otherwise the driver would wait,
/// and no one would be notified of room in an empty ring.
#[test]
fn behind_a_frame_that_can_never_go_the_next_one_has_its_descriptor() {
    let mut link = Link::new(&Config { tx_ring: 1, ..ten_megabit() });
    let pool = &mut link.a.pool;
    let frames = [1_523, 1_600, 60].map(|len| pool.copy_of(&vec![7; len]).expect("memory"));
    let mut burst = wirespeed_device::Burst::from_iter(frames);
    assert_eq!(link.a.nic.tx_burst(&mut link.a.pool, &mut burst), 3);
    assert_eq!(link.a.nic.drops().map(|d| d.of(DropReason::DeviceFrameTooBig)), Some(2));
    link.later(Duration::from_millis(1));
    assert_eq!(link.b.receive().len(), 1);
}

#[test]
fn what_was_sent_before_the_end_arrives_and_then_the_link_is_gone() {
    let mut link = Link::new(&ten_megabit());
    link.a.send(2, 60);
    let Link { a, mut b, clock } = link;
    drop(a.nic);
    let _ = &clock;
    assert!(!b.nic.link_up() && !b.nic.is_gone());
    assert!(b.nic.failure().is_some_and(|why| why.to_string().contains("Make a new pair")));
    assert_eq!(b.send(1, 60), 1, "taken, and lost");
    assert_eq!(b.nic.drops().map(|d| d.of(DropReason::DeviceLinkDown)), Some(1));
    clock.fetch_add(1_000_000, core::sync::atomic::Ordering::Relaxed);
    assert_eq!(b.receive().len(), 2);
    assert!(b.nic.is_gone());
    assert_eq!(b.sleep(), Some(Instant::NEVER), "nobody spins on it");
}

#[test]
fn links_that_cannot_be_are_refused_with_a_reason() {
    let clock = || std::sync::Arc::new(|| Instant::ZERO);
    let refused =
        |config: Config| wirespeed_device::nic::pair(&config, clock()).err().expect("refused");
    let good = ten_megabit();
    assert_eq!(refused(Config { rate_bps: 0, ..good }), ConfigError::NoRate);
    assert_eq!(refused(Config { tx_ring: 0, ..good }), ConfigError::NoDescriptors);
    assert_eq!(refused(Config { rx_ring: 0, ..good }), ConfigError::NoDescriptors);
    let half = Config { duplex: Duplex::Half { seed: 1 }, ..good };
    let most = Duration::from_nanos(25_600);
    let long = Config { delay: most + Duration::from_nanos(1), ..half };
    assert_eq!(refused(long), ConfigError::CableTooLong { most });
    let fast = Config { rate_bps: 1_000_000_000, ..half };
    assert_eq!(
        refused(fast).to_string(),
        "half duplex is for 100 Mb/s and slower, and this link has 1000 Mb/s: use full duplex"
    );
}
