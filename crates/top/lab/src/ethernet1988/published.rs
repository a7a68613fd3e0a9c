//! What the report of 1988 says, in KB (1,024 bytes) a second, and what it says it about.
//!
//! Called by: the report of the experiment. V. Jacobson, "some interim notes on the bsd network
//! speedups", July 1988.

use super::costs::Steps;

/// The figure for a set of steps, if there is one.
///
/// The report gives figures for the system as delivered, with the step `unit` alone, before and
/// after `m_pullup` was removed (when other steps were made already, it does not say which; the two
/// sets without the hidden copies alone apart are those closest to it), and for the end.
pub(super) fn figure(steps: Steps) -> Option<f64> {
    if steps.fold {
        return Some(1_000.0);
    }
    match steps.flags() {
        [false, false, false, false] => Some(380.0),
        [true, false, false, false] => Some(456.0),
        [true, false, true, true] => Some(600.0),
        [true, true, true, true] => Some(890.0),
        _ => None,
    }
}

/// After the hidden copies were removed, and before what led to 890.
pub(super) const IN_PLACE: f64 = 750.0;
/// What no change exceeded while the driver gave the LANCE one packet at a time.
pub(super) const BARRIER: f64 = 550.0;
/// Basic, with A, with B, with both.
pub(super) const INTERACTION: [f64; 4] = [600.0, 520.0, 530.0, 700.0];
/// Time of a packet at 10 Mb/s, and of one as it was, in microseconds.
pub(super) const PACKET_US: (f64, f64) = (1_200.0, 1_500.0);
/// Use of the receiver's processor while the sender's is at 100 %.
pub(super) const RECEIVER_PERCENT: (f64, f64) = (65.0, 70.0);
