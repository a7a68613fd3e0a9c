//! The route table: static entries, longest prefix match.
//!
//! Called by: `stack` when a connection is opened or a datagram is sent. [`Routes::lookup`] takes
//! source, owner and mark too, for policy routing, which does not exist yet.

use core::net::IpAddr;

use base::{Cidr, Owner};

/// The table that is used unless a rule says otherwise.
pub const MAIN_TABLE: u32 = 254;

/// One route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination prefix.
    pub dest: Cidr,
    /// The gateway; `None` if the destination is on the link.
    pub via: Option<IpAddr>,
    /// The port to send on.
    pub port: u16,
    /// The routing table that it belongs to.
    pub table: u32,
}

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The port to send on.
    pub port: u16,
    /// The neighbour to send to.
    pub neighbour: IpAddr,
}

/// The routes, sorted by prefix length, longest first.
#[derive(Debug, Default)]
pub struct Routes {
    routes: Vec<Route>,
    changes: u64,
}

impl Routes {
    /// Add a route; one for the same destination and table is replaced.
    pub fn add(&mut self, route: Route) {
        self.changes += 1;
        self.routes.retain(|r| r.dest != route.dest || r.table != route.table);
        let at = self.routes.partition_point(|r| r.dest.prefix_len >= route.dest.prefix_len);
        self.routes.insert(at, route);
    }

    /// Remove every route over a port that is gone.
    pub fn forget_port(&mut self, port: u16) {
        self.changes += 1;
        self.routes.retain(|r| r.port != port);
    }

    /// How often anything was changed. What was looked up before a change is to be looked up anew.
    #[inline(always)]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The next hop for a packet to `dst` in `table`; `None` if there is no route. Source, owner
    /// and mark are ignored: there are no policy rules yet.
    pub fn lookup(
        &self,
        dst: IpAddr,
        _src: Option<IpAddr>,
        _owner: &Owner,
        _mark: u32,
        table: u32,
    ) -> Option<NextHop> {
        let route = self.routes.iter().find(|r| r.table == table && r.dest.contains(dst))?;
        Some(NextHop { port: route.port, neighbour: route.via.unwrap_or(dst) })
    }

    /// All routes.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter()
    }
}
