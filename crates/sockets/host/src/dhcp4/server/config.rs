//! The settings of a DHCPv4 server, and what makes them unusable.
//!
//! Called by: programs, and `server.rs`. RFC 2131, RFC 2132.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr};

use base::{Cidr, Duration, MacAddr};

use crate::dhcp4::Route;
use crate::names;

/// Entries of one list: they fit into one message.
const ENTRIES_MAX: usize = 32;
/// Bytes that every host must accept (RFC 791); clients ignore a smaller MTU.
const MTU_MIN: u16 = 576;
/// Clients refuse shorter leases, because each renewal costs two messages.
const LEASE_MIN: Duration = Duration::from_secs(10);

/// How a client is known to the server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guest {
    /// By its link address.
    Hardware([u8; 6]),
    /// By its client identifier (option 61).
    Id(Vec<u8>),
}

impl From<MacAddr> for Guest {
    fn from(address: MacAddr) -> Guest {
        Guest::Hardware(address.0)
    }
}

/// An address that is always given to one client and to no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// The client.
    pub guest: Guest,
    /// Its address.
    pub address: Ipv4Addr,
}

/// What clients learn beside their address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerOptions {
    /// Routers on the link, the preferred one first (option 3).
    pub routers: Vec<Ipv4Addr>,
    /// DNS servers, the preferred one first (option 6).
    pub dns_servers: Vec<Ipv4Addr>,
    /// The domain of the host (option 15).
    pub domain: Option<String>,
    /// Domains to search (option 119).
    pub search: Vec<String>,
    /// The MTU of the link in bytes (option 26), 576 or more.
    pub mtu: Option<u16>,
    /// Routes to networks (option 121). A client that takes them ignores `routers` (RFC 3442), so
    /// the default route by the first router is added.
    pub routes: Vec<Route>,
}

/// The settings of a [`crate::dhcp4::Server`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// The server's own address, by which clients know it (option 54).
    pub server: Ipv4Addr,
    /// The prefix length of the network of all addresses: 1 to 30.
    pub prefix_len: u8,
    /// The first and the last address to give to any client; `None`: to fixed clients alone.
    pub pool: Option<(Ipv4Addr, Ipv4Addr)>,
    /// New clients get the lowest address that nobody has, instead of one that depends on the
    /// client; then a client may find another one after a restart of the server.
    pub in_order: bool,
    /// Clients with an address of their own.
    pub fixed: Vec<Fixed>,
    /// How long an address is given, 10 seconds or more; `None`: for ever.
    pub lease: Option<Duration>,
    /// This is the only server of the link: a client that asks for an address of an earlier run of
    /// the server gets it if it is free, and a refusal if not. Otherwise such a client is left to
    /// other servers, as RFC 2131 section 4.3.2 says.
    pub authoritative: bool,
    /// What clients learn beside their address.
    pub options: ServerOptions,
}

impl ServerConfig {
    /// One hour's leases of the addresses from `first` to `last`, with the server as router and
    /// name server, for a link without another server.
    pub fn new(server: Ipv4Addr, prefix_len: u8, first: Ipv4Addr, last: Ipv4Addr) -> ServerConfig {
        ServerConfig {
            server,
            prefix_len,
            pool: Some((first, last)),
            in_order: false,
            fixed: Vec::new(),
            lease: Some(Duration::from_secs(3_600)),
            authoritative: true,
            options: ServerOptions {
                routers: vec![server],
                dns_servers: vec![server],
                ..ServerOptions::default()
            },
        }
    }

    /// May a host of the network have this address, and is it not the server's?
    pub(super) fn is_host(&self, address: Ipv4Addr) -> bool {
        self.is_in_network(address) && !self.is_end(address) && address != self.server
    }

    /// Are all host bits of the address zero, or all one?
    fn is_end(&self, address: Ipv4Addr) -> bool {
        let mask = u32::MAX.checked_shr(u32::from(self.prefix_len)).unwrap_or(0);
        matches!(address.to_bits() & mask, 0) || address.to_bits() & mask == mask
    }

    /// Does the network contain this address?
    pub(super) fn is_in_network(&self, address: Ipv4Addr) -> bool {
        let network = Cidr::new(IpAddr::V4(self.server), self.prefix_len);
        network.is_some_and(|network| network.contains(IpAddr::V4(address)))
    }

    pub(super) fn check(&self) -> Result<(), ServerConfigError> {
        use ServerConfigError as E;
        if !(1..=30).contains(&self.prefix_len)
            || self.is_end(self.server)
            || self.server.is_multicast()
        {
            return Err(E::Network);
        }
        if let Some((first, last)) = self.pool {
            let is_in = self.is_in_network(first) && self.is_in_network(last);
            if first > last || !is_in {
                return Err(E::Pool);
            }
        }
        for (at, fixed) in self.fixed.iter().enumerate() {
            let earlier = &self.fixed[..at];
            let is_twice = |f: &Fixed| f.address == fixed.address || f.guest == fixed.guest;
            let is_id = !matches!(&fixed.guest, Guest::Id(id) if !(1..=255).contains(&id.len()));
            if !self.is_host(fixed.address) || !is_id || earlier.iter().any(is_twice) {
                return Err(E::Fixed(fixed.address));
            }
        }
        if self.lease.is_some_and(|lease| lease < LEASE_MIN) {
            return Err(E::Lease);
        }
        self.options.check()
    }
}

impl ServerOptions {
    fn check(&self) -> Result<(), ServerConfigError> {
        use ServerConfigError as E;
        let lists =
            [self.routers.len(), self.dns_servers.len(), self.search.len(), self.routes.len()];
        if lists.iter().any(|&entries| entries > ENTRIES_MAX) {
            return Err(E::List);
        }
        let mut all = self.search.iter().chain(&self.domain);
        if let Some(name) = all.find(|name| names::to_wire(name).is_none()) {
            return Err(E::Name(name.clone()));
        }
        let is_v4 = |route: &Route| route.destination.addr.is_ipv4();
        if !self.routes.iter().all(is_v4) {
            return Err(E::Route);
        }
        if self.mtu.is_some_and(|mtu| mtu < MTU_MIN) { Err(E::Mtu) } else { Ok(()) }
    }
}

/// A [`ServerConfig`] that a server cannot use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerConfigError {
    /// The prefix length, or the server's address in its network.
    Network,
    /// The pool is empty or not in the network.
    Pool,
    /// A fixed client or its address.
    Fixed(Ipv4Addr),
    /// The lease is too short.
    Lease,
    /// A list has too many entries.
    List,
    /// A name of a domain.
    Name(String),
    /// A route to an IPv6 network.
    Route,
    /// The MTU is too small.
    Mtu,
}

impl fmt::Display for ServerConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ServerConfigError as E;
        match self {
            E::Network => f.write_str(
                "the DHCP server needs an address that a host can have in a network of /1 to /30",
            ),
            E::Pool => f.write_str(
                "the pool must go from a lower to a higher address, both in the server's network",
            ),
            E::Fixed(address) => write!(
                f,
                "{address} cannot be a fixed address: it must be one of the network, not the \
                 server's, for one client only, and an identifier has 1 to 255 bytes"
            ),
            E::Lease => f.write_str("a lease must be 10 s or more, or for ever"),
            E::List => write!(
                f,
                "a DHCP message has room for {ENTRIES_MAX} routers, name servers, domains and \
                 routes each: give fewer"
            ),
            E::Name(name) => write!(
                f,
                "'{}' is no domain: write letters, digits, hyphens and dots",
                name.escape_debug()
            ),
            E::Route => f.write_str("DHCPv4 has IPv4 routes only: advertise IPv6 routes by RA"),
            E::Mtu => f.write_str("the MTU must be 576 bytes or more"),
        }
    }
}

impl core::error::Error for ServerConfigError {}
