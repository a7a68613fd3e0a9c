//! Selects the source address of a packet, and the order in which to try a host's addresses.
//!
//! Called by: `stack/addresses.rs` for every socket that is bound to no address, and by programs
//! that have resolved a name. RFC 6724, with the policy table of its section 2.1. The choice of
//! IPv4 sources follows BSD and Linux: the address in whose network the next hop is.

use core::cmp::Ordering;
use core::net::{IpAddr, Ipv6Addr};

use crate::address::{Address, AddressState, Origin};

/// The scopes of RFC 4291 section 2.7 that occur, smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// This node, or this interface.
    InterfaceLocal,
    /// One link: an address has a meaning only together with a port.
    LinkLocal,
    /// One site.
    SiteLocal,
    /// One organization; only multicast addresses have this scope.
    OrganizationLocal,
    /// The whole Internet.
    Global,
}

/// The scope of an address, RFC 6724 section 3.1 and 3.2.
pub fn scope(ip: IpAddr) -> Scope {
    match ip {
        // IPv4's private addresses count as global.
        IpAddr::V4(a) if a.is_loopback() || a.is_link_local() => Scope::LinkLocal,
        IpAddr::V4(_) => Scope::Global,
        IpAddr::V6(a) if a.is_multicast() => match a.octets()[1] & 0xf {
            0 | 1 => Scope::InterfaceLocal,
            2 | 3 => Scope::LinkLocal,
            4..=7 => Scope::SiteLocal,
            8..=13 => Scope::OrganizationLocal,
            _ => Scope::Global,
        },
        IpAddr::V6(a) if a.is_unicast_link_local() || a == Ipv6Addr::LOCALHOST => Scope::LinkLocal,
        // fec0::/10, deprecated by RFC 3879.
        IpAddr::V6(a) if a.segments()[0] & 0xffc0 == 0xfec0 => Scope::SiteLocal,
        IpAddr::V6(a) => a.to_ipv4_mapped().map_or(Scope::Global, |a| scope(IpAddr::V4(a))),
    }
}

/// Is an address only meaningful on one link, so that its port has to be known?
#[inline]
pub fn is_link_scoped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(a) if a.is_unicast_link_local() || is_link_multicast(a))
}

fn is_link_multicast(ip: Ipv6Addr) -> bool {
    ip.is_multicast() && scope(IpAddr::V6(ip)) <= Scope::LinkLocal
}

/// A prefix, its length, its precedence, its label.
type Policy = (Ipv6Addr, u8, u8, u8);

/// The default policy table, RFC 6724 section 2.1; longest prefix first.
const POLICIES: [Policy; 9] = [
    (Ipv6Addr::LOCALHOST, 128, 50, 0),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, 35, 4),
    (Ipv6Addr::UNSPECIFIED, 96, 1, 3),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, 5, 5),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 30, 2),
    (Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16, 1, 12),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, 1, 11),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, 3, 13),
    (Ipv6Addr::UNSPECIFIED, 0, 40, 1),
];

/// An address in the form of the policy table: IPv4 as `::ffff:a.b.c.d`.
fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(a) => a.to_ipv6_mapped(),
        IpAddr::V6(a) => a,
    }
}

fn policy(ip: IpAddr) -> (u8, u8) {
    let ip = mapped(ip);
    let found = POLICIES.iter().find(|&&(prefix, len, ..)| common_prefix_len(prefix, ip) >= len);
    found.map_or((0, 0), |&(_, _, precedence, label)| (precedence, label))
}

/// CommonPrefixLen of RFC 6724 section 2.2, in bits, not limited by the source's prefix.
fn common_prefix_len(a: Ipv6Addr, b: Ipv6Addr) -> u8 {
    (a.to_bits() ^ b.to_bits()).leading_zeros() as u8
}

/// The source address for packets to `dst` by `next_hop`. `addresses` are those of the port by
/// which they leave. `None` if no address of the same version is usable.
pub fn source<'a>(
    addresses: impl Iterator<Item = &'a Address>,
    dst: IpAddr,
    next_hop: IpAddr,
) -> Option<IpAddr> {
    let same = |a: &&Address| a.is_usable() && a.ip().is_ipv4() == dst.is_ipv4();
    let candidates = addresses.filter(same);
    // Of equal addresses the first is chosen, in either version.
    let best = match dst {
        IpAddr::V4(_) => candidates.reduce(|a, b| if beats_v4(b, a, next_hop) { b } else { a }),
        IpAddr::V6(_) => candidates.reduce(|a, b| if beats_v6(b, a, dst) { b } else { a }),
    };
    best.map(Address::ip)
}

fn beats_v4(new: &Address, old: &Address, next_hop: IpAddr) -> bool {
    let rank = |a: &Address| (a.cidr.contains(next_hop), a.state == AddressState::Preferred);
    rank(new) > rank(old)
}

/// RFC 6724 section 5, the rules in their order. Rule 4 (home addresses) and rule 5.5 (the prefix
/// of the next hop) do not apply; rule 5 always holds, because all candidates are addresses of one
/// port.
/// RFC 6724 5-a, 5-b, 5-c, 5-d, 5-e, 5-f.
fn beats_v6(new: &Address, old: &Address, dst: IpAddr) -> bool {
    if new.ip() == dst || old.ip() == dst {
        return new.ip() == dst;
    }
    let (a, b, wanted) = (scope(new.ip()), scope(old.ip()), scope(dst));
    match a.cmp(&b) {
        // The smaller scope wins if it is large enough.
        Ordering::Less => return a >= wanted,
        Ordering::Greater => return b < wanted,
        Ordering::Equal => {}
    }
    let preferred = |a: &Address| a.state == AddressState::Preferred;
    if preferred(new) != preferred(old) {
        return preferred(new);
    }
    let label = policy(dst).1;
    let fits = |a: &Address| policy(a.ip()).1 == label;
    if fits(new) != fits(old) {
        return fits(new);
    }
    let temporary = |a: &Address| a.origin == Origin::Temporary;
    if temporary(new) != temporary(old) {
        return temporary(new);
    }
    let near = |a: &Address| common_prefix_len(mapped(a.ip()), mapped(dst)).min(a.cidr.prefix_len);
    near(new) > near(old)
}

/// Sort the addresses of a host so that the first is to be tried first, RFC 6724 section 6. The
/// second element of each pair is the source address of packets to it, or `None` if there is no
/// route. Equal addresses keep their order.
/// RFC 6724 6-a, 6-b, 6-c.
pub fn order_destinations(destinations: &mut [(IpAddr, Option<IpAddr>)]) {
    destinations.sort_by(compare_destinations);
}

/// `Less`: `a` is tried first.
fn compare_destinations(a: &(IpAddr, Option<IpAddr>), b: &(IpAddr, Option<IpAddr>)) -> Ordering {
    let (Some(a_src), Some(b_src)) = (a.1, b.1) else {
        // Rule 1: avoid unusable destinations.
        return b.1.is_some().cmp(&a.1.is_some());
    };
    let (a, b) = (a.0, b.0);
    let same_scope = |dst, src| scope(dst) == scope(src);
    let same_label = |dst, src| policy(dst).1 == policy(src).1;
    let near = |dst, src| match (dst, src) {
        (IpAddr::V6(dst), IpAddr::V6(src)) => common_prefix_len(dst, src).min(64),
        _ => 0,
    };
    // Rules 2, 5, 6, 8 and 9. Whether a source is deprecated (3), a home address (4) or that of a
    // tunnel (7) is not known here.
    same_scope(b, b_src)
        .cmp(&same_scope(a, a_src))
        .then_with(|| same_label(b, b_src).cmp(&same_label(a, a_src)))
        .then_with(|| policy(b).0.cmp(&policy(a).0))
        .then_with(|| scope(a).cmp(&scope(b)))
        .then_with(|| match a.is_ipv4() == b.is_ipv4() {
            true => near(b, b_src).cmp(&near(a, a_src)),
            false => Ordering::Equal,
        })
}

#[cfg(test)]
mod tests;
