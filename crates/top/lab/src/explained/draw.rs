//! Random numbers for the parameters of a situation.
//!
//! Called by: `situations`.

use base::Duration;
use device::fault::Rng;

/// A stream of random numbers.
pub(super) struct Draw(Rng);

impl Draw {
    pub(super) fn new(seed: u64) -> Draw {
        Draw(Rng::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xe4))
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below((high - low + 1) as usize) as u64
    }

    /// A time of `low` to `high` milliseconds.
    pub(super) fn ms(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.range(low * 1000, high * 1000))
    }

    /// A number from `low` to `high`.
    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.range(0, 1 << 20) as f64 / f64::from(1 << 20)
    }

    /// A number from `low` to `high`, each order of magnitude equally likely.
    pub(super) fn magnitude(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.between(0.0, 1.0))
    }
}
