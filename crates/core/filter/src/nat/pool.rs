//! Pools: the outside addresses and ports that a rule of source NAT has, and the words of the
//! mapping table with its callers.
//!
//! Called by: what compiles the rules (`Pool`), and `mappings.rs`. RFC 4787 sections 4 and 5, RFC
//! 6888 section 3.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::{Cidr, DropReason, Duration, Instant, Limit};

use wire::protocol;

use super::ports::has_ports;
use crate::Tuple;
use crate::packet::query_dst_port;

/// The most addresses of a network that a pool uses.
pub const POOL_ADDRESSES_MAX: u32 = 4_096;

/// The ports of a router with NAT on its own address: the rest is the router's own.
pub const PORTS: (u16, u16) = (1_024, 60_999);

/// How long an outside port or block of a source that is gone is not given to another one: RFC 6888
/// REQ-8.
pub const HOLD: Duration = Duration::from_secs(120);

/// The outside addresses of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// The address of the port that a packet leaves by, which each request names (masquerade).
    OfPort,
    /// All addresses of a network, the first [`POOL_ADDRESSES_MAX`] of a larger one. A network of
    /// one address is usual. The lowest and the highest address are used too: the network is routed
    /// to here and need not be one of a link.
    Network(Cidr),
}

impl Addresses {
    /// How many there are; 0 for those of a port.
    pub fn len(&self) -> u32 {
        let Addresses::Network(network) = self else { return 0 };
        let bits = if network.addr.is_ipv4() { 32 } else { 128 };
        let host_bits = u32::from(bits - network.prefix_len.min(bits));
        1_u32.checked_shl(host_bits).unwrap_or(u32::MAX).min(POOL_ADDRESSES_MAX)
    }

    /// Has it no addresses of its own?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Address number `index`, below [`Addresses::len`].
    pub fn nth(&self, index: u32) -> Option<IpAddr> {
        let Addresses::Network(network) = self else { return None };
        Some(match network.network().addr {
            IpAddr::V4(addr) => Ipv4Addr::from_bits(addr.to_bits() | index).into(),
            IpAddr::V6(addr) => Ipv6Addr::from_bits(addr.to_bits() | u128::from(index)).into(),
        })
    }
}

/// Which packets from the outside may begin a flow to a mapped inside endpoint. RFC 4787 REQ-8,
/// REQ-8a, RFC 5382 REQ-3, REQ-3a.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filtering {
    /// All: `filtering independent`, which RFC 6888 REQ-7 recommends.
    Independent,
    /// Those from an address that the endpoint has a flow to: `filtering address`.
    Address,
    /// None but answers: `filtering port`. The table of states has those.
    #[default]
    Port,
}

/// The outside addresses and ports that a rule of source NAT has. Pools may share addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Outside addresses.
    pub addresses: Addresses,
    /// The first and the last port.
    pub ports: (u16, u16),
    /// Does a source port of 1 to 1023 get one of these ports? RFC 4787 REQ-3a recommends it. It
    /// is for addresses that are not the router's own, because the services of the router have
    /// ports of this range. If none of them is free, or without this, the port is one of `ports`.
    pub well_known: bool,
    /// Ports of a block that a source gets whole, a power of two from 64 to
    /// [`super::Shards::BLOCK_MAX`]; 0 for single ports. RFC 6888 REQ-14, RFC 7422.
    pub block: u16,
    /// What may come from outside.
    pub filtering: Filtering,
}

impl Pool {
    /// A pool of single ports with nothing special.
    pub const fn new(addresses: Addresses) -> Pool {
        Pool { addresses, ports: PORTS, well_known: false, block: 0, filtering: Filtering::Port }
    }
}

/// A pool of a mapping table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolId(pub(super) u16);

/// A mapping of the table, also after it ended: a number is not used for another mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MappingId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// Says whether a socket of the router has the source endpoint of a tuple, which is a flow's behind
/// its translation: such an endpoint is given to no flow. RFC 4787 REQ-3.
#[derive(Clone, Copy)]
pub struct Sockets<'a>(pub &'a dyn Fn(&Tuple) -> bool);

impl Sockets<'_> {
    /// The router has none.
    pub const NONE: Sockets<'static> = Sockets(&|_| false);
}

impl fmt::Debug for Sockets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sockets")
    }
}

/// A request for the mapping of a new flow.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The pool of the rule.
    pub pool: PoolId,
    /// The flow as the inside host sees it, its destination already translated.
    pub tuple: Tuple,
    /// The present address of the port that the packet leaves by, for [`Addresses::OfPort`].
    pub port_address: Option<IpAddr>,
    /// The router's own sockets.
    pub sockets: Sockets<'a>,
    /// Now.
    pub now: Instant,
}

impl Request<'_> {
    /// Has a socket of the router this outside endpoint?
    pub(super) fn is_bound(&self, addr: IpAddr, port: u16) -> bool {
        has_ports(self.tuple.protocol)
            && (self.sockets.0)(&Tuple { src: addr, src_port: port, ..self.tuple })
    }
}

/// A mapping that a flow uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Give it back with [`super::Mappings::release`] when the flow's state ends.
    pub id: MappingId,
    /// The outside address.
    pub addr: IpAddr,
    /// The outside port or echo identifier; the flow's own for protocols without ports.
    pub port: u16,
    /// Was it made for this flow? RFC 8158 has an event for it.
    pub is_new: bool,
}

impl Mapped {
    /// The tuple of a flow's packets behind the translation of their source.
    #[must_use]
    pub fn outward(&self, tuple: &Tuple) -> Tuple {
        let dst_port = if is_echo(tuple) { query_dst_port(self.port) } else { tuple.dst_port };
        Tuple { src: self.addr, src_port: self.port, dst_port, ..*tuple }
    }
}

/// The inside endpoint behind an outside one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The mapping.
    pub id: MappingId,
    /// Its pool.
    pub pool: PoolId,
    /// The inside address.
    pub addr: IpAddr,
    /// The inside port or echo identifier.
    pub port: u16,
}

impl Inside {
    /// The tuple of a packet from the outside behind the translation of its destination.
    #[must_use]
    pub fn inward(&self, tuple: &Tuple) -> Tuple {
        let dst_port = if has_ports(tuple.protocol) { self.port } else { tuple.dst_port };
        let src_port = if is_echo(tuple) { query_dst_port(dst_port) } else { tuple.src_port };
        Tuple { dst: self.addr, src_port, dst_port, ..*tuple }
    }
}

fn is_echo(tuple: &Tuple) -> bool {
    matches!(tuple.protocol, protocol::ICMP | protocol::ICMPV6)
}

/// Why a flow gets no mapping. Its packet is dropped, its source is told, and no mapping in use
/// ends for it. RFC 6888 REQ-11A, REQ-11D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The table has [`Limit::NatMappings`].
    Mappings,
    /// The source has [`Limit::NatPortsPerSource`].
    PortsPerSource,
    /// No port of the source's outside address is free.
    Ports,
    /// [`Limit::NatAddresses`] outside addresses have mappings, and the source's is none of them.
    Addresses,
    /// The pool is gone, or has no address of the packet's version now.
    Address,
}

impl Refused {
    /// The drop to count.
    pub const fn reason(self) -> DropReason {
        DropReason::NatNoPort
    }

    /// The limit whose hit was counted.
    pub const fn limit(self) -> Option<Limit> {
        match self {
            Refused::Mappings => Some(Limit::NatMappings),
            Refused::Addresses => Some(Limit::NatAddresses),
            Refused::PortsPerSource => Some(Limit::NatPortsPerSource),
            Refused::Ports | Refused::Address => None,
        }
    }
}

/// What the source of a refused packet is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceReport {
    /// Nothing.
    Nothing,
    /// As a rule that rejects says it: a RST, or an ICMP error "administratively prohibited".
    Rejected,
    /// An ICMP error "host unreachable": the flow found no port, or no place in a table. It may be
    /// over soon, and the error ends no connection (RFC 6888 REQ-11B, RFC 1122 section 4.2.3.9).
    Unreachable,
}

/// A block of ports, for one line of the log each when it begins and ends (RFC 7422; RFC 8158 has
/// the same for IPFIX). It names no remote address. RFC 6888 REQ-12, REQ-14.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEvent {
    /// Did the source get the block? Else it lost it.
    pub is_allocation: bool,
    /// When.
    pub at: Instant,
    /// The source.
    pub inside: IpAddr,
    /// The outside address.
    pub outside: IpAddr,
    /// The first and the last port of the block, for all protocols.
    pub ports: (u16, u16),
}

/// How much of a pool is in use, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUse {
    /// Inside addresses with mappings or blocks.
    pub sources: u32,
    /// Mappings, those included that are held.
    pub mappings: u32,
}

/// What a mapping table counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NatCounters {
    /// Mappings made.
    pub made: u64,
    /// Mappings whose port is the source's own one.
    pub kept: u64,
    /// Mappings that a source got back while its port was held for it.
    pub revived: u64,
    /// Held ports given to another source before their time, because no other one was free.
    pub early: u64,
    /// Flows refused for want of a port: [`Refused::Ports`].
    pub no_port: u64,
    /// Events of blocks that were lost because nobody fetched them.
    pub events_lost: u64,
}
