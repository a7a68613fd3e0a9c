//! Half duplex: deferral, collisions, and a test that both ends get frames through.

use base::{DropReason, Duration};
use wirespeed_device::Device;
use wirespeed_device::nic::{Config, Duplex};

use crate::nic::host::{GAP_NS, Link, frame_ns, ten_megabit};

fn shared(seed: u64) -> Config {
    Config { duplex: Duplex::Half { seed }, delay: Duration::from_micros(10), ..ten_megabit() }
}

#[test]
fn who_hears_the_other_waits_for_the_gap_behind_it() {
    let mut link = Link::new(&shared(1));
    let start = link.now();
    link.a.send(1, 1_514);
    link.later(Duration::from_micros(11));
    link.b.send(1, 60);
    link.later(Duration::from_millis(5));
    assert_eq!((link.a.receive().len(), link.b.receive().len()), (1, 1));
    assert_eq!((link.a.nic.counts().collisions, link.b.nic.counts().collisions), (0, 0));
    // Do the same again, and check the arrival to the nanosecond.
    let mut link = Link::new(&shared(1));
    link.a.send(1, 1_514);
    link.later(Duration::from_micros(11));
    link.b.send(1, 60);
    let heard_end = start + Duration::from_nanos(frame_ns(1_514)) + Duration::from_micros(10);
    let arrives =
        heard_end + Duration::from_nanos(GAP_NS + frame_ns(60)) + Duration::from_micros(10);
    link.at(arrives - Duration::from_nanos(1));
    assert!(!link.a.nic.rx_ready());
    link.at(arrives);
    assert!(link.a.nic.rx_ready());
}

#[test]
fn who_begins_before_it_can_hear_the_other_collides_and_both_get_through() {
    for seed in 0..50 {
        let mut link = Link::new(&shared(seed));
        link.a.send(1, 1_514);
        link.later(Duration::from_micros(9));
        link.b.send(1, 1_514);
        link.later(Duration::from_secs(1));
        assert_eq!((link.a.receive().len(), link.b.receive().len()), (1, 1), "seed {seed}");
        let collisions = [link.a.nic.counts().collisions, link.b.nic.counts().collisions];
        assert!(collisions[0] >= 1 && collisions[0] == collisions[1], "{collisions:?}");
    }
}

/// If both ends always have frames to send, only frames that are given up are lost, and the cable
/// carries more than half of its rate (Boggs, Mogul, Kent: "Measured Capacity of an Ethernet",
/// 1988, measured 85 % and more for long frames and few stations).
#[test]
fn two_ends_that_always_have_more_share_the_cable() {
    let mut link = Link::new(&shared(7));
    let (mut sent, mut received) = ([0; 2], [0; 2]);
    let start = link.now();
    while link.now().since(start) < Duration::from_secs(2) {
        sent[0] += link.a.send(64, 1_514);
        sent[1] += link.b.send(64, 1_514);
        link.later(Duration::from_millis(50));
        received[1] += link.b.receive().len();
        received[0] += link.a.receive().len();
    }
    link.later(Duration::from_secs(60));
    received[1] += link.b.receive().len();
    received[0] += link.a.receive().len();
    let counts = [link.a.nic.counts(), link.b.nic.counts()];
    for side in 0..2 {
        let lost = counts[side].given_up as usize;
        assert_eq!(sent[side], received[1 - side] + lost, "side {side}: {counts:?}");
        assert!(counts[side].collisions > 10, "{counts:?}");
    }
    let drops = link.a.nic.drops().expect("it counts").of(DropReason::DeviceCollisions);
    assert_eq!(drops, counts[0].given_up);
}
