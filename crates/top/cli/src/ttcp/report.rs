//! What `ttcp` prints, for people or as one JSON document: for a transfer in memory (`memory`), or
//! with a host (`host`), whose figures are of one end only.
//!
//! Called by: `ttcp.rs`; `progress` for the units. Lengths are in powers of 1024 and say so (GiB),
//! rates in powers of 1000.

pub(super) mod host;
pub(super) mod memory;

use serde_json::{Value, json};
use wirespeed::tcp::Info;

/// `a / b`, or 0 where nothing was measured.
pub(super) fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// `11.90 GiB`.
pub(super) fn lengths(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{value:.2} {}", UNITS[unit]) }
}

/// `9.41 Gb/s`, `12.30 Mb/s`: bits a second.
pub(super) fn rate(bits_per_s: f64) -> String {
    explain::bits(bits_per_s / 8.0)
}

/// `0.212 ms smoothed, 0.015 ms variation`; `None` before the first measurement.
fn round_trip(info: Option<&Info>) -> Option<String> {
    let info = info.filter(|info| info.srtt.as_nanos() > 0)?;
    let ms = |duration: wirespeed::Duration| duration.as_secs_f64() * 1e3;
    Some(format!("{:.3} ms smoothed, {:.3} ms variation", ms(info.srtt), ms(info.rttvar)))
}

/// The same as JSON.
pub(super) fn round_trip_json(info: Option<&Info>) -> Value {
    match info.filter(|info| info.srtt.as_nanos() > 0) {
        None => Value::Null,
        Some(info) => json!({
            "smoothed_us": info.srtt.as_secs_f64() * 1e6,
            "variation_us": info.rttvar.as_secs_f64() * 1e6,
            "least_us": info.min_rtt.as_secs_f64() * 1e6,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_what_they_say() {
        let lengths = [0, 1023, 1024, 1_000_000_000, 1 << 30].map(lengths);
        assert_eq!(lengths, ["0 bytes", "1023 bytes", "1.00 KiB", "953.67 MiB", "1.00 GiB"]);
        let rates = [8_000.0, 1e6, 1e9, 12.345e9].map(rate);
        assert_eq!(rates, ["8.00 kb/s", "1.00 Mb/s", "1.00 Gb/s", "12.35 Gb/s"]);
    }
}
