//! Interrupts, which are predicted to the nanosecond or rung by the other end.

use base::{Duration, Instant};
use proptest::prelude::*;
use wirespeed_device::Device;
use wirespeed_device::mitigation::{Level, Threshold};
use wirespeed_device::nic::Config;

use crate::nic::host::{GAP_NS, Link, frame_ns, ten_megabit};

const FOUR: Threshold = Threshold { frames: 4, bytes: 3_028, within: Duration::from_millis(5) };

#[test]
fn whoever_sleeps_when_a_frame_is_offered_is_rung_and_then_knows_when_it_comes() {
    let mut link = Link::new(&ten_megabit());
    assert_eq!(link.b.sleep(), Some(Instant::NEVER));
    link.a.send(1, 60);
    assert_eq!(link.b.woken.take(), 1, "news that it could not know");
    let at = link.now() + Duration::from_nanos(frame_ns(60));
    assert_eq!(link.b.sleep(), Some(at));
    link.a.send(1, 60);
    assert_eq!(link.b.woken.take(), 0, "the second comes no sooner");
    link.at(at);
    assert!(link.b.nic.rx_ready());
    assert_eq!(link.b.sleep(), None, "there is something");
    assert_eq!(link.b.receive().len(), 1);
    assert_eq!(link.b.sleep(), Some(at + Duration::from_nanos(GAP_NS + frame_ns(60))));
}

#[test]
fn a_threshold_is_reached_by_frames_by_bytes_or_by_time() {
    for (count, len, expected_ns) in [
        (6, 60, 4 * frame_ns(60) + 3 * GAP_NS),
        (6, 1_514, 2 * frame_ns(1_514) + GAP_NS),
        (3, 60, 5_000_000),
        (0, 60, 5_000_000),
    ] {
        let mut link = Link::new(&ten_megabit());
        assert!(link.b.nic.coalesce(FOUR));
        let start = link.now();
        link.a.send(count, len);
        let expected = start + Duration::from_nanos(expected_ns);
        assert_eq!(link.b.sleep(), Some(expected), "{count} frames of {len} bytes");
    }
}

#[test]
fn what_came_before_counts_and_the_oldest_frame_has_the_time() {
    let mut link = Link::new(&ten_megabit());
    link.b.nic.coalesce(FOUR);
    let first = link.now() + Duration::from_nanos(frame_ns(60));
    link.a.send(1, 60);
    link.later(Duration::from_millis(2));
    let until = first + FOUR.within;
    assert_eq!(link.b.sleep(), Some(until));
    link.a.send(2, 60);
    assert_eq!((link.b.woken.take(), link.b.sleep()), (0, Some(until)));
    link.a.send(1, 60);
    assert_eq!(link.b.woken.take(), 1, "now four, and sooner than that");
    assert!(link.b.sleep().is_some_and(|at| at < until));
}

#[test]
fn room_wakes_who_was_pushed_back_while_half_the_ring_still_has_frames() {
    let ring = 16;
    let mut link = Link::new(&Config { tx_ring: ring, ..ten_megabit() });
    let each = frame_ns(60) + GAP_NS;
    for (level, frames) in [(0, 1), (5, ring as u64 / 2)] {
        let start = link.now();
        link.a.nic.coalesce(Level::new(level).expect("a level").threshold());
        assert_eq!(link.a.send(20, 60), ring);
        let at = start + Duration::from_nanos(frames * each - GAP_NS);
        assert_eq!(link.a.sleep(), Some(at));
        link.later(Duration::from_millis(100));
        link.b.receive();
    }
}

#[test]
fn nobody_is_woken_for_room_who_asked_for_none() {
    let mut link = Link::new(&Config { tx_ring: 4, ..ten_megabit() });
    assert_eq!(link.a.send(4, 60), 4);
    assert_eq!(link.a.sleep(), Some(Instant::NEVER));
}

/// A step of a run: send frames, or query an end, so many nanoseconds after the previous step.
#[derive(Clone, Debug)]
enum Step {
    Send { from_b: bool, count: usize, len: usize, after_ns: u64 },
    Look { at_b: bool, after_ns: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let after = 0..3_000_000u64;
    let send = (any::<bool>(), 1..20usize, 40..1_514usize, after.clone())
        .prop_map(|(from_b, count, len, after_ns)| Step::Send { from_b, count, len, after_ns });
    let look = (any::<bool>(), after).prop_map(|(at_b, after_ns)| Step::Look { at_b, after_ns });
    proptest::collection::vec(prop_oneof![send, look], 1..40)
}

proptest! {
    /// Queries do not change arrivals or collisions, in full duplex and in half duplex.
    #[test]
    fn looking_changes_nothing(steps in steps(), half in any::<bool>(), seed in any::<u64>()) {
        use wirespeed_device::nic::Duplex;
        let duplex = if half { Duplex::Half { seed } } else { Duplex::Full };
        let delay = Duration::from_nanos(seed % 25_600);
        let config = Config { duplex, delay, rx_ring: 2_000, ..ten_megabit() };
        let [mut watched, mut alone] = [Link::new(&config), Link::new(&config)];
        for step in steps {
            match step {
                Step::Send { from_b, count, len, after_ns } => {
                    let taken = [&mut watched, &mut alone].map(|link| {
                        link.later(Duration::from_nanos(after_ns));
                        let host = if from_b { &mut link.b } else { &mut link.a };
                        host.send(count, len)
                    });
                    prop_assert_eq!(taken[0], taken[1]);
                }
                Step::Look { at_b, after_ns } => {
                    let halfway = Duration::from_nanos(after_ns / 2);
                    watched.later(halfway);
                    let host = if at_b { &mut watched.b } else { &mut watched.a };
                    let _ = (host.nic.rx_ready(), host.nic.tx_ready(), host.sleep());
                    watched.later(Duration::from_nanos(after_ns - after_ns / 2));
                    alone.later(Duration::from_nanos(after_ns));
                }
            }
        }
        let ends = [&mut watched, &mut alone].map(|link| {
            link.later(Duration::from_secs(10));
            let frames = (link.a.receive(), link.b.receive());
            (frames, link.a.nic.counts(), link.b.nic.counts())
        });
        prop_assert_eq!(&ends[0], &ends[1]);
    }
}
