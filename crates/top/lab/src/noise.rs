//! How quiet the machine is: one short loop is timed many times, and the load average says how many
//! programs want the processors.
//!
//! Called by: `machine`, when a run begins. Figures in real time are only reliable on a quiet
//! machine; those in virtual time do not depend on it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Serialize;

/// How long the loop takes on a quiet machine, and how often it is timed: 100 ms in all. A shorter
/// loop would fit between two interruptions by other programs, and not show them.
const ONCE: Duration = Duration::from_micros(500);
const TIMES: usize = 200;
/// Above this spread the machine is noisy.
const SPREAD_MAX: f64 = 0.10;
/// Above this load average for each processor the machine is noisy.
const LOAD_MAX: f64 = 0.5;

/// Experiments whose figures do not depend on the speed of the machine, with their default options.
const VIRTUAL: &[&str] =
    &["wan", "fair", "mitigation", "storm", "telnet", "explain", "ethernet1988"];

/// Are the figures of this experiment taken in virtual time?
pub(crate) fn is_virtual(experiment: &str) -> bool {
    VIRTUAL.contains(&experiment)
}

/// How quiet a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Noise {
    /// The tenth to the ninetieth percentile of the loop's time: the difference divided by the
    /// median.
    pub spread: f64,
    /// The spread or the load average is so high that figures in real time are worth little.
    pub noisy: bool,
}

impl Noise {
    /// Time the loop, for 100 ms. `load` is the load average over one minute.
    pub(crate) fn measure(load: f64, cores: usize) -> Noise {
        let turns = calibrated();
        let times: Vec<f64> = (0..TIMES).map(|_| timed(turns).as_secs_f64()).collect();
        Noise::of(times, load, cores)
    }

    fn of(mut times: Vec<f64>, load: f64, cores: usize) -> Noise {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied();
        let spread = match (at(0.1), at(0.5), at(0.9)) {
            (Some(low), Some(mid), Some(high)) if mid > 0.0 => (high - low) / mid,
            _ => 0.0,
        };
        let noisy = spread > SPREAD_MAX || load > LOAD_MAX * cores as f64;
        Noise { spread: (spread * 1e4).round() / 1e4, noisy }
    }

    /// The warning; `None` on a quiet machine.
    pub(crate) fn warning(&self, load: f64) -> Option<String> {
        let varied = match self.spread {
            spread if spread < 2.0 => format!("{:.0} %", spread * 100.0),
            spread => format!("{spread:.0} times"),
        };
        self.noisy.then(|| {
            format!(
                "Noisy machine: the time of one loop varied by {varied} of its median, and the \
                 load \
                 average was {load} at the start."
            )
        })
    }
}

/// The effect of a noisy machine on figures in real time.
pub(crate) const MEANING: &str = "These figures are in real time: take differences smaller than \
    this spread for noise, and repeat the run on a quiet machine before you rely on it.";

/// How many turns of the loop take [`ONCE`].
fn calibrated() -> u64 {
    let mut turns = 1 << 10;
    // The shortest of three: an interruption must not look like a long loop.
    while turns < 1 << 30 && (0..3).map(|_| timed(turns)).min() < Some(ONCE) {
        turns *= 2;
    }
    turns
}

fn timed(turns: u64) -> Duration {
    let begun = Instant::now();
    let mut state = black_box(1_u64);
    for _ in 0..turns {
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    black_box(state);
    begun.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_or_a_load_makes_a_machine_noisy() {
        let even = vec![1.0; TIMES];
        assert_eq!(Noise::of(even.clone(), 0.2, 2), Noise { spread: 0.0, noisy: false });
        assert!(Noise::of(even, 1.5, 2).noisy, "others want the processors");
        let uneven = (0..TIMES).map(|n| 1.0 + (n % 5) as f64 / 10.0).collect();
        let noise = Noise::of(uneven, 0.0, 2);
        assert!(noise.noisy && noise.spread > 0.3, "{noise:?}");
        assert!(noise.warning(0.0).is_some_and(|text| text.contains("33 %")), "{noise:?}");
        assert_eq!(Noise::of(Vec::new(), 0.0, 2).spread, 0.0);
    }

    #[test]
    fn the_loop_takes_about_its_time() {
        let took = timed(calibrated());
        assert!(took >= ONCE / 8, "{took:?}");
    }
}
