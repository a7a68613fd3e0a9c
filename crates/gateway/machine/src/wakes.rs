//! The numbers of our descriptors in the host's epoll.
//!
//! Called by: `turns.rs`, and the files that have such descriptors.

pub(super) const LINK: u32 = 0;
pub(super) const OWNER: u32 = 1;
pub(super) const TOOLS: u32 = 2;
pub(super) const RELAY: u32 = 3;
pub(super) const ADDRESSES: u32 = 4;
pub(super) const ASKING: u32 = 5;
pub(super) const SERVERS: u32 = 6;
pub(super) const ORDERS: u32 = 7;
pub(super) const ROUTES: u32 = 8;
