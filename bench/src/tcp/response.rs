//! The rate that RFC 9438 expects for a flow under random loss: the reference of the loss rows.
//! Called by `mod.rs`. It knows no stack.

/// Section 4.6: beta_cubic.
const BETA: f64 = 0.7;
/// Section 5: C, in segments per second cubed.
const C: f64 = 0.4;

/// Bits a second of payload that RFC 9438's deterministic loss model gives a flow which loses one
/// packet in `1 / loss`, with `rtt_s` seconds there and back and `mss` bytes of payload a segment:
/// the larger of CUBIC's average window (section 5.1: the fourth root of `C (3 + beta) / (4 (1 -
/// beta))`, times the fourth root of `RTT^3 / p^3`) and that of its Reno-friendly region (section
/// 4.3: the square root of `alpha (1 + beta) / (2 (1 - beta) p)` with `alpha = 3 (1 - beta) / (1 +
/// beta)`, which is the square root of `3 / (2 p)`), each a round trip. Windows in segments.
pub(super) fn rfc9438_bps(loss: f64, rtt_s: f64, mss: f64) -> f64 {
    let cubic = (C * (3.0 + BETA) / (4.0 * (1.0 - BETA)) * (rtt_s / loss).powi(3)).powf(0.25);
    let alpha = 3.0 * (1.0 - BETA) / (1.0 + BETA);
    let reno_friendly = (alpha * (1.0 + BETA) / (2.0 * (1.0 - BETA) * loss)).sqrt();
    cubic.max(reno_friendly) * mss * 8.0 / rtt_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_the_windows_of_the_rfc() {
        // The tables of section 5.1 at 0.1 s have 12 and 38 segments for Reno at a loss of 1e-2 and
        // 1e-3, 187 and 1054 for CUBIC with C = 0.4 at 1e-4 and 1e-5: each is the larger one there.
        let window = |loss| rfc9438_bps(loss, 0.1, 1.0) * 0.1 / 8.0;
        for (loss, segments) in [(1e-2, 12.25), (1e-3, 38.7), (1e-4, 187.4), (1e-5, 1054.0)] {
            let off = window(loss) / segments - 1.0;
            assert!(off.abs() < 0.01, "{loss}: {} instead of {segments}", window(loss));
        }
    }

    #[test]
    fn a_shorter_round_trip_is_ruled_by_reno() {
        // Section 4.3: short paths are in the Reno-friendly region, where the rate goes as 1 / RTT.
        let ratio = rfc9438_bps(1e-4, 0.005, 1448.0) / rfc9438_bps(1e-4, 0.01, 1448.0);
        assert!((ratio - 2.0).abs() < 1e-9, "{ratio}");
    }
}
