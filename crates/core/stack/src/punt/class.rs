//! The class of a punted packet: routing protocols have a rate of their own and go first, because a
//! router that loses their packets loses its routes.
//!
//! Called by: `ingress.rs`. The numbers are those of IANA's registries.

use wire::protocol;

/// The class of a punted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PuntClass {
    /// A routing protocol's, or one that routers find each other by: OSPF, EIGRP, PIM, VRRP, IGMP,
    /// MLD, BGP, MSDP, LDP, RIP, RIPng, BFD, HSRP, and messages of routers to hosts and back.
    Routing,
    /// Anything else.
    Other,
}

const EIGRP: u8 = 88;
const OSPF: u8 = 89;
const PIM: u8 = 103;
const VRRP: u8 = 112;
/// BGP, MSDP, LDP.
const TCP_PORTS: [u16; 3] = [179, 639, 646];
/// RIP, RIPng, LDP, HSRP, BFD: one hop, its echo function, several hops, seamless, of groups of
/// links.
const UDP_PORTS: [u16; 10] = [RIP, 521, 646, 1_985, 2_029, 3_784, 3_785, 4_784, 6_784, 7_784];
const RIP: u16 = 520;
const DHCP_SERVER: u16 = 67;

/// The class of a packet of `protocol`; the source and destination ports of TCP or UDP, otherwise
/// zeros.
pub(super) fn class_of(protocol: u8, ports: [u16; 2]) -> PuntClass {
    let is_routing = match protocol {
        protocol::IGMP | EIGRP | OSPF | PIM | VRRP => true,
        // The daemon may have begun the connection.
        protocol::TCP => ports.iter().any(|port| TCP_PORTS.contains(port)),
        protocol::UDP => UDP_PORTS.contains(&ports[1]),
        _ => false,
    };
    if is_routing { PuntClass::Routing } else { PuntClass::Other }
}

/// Are datagrams to this UDP port punted if they are broadcast? RIP version 1, BFD and LDP are for
/// routers, and clients of DHCP broadcast to servers.
pub(super) fn hears_broadcasts(port: u16) -> bool {
    port == DHCP_SERVER || UDP_PORTS.contains(&port)
}
