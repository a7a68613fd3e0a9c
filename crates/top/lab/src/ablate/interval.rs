//! Estimates with Student's intervals, for several of them at once.
//!
//! Called by: `ablate`.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The confidence with which all intervals of a family hold together.
pub(super) const CONFIDENCE: f64 = 0.95;

/// A mean, and half the width of its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) mid: f64,
    pub(super) off: f64,
}

impl Estimate {
    /// Of one value a round; `family` intervals hold together (Bonferroni). `None` for fewer than
    /// two rounds.
    pub(super) fn of(values: &[f64], family: usize) -> Option<Estimate> {
        let n = values.len() as f64;
        if values.len() < 2 {
            return None;
        }
        let mid = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mid).powi(2)).sum::<f64>() / (n - 1.0);
        let student = StudentsT::new(0.0, 1.0, n - 1.0).ok()?;
        let t = student.inverse_cdf(1.0 - (1.0 - CONFIDENCE) / (2.0 * family.max(1) as f64));
        Some(Estimate { mid, off: t * (variance / n).sqrt() })
    }

    /// Is 0 outside of the interval?
    pub(super) fn is_clear(self) -> bool {
        self.mid.abs() > self.off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_that_of_the_books() {
        // Five values, mean 3, standard deviation 1.5811: 2.776 is t of 4 degrees, 95 %.
        let one = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0], 1).expect("five");
        assert!(
            (one.mid - 3.0).abs() < 1e-12
                && (one.off - 2.776 * 1.5811 / 5.0_f64.sqrt()).abs() < 1e-3
        );
        // Ten at once: t of 99.5 %, 4.604 at 99 % two-sided is for five.
        let five = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0], 5).expect("five");
        assert!((five.off / one.off - 4.604 / 2.776).abs() < 1e-3);
        assert!(one.is_clear() && Estimate::of(&[1.0], 1).is_none());
    }
}
