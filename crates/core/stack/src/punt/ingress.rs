//! Which received packets are punted: those that no part of the stack takes. They are checked as
//! far as the stack checks what it refuses, and then copied whole.
//!
//! Called by: `rx.rs`, `rx/unusual.rs` and `socket/udp/input.rs`, where a packet would be refused.
//! A datagram that came in fragments is punted once it is whole, because only then its ports are
//! known; its link header is made here. The other choice, to punt fragments, would need a second
//! table of them. Drops: `punt_rate`, `punt_routing_rate`, `punt_queue_full`, `mbuf_exhausted`.

use core::net::{IpAddr, SocketAddr};

use base::{Counter, DropReason, IpVersion, LinkKind, MacAddr};
use inet::flow::Addrs;
use inet::forward::{SuperSegment, finish_checksum};
use inet::group::is_link_scoped;
use inet::icmp::{self, Message, Quoted};
use inet::neighbour::group_mac;
use inet::{FlowKey, Ip};
use mbuf::{Flags, Mbuf};
use tcp::Fate;
use wire::tcp::Header;
use wire::{ether, icmpv6, protocol};

use super::class::{PuntClass, class_of, hears_broadcasts};
use super::queue::Punted;
use crate::for_us::{for_us, is_anycast};
use crate::groups;
use crate::handles::PortId;
use crate::port::LOOPBACK;
use crate::stack::Stack;

/// The source of a link header that is made here: no station has it.
const NOBODY: MacAddr = MacAddr([2, 0, 0, 0, 0, 0]);

/// Note which port the next frames came by, if they are processed as those of another port.
pub(crate) fn came_by(stack: &mut Stack, port: Option<u16>) {
    if let Some(punt) = &mut stack.punt {
        punt.came_by = port;
    }
}

/// Has the port that `m` came by a mirror?
fn has_mirror(stack: &Stack, m: &Mbuf) -> bool {
    let mirror = stack.punt.as_ref().and_then(|punt| punt.mirror(m.in_port()));
    mirror.is_some() && m.in_port() != LOOPBACK
}

/// Would a segment of no connection get a RST? Its header begins at `at`.
#[cold]
pub(crate) fn takes_segment<A: Addrs>(stack: &Stack, ip: &Ip<A>, m: &Mbuf, at: usize) -> bool {
    let segment = m.as_slice().get(at..).unwrap_or_default();
    let Ok(header) = Header::parse(segment) else { return false };
    if !has_mirror(stack, m) || m.has(Flags::LINK_GROUP) || is_anycast(stack, ip.dst(), m) {
        return false;
    }
    let key = ip.flow(Header::raw_ports(segment));
    stack.listeners.find(ip.dst(), header.dst_port).is_none()
        && stack.connections.time_wait(&key, &stack.core.secret).is_none()
        && for_us(stack, ip, m).is_ok()
}

/// Is a datagram to `dst`, which no socket takes, for an address of ours?
#[cold]
pub(crate) fn takes_datagram(stack: &Stack, m: &Mbuf, dst: IpAddr) -> bool {
    has_mirror(stack, m) && stack.ports.get(m.in_port()).is_some_and(|p| p.local.is_ours(dst))
}

/// Is a packet of a protocol that we do not have for a mirror? Its IP header begins at `at`.
#[cold]
pub(crate) fn takes_protocol<A: Addrs>(stack: &mut Stack, ip: &Ip<A>, m: &Mbuf, at: usize) -> bool {
    has_mirror(stack, m) && for_us(stack, ip, m).is_ok() || takes_group(stack, ip, m, at)
}

/// Is a packet to a group or a broadcast address for a mirror? Its IP header begins at `at`.
#[cold]
pub(crate) fn takes_group<A: Addrs>(stack: &mut Stack, ip: &Ip<A>, m: &Mbuf, at: usize) -> bool {
    let Some(punt) = stack.punt.as_ref().filter(|_| has_mirror(stack, m)) else { return false };
    let Some(port) = stack.ports.get(m.in_port()) else { return false };
    let (src, dst, [src_port, dst_port]) = (ip.src(), ip.dst(), ports(ip, m, at));
    let is_udp = ip.protocol == protocol::UDP;
    let is_named = is_udp && punt.config.ports.contains(&dst_port);
    // A client of DHCP has no address yet.
    let may_send = port.local.may_send(src) || src.is_unspecified() && dst.is_ipv4();
    if !may_send {
        return false;
    }
    if !dst.is_multicast() {
        let is_for_daemons = is_named || is_udp && hears_broadcasts(dst_port);
        return is_for_daemons && port.local.is_group(dst) && !stack.udp.has_port(dst_port);
    }
    let is_ours = match ip.protocol {
        protocol::TCP | protocol::IGMP => true,
        protocol::ICMPV6 => m
            .as_slice()
            .get(at + ip.transport_at as usize)
            .is_none_or(|&kind| wire::mld::is_mld(kind) || icmpv6::is_neighbour_discovery(kind)),
        _ => false,
    };
    if is_ours || !(is_link_scoped(dst) || is_named) {
        return false;
    }
    let ends = (SocketAddr::new(src, src_port), SocketAddr::new(dst, dst_port));
    !is_udp || !groups::are_taken(stack, ends, m.in_port())
}

/// Is an ICMP message an error or an echo reply about a packet that we have not sent? Its IP header
/// begins at `at`.
#[cold]
pub(crate) fn takes_message<A: Addrs>(stack: &Stack, ip: &Ip<A>, m: &Mbuf, at: usize) -> bool {
    if !has_mirror(stack, m) || m.has(Flags::LINK_GROUP) || for_us(stack, ip, m).is_err() {
        return false;
    }
    let begin = at + ip.transport_at as usize;
    let message = m.as_slice().get(begin..begin + ip.transport_len as usize).unwrap_or_default();
    match icmp::icmp_input(ip, message) {
        Ok(Message::EchoReply { id, .. }) => stack.pings.sender(id).is_none(),
        Ok(Message::Error(_)) => {
            let packet = message.get(icmp::HEADER_LEN..).unwrap_or_default();
            let quoted = icmp::quoted(packet, IpVersion::of(&ip.src()));
            quoted.is_ok_and(|quoted| stack.has_address(quoted.src) && !is_of_ours(stack, &quoted))
        }
        _ => false,
    }
}

/// Has a connection or a socket of ours sent the packet that an ICMP error quotes?
fn is_of_ours(stack: &Stack, quoted: &Quoted<'_>) -> bool {
    match (quoted.protocol, quoted.ports()) {
        (protocol::TCP, Some((local, remote))) => {
            let key = FlowKey::new(quoted.src, local, quoted.dst, remote);
            stack.connections.lookup(&key, &stack.core.secret).is_some()
        }
        (protocol::UDP, Some((local, remote))) => {
            let local = SocketAddr::new(quoted.src, local);
            stack.udp.sender_of(local, SocketAddr::new(quoted.dst, remote)).is_some()
        }
        (protocol::ICMP | protocol::ICMPV6, _) => {
            let id = quoted.second_word().map(|word| (word >> 16) as u16);
            id.is_some_and(|id| stack.pings.sender(id).is_some())
        }
        _ => false,
    }
}

/// Source and destination port of a TCP segment or a UDP datagram, otherwise zeros.
fn ports<A: Addrs>(ip: &Ip<A>, m: &Mbuf, at: usize) -> [u16; 2] {
    let transport = m.as_slice().get(at + ip.transport_at as usize..).unwrap_or_default();
    match (ip.protocol, transport) {
        (protocol::TCP | protocol::UDP, &[a, b, c, d, ..]) => {
            [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
        }
        _ => [0; 2],
    }
}

/// Copy a message of IGMP or MLD, a router solicitation or advertisement, for the port's mirror;
/// its IP header begins at `at`. Returns whether a mirror gets it. A copy that is refused is
/// counted.
#[cold]
pub(crate) fn copy<A: Addrs>(stack: &mut Stack, ip: &Ip<A>, m: &Mbuf, at: usize) -> bool {
    let is_from_us = stack.ports.get(m.in_port()).is_none_or(|p| p.local.is_ours(ip.src()));
    if !has_mirror(stack, m) || is_from_us {
        return false;
    }
    let punted = enqueue(stack, ip, m, at, PuntClass::Routing);
    if let Err(reason) = punted {
        stack.core.drops.count(reason);
    }
    punted.is_ok()
}

/// Punt a packet, whose IP header begins at `at` in `m`.
///
/// # Errors
/// The reason to drop it.
#[cold]
pub(crate) fn take<A: Addrs>(stack: &mut Stack, ip: &Ip<A>, m: Mbuf, at: usize) -> Fate {
    let class = class_of(ip.protocol, ports(ip, &m, at));
    let punted = enqueue(stack, ip, &m, at, class);
    stack.core.cx.pool.free(m);
    punted
}

fn enqueue<A: Addrs>(stack: &mut Stack, ip: &Ip<A>, m: &Mbuf, at: usize, class: PuntClass) -> Fate {
    let Some(punt) = &mut stack.punt else { return Err(DropReason::PuntNoMirror) };
    let in_port = punt.mirror(m.in_port()).ok_or(DropReason::PuntNoMirror)?;
    let (bucket, rate, reason) = match class {
        PuntClass::Routing => {
            (&mut punt.routing, punt.config.routing_rate, DropReason::PuntRoutingRate)
        }
        PuntClass::Other => (&mut punt.other, punt.config.rate, DropReason::PuntRate),
    };
    if !bucket.admits(rate, stack.core.cx.now) {
        return Err(reason);
    }
    let port = stack.ports.get(in_port).ok_or(DropReason::TxNoPort)?;
    let mut made = [0; ether::HEADER_LEN];
    let link = match port.limits.link {
        LinkKind::Ip => &[][..],
        LinkKind::Ethernet if at == ether::HEADER_LEN && port.macs.is_empty() => {
            &m.as_slice()[..at]
        }
        LinkKind::Ethernet if at == ether::HEADER_LEN => {
            made.copy_from_slice(&m.as_slice()[..at]);
            if !m.has(Flags::LINK_GROUP) {
                // The interface with this link address has the address there.
                made[..6].copy_from_slice(&port.mac_of(ip.dst()).0);
            }
            &made[..]
        }
        LinkKind::Ethernet => {
            let dst = ip.dst();
            let group = m.has(Flags::LINK_GROUP).then(|| group_mac(dst));
            let dst_mac = group.map_or(port.mac_of(dst), |mac| mac.unwrap_or(MacAddr::BROADCAST));
            let ethertype = if dst.is_ipv4() { ether::IPV4 } else { ether::IPV6 };
            ether::Header { dst: dst_mac, src: NOBODY, ethertype }.emit(&mut made);
            &made[..]
        }
    };
    let packet = m.as_slice().get(at..).unwrap_or_default();
    let whole = (m.segment_size() != 0).then(|| SuperSegment::new(packet, m.segment_size()));
    let Some(whole) = whole else {
        return one(stack, (in_port, class), link, packet, m.has(Flags::CSUM_PARTIAL));
    };
    let whole = whole.ok_or(DropReason::IpSuperSegment)?;
    for number in 0..whole.count() {
        let (len, cx) = (whole.len_of(number), &mut stack.core.cx);
        let ladder = cx.ladder;
        let piece = cx.pool.alloc_filled(len, len, |to| whole.write(number, ladder, to));
        let (piece, ()) = piece.ok_or(DropReason::MbufExhausted)?;
        let queued = one(stack, (in_port, class), link, piece.as_slice(), false);
        stack.core.cx.pool.free(piece);
        queued?;
    }
    Ok(())
}

/// Put one frame into the queue.
fn one(
    stack: &mut Stack,
    (port, class): (u16, PuntClass),
    link: &[u8],
    packet: &[u8],
    is_partial: bool,
) -> Fate {
    let core = &mut stack.core;
    let mut frame = core.cx.pool.copy_of(packet).ok_or(DropReason::MbufExhausted)?;
    if is_partial && let Some(packet) = frame.as_mut_slice() {
        finish_checksum(packet, core.cx.ladder);
    }
    frame.prepend(link.len()).ok_or(DropReason::MbufExhausted)?.copy_from_slice(link);
    let Some(punt) = &mut stack.punt else { return Err(DropReason::PuntNoMirror) };
    let punted = Punted { port: PortId(port), class, frame };
    punt.queue.push(punted, punt.config.queue, core)?;
    let counter = match class {
        PuntClass::Routing => Counter::PuntedRouting,
        PuntClass::Other => Counter::PuntedOther,
    };
    core.cx.counters.add(counter, 1);
    Ok(())
}
