//! Means with their intervals, and what may be concluded from them.
//!
//! Called by: `results.rs` and `live.rs`.

use crate::tap::fit::student;

/// A mean, with half the width of its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Mean {
    pub(super) value: f64,
    pub(super) off: f64,
}

impl Mean {
    /// Of single values; `None` of none, and an interval without end of one.
    pub(super) fn of(values: &[f64]) -> Option<Mean> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let value = values.iter().sum::<f64>() / n as f64;
        if n == 1 {
            return Some(Mean { value, off: f64::INFINITY });
        }
        let variance = values.iter().map(|v| (v - value).powi(2)).sum::<f64>() / (n - 1) as f64;
        Some(Mean { value, off: student(n - 1) * (variance / n as f64).sqrt() })
    }

    /// Is it larger than another beyond what both intervals leave open?
    pub(super) fn exceeds(self, other: Mean) -> bool {
        self.value - other.value > self.off.hypot(other.off)
    }
}

/// The largest, and those that may be as large for all that is known; the largest first.
pub(super) fn largest<T: Copy>(candidates: &[(T, Mean)]) -> Vec<T> {
    let mut sorted = candidates.to_vec();
    sorted.sort_by(|a, b| b.1.value.total_cmp(&a.1.value));
    let Some(&(_, first)) = sorted.first() else { return Vec::new() };
    sorted.retain(|(_, mean)| mean.value > 0.0 && !first.exceeds(*mean));
    sorted.into_iter().map(|(candidate, _)| candidate).collect()
}

/// A bar of up to 20 signs for a share of 1.
pub(super) fn bar(share: f64) -> String {
    "#".repeat((share.clamp(0.0, 1.0) * 20.0).round() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_has_the_interval_of_the_books() {
        assert_eq!(Mean::of(&[]), None);
        assert_eq!(Mean::of(&[3.0]).map(|m| (m.value, m.off)), Some((3.0, f64::INFINITY)));
        // Standard error 1 / sqrt 3, t of two degrees of freedom 4.303.
        let mean = Mean::of(&[1.0, 2.0, 3.0]).expect("three");
        assert!((mean.value - 2.0).abs() < 1e-9 && (mean.off - 2.4843).abs() < 1e-3, "{mean:?}");
    }

    #[test]
    fn what_the_intervals_leave_open_is_not_concluded() {
        let mean = |value, off| Mean { value, off };
        let of = |list: &[(char, Mean)]| largest(list).into_iter().collect::<String>();
        assert_eq!(of(&[('a', mean(10.0, 1.0)), ('b', mean(20.0, 1.0))]), "b");
        assert_eq!(of(&[('a', mean(19.0, 1.0)), ('b', mean(20.0, 1.0))]), "ba");
        assert_eq!(of(&[('a', mean(1.0, f64::INFINITY)), ('b', mean(20.0, 1.0))]), "ba");
        assert_eq!(of(&[('a', mean(0.0, 0.0)), ('b', mean(0.0, 0.0))]), "");
        assert_eq!(of(&[]), "");
    }
}
