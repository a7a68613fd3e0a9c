//! How much of a capture is kept. A capture may be huge, or made to exhaust its reader's memory.
//!
//! Called by: all of the crate, and programs that report the limits to their user.

/// Connections that are traced; segments of later ones are counted ([`crate::Skips::connections`]).
pub const CONNECTIONS_MAX: usize = 16_384;

/// Points of a series of one direction; beyond it every second one is kept, then every fourth, and
/// so on.
pub const POINTS_MAX: usize = 8_192;

/// Intervals of the throughput of one direction; beyond it they become twice as long.
pub const BINS_MAX: usize = 256;

/// Points and intervals of all connections together: beyond it the limit of a series is halved for
/// all of them, down to [`POINTS_MIN`].
pub const POINTS_TOTAL: usize = 2_000_000;

/// Points that a series keeps, however many connections there are.
pub const POINTS_MIN: usize = 16;

/// Unacknowledged segments of a direction that are remembered; Wireshark has the same limit.
pub const OUTSTANDING_MAX: usize = 10_000;

/// The same for all connections together.
pub const OUTSTANDING_TOTAL: usize = 1_000_000;
