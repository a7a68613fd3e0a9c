//! Forwarding packet by packet: one that is not for this host goes to its next hop, or is dropped
//! with a named reason and reported to its source.
//!
//! Called by: `ingress.rs`, so that a host pays nothing for it. `burst.rs` does the same for plain
//! packets, faster; tests compare it with this file. Never forwarded are packets that came by a
//! link-level broadcast or multicast, source-routed or link-local packets, limited broadcasts and,
//! unless switched on, directed ones. RFC 1812 sections 4.3, 5.2 and 5.3, RFC 2644, RFC 8200
//! section 5. Counter: `forwarded`. Limit: `icmp_errors_per_second`.

mod elsewhere;
pub(super) mod offloads;
mod redirect_out;
mod source;

use core::net::IpAddr;

use base::{Counter, DropReason, IpVersion, LinkKind, MacAddr, Mtu};
use device::vlan::{self, Tag};
use elsewhere::Elsewhere;
use inet::ether::{Carries, ether_input};
use inet::forward::{self as transit, Piece, Transit};
use inet::icmp::{Report, Unreachable};
use inet::route::SourceCheck;
use inet::{NextHop, NoRoute, Sender, Vrf};
use mbuf::{Flags, Mbuf};
use offloads::Offload;
use tcp::Fate;
use wire::ether;

use super::firewall::{self, Arrived};
use crate::for_us::offer;
use crate::handles::PortId;
use crate::next_hop::no_route;
use crate::port::Port;
use crate::shard::homes::{self, Step};
use crate::stack::Stack;
use crate::{icmp, pace, resolve, shard, vrf};
use filter::firewall::{Arrival, Change, Flow};
use filter::states::Datagram;

/// The port that frames came by.
#[derive(Clone, Copy)]
pub(super) struct Ingress {
    pub(super) port: u16,
    pub(super) link: (LinkKind, MacAddr),
    /// They may be forwarded together.
    pub(super) in_bursts: bool,
    /// The frames have this tag of the port's.
    pub(super) tag: Option<Tag>,
    /// The check that their sources have to pass.
    pub(super) check: SourceCheck,
    /// The VRF of the port.
    pub(super) vrf: Vrf,
}

/// Forward one frame. It is returned if it is for the host's path, which also names what is wrong
/// with a bad frame.
pub(super) fn take(
    stack: &mut Stack,
    port_id: u16,
    (link, mac): (LinkKind, MacAddr),
    mut m: Mbuf,
) -> Option<Mbuf> {
    let at = link.header_len();
    if link == LinkKind::Ethernet && !is_to_us(stack, mac, &mut m) {
        return admitted(stack, port_id, m);
    }
    if stack.firewall.is_none() {
        return routed(stack, port_id, (at, Step::First), m, None);
    }
    if stack.ports.get(port_id).is_some_and(|port| port.offers.is_some())
        && is_offer(stack, port_id, &m, at)
    {
        return Some(m);
    }
    let first = firewall::awaited(stack, &m, at);
    let step = elsewhere::step(stack, &m);
    m.set_in_port(port_id);
    let left = match elsewhere::arrive(stack, port_id, &m, (at, step)) {
        Ok((_, Some(Elsewhere { to, is_directed }))) => {
            homes::hand(stack, port_id, m, to, is_directed);
            None
        }
        Ok((Some(Arrival::Early(datagram)), None)) => {
            let (cx, drops) = (&mut stack.core.cx, &mut stack.core.drops);
            let kept = (&mut cx.budget, drops, &mut cx.pool);
            stack.forwarding.held.hold(datagram, m, cx.now, kept);
            None
        }
        Ok((arrived, None)) => routed(stack, port_id, (at, step), m, arrived),
        Err(reason) => {
            stack.core.drops.count(reason);
            stack.core.cx.pool.free(m);
            None
        }
    };
    if let Some(datagram) = first {
        release(stack, &datagram);
    }
    left
}

/// The first fragment of a datagram was judged: those that came before it follow.
#[cold]
fn release(stack: &mut Stack, datagram: &Datagram) {
    for m in stack.forwarding.held.take(datagram) {
        let port_id = m.in_port();
        let Some(port) = stack.ports.get(port_id) else { continue };
        let link = (port.limits.link, port.mac);
        if let Some(m) = take(stack, port_id, link, m) {
            stack.forwarding.to_host.push(m);
        }
    }
}

/// [`take`] for a packet that the firewall has passed, as one of `flow` or without a state.
pub(super) fn take_passed(
    stack: &mut Stack,
    port_id: u16,
    (link, _): (LinkKind, MacAddr),
    m: Mbuf,
    flow: Option<&Flow>,
) -> Option<Mbuf> {
    let arrival = stack.firewall.as_ref().map(|firewall| match flow {
        Some(flow) => Arrival::Known(firewall.known_flow(flow)),
        None => Arrival::Passes,
    });
    routed(stack, port_id, (link.header_len(), Step::Last), m, arrival)
}

/// A frame that is not sent to us alone: rules are asked if it carries a packet to a group.
fn admitted(stack: &mut Stack, port_id: u16, mut m: Mbuf) -> Option<Mbuf> {
    if stack.firewall.is_none() {
        return Some(m);
    }
    let found = stack.ports.get(port_id).map(|port| ether_input(m.as_slice(), port.mac));
    if let Some(Ok((Carries::Ipv4 | Carries::Ipv6, true))) = found
        && !is_offer(stack, port_id, &m, LinkKind::Ethernet.header_len())
        && let Err(reason) =
            firewall::admits_group(stack, port_id, &mut m, LinkKind::Ethernet.header_len())
    {
        stack.core.drops.count(reason);
        stack.core.cx.pool.free(m);
        return None;
    }
    Some(m)
}

/// Forward a frame whose packet, which begins at `at`, the firewall has seen.
fn routed(
    stack: &mut Stack,
    port_id: u16,
    (at, step): (usize, Step),
    mut m: Mbuf,
    arrived: Arrived,
) -> Option<Mbuf> {
    let destination = m.as_slice().get(at..).and_then(transit::destination);
    let (Some(dst), Some(port)) = (destination, stack.ports.get(port_id)) else { return Some(m) };
    let dst = arrived.as_ref().and_then(Arrival::routed_to).unwrap_or(dst);
    let has = |port: &Port| port.local.is_ours(dst) || port.local.is_anycast(dst);
    let is_for_host = has(port) || port.local.is_group(dst);
    let vrf = port.vrf;
    let elsewhere = || {
        let in_vrf = stack.ports.iter().find(|port| port.vrf == vrf && has(port));
        in_vrf.map(|port| port.id)
    };
    let is_for_host = is_for_host || stack.listeners.takes_anything();
    let elsewhere = if is_for_host { None } else { elsewhere() };
    let packet = m.as_slice().get(at..).unwrap_or_default();
    let elsewhere = match elsewhere {
        None if !is_for_host && stack.ports.has_vrfs() => leaked(stack, port_id, packet, dst),
        found => found,
    };
    if port.offers.is_some() && is_offer(stack, port_id, &m, at) {
        return Some(m);
    }
    if (is_for_host || elsewhere.is_some()) && !source::admits_to_host(stack, port_id, packet, dst)
    {
        stack.core.drops.count(DropReason::IpSourceCheck);
        stack.core.cx.pool.free(m);
        return None;
    }
    if is_for_host || elsewhere.is_some() {
        m.set_in_port(port_id);
        if let Some(to) = elsewhere::of_host(stack, &m, step, &arrived) {
            homes::hand(stack, port_id, m, to, false);
            return None;
        }
        if let Err(reason) = firewall::admits_to_host(stack, &mut m, at, &arrived) {
            stack.core.drops.count(reason);
            stack.core.cx.pool.free(m);
            return None;
        }
    }
    if is_for_host {
        return Some(m);
    }
    m.set_in_port(port_id);
    let fate = match elsewhere {
        // A router takes packets to any address of its own by any port: RFC 1812 section 5.2.3.
        Some(port) if !is_link_local(dst) => {
            let packet = m.as_slice().get(at..).unwrap_or_default();
            let is_of_the_link = dst.is_ipv6() && transit::is_neighbour_discovery(packet);
            // With rules it was handed over before.
            let may_be_foreign = !is_of_the_link && stack.firewall.is_none();
            if may_be_foreign && shard::is_foreign(stack, port_id, m.as_slice()) {
                return Some(m);
            }
            m.set_in_port(port.0);
            if is_of_the_link {
                Err(DropReason::NdNotForUs)
            } else {
                stack.forwarding.to_host.push(m);
                Ok(())
            }
        }
        _ => forward(stack, m, (at, step), &arrived),
    };
    if let Err(reason) = fate {
        stack.core.drops.count(reason);
    }
    None
}

/// The port of another VRF that has the destination of a packet, if a route leads there.
#[cold]
fn leaked(stack: &Stack, port_id: u16, packet: &[u8], dst: IpAddr) -> Option<PortId> {
    let vrf = stack.ports.vrf(port_id);
    let sender = Sender::Transit { in_port: port_id, vrf };
    let hop = stack.routes.lookup(dst, transit::source(packet), sender).ok()?;
    vrf::leaked(stack, dst, hop.port, vrf)
}

/// Is it a packet, and sent to us on the link? No other is forwarded. A priority tag is removed.
/// RFC 1812 5.3.4-a.
fn is_to_us(stack: &mut Stack, mac: MacAddr, m: &mut Mbuf) -> bool {
    let mut found = ether_input(m.as_slice(), mac);
    if found == Err(DropReason::EtherTypeUnknown)
        && vlan::strip_priority(m, &mut stack.core.cx.pool)
    {
        found = ether_input(m.as_slice(), mac);
    }
    matches!(found, Ok((Carries::Ipv4 | Carries::Ipv6, false)))
}

/// Does the port's DHCP client wait for this packet?
#[cold]
fn is_offer(stack: &Stack, port_id: u16, m: &Mbuf, at: usize) -> bool {
    let packet = m.as_slice().get(at..).unwrap_or_default();
    let ip = inet::ip_input::ipv4_plain(packet);
    ip.is_some_and(|ip| {
        let udp = packet.get(ip.transport_at as usize..).unwrap_or_default();
        offer(stack, &ip, port_id, udp).is_some()
    })
}

fn is_link_local(addr: IpAddr) -> bool {
    matches!(addr, IpAddr::V6(addr) if addr.is_unicast_link_local())
}

/// Send a packet, whose IP header begins at `at` in `m`, to its next hop.
fn forward(stack: &mut Stack, m: Mbuf, (at, step): (usize, Step), arrived: &Arrived) -> Fate {
    let packet = m.as_slice().get(at..).unwrap_or_default();
    let found = transit::examine(packet);
    if found == Err(DropReason::IpLinkLocal) {
        beyond_scope(stack, &m, packet);
    }
    let transit = found?;
    let packet = packet.get(..transit.len).unwrap_or_default();
    let may_send = |port: &Port| port.local.may_send(transit.src);
    let vrf = stack.ports.vrf(m.in_port());
    if !stack.ports.get(m.in_port()).is_some_and(may_send)
        || stack.has_address_in(transit.src, vrf)
        || transit.src == transit.dst
    {
        return Err(DropReason::IpMartianSource);
    }
    // RFC 1812 5.3.5.2-a.
    let dst = firewall::routed_to(arrived, &transit);
    admits_broadcast(stack, dst, |port| port.vrf == vrf)?;
    let sender = Sender::Transit { in_port: m.in_port(), vrf };
    let found = stack.routes.lookup_flow(dst, Some(transit.src), transit.flow, sender);
    // Checked before anything is reported: no report goes to a forged source.
    let to_port = found.as_ref().map_or(u16::MAX, |hop| hop.port);
    if !source::admits(stack, m.in_port(), &transit, to_port) {
        let answers = Sender::Transit { in_port: to_port, vrf };
        if stack.routes.needs_rib(transit.src, Some(dst), answers) {
            return shard::to_first(stack, m).then_some(()).ok_or(DropReason::IpSourceCheck);
        }
        return Err(DropReason::IpSourceCheck);
    }
    // RFC 4443 3.3-a, RFC 5508 7.2-a.
    if transit.hops <= 1 {
        report(stack, &m, packet, &transit, Report::HopLimit);
        return Err(DropReason::IpHopLimit);
    }
    let hop = match found {
        Ok(hop) => hop,
        Err(_) if stack.routes.needs_rib(dst, Some(transit.src), sender) => {
            return shard::to_first(stack, m).then_some(()).ok_or(DropReason::IpNoRoute);
        }
        Err(why) => {
            // RFC 1812 5.2.7.1-a, RFC 4443 3.1-b.
            if let Some(what) = said(why, dst) {
                report(stack, &m, packet, &transit, Report::Unreachable(what));
            }
            return Err(no_route(why));
        }
    };
    let Some(m) = elsewhere::kept(stack, m, arrived, step, hop.port) else { return Ok(()) };
    let change = match arrived {
        Some(arrival) => firewall::decided(stack, &m, at, arrival, hop.port)?,
        None => Change::None,
    };
    let packet = m.as_slice().get(at..at + transit.len).unwrap_or_default();
    let longest = offloads::longest(&m, packet)?;
    let port = stack.ports.get(hop.port).ok_or(DropReason::TxNoPort)?;
    if port.gone {
        return Err(DropReason::DeviceLinkDown);
    }
    // A route may lead to a network of another VRF, whose broadcast addresses are others.
    admits_broadcast(stack, dst, |port| port.id.0 == hop.port)?;
    let mtu = stack.neighbour_mtus.of_hop(&stack.ports, &hop).ok_or(DropReason::TxNoPort)?;
    // RFC 4443 3.2-a, RFC 4787 REQ-13, RFC 5508 7.1.1-a.
    if longest > mtu.bytes() && !transit.may_fragment {
        report(stack, &m, packet, &transit, Report::TooBig(mtu.bytes()));
        return Err(DropReason::IpTooBig);
    }
    let found = resolve::link_address(stack, hop.port, hop.neighbour, dst)?;
    // A host behind a translated address has no other way to it.
    let is_translated = change != Change::None;
    if hop.port == m.in_port() && stack.forwarding.sends_redirects() && !is_translated {
        redirect(stack, &m, packet, &transit, &hop);
    }
    let egress = Egress { port: hop.port, neighbour: hop.neighbour, mac: found };
    send(stack, m, at, &transit, (dst, &change), mtu, &egress)
}

/// Is a packet to `dst` forwarded, if that is the broadcast address of a network of some ports?
fn admits_broadcast(stack: &Stack, dst: IpAddr, is_one: impl Fn(&Port) -> bool) -> Fate {
    let IpAddr::V4(dst) = dst else { return Ok(()) };
    let is_directed = |port: &Port| is_one(port) && port.local.is_broadcast(dst);
    match !stack.forwarding.directed_broadcasts && stack.ports.iter().any(is_directed) {
        true => Err(DropReason::IpDirectedBroadcast),
        false => Ok(()),
    }
}

/// Tell the source of a packet that goes back by its own port about the next hop.
#[cold]
fn redirect(stack: &mut Stack, m: &Mbuf, packet: &[u8], transit: &Transit, hop: &NextHop) {
    let first = offloads::first(stack, m, packet);
    let packet = first.as_ref().map_or(packet, Mbuf::as_slice);
    redirect_out::output(stack, m, packet, transit, hop);
    stack.core.cx.pool.free_all(first.into_iter());
}

/// The error for the source of a packet without a route, as of Linux: for IPv6 an unreachable
/// destination is one without a route.
fn said(why: NoRoute, dst: IpAddr) -> Option<Unreachable> {
    match why {
        NoRoute::Unreachable if dst.is_ipv6() => Some(Unreachable::Net),
        NoRoute::None => Some(Unreachable::Net),
        NoRoute::Unreachable => Some(Unreachable::Host),
        NoRoute::Prohibit => Some(Unreachable::Prohibited),
        NoRoute::Blackhole => None,
    }
}

/// Where a packet goes.
pub(super) struct Egress {
    port: u16,
    neighbour: IpAddr,
    /// `None` while it is resolved.
    mac: Option<MacAddr>,
}

fn send(
    stack: &mut Stack,
    mut m: Mbuf,
    at: usize,
    transit: &Transit,
    (dst, change): (IpAddr, &Change),
    mtu: Mtu,
    egress: &Egress,
) -> Fate {
    let in_port = m.in_port();
    m.keep(at, transit.len);
    if *change != Change::None {
        firewall::apply(stack, &mut m, 0, change)?;
    }
    match Offload::of(stack, &m, (egress.port, dst), mtu)? {
        Offload::Cut => {
            offloads::cut(stack, &m, mtu, egress)?;
            stack.core.cx.pool.free(m);
        }
        offload => send_whole(stack, m, offload, mtu, egress)?,
    }
    stack.core.cx.counters.add(Counter::Forwarded, 1);
    if let Some(port) = stack.ports.get_mut(in_port) {
        port.forwarded.packets_in += 1;
    }
    if let Some(port) = stack.ports.get_mut(egress.port) {
        port.forwarded.packets_out += 1;
    }
    Ok(())
}

/// Send a packet that is not cut.
fn send_whole(stack: &mut Stack, mut m: Mbuf, offload: Offload, mtu: Mtu, egress: &Egress) -> Fate {
    let port = stack.ports.get(egress.port).ok_or(DropReason::TxNoPort)?;
    let link_len = port.limits.link.header_len();
    if !m.is_exclusive() || m.headroom() < link_len {
        let mut copy = stack.core.cx.pool.copy_of(m.as_slice()).ok_or(DropReason::MbufExhausted)?;
        copy.set(if m.has(Flags::CSUM_PARTIAL) { Flags::CSUM_PARTIAL } else { 0 });
        copy.set_segment_size(m.segment_size());
        copy.set_in_port(m.in_port());
        m = copy;
    }
    m.clear(Flags::CSUM_VERIFIED | Flags::SUMMED);
    let ladder = stack.core.cx.ladder;
    match offload {
        Offload::Leave(at) => m.set_csum(at + link_len as u16),
        _ => m.clear(Flags::CSUM_PARTIAL),
    }
    let packet = m.as_mut_slice().ok_or(DropReason::MbufExhausted)?;
    if offload == Offload::Finish {
        transit::finish_checksum(packet, ladder);
    }
    if !transit::hop(packet) {
        return Err(DropReason::IpHopLimit);
    }
    if m.segment_size() != 0 {
        put(stack, m, egress)?;
        stack.core.cx.counters.add(Counter::SuperSegmentsForwarded, 1);
        return Ok(());
    }
    put_or_fragment(stack, m, mtu, egress)
}

/// Send a packet that is finished except for its link header, in fragments if it is larger than its
/// path. RFC 4787 REQ-13a, 10-a, RFC 5508 7.1.1-b.
pub(super) fn put_or_fragment(stack: &mut Stack, m: Mbuf, mtu: Mtu, egress: &Egress) -> Fate {
    if m.len() <= mtu.bytes() {
        return put(stack, m, egress);
    }
    let mut begin = 0;
    while let Some(piece) = Piece::at(m.as_slice(), begin, mtu) {
        let pool = &mut stack.core.cx.pool;
        let len = piece.header().len() + piece.data.len();
        let mut part = pool.alloc(len).ok_or(DropReason::MbufExhausted)?;
        part.append(piece.header());
        part.append(piece.data);
        part.set_in_port(m.in_port());
        begin += piece.data.len();
        put(stack, part, egress)?;
        stack.core.cx.counters.add(Counter::FragmentsOut, 1);
    }
    stack.core.cx.counters.add(Counter::DatagramsFragmented, 1);
    stack.core.cx.pool.free(m);
    Ok(())
}

/// Send a finished packet to its next hop, or queue it for a neighbour that is being resolved.
fn put(stack: &mut Stack, mut m: Mbuf, egress: &Egress) -> Fate {
    let port = stack.ports.get(egress.port).ok_or(DropReason::TxNoPort)?;
    if port.limits.link == LinkKind::Ethernet {
        let is_v6 = m.as_slice().first().is_some_and(|b| b >> 4 == 6);
        let ethertype = if is_v6 { ether::IPV6 } else { ether::IPV4 };
        let header = m.prepend(ether::HEADER_LEN).ok_or(DropReason::IpTooBig)?;
        let dst = egress.mac.unwrap_or_default();
        ether::Header { dst, src: port.mac, ethertype }.emit(header);
    }
    if egress.mac.is_some() {
        pace::put(stack, egress.port, m);
        return Ok(());
    }
    let key = (egress.port, egress.neighbour);
    if let Err(lost) = stack.neighbours.enqueue(key, m, &mut stack.core.cx.budget) {
        stack.core.drops.count(DropReason::NeighbourQueueFull);
        stack.core.cx.pool.free(lost);
    }
    Ok(())
}

/// Send an ICMP error to the source of a packet, from an address of the port that it came by.
/// RFC 1812 4.3.2.7-a, RFC 5508 REQ-10a, REQ-10e.
#[cold]
pub(super) fn report(stack: &mut Stack, m: &Mbuf, packet: &[u8], transit: &Transit, what: Report) {
    if !transit.may_report {
        return;
    }
    let version = IpVersion::of(&transit.src);
    let usable = |addr: &IpAddr| IpVersion::of(addr) == version && !is_link_local(*addr);
    let of = |port: &Port| {
        port.addresses.iter().filter(|a| a.is_usable()).map(inet::Address::ip).find(usable)
    };
    let near = stack.ports.get(m.in_port()).and_then(of);
    // A port without an address uses that of another port: RFC 1812 section 4.3.2.4.
    let vrf = stack.ports.vrf(m.in_port());
    let far = || stack.ports.iter().filter(|port| port.vrf == vrf).find_map(of);
    let Some(from) = near.or_else(far) else { return };
    let first = offloads::first(stack, m, packet);
    let packet = first.as_ref().map_or(packet, Mbuf::as_slice);
    icmp::report(stack, m, packet, (from, transit.src), what);
    stack.core.cx.pool.free_all(first.into_iter());
}

/// A packet from a link-local address that would leave its link: report to its source, from our
/// address on the link, that no answer could come back.
#[cold]
fn beyond_scope(stack: &mut Stack, m: &Mbuf, packet: &[u8]) {
    let Some(transit) = transit::beyond_scope(packet) else { return };
    let Some(port) = stack.ports.get(m.in_port()) else { return };
    let usable = port.addresses.iter().filter(|a| a.is_usable()).map(inet::Address::ip);
    let from = usable.filter(IpAddr::is_ipv6).max_by_key(|addr| is_link_local(*addr));
    if let Some(from) = from.filter(|_| port.local.may_send(transit.src)) {
        let packet = packet.get(..transit.len).unwrap_or_default();
        icmp::report(stack, m, packet, (from, transit.src), Report::BeyondScope);
    }
}

/// The next hop of a forwarded packet does not answer; `frame` is finished except for its link
/// address.
#[cold]
pub(crate) fn unreachable(stack: &mut Stack, frame: &Mbuf) {
    let as_it_came = firewall::as_it_came(stack, frame, ether::HEADER_LEN);
    let frame = as_it_came.as_ref().unwrap_or(frame);
    let packet = frame.as_slice().get(ether::HEADER_LEN..).unwrap_or_default();
    let Ok(transit) = transit::examine(packet) else { return };
    if stack.forwarding.on && !stack.has_address(transit.src) {
        report(stack, frame, packet, &transit, Report::Unreachable(Unreachable::Host));
    }
}
