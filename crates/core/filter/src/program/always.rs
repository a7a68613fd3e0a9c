//! Packets that pass before any rule, as far as a packet by itself shows it: without them a link
//! has no neighbours, no routers and no groups.
//!
//! Called by: the stack, before it asks the program; `show filter` and docs/filter.md, for the
//! list. All of them are between the router and its links; none is forwarded. The protocols check
//! hop limits and addresses themselves. RFC 4890 section 4.4.1, RFC 3376 section 4.

use core::net::IpAddr;

use wire::protocol::{ICMPV6, IGMP};

use crate::packet::{Packet, ROUTER};

/// A kind of packet that passes before any rule.
#[derive(Clone, Copy, Debug)]
pub struct Always {
    /// What it is, for people.
    pub what: &'static str,
    /// Why it must pass.
    pub source: &'static str,
    is: fn(&Packet) -> bool,
}

/// Every kind that a packet by itself shows.
///
/// Others pass for reasons that the stack knows: ARP, which is no IP packet; DHCP of a port whose
/// client runs; ICMP errors that quote a packet of a state (RFC 4890 sections 4.3.1 and 4.4.1).
pub const ALWAYS: &[Always] = &[
    // RFC 4890 4.4.1-a.
    Always {
        what: "neighbour discovery: solicitations and advertisements of routers and neighbours",
        source: "RFC 4890 section 4.4.1",
        is: |packet| matches!(icmpv6(packet), Some(133..=136)),
    },
    // RFC 4890 4.4.1-b.
    Always {
        what: "MLD: queries, reports, done",
        source: "RFC 4890 section 4.4.1",
        is: |packet| matches!(icmpv6(packet), Some(130..=132 | 143)),
    },
    Always {
        what: "IGMP",
        source: "RFC 3376 section 4: what MLD is for IPv6",
        is: |packet| packet.tuple.protocol == IGMP && packet.tuple.src.is_ipv4(),
    },
];

/// The type of an ICMPv6 message whose sender is on the link: its source is a link-local address,
/// or unspecified while addresses are checked; neighbours also have others.
fn icmpv6(packet: &Packet) -> Option<u8> {
    let (kind, code) = packet.icmp?;
    let is_v6 = packet.tuple.protocol == ICMPV6 && packet.tuple.src.is_ipv6();
    let IpAddr::V6(src) = packet.tuple.src else { return None };
    let is_of_link = src.is_unicast_link_local() || src.is_unspecified();
    // Neighbours are found and answer by global addresses too (RFC 4861 section 7.2.2).
    let is_found = matches!(kind, 135 | 136);
    (is_v6 && code == 0 && (is_of_link || is_found)).then_some(kind)
}

/// Does the packet pass before any rule? It is from or for the router itself. RFC 4890 4.3.3-a,
/// 4.4.4-a.
#[must_use]
pub fn passes_always(packet: &Packet) -> bool {
    let is_own = packet.in_port == ROUTER || packet.out_port == ROUTER;
    is_own && ALWAYS.iter().any(|kind| (kind.is)(packet))
}
