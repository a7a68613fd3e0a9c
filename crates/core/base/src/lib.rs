//! Types that every layer shares: sequence numbers, time, units, addresses, socket owners, drop
//! reasons, counters, switches and limits.
//!
//! Called by: every crate. It knows no packet format, no buffer and no protocol state. Nothing here
//! reads a clock or a random source: both are arguments everywhere.

pub mod addr;
pub mod advice;
pub mod budget;
pub mod counters;
mod counts;
pub mod drops;
pub mod hash;
pub mod owner;
pub mod seq;
pub mod switches;
pub mod time;
pub mod units;

pub use addr::{Cidr, InvalidMac, IpVersion, LinkKind, MacAddr};
pub use budget::{Budget, Limit, PerSecond};
pub use counters::{Counter, Counters};
pub use drops::{DropReason, Drops};
pub use hash::KeyedHash;
pub use owner::Owner;
pub use seq::SeqNumber;
pub use switches::{Switch, Switches};
pub use time::{Duration, Instant, WallTime};
pub use units::{Mss, Mtu, WindowScale};

#[cfg(test)]
mod tests;
