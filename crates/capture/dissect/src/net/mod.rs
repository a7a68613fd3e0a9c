//! The network layer: IP of both versions, ARP, MPLS, and the protocols over IP other than those of
//! `transport`.
//!
//! Called by: `link`, and tunnels.

mod ah;
mod arp;
pub(crate) mod carrier;
mod demux;
mod gre;
mod icmp;
mod icmp6;
mod igmp;
mod ip;
mod ip6;
mod ip6_extensions;
mod mld;
mod mpls;
mod nd;
mod node_info;
mod redundancy;
mod routing;
mod rpl;

pub(crate) use arp::print as arp;
pub(crate) use demux::{esp, print as demux};
pub(crate) use ip::{either as ip_of_any_version, print as ip};
pub(crate) use ip6::print as ip6;
pub(crate) use mpls::print as mpls;
pub(crate) use redundancy::hsrp;
