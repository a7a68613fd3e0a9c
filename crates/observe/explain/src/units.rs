//! Units in sentences: `9.41 Gb/s`, `0.250 ms`.
//!
//! Called by: `words`, and the tools that print verdicts.

/// Milliseconds with three decimals, without a unit.
pub fn ms(us: u64) -> String {
    format!("{:.3}", us as f64 / 1e3)
}

/// A rate as in `9.41 Gb/s`, with units in powers of 1000.
pub fn bits(bytes_per_s: f64) -> String {
    match bytes_per_s * 8.0 {
        rate if rate >= 1e9 => format!("{:.2} Gb/s", rate / 1e9),
        rate if rate >= 1e6 => format!("{:.2} Mb/s", rate / 1e6),
        rate if rate >= 1e3 => format!("{:.2} kb/s", rate / 1e3),
        rate => format!("{rate:.0} b/s"),
    }
}
