//! The thresholds of the levels, and how interrupt moderation reacts to traffic.

use super::*;

const FULL: u64 = FULL_SIZE_BYTES as u64;

fn level(n: u8) -> Level {
    Level::new(n).expect("a level")
}

fn at(us: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + us * 1_000)
}

/// Frames of this many bytes that reach the threshold.
fn frames_to_wake(threshold: Threshold, bytes: u32) -> u32 {
    threshold.frames.min(threshold.bytes.div_ceil(bytes))
}

#[test]
fn each_level_halves_the_wake_ups() {
    let full: Vec<u32> =
        (0..=5).map(|n| frames_to_wake(level(n).threshold(), FULL_SIZE_BYTES)).collect();
    assert_eq!(full, [1, 2, 4, 8, 16, 32]);
    let small: Vec<u32> = (0..=5).map(|n| frames_to_wake(level(n).threshold(), 60)).collect();
    assert_eq!(small, [1, 8, 16, 32, 64, 128]);
    let within: Vec<u64> =
        (0..=5).map(|n| level(n).threshold().within.as_nanos() / 1_000).collect();
    assert_eq!(within, [0, 50, 100, 200, 400, 800]);
    assert_eq!(Level::new(6), None);
}

#[test]
fn four_bursts_of_the_highest_level_are_512_frames() {
    assert_eq!(Mitigation::Level(Level::MAX).least_depth(), 512);
    assert_eq!(Mitigation::Adaptive.least_depth(), 512);
    assert_eq!(Mitigation::default().least_depth(), 4);
}

#[test]
fn a_queue_of_bytes_holds_four_bursts_by_both_figures_or_by_none() {
    for n in 1..=5 {
        let least = Mitigation::Level(level(n)).least_depth();
        let bytes = BURSTS_QUEUED * level(n).threshold().bytes as usize;
        assert_eq!((frames_in(bytes), frames_in(bytes - 1)), (least, least - 1));
    }
    assert!(frames_in(usize::MAX) > 1 << 20);
}

#[test]
fn settings_are_read_as_they_are_written() {
    for text in ["0", "1", "2", "3", "4", "5", "adaptive", "poll"] {
        assert_eq!(text.parse::<Mitigation>().expect(text).to_string(), text);
    }
    for text in ["", "6", "-1", "256", "Adaptive", "3 "] {
        assert_eq!(text.parse::<Mitigation>(), Err(NoSuchMitigation), "{text}");
    }
}

#[test]
fn the_first_frame_after_a_silence_wakes_at_once() {
    let mut moderation = Moderation::new(Mitigation::Level(level(5)));
    assert_eq!(moderation.idle_policy(at(0)), IdlePolicy::UntilFrame, "nothing has come yet");
    moderation.took(1, FULL, at(10));
    let gather = IdlePolicy::Gather(level(5).threshold());
    assert_eq!(moderation.idle_policy(at(10)), gather);
    assert_eq!(moderation.idle_policy(at(809)), gather);
    assert_eq!(moderation.idle_policy(at(810)), IdlePolicy::UntilFrame);
}

#[test]
fn super_frames_wake_each_as_they_reach_the_threshold_alone() {
    let mut moderation = Moderation::new(Mitigation::Level(level(3)));
    moderation.took(3, 3 * 65_000, at(0));
    assert_eq!(moderation.idle_policy(at(1)), IdlePolicy::UntilFrame);
    assert_eq!(moderation.idle_policy(at(2)), IdlePolicy::UntilFrame);
    moderation.took(3, 3 * FULL, at(3));
    assert_eq!(moderation.idle_policy(at(4)), IdlePolicy::Gather(level(3).threshold()));
}

#[test]
fn level_0_lets_nothing_gather_and_polling_never_rests() {
    let mut moderation = Moderation::default();
    moderation.took(64, 64 * FULL, at(0));
    assert_eq!(moderation.idle_policy(at(0)), IdlePolicy::UntilFrame);
    moderation.set(Mitigation::Poll);
    assert_eq!(moderation.idle_policy(at(1_000_000)), IdlePolicy::Poll);
    moderation.set(Mitigation::Level(level(1)));
    assert_eq!(
        moderation.idle_policy(at(0)),
        IdlePolicy::Gather(level(1).threshold()),
        "set while running"
    );
}

#[test]
fn adaptive_climbs_with_the_traffic_and_comes_down_with_it() {
    let mut moderation = Moderation::new(Mitigation::Adaptive);
    let mut now = 0;
    let mut level_after = |moderation: &mut Moderation, frames: usize, bytes: u64| {
        now += 10;
        moderation.took(frames, bytes, at(now));
        moderation.idle_policy(at(now));
        moderation.level().number()
    };
    assert_eq!(
        level_after(&mut moderation, 1, 60),
        0,
        "the level rose although frames came one at a time"
    );
    for expected in [1, 2, 3, 4, 5, 5] {
        assert_eq!(level_after(&mut moderation, 32, 32 * FULL), expected);
    }
    assert_eq!(
        level_after(&mut moderation, 16, 16 * FULL),
        5,
        "half of the figure keeps the level"
    );
    for expected in [4, 3, 2, 1] {
        assert_eq!(level_after(&mut moderation, 1, 60), expected);
    }
    // Small frames raise the level by the threshold in frames.
    assert_eq!(level_after(&mut moderation, 8, 8 * 60), 2);
}

#[test]
fn what_is_awaited_does_not_gather_unless_it_is_bulk_or_takes_long_anyway() {
    let within = level(5).threshold().within;
    let gather = IdlePolicy::Gather(level(5).threshold());
    let level_after = |frames: usize, round_trip: Option<Duration>| {
        let mut moderation = Moderation::new(Mitigation::Level(level(5)));
        moderation.took(frames, frames as u64 * 60, at(0));
        round_trip.into_iter().for_each(|round_trip| moderation.awaits(round_trip));
        moderation.idle_policy(at(1))
    };
    assert_eq!(level_after(1, None), gather);
    assert_eq!(level_after(1, Some(within)), IdlePolicy::UntilFrame);
    assert_eq!(level_after(1, Some(within.saturating_mul(4))), gather, "it matters little");
    assert_eq!(level_after(32, Some(within)), gather, "frames come anyway");

    let mut moderation = Moderation::new(Mitigation::Level(level(5)));
    moderation.took(1, 60, at(0));
    moderation.awaits(within.saturating_mul(100));
    moderation.awaits(within);
    moderation.awaits(within.saturating_mul(100));
    assert_eq!(
        moderation.idle_policy(at(1)),
        IdlePolicy::UntilFrame,
        "the shortest round trip counts"
    );
    assert_eq!(moderation.idle_policy(at(2)), IdlePolicy::UntilFrame, "it has not come yet");
    moderation.took(1, 60, at(3));
    assert_eq!(moderation.idle_policy(at(4)), gather, "it came");
}
