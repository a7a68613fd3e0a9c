//! What the firewall knows of a packet: the flow that it is of, in its direction, and what rules
//! ask besides.
//!
//! Called by: every file of this crate.

use core::net::IpAddr;

/// A port number of the router itself: packets for its own addresses leave by it, packets that it
/// sends come by it.
pub const ROUTER: u16 = u16::MAX;

/// Both ends of a flow, in the direction of one packet.
///
/// A query of ICMP, such as an echo request, has its identifier as source port and the next number
/// ([`query_dst_port`]) as destination port. Its answer has the reversed tuple. Protocols without
/// ports have 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tuple {
    /// Source address.
    pub src: IpAddr,
    /// Destination address, of the same version.
    pub dst: IpAddr,
    /// Protocol behind the IP header and its extensions.
    pub protocol: u8,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

/// The destination port in the tuple of an ICMP query with this identifier. Two hosts that query
/// each other with one identifier have two flows: no query, whatever its identifier, has the
/// reversed tuple of another query.
#[must_use]
pub const fn query_dst_port(identifier: u16) -> u16 {
    identifier.wrapping_add(1)
}

impl Tuple {
    /// The tuple of an answer.
    #[must_use]
    pub fn reversed(self) -> Tuple {
        Tuple {
            src: self.dst,
            dst: self.src,
            src_port: self.dst_port,
            dst_port: self.src_port,
            ..self
        }
    }
}

/// The first packet of a flow, as rules see it: after its destination was translated and its route
/// found, before its source is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The flow.
    pub tuple: Tuple,
    /// The number of the port that it came by, or [`ROUTER`].
    pub in_port: u16,
    /// The number of the port that it leaves by, or [`ROUTER`].
    pub out_port: u16,
    /// Type and code of an ICMP or ICMPv6 message, which has no ports for rules.
    pub icmp: Option<(u8, u8)>,
    /// Flags of a TCP segment, as in its header; 0 for other protocols.
    pub tcp_flags: u8,
}
