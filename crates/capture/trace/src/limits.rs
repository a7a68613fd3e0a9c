//! The limits on what is kept of a capture. A capture may be huge, or may be crafted to exhaust its
//! reader's memory.
//!
//! Called by: all of the crate, and programs that report the limits to their user.

/// Maximum number of connections that are traced. Segments of later connections are only counted
/// ([`crate::Skips::connections`]).
pub const CONNECTIONS_MAX: usize = 16_384;

/// Maximum number of points in a series of one direction. If there are more, every second one is
/// kept, then every fourth, and so on.
pub const POINTS_MAX: usize = 8_192;

/// Maximum number of intervals of one direction's throughput. If more are needed, the intervals
/// become twice as long.
pub const BINS_MAX: usize = 256;

/// Maximum number of points and intervals of all connections together. If there are more, the limit
/// of every series is halved, down to [`POINTS_MIN`].
pub const POINTS_TOTAL: usize = 2_000_000;

/// The number of points that a series may always keep, however many connections there are.
pub const POINTS_MIN: usize = 16;

/// Maximum number of unacknowledged segments of a direction that are remembered, as in Wireshark.
pub const OUTSTANDING_MAX: usize = 10_000;

/// Maximum number of unacknowledged segments of all connections together that are remembered.
pub const OUTSTANDING_TOTAL: usize = 1_000_000;
