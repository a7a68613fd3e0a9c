//! Interrupt mitigation in virtual time: how often a receiver is interrupted at each level, and how
//! that changes the time of a transfer.

use super::*;
use crate::interrupts::{Outcome, SEGMENT_BYTES, Transfer, measure};
use device::mitigation::Level;

/// A transfer of `frames` full-size frames at 1 Gb/s.
fn transfer(level: u8, frames: u64, cost: Cost) -> Outcome {
    let transfer = Transfer {
        interrupt: Level::new(level).expect("a level").threshold(),
        cost,
        rate_bps: 1_000_000_000,
        delay: Duration::from_micros(10),
        bytes: frames * SEGMENT_BYTES,
        seed: 9,
    };
    measure(&transfer).expect("every byte arrives")
}

#[test]
fn each_level_halves_the_interrupts_of_bulk() {
    const FRAMES: u64 = 10_000;
    for level in 0..=5 {
        let outcome = transfer(level, FRAMES, Cost::default());
        let frames_each = outcome.frames as f64 / outcome.interrupts as f64;
        let expected = f64::from(1_u32 << level);
        assert!(
            (0.85..1.1).contains(&(frames_each / expected)),
            "level {level}: {frames_each:.1} frames an interrupt"
        );
        // The wire alone takes 120 ms; coalescing costs a bulk transfer almost nothing.
        assert!(outcome.time < Duration::from_millis(130), "level {level}: {outcome:?}");
    }
}

/// An interrupt takes 20 us and a frame 1 us. A receiver that is interrupted for each frame has no
/// time for anything else, and frames gather only because the receiver is late.
#[test]
fn what_interrupts_cost_is_saved() {
    let cost = Cost { interrupt: Duration::from_micros(20), frame: Duration::from_micros(1) };
    let (each, gathered) = (transfer(0, 10_000, cost), transfer(5, 10_000, cost));
    let share = |of: &Outcome| of.busy.as_nanos() as f64 / of.time.as_nanos() as f64;
    assert!(share(&each) > 0.95 && share(&gathered) < 0.2, "{each:?} {gathered:?}");
    let longer = gathered.time.as_nanos() as f64 / each.time.as_nanos() as f64;
    assert!(longer < 1.06, "{each:?} {gathered:?}");
}

#[test]
fn time_against_size_has_no_step_at_a_threshold() {
    for level in 1..=5_u8 {
        let threshold = 1_u64 << level;
        let times: Vec<Duration> = (threshold.saturating_sub(3).max(1)..=threshold + 3)
            .map(|frames| transfer(level, frames, Cost::default()).time)
            .collect();
        let mut sorted = times.clone();
        sorted.sort_unstable();
        let middle = sorted[sorted.len() / 2];
        let steady = |time: &Duration| time.as_nanos() < 3 * middle.as_nanos();
        assert!(times.iter().all(steady), "level {level}: {times:?}");
    }
}
