//! Redirects that a router sends: a packet that leaves by the port it came by has a better first
//! hop.
//!
//! Called by: `plain.rs`, before it sends such a packet on. Received ones are in
//! `stack/icmp_redirect.rs` and `autoconf/nd_redirect.rs`; a router follows none. RFC 1812 section
//! 5.2.7.2, RFC 4861 section 8.2. Limits: `icmp_errors_per_destination`, `icmp_errors_per_second`.
//! Counter: `redirects_out`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base::{Counter, DropReason, Owner};
use inet::forward::Transit;
use inet::icmp::Report;
use inet::{NextHop, Selector};
use mbuf::Mbuf;
use tcp::Fate;
use wire::{nd, protocol};

use crate::config::IpSettings;
use crate::next_hop::is_on_link;
use crate::port::Port;
use crate::stack::Stack;
use crate::{icmp, resolve};

/// If the source of a packet and its next hop are neighbours, tell the source.
/// RFC 1812 5.2.7.2-a, 5.2.7.2-b.
/// RFC 4861 8.2-a, 8.2-b.
#[cold]
pub(super) fn output(stack: &mut Stack, m: &Mbuf, packet: &[u8], transit: &Transit, hop: &NextHop) {
    let Some(port) = stack.ports.get(m.in_port()) else { return };
    if port.limits.link == base::LinkKind::Ip || !transit.may_report {
        return;
    }
    let is_sent = match (transit.src, hop.neighbour) {
        (IpAddr::V4(src), IpAddr::V4(gateway)) => match common(port, src, gateway) {
            Some(from) => {
                let addrs = (from, transit.src);
                icmp::report_from(stack, packet, m.in_port(), addrs, Report::Redirect(gateway))
            }
            None => false,
        },
        (IpAddr::V6(src), IpAddr::V6(target)) => {
            is_on_link(stack, hop.port, src.into())
                && output_v6(stack, packet, (src, transit.dst), target, hop).is_ok()
        }
        _ => false,
    };
    if is_sent {
        stack.core.cx.counters.add(Counter::RedirectsOut, 1);
    }
}

/// Our address in the network that both are in.
fn common(port: &Port, src: Ipv4Addr, gateway: Ipv4Addr) -> Option<IpAddr> {
    let has_both = |a: &&inet::Address| {
        let is_ours = a.is_usable() && a.implies_network();
        is_ours && a.cidr.contains(src.into()) && a.cidr.contains(gateway.into())
    };
    port.addresses.iter().find(has_both).map(inet::Address::ip)
}

/// A redirect from our link-local address, by which hosts know a router. It names the destination
/// itself, or a router, which must have a link-local address.
fn output_v6(
    stack: &mut Stack,
    packet: &[u8],
    (to, dst): (Ipv6Addr, IpAddr),
    target: Ipv6Addr,
    hop: &NextHop,
) -> Fate {
    let IpAddr::V6(destination) = dst else { return Err(DropReason::IcmpUnhandled) };
    let port = stack.ports.get(hop.port).ok_or(DropReason::TxNoPort)?;
    let link_local = |a: &inet::Address| match a.ip() {
        IpAddr::V6(ip) if a.is_usable() && ip.is_unicast_link_local() => Some(ip),
        _ => None,
    };
    let from = port.addresses.iter().find_map(link_local);
    let names_target = target == destination || target.is_unicast_link_local();
    let Some(from) = from.filter(|_| names_target) else {
        return Err(DropReason::IcmpUnhandled);
    };
    let now = stack.core.cx.now;
    if !stack.icmp_errors.admits(to.into(), &mut stack.core) {
        return Err(DropReason::IcmpRateLimited);
    }
    let usable = stack.neighbours.usable((hop.port, target.into()), now);
    let redirect = nd::Redirect { target, destination, link_addr: usable.map(|(mac, _)| mac) };
    let pool = &mut stack.core.cx.pool;
    let mut m = pool.alloc(nd::Redirect::LEN_MAX).ok_or(DropReason::MbufExhausted)?;
    let len = redirect.emit(m.tail_mut(), packet, from, to).ok_or(DropReason::MbufExhausted)?;
    m.extend(len);
    let addrs = [IpAddr::V6(from), IpAddr::V6(to)].map(|ip| SocketAddr::new(ip, 0));
    let by = Selector::of_vrf(stack.ports.vrf(hop.port));
    let settings = IpSettings { ttl: 255, ..IpSettings::by(by) };
    let (owner, protocol) = (Owner::program(), protocol::ICMPV6);
    let egress = resolve::route(stack, addrs[0], addrs[1], protocol, &owner, settings)?;
    resolve::send(stack, &egress, m)
}
