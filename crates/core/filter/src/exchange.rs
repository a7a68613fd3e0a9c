//! What a rule of NAT makes of an address, without a mapping: the other side of networks that it
//! exchanges, and the destination behind `dest`.
//!
//! Called by: the firewall, `homes.rs`, and the explanation of a packet. RFC 6296.

use core::net::IpAddr;

use crate::nat::{OneToOne, Prefix};
use crate::packet::Tuple;
use crate::rules::Nat;

/// The inside address behind an outside one, by a rule that exchanges networks.
pub(crate) fn inbound(nat: &Nat, addr: IpAddr) -> Option<IpAddr> {
    match (nat, addr) {
        (Nat::Both { inside, outside }, _) => OneToOne::new(*inside, *outside).ok()?.inbound(addr),
        (Nat::Prefix { inside, outside }, IpAddr::V6(addr)) => {
            Prefix::new(*inside, *outside).ok()?.inbound(addr).map(IpAddr::V6)
        }
        _ => None,
    }
}

/// The outside address of an inside one, by a rule that exchanges networks.
pub(crate) fn outbound(nat: &Nat, addr: IpAddr) -> Option<IpAddr> {
    match (nat, addr) {
        (Nat::Both { inside, outside }, _) => OneToOne::new(*inside, *outside).ok()?.outbound(addr),
        (Nat::Prefix { inside, outside }, IpAddr::V6(addr)) => {
            Prefix::new(*inside, *outside).ok()?.outbound(addr).map(IpAddr::V6)
        }
        _ => None,
    }
}

/// The destination, with its port, that a rule of NAT gives to a packet from outside.
#[must_use]
pub fn redirected(nat: &Nat, tuple: &Tuple) -> Option<(IpAddr, u16)> {
    Some(match nat {
        Nat::Dest { addr, port } => {
            (*addr, port.map_or(tuple.dst_port, |ports| ports.map(tuple.dst_port)))
        }
        Nat::Both { .. } | Nat::Prefix { .. } => (inbound(nat, tuple.dst)?, tuple.dst_port),
        Nat::Source { .. } | Nat::Keep => return None,
    })
}
