//! Routes that zebra, the routing daemon of FRR, sends to a forwarding plane: FPM with netlink
//! messages, as its module `dplane_fpm_nl` writes them.
//!
//! Called by: the router's listener, which reads bytes from a TCP connection and gives them to
//! [`Fpm::receive`]. Nothing here makes a system call or reads a clock. The bytes come from another
//! process: no length is believed, every table has a limit ([`Limit`]), and no input panics.
//! `frame.rs` finds the frames; `attributes.rs`, `route.rs` and `nexthop.rs` read the messages of
//! rtnetlink(7); `table.rs` has the nexthops by number; `session.rs` joins them. `kernel.rs` reads
//! the same messages without frames, as the kernel reports its own routes.
//! docs/decisions/0145-routes-by-fpm.md.

mod attributes;
mod change;
mod counts;
mod frame;
mod kernel;
mod nexthop;
mod route;
mod session;
mod table;

pub use change::{Change, Discard, Hop, Key, NextHops, Reachable};
pub use counts::{Counts, Encapsulation, Limit};
pub use frame::Violation;
pub use kernel::{Kernel, KernelCounts, News, dump_request};
pub use session::Fpm;

#[cfg(test)]
mod tests;
