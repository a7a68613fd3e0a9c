//! Handles received frames that are not plain TCP: VLAN tags, multicast and broadcast MAC
//! addresses, IPv4 options, IPv6 extension headers, fragments, other protocols. Also frames that
//! reached a router on one port for its address on another port, and frames that we sent to
//! ourselves.
//!
//! Called by: `rx.rs`. Once the unusual part is removed, a packet is processed as if it had arrived
//! without it. RFC 1122 sections 3.2.2 and 3.3, RFC 8200 section 4, IEEE 802.1Q. Counter: `looped`.

use base::{Counter, DropReason, LinkKind, MacAddr};
use device::vlan;
use inet::Ip;
use inet::ether::{Carries, ether_input};
use inet::flow::Addrs;
use inet::icmp::Unreachable;
use inet::ip_input::{Part, ipv4_any, ipv4_plain, ipv6_plain};
use mbuf::{Flags as MbufFlags, Mbuf};
use tcp::Fate;
use wire::icmpv6::is_neighbour_discovery;
use wire::nd::{ROUTER_ADVERTISEMENT, ROUTER_SOLICITATION};
use wire::protocol;
use wire::tcp::Header;

use super::{of_no_connection, segment, slow_segment};
use crate::for_us::{check_group, drop_unwanted, for_us};
use crate::frag::Whole;
use crate::port::LOOPBACK;
use crate::punt::ingress as punt;
use crate::socket::udp;
use crate::stack::Stack;
use crate::{arp, extension, foreign, frag, groups, icmp, nd};

/// Process an IPv4 packet that may have options or be a fragment; its header begins at `at`.
/// Options that TCP does not know are ignored (RFC 9293 MUST-50).
#[inline(never)]
pub(super) fn other_ipv4(stack: &mut Stack, m: Mbuf, at: usize) -> Fate {
    match ipv4_any(&m.as_slice()[at..]) {
        Ok((ip, None)) => transport(stack, ip, m, at),
        Ok((ip, Some(part))) => fragment(stack, ip, part, m, at),
        Err(reason) => {
            if reason == DropReason::Ipv4Options {
                icmp::malformed_options(stack, &m, at);
            }
            Err(reason)
        }
    }
}

#[inline(never)]
pub(super) fn other_ipv6(stack: &mut Stack, m: Mbuf, at: usize) -> Fate {
    let (ip, part) = extension::walk(stack, &m, at)?;
    if m.has(MbufFlags::LINK_GROUP) {
        check_group(stack, &ip, &m)?;
    }
    match (ip, part) {
        (ip, None) => {
            frag::check_atomic(&ip, &m, at)?;
            if m.has(MbufFlags::LINK_GROUP) && punt::takes_group(stack, &ip, &m, at) {
                return punt::take(stack, &ip, m, at);
            }
            transport(stack, ip, m, at)
        }
        (ip, Some(part)) => fragment(stack, ip, part, m, at),
    }
}

/// Process a frame that was refused for `reason`, if the reason is a priority tag, which is
/// removed, or a further link address of the port. A frame refused for another reason stays
/// refused.
#[cold]
#[inline(never)]
pub(super) fn priority_tagged(
    stack: &mut Stack,
    mac: MacAddr,
    mut m: Mbuf,
    reason: DropReason,
) -> Fate {
    let is_taken = match reason {
        DropReason::EtherTypeUnknown => vlan::strip_priority(&mut m, &mut stack.core.cx.pool),
        DropReason::EtherNotForUs => {
            let port = stack.ports.get(m.in_port()).filter(|port| !port.macs.is_empty());
            port.is_some_and(|port| port.takes_by_further_mac(&mut m))
        }
        _ => false,
    };
    if !is_taken {
        return Err(reason);
    }
    let at = LinkKind::Ethernet.header_len();
    match ether_input(m.as_slice(), mac)? {
        (carries, true) => to_group(stack, carries, m, at),
        (Carries::Ipv4, false) => other_ipv4(stack, m, at),
        (Carries::Ipv6, false) => other_ipv6(stack, m, at),
        (Carries::Arp, false) => arp::input(stack, &m),
    }
}

/// Keep a fragment for reassembly. If it completes its datagram, process the datagram.
fn fragment<A: Addrs>(stack: &mut Stack, ip: Ip<A>, part: Part, m: Mbuf, at: usize) -> Fate {
    match frag::input(stack, ip, part, m, at)? {
        Some(Whole::V4(ip, m)) => whole(stack, ip, m),
        Some(Whole::V6(ip, m)) => whole(stack, ip, m),
        None => Ok(()),
    }
}

/// Process a datagram that was assembled of fragments.
fn whole<A: Addrs>(stack: &mut Stack, ip: Ip<A>, m: Mbuf) -> Fate {
    if m.has(MbufFlags::LINK_GROUP) && punt::takes_group(stack, &ip, &m, 0) {
        return punt::take(stack, &ip, m, 0);
    }
    transport(stack, ip, m, 0)
}

/// Process a frame that was sent to a multicast or broadcast MAC address; its payload begins at
/// `at`. An IPv4 packet in it with a unicast destination is dropped (RFC 1122 3.3.6-b).
#[cold]
#[inline(never)]
pub(super) fn to_group(stack: &mut Stack, carries: Carries, mut m: Mbuf, at: usize) -> Fate {
    m.set(MbufFlags::LINK_GROUP);
    let packet = m.as_slice().get(at..).unwrap_or_default();
    match carries {
        Carries::Arp => arp::input(stack, &m),
        Carries::Ipv4 => {
            let (ip, part) = match ipv4_plain(packet) {
                Some(ip) => (ip, None),
                None => ipv4_any(packet)?,
            };
            check_group(stack, &ip, &m)?;
            if let Some(part) = part {
                return fragment(stack, ip, part, m, at);
            }
            of_group(stack, ip, m, at)
        }
        Carries::Ipv6 => {
            let Some(ip) = ipv6_plain(packet) else { return other_ipv6(stack, m, at) };
            check_group(stack, &ip, &m)?;
            of_group(stack, ip, m, at)
        }
    }
}

/// Process a packet to a group or a broadcast address: it goes to the port's mirror, or to a
/// protocol of ours.
fn of_group<A: Addrs>(stack: &mut Stack, ip: Ip<A>, m: Mbuf, at: usize) -> Fate {
    if punt::takes_group(stack, &ip, &m, at) {
        return punt::take(stack, &ip, m, at);
    }
    drop_unwanted(stack, &ip, &m, at)?;
    transport(stack, ip, m, at)
}

/// Pass an IP packet that is not on the fast path to its transport protocol. Its IP header begins
/// at `at`.
#[inline(never)]
pub(super) fn transport<A: Addrs>(stack: &mut Stack, ip: Ip<A>, mut m: Mbuf, at: usize) -> Fate {
    if ip.protocol == protocol::TCP {
        return segment(stack, ip, m, at, false);
    }
    let (from, len) = (at + ip.transport_at as usize, ip.transport_len as usize);
    match ip.protocol {
        protocol::UDP => udp::input::input(stack, &ip, m, at),
        // IPv4 and IPv6 have an ICMP each: the protocol number of one means nothing in the other.
        protocol::ICMP if ip.src().is_ipv4() => {
            if punt::takes_message(stack, &ip, &m, at) {
                return punt::take(stack, &ip, m, at);
            }
            m.keep(from, len);
            match icmp::for_us(stack, &ip, &m) {
                Ok(()) => icmp::input(stack, &ip, m),
                Err(reason) => foreign::input::message(stack, &ip, m, reason),
            }
        }
        protocol::IGMP if ip.src().is_ipv4() => {
            let copied = punt::copy(stack, &ip, &m, at);
            unless(copied, groups::message(stack, &ip, &m, at))
        }
        protocol::ICMPV6 if ip.src().is_ipv6() => {
            if groups::is_mld(&m, from) {
                let copied = punt::copy(stack, &ip, &m, at);
                return unless(copied, groups::message(stack, &ip, &m, at));
            }
            let kind = m.as_slice().get(from).copied();
            // Neighbour discovery is multicast and may have the unspecified source.
            if kind.is_some_and(is_neighbour_discovery) {
                // Routing daemons find their unnumbered peers by advertisements (RFC 8950, BGP).
                let is_of_routers =
                    matches!(kind, Some(ROUTER_SOLICITATION | ROUTER_ADVERTISEMENT));
                let copied = is_of_routers && punt::copy(stack, &ip, &m, at);
                m.keep(from, len);
                return unless(copied, nd::input(stack, &ip, &m));
            }
            if punt::takes_message(stack, &ip, &m, at) {
                return punt::take(stack, &ip, m, at);
            }
            m.keep(from, len);
            match icmp::for_us(stack, &ip, &m) {
                Ok(()) => icmp::input(stack, &ip, m),
                Err(reason) => foreign::input::message(stack, &ip, m, reason),
            }
        }
        // RFC 8200 4.7-a: a packet whose last next header is 59 is dropped silently.
        protocol::NO_NEXT if ip.src().is_ipv6() => {
            for_us(stack, &ip, &m)?;
            Err(DropReason::Ipv6NoNextHeader)
        }
        _ => {
            if punt::takes_protocol(stack, &ip, &m, at) {
                return punt::take(stack, &ip, m, at);
            }
            for_us(stack, &ip, &m)?;
            icmp::refuse(stack, &ip, &m, at, Unreachable::Protocol);
            Err(DropReason::IpProtocolUnknown)
        }
    }
}

/// The fate of a message that a mirror may have got a copy of: then it is not lost, whatever it is
/// to us.
fn unless(copied: bool, fate: Fate) -> Fate {
    if copied { Ok(()) } else { fate }
}

/// Process the frames that came by port `came_by` of a router to addresses of ours on other ports.
/// Each is handled as if it had come by the port that has the address.
#[cold]
#[inline(never)]
pub(super) fn to_other_ports(stack: &mut Stack, came_by: u16) {
    let at = stack.ports.get(came_by).map_or(0, |port| port.limits.link.header_len());
    let mut frames = core::mem::take(&mut stack.forwarding.to_host);
    punt::came_by(stack, Some(came_by));
    let of_burst = stack.in_vrf;
    for m in frames.drain(..) {
        // A route may lead to an address of ours in another VRF.
        stack.in_vrf = stack.ports.vrf(m.in_port());
        let is_v6 = m.as_slice().get(at).is_some_and(|first| first >> 4 == 6);
        let fate = match is_v6 {
            true => other_ipv6(stack, m, at),
            false => other_ipv4(stack, m, at),
        };
        if let Err(reason) = fate {
            stack.core.drops.count(reason);
        }
    }
    punt::came_by(stack, None);
    stack.in_vrf = of_burst;
    stack.forwarding.to_host = frames;
}

/// Process a burst of frames that we sent to ourselves; returns their number.
#[cold]
#[inline(never)]
pub(crate) fn looped(stack: &mut Stack) -> usize {
    let epoch = stack.flow_epoch();
    let Some(loopback) = &mut stack.loopback else { return 0 };
    let frames = loopback.receive(&mut stack.ports, epoch, &mut stack.core.cx.pool);
    let count = frames.len();
    for m in frames {
        if let Err(reason) = looped_frame(stack, m) {
            stack.core.drops.count(reason);
        }
    }
    stack.core.cx.counters.add(Counter::Looped, count as u64);
    count
}

fn looped_frame(stack: &mut Stack, mut m: Mbuf) -> Fate {
    m.set_in_port(LOOPBACK);
    let packet = m.as_slice();
    match packet.first().map(|first| first >> 4) {
        Some(6) => match ipv6_plain(packet) {
            Some(ip) if ip.protocol == protocol::TCP => looped_segment(stack, ip, m),
            Some(ip) => transport(stack, ip, m, 0),
            None => other_ipv6(stack, m, 0),
        },
        _ => match ipv4_plain(packet) {
            Some(ip) if ip.protocol == protocol::TCP => looped_segment(stack, ip, m),
            Some(ip) => transport(stack, ip, m, 0),
            None => other_ipv4(stack, m, 0),
        },
    }
}

/// Process a TCP segment that we sent to ourselves. Its checksum is not verified: it never left
/// memory.
fn looped_segment<A: Addrs>(stack: &mut Stack, ip: Ip<A>, mut m: Mbuf) -> Fate {
    let (at, len) = (ip.transport_at as usize, ip.transport_len as usize);
    let bytes = m.as_slice().get(at..at + len).ok_or(DropReason::TcpShort)?;
    Header::parse(bytes)?;
    let key = ip.flow(Header::raw_ports(bytes)).looped();
    let core = &mut stack.core;
    core.cx.counters.add(Counter::TcpSegmentsIn, 1);
    let (switches, counters) = (core.cx.switches, &mut core.cx.counters);
    let found = stack.connections.find(key, &core.secret, switches, counters);
    let found = found.map(|(handle, _)| handle);
    match found {
        Some(handle) => {
            m.keep(at, len);
            slow_segment(stack, handle, ip, m)
        }
        None => of_no_connection(stack, ip, m, at),
    }
}
