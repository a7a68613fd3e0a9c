//! The mean of single values, with its interval.
//!
//! Called by: `results.rs`.

use profile::Mean;

use crate::tap::fit::student;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_has_the_interval_of_the_books() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0]).map(|m| (m.value, m.off)), Some((3.0, f64::INFINITY)));
        // Standard error 1 / sqrt 3, t of two degrees of freedom 4.303.
        let mean = of(&[1.0, 2.0, 3.0]).expect("three");
        assert!((mean.value - 2.0).abs() < 1e-9 && (mean.off - 2.4843).abs() < 1e-3, "{mean:?}");
    }
}
