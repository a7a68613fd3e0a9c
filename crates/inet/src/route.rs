//! The route table: longest prefix first, static entries so far.
//!
//! Called by: `stack` when a connection is opened or a datagram sent. The signature of
//! [`Routes::lookup`] is the one that policy routing needs: it takes source, owner and mark.

use core::net::IpAddr;

use base::{Cidr, Owner};

/// The table that is used unless a rule says otherwise.
pub const MAIN_TABLE: u32 = 254;

/// One route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destinations it is for.
    pub dest: Cidr,
    /// The next hop; `None` means that the destination is on the link itself.
    pub via: Option<IpAddr>,
    /// The port to send on.
    pub port: u16,
    /// The table it is in.
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

/// Routes, the longest prefixes first.
#[derive(Debug, Default)]
pub struct Routes {
    routes: Vec<Route>,
}

impl Routes {
    /// Add a route; one for the same destination and table is replaced.
    pub fn add(&mut self, route: Route) {
        self.routes.retain(|r| r.dest != route.dest || r.table != route.table);
        let at = self.routes.partition_point(|r| r.dest.prefix_len >= route.dest.prefix_len);
        self.routes.insert(at, route);
    }

    /// Remove every route over a port that is gone.
    pub fn forget_port(&mut self, port: u16) {
        self.routes.retain(|r| r.port != port);
    }

    /// The next hop for a packet of `owner` from `src` to `dst` with `mark`, in `table`; `None`
    /// is "no route". Source, owner and mark select nothing yet: rules do that.
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
