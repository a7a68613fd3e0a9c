//! The route table: entries of the user and of the network, longest prefix match.
//!
//! Called by: `stack` when a connection is opened or a datagram is sent. [`Routes::lookup`] takes
//! source, owner and mark too, for policy routing, which does not exist yet.

use core::net::IpAddr;

use base::{Cidr, Instant, Mtu, Owner};

/// The table that is used unless a rule says otherwise.
pub const MAIN_TABLE: u32 = 254;

/// How a route came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteOrigin {
    /// Set by the user.
    Static,
    /// The network of an address of ours.
    Connected,
    /// From a router advertisement (RFC 4861 section 6.3.4, RFC 4191).
    Advertised,
    /// From a redirect (RFC 1122 section 3.3.1.2, RFC 4861 section 8.3).
    Redirect,
    /// From a DHCP server.
    Dhcp,
}

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
    /// The largest packet to send by it; `None`: what the port sends.
    pub mtu: Option<Mtu>,
    /// Where it is from.
    pub origin: RouteOrigin,
    /// From then on it is not used; [`Instant::NEVER`]: it stays.
    pub expires: Instant,
}

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The port to send on.
    pub port: u16,
    /// The neighbour to send to.
    pub neighbour: IpAddr,
    /// The route's MTU.
    pub mtu: Option<Mtu>,
}

impl Route {
    /// A route of the user's in the main table: to `dest` by `via`, or on the link without one.
    pub fn new(dest: Cidr, via: Option<IpAddr>, port: u16) -> Route {
        Route {
            dest,
            via,
            port,
            table: MAIN_TABLE,
            mtu: None,
            origin: RouteOrigin::Static,
            expires: Instant::NEVER,
        }
    }

    /// The same from elsewhere.
    pub fn with_origin(self, origin: RouteOrigin) -> Route {
        Route { origin, ..self }
    }

    fn is_like(&self, other: &Route) -> bool {
        self.dest == other.dest && self.table == other.table && self.port == other.port
    }
}

impl RouteOrigin {
    /// The name in output, as `ip route` has it where it has one.
    pub const fn name(self) -> &'static str {
        match self {
            RouteOrigin::Static => "static",
            RouteOrigin::Connected => "kernel",
            RouteOrigin::Advertised => "ra",
            RouteOrigin::Redirect => "redirect",
            RouteOrigin::Dhcp => "dhcp",
        }
    }
}

/// The routes, sorted by prefix length, longest first.
#[derive(Debug, Default)]
pub struct Routes {
    routes: Vec<Route>,
}

impl Routes {
    /// Add a route; one for the same destination and table over the same port is replaced. Of
    /// several ports for a destination the one added first is used.
    pub fn add(&mut self, route: Route) {
        let route = Route { dest: route.dest.network(), ..route };
        if let Some(old) = self.routes.iter_mut().find(|r| r.is_like(&route)) {
            *old = route;
            return;
        }
        let at = self.routes.partition_point(|r| r.dest.prefix_len >= route.dest.prefix_len);
        self.routes.insert(at, route);
    }

    /// Add a route unless another origin has one for the same destination and table over the same
    /// port. `true` if packets may go another way: one that only expires later is no change.
    pub fn renew(&mut self, route: Route) -> bool {
        let dest = route.dest.network();
        let route = Route { dest, ..route };
        match self.routes.iter_mut().find(|r| r.is_like(&route)) {
            Some(old) if old.origin != route.origin => false,
            Some(old) => {
                let is_same = old.via == route.via && old.mtu == route.mtu;
                *old = route;
                !is_same
            }
            None => {
                self.add(route);
                true
            }
        }
    }

    /// Does the first route to `dst` over `port` say that it is on the link?
    pub fn is_on_link(&self, port: u16, dst: IpAddr) -> bool {
        let mut of_port = self.routes.iter().filter(|r| r.port == port && r.dest.contains(dst));
        of_port.next().is_some_and(|r| r.via.is_none())
    }

    /// Remove the routes that `is_unwanted` selects; returns how many.
    pub fn remove(&mut self, is_unwanted: impl Fn(&Route) -> bool) -> usize {
        let before = self.routes.len();
        self.routes.retain(|r| !is_unwanted(r));
        before - self.routes.len()
    }

    /// Remove every route over a port that is gone.
    pub fn forget_port(&mut self, port: u16) {
        self.remove(|r| r.port == port);
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
        let neighbour = route.via.unwrap_or(dst);
        Some(NextHop { port: route.port, neighbour, mtu: route.mtu })
    }

    /// When the first route expires; [`Instant::NEVER`] if none does.
    pub fn next_deadline(&self) -> Instant {
        self.routes.iter().map(|r| r.expires).min().unwrap_or(Instant::NEVER)
    }

    /// All routes, longest prefix first.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }
}
