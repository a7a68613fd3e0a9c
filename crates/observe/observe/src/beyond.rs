//! What the owner of a stack knows and the stack does not: of a gateway, what lies beyond it.
//!
//! Called by: the service, while it answers. Each function has an answer of its own for an owner
//! who knows nothing.

use core::net::SocketAddr;

use base::{Cidr, Drops, Limit};
use control::protocol::{DaemonRoute, Limited, Mirror, Outer, RouteSource};

/// Knowledge of a stack's owner.
pub trait Beyond {
    /// The other leg of the flow whose connection on the stack has these ends.
    fn outer(&self, local: SocketAddr, remote: SocketAddr) -> Option<Outer> {
        let _ = (local, remote);
        None
    }

    /// Further counters, by name.
    fn counters(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    /// Further drops.
    fn drops(&self) -> Option<&Drops> {
        None
    }

    /// What is known of a routing daemon's route to a prefix in a table.
    fn daemon_route(&self, dest: Cidr, table: u32) -> Option<DaemonRoute> {
        let _ = (dest, table);
        None
    }

    /// Where routes of routing daemons come from.
    fn route_sources(&self) -> Vec<RouteSource> {
        Vec::new()
    }

    /// The mirrors of ports.
    fn mirrors(&self) -> Vec<Mirror> {
        Vec::new()
    }

    /// A limit that the stack does not have: its value, and how often it was hit.
    fn limit(&self, limit: Limit) -> Option<Limited> {
        let _ = limit;
        None
    }
}

/// Its owner knows nothing more.
pub(crate) struct Nothing;

impl Beyond for Nothing {}
