//! Handles received neighbour discovery messages: it answers solicitations, learns from
//! advertisements, and passes messages of routers to `autoconf`.
//!
//! Called by: `rx.rs` for ICMPv6 messages of types 133 to 137. RFC 4861 sections 6.1, 7.1, 7.2 and
//! 8.1. Every message must have a hop limit of 255: no router has forwarded it.

use core::net::{IpAddr, Ipv6Addr};

use base::{Counter, DropReason, LinkKind};
use inet::flow::Addrs;
use inet::neighbour::{Learnt, group_mac};
use inet::{Ip, nd};
use mbuf::Mbuf;
use tcp::Fate;
use wire::icmpv6;
use wire::nd::{
    ADVERTISEMENT, Header, Kind, REDIRECT, ROUTER_ADVERTISEMENT, ROUTER_SOLICITATION, SOLICITATION,
};

use crate::port::Port;
use crate::stack::Stack;
use crate::{autoconf, foreign, neighbours, proxy, resolve};

/// Process a neighbour discovery message; `m` holds only the message.
#[cold]
pub(crate) fn input<A: Addrs>(stack: &mut Stack, ip: &Ip<A>, m: &Mbuf) -> Fate {
    let (IpAddr::V6(src), IpAddr::V6(dst)) = (ip.src(), ip.dst()) else {
        return Err(DropReason::IcmpMalformed);
    };
    let message = m.as_slice();
    icmpv6::Header::parse(message, src, dst)?;
    let port = stack.ports.get(m.in_port()).ok_or(DropReason::TxNoPort)?;
    if port.limits.link != LinkKind::Ethernet {
        return Err(DropReason::NdNoLinkAddress);
    }
    let asks = message.first() == Some(&SOLICITATION);
    let is_to_routers = stack.foreign.takes.newcomers && dst == autoconf::router::ALL_ROUTERS;
    if !(is_to_routers || port.takes_nd(dst, stack.forwarding.on) || asks && port.answer_all) {
        return Err(DropReason::IpNotForUs);
    }
    if port.local.is_ours(ip.src()) {
        return Err(DropReason::NdLooped);
    }
    let fate = match message.first() {
        Some(&(SOLICITATION | ADVERTISEMENT)) => neighbour(stack, ip, m, (src, dst)),
        Some(&ROUTER_ADVERTISEMENT) => autoconf::router::input(stack, ip, m),
        Some(&REDIRECT) => autoconf::nd_redirect::input(stack, ip, m),
        Some(&ROUTER_SOLICITATION) => foreign::newcomers::solicitation(stack, ip, m),
        _ => Err(DropReason::IcmpUnhandled),
    };
    // Messages of routers contain link addresses, too.
    neighbours::act(stack);
    fate
}

/// Process a neighbour solicitation or advertisement.
/// RFC 4861 7.2.5-a, 7.2.5-c.
fn neighbour<A: Addrs>(
    stack: &mut Stack,
    ip: &Ip<A>,
    m: &Mbuf,
    (src, dst): (Ipv6Addr, Ipv6Addr),
) -> Fate {
    let message = m.as_slice();
    let header = Header::parse(message)?;
    let key = (m.in_port(), IpAddr::V6(header.target));
    if stack.autoconf.dad.is_checking(key) {
        return autoconf::dad::input(stack, ip, m, header.target);
    }
    let port = stack.ports.get(m.in_port()).ok_or(DropReason::TxNoPort)?;
    let is_anycast = stack.forwarding.on && port.local.is_anycast(header.target.into());
    if is_anycast && matches!(header.kind, Kind::Advertisement { .. }) {
        // The advertisement is from another router that has the same anycast address.
        return Err(DropReason::NdUnsolicited);
    }
    let is_proxied = matches!(header.kind, Kind::Solicitation)
        && proxy::answers_for(stack, m.in_port(), src.into(), key.1);
    let is_ours = |ip| port.local.is_ours(ip) || (is_anycast || is_proxied) && ip == key.1;
    let heard = nd::nd_input(message, (src, dst, ip.ttl), is_ours)?;
    let learnt = match (header.kind, header.link_addr) {
        // An answer to a unicast solicitation may leave the link address out.
        (Kind::Advertisement { solicited: true, .. }, None) if !heard.conflict => {
            match stack.neighbours.confirm(key, stack.core.cx.now) {
                true => Learnt::Used,
                false => Learnt::Useless,
            }
        }
        _ => resolve::learn(stack, m.in_port(), &heard),
    };
    neighbours::act(stack);
    if stack.is_follower() {
        // This packet is a copy: the first shard answers, and counts useless messages.
        return Ok(());
    }
    if let Some(IpAddr::V6(ours)) = heard.asked {
        neighbours::may_answer(stack)?;
        advertise(stack, m.in_port(), ours, &heard)?;
        stack.core.cx.counters.add(Counter::NeighbourAdvertisements, 1);
    } else if heard.conflict {
        return Err(DropReason::NeighbourConflict);
    } else if learnt != Learnt::Used {
        return Err(neighbours::not_learnt(learnt, DropReason::NdUnsolicited));
    } else if matches!(header.kind, Kind::Advertisement { router: false, .. }) {
        autoconf::router::is_no_router(stack, key);
    }
    stack.core.cx.counters.add(Counter::NdIn, 1);
    Ok(())
}

/// Advertise `ours` to the sender of a solicitation, or to all nodes if the sender is `::` (RFC
/// 4861, 7.2.4).
/// RFC 4861 7.2.4-a.
fn advertise(stack: &mut Stack, port_id: u16, ours: Ipv6Addr, heard: &nd::Heard) -> Fate {
    let to = match heard.answer_to {
        Some(IpAddr::V6(asker)) => asker,
        _ => nd::ALL_NODES,
    };
    let dst = IpAddr::V6(to);
    let known = heard.news.map(|(_, mac, _)| mac).or_else(|| group_mac(dst));
    let port = stack.ports.get(port_id).ok_or(DropReason::TxNoPort)?;
    let (own, is_router) = (port.mac_of(ours.into()), stack.forwarding.on);
    let mut bytes = [0; wire::nd::LEN_MAX];
    // An anycast address of a router is advertised from a unicast address of the router.
    let is_near = |a: &&inet::Address| a.is_usable() && a.cidr.contains(ours.into());
    let near = port.addresses.iter().find(is_near).map(inet::Address::ip);
    let (src, len) = match near {
        Some(IpAddr::V6(near)) if port.local.is_anycast(ours.into()) => {
            (near, nd::anycast_advertisement(&mut bytes, own, (near, to), ours))
        }
        _ if port.local.is_ours(ours.into()) => {
            (ours, nd::advertisement(&mut bytes, (own, is_router), to, ours))
        }
        // In the name of another host, whose own advertisement is to count if there is one.
        // RFC 4861 section 7.2.8.
        _ => {
            let src = match inet::select::source(port.addresses.iter(), dst, dst) {
                Some(IpAddr::V6(src)) => src,
                _ => ours,
            };
            (src, nd::anycast_advertisement(&mut bytes, own, (src, to), ours))
        }
    };
    let len = len.unwrap_or(0);
    if let Some(mac) = known {
        return resolve::send_nd(stack, port_id, mac, (src.into(), dst), &bytes[..len]);
    }
    // The solicitation lacks its sender's link address, which has to be resolved first.
    resolve::send_nd_to(stack, port_id, (src.into(), dst), &bytes[..len])
}

impl Port {
    /// Does this host process neighbour discovery messages to `dst`?
    /// RFC 4291 2.7.1-a.
    fn takes_nd(&self, dst: Ipv6Addr, is_router: bool) -> bool {
        let is_to = |a: Ipv6Addr| a == dst || nd::solicited_node(a) == dst;
        let ours = |addr: IpAddr| matches!(addr, IpAddr::V6(a) if is_to(a));
        dst == nd::ALL_NODES
            || self.addresses.iter().any(|a| ours(a.ip()))
            || is_router && self.local.special_v6().any(is_to)
    }
}
