//! Congestion avoidance of RFC 5681: one segment a round trip, half on a loss. Called by: `mod.rs`.

/// Equation 3, counting bytes: cwnd grows by one segment per window acknowledged.
/// RFC 9293 MUST-19. RFC 5681 3.1-f.
pub(super) fn avoid(cwnd: u64, acked: u64, mss: u64) -> u64 {
    cwnd + (mss * acked / cwnd.max(1)).max(1)
}

/// Equation 4.
/// RFC 5681 3.1-g.
pub(super) fn reduced(flight_bytes: u64, mss: u64) -> u64 {
    (flight_bytes / 2).max(2 * mss)
}
