//! Multicast groups as a host has them: which sources of which groups a port receives, and what is
//! reported of it by IGMP and MLD.
//!
//! Called by: `stack/groups`. `filter.rs` is what sockets want and how it is merged, `host.rs` the
//! state machine of one port and IP version, `changes.rs` what is still to be reported of a change,
//! `check.rs` which messages are believed, `output.rs` how messages are packed. RFC 1112, RFC 3376,
//! RFC 3810. Limits: `groups_per_port`, `sources_per_group`, `group_reports_per_second`.

mod changes;
pub mod check;
mod filter;
mod host;
mod output;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use filter::{Filter, Mode};
pub use host::{GroupRow, Host};
pub use output::{Message, PACKET_HEADERS_MAX, packet};

/// All hosts: each is a member for ever, and says so to nobody (RFC 1112 section 4).
pub const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// All routers of IPv4: where leave messages go.
pub const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// Routers that take reports of IGMPv3.
pub const IGMPV3_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
/// All routers of IPv6 on the link.
pub const ALL_ROUTERS_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// Routers that take reports of MLDv2.
pub const MLDV2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// Is every host a member of this group, without joining it? `224.0.0.1`, `ff01::1` and `ff02::1`.
/// RFC 1112 7.2-a.
pub fn is_all_nodes(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(a) => a == ALL_SYSTEMS,
        IpAddr::V6(a) => matches!(a.segments(), [0xff01 | 0xff02, 0, 0, 0, 0, 0, 0, 1]),
    }
}

/// Are members of this group reported to routers and switches? Not of all nodes, nor of groups that
/// stay within a host (scope 1) or have no scope (0).
/// RFC 3376 5-a, RFC 3810 6-a.
pub fn is_reported(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(a) => a != ALL_SYSTEMS,
        IpAddr::V6(a) => a.segments()[0] & 0xf > 1 && !is_all_nodes(group),
    }
}

/// Does a packet to this group stay on its link? Then it takes no part in routing: the sender has
/// to say which link (RFC 4291 section 2.7; RFC 5771 section 4).
pub fn is_link_scoped(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(a) => a.octets()[..3] == [224, 0, 0],
        IpAddr::V6(a) => a.is_multicast() && a.segments()[0] & 0xf <= 2,
    }
}
