//! The firewall in the forwarding path: a packet is matched with its flow before it is routed,
//! rules decide when its route is known, and its translation is the last thing before it leaves.
//!
//! Called by: `plain.rs`, for each packet while rules are set ([`Stack::set_filter`]). Packets for
//! the router itself are asked about too; packets that it sends are not. Fragments that come before
//! the first one of their datagram wait for it (`held.rs`). docs/filter.md, docs/decisions/0134.
//! Counters: the drops whose names begin with `filter_` and `nat_`.

mod calls;
mod held;
mod sockets;

use core::net::{IpAddr, SocketAddr};

use base::{DropReason, IpVersion, Owner};
use filter::Firewall;
use filter::firewall::{Arrival, Beginning, Change, Local, Passed, Refusal, Route};
use filter::nat::{Sockets, SourceReport};
use filter::packet::{ROUTER, Tuple};
use filter::states::{Datagram, Segment as SeenSegment};
pub(crate) use held::Held;
use inet::forward::{self as transit, Transit};
use inet::icmp::{Report, Unreachable};
use inet::{FlowKey, Selector, Vrf};
use mbuf::{Flags, Mbuf};
use tcp::{Fate, Segment};
use wire::protocol;

use super::plain;
use crate::bare;
use crate::port::{Port, Ports};
use crate::stack::Stack;

/// What the firewall says of a packet that arrived, while there are rules.
pub(super) type Arrived = Option<Arrival>;

/// Look at a packet, whose IP header begins at `at` in `m`, that came by port `port_id`.
///
/// # Errors
/// The reason to drop it.
pub(super) fn arrive(
    stack: &mut Stack,
    port_id: u16,
    m: &Mbuf,
    at: usize,
) -> Result<Arrived, DropReason> {
    let Some(firewall) = &mut stack.firewall else { return Ok(None) };
    let packet = m.as_slice().get(at..).unwrap_or_default();
    let ports = &stack.ports;
    let vrf = ports.vrf(port_id);
    let has = |port: &&Port, addr| port.vrf == vrf && port.local.is_ours(addr);
    let port_of = |addr| ports.iter().find(|port| has(port, addr)).map(|port| port.id.0);
    let address_of = |port, like| address_of(ports, port, like);
    let local = Local { port_of: &port_of, address_of: &address_of };
    let core = &mut stack.core.cx;
    let arrival = firewall.arrive(packet, port_id, &local, &mut core.budget, core.now)?;
    Ok(Some(arrival))
}

/// A packet is for the router itself: do rules pass it? If it is translated it is written.
///
/// # Errors
/// The reason to drop it; its source was told if a rule says so.
pub(super) fn admits_to_host(
    stack: &mut Stack,
    m: &mut Mbuf,
    at: usize,
    arrived: &Arrived,
) -> Result<(), DropReason> {
    let Some(arrival) = arrived else { return Ok(()) };
    let change = decided(stack, m, at, arrival, ROUTER)?;
    if change == Change::None {
        return Ok(());
    }
    apply(stack, m, at, &change)
}

/// Carry out a translation on the packet that begins at `at` in `m`. A packet that others may read
/// is copied before.
///
/// # Errors
/// The reason to drop it.
pub(super) fn apply(
    stack: &mut Stack,
    m: &mut Mbuf,
    at: usize,
    change: &Change,
) -> Result<(), DropReason> {
    if !m.is_exclusive() {
        let pool = &mut stack.core.cx.pool;
        let mut copy = pool.copy_of(m.as_slice()).ok_or(DropReason::MbufExhausted)?;
        copy.set(if m.has(Flags::CSUM_PARTIAL) { Flags::CSUM_PARTIAL } else { 0 });
        copy.set_segment_size(m.segment_size());
        copy.set_in_port(m.in_port());
        copy.set_csum(m.csum());
        pool.free(core::mem::replace(m, copy));
    }
    let is_partial = m.has(Flags::CSUM_PARTIAL);
    let packet = m.as_mut_slice().and_then(|frame| frame.get_mut(at..));
    let packet = packet.ok_or(DropReason::MbufExhausted)?;
    let Some(firewall) = &stack.firewall else { return Ok(()) };
    firewall.change(change, packet, is_partial)
}

/// How a packet leaves by port `out_port`, if it may.
///
/// # Errors
/// The reason to drop it; its source was told if a rule says so.
pub(super) fn decided(
    stack: &mut Stack,
    m: &Mbuf,
    at: usize,
    arrival: &Arrival,
    out_port: u16,
) -> Result<Change, DropReason> {
    let new = match arrival {
        Arrival::Known(known) => return Ok(known.change),
        Arrival::Passes => return Ok(Change::None),
        Arrival::Early(_) | Arrival::Elsewhere(_) => return Err(DropReason::FilterFragment),
        Arrival::Begins(new) => new,
    };
    match asked(stack, new, out_port) {
        Ok(passed) => Ok(passed.change),
        Err(Refusal { reason, report }) => {
            tell(stack, m, at, report);
            Err(reason)
        }
    }
}

/// Ask the rules about a packet that leaves by port `out_port`.
///
/// # Errors
/// Why it may not, and what its source is told ([`tell`]).
pub(super) fn asked(stack: &mut Stack, new: &Beginning, out_port: u16) -> Result<Passed, Refusal> {
    let packet = new.packet(out_port);
    let (tuple, vrf) = (packet.tuple, stack.ports.vrf(packet.in_port));
    let is_own_flow = out_port == ROUTER && is_own_flow(stack, &tuple, vrf);
    let Stack { core, ports, connections, listeners, udp, pings, firewall, .. } = stack;
    let secret = &core.secret;
    let own = sockets::Own { ports, connections, listeners, udp, pings, secret };
    let is_bound = |tuple: &Tuple| own.has(tuple);
    let translates = firewall.as_deref().is_some_and(Firewall::may_translate);
    let route = Route {
        out_port,
        port_address: translates.then(|| address_of(ports, out_port, tuple.src)).flatten(),
        outside_address: new.reflects_at().and_then(|port| address_of(ports, port, tuple.src)),
        sockets: Sockets(&is_bound),
        is_own_flow,
    };
    let cx = &mut core.cx;
    match firewall {
        Some(firewall) => firewall.decide(new, &route, &mut cx.budget, cx.now),
        None => Ok(Passed { change: Change::None, flow: None }),
    }
}

/// An address of a port of the version of `like`, for masquerade: the first that others can reach.
fn address_of(ports: &Ports, port: u16, like: IpAddr) -> Option<IpAddr> {
    let version = IpVersion::of(&like);
    let is_link_local = |addr: &IpAddr| match addr {
        IpAddr::V4(addr) => addr.is_link_local(),
        IpAddr::V6(addr) => addr.is_unicast_link_local(),
    };
    let usable = ports.get(port)?.addresses.iter().filter(|a| a.is_usable());
    let mut addrs = usable.map(inet::Address::ip);
    addrs.find(|addr| IpVersion::of(addr) == version && !is_link_local(addr))
}

/// Has a socket of the router itself begun this flow, or does it wait for this peer? A connection
/// of ours is its own state, and a better one.
fn is_own_flow(stack: &mut Stack, tuple: &Tuple, vrf: Vrf) -> bool {
    let local = SocketAddr::new(tuple.dst, tuple.dst_port);
    let remote = SocketAddr::new(tuple.src, tuple.src_port);
    match tuple.protocol {
        protocol::TCP => {
            let key = FlowKey::new(local.ip(), local.port(), remote.ip(), remote.port());
            let key = key.within(vrf);
            let (core, connections) = (&mut stack.core, &mut stack.connections);
            let switches = core.cx.switches;
            connections.find(key, &core.secret, switches, &mut core.cx.counters).is_some()
        }
        protocol::UDP => stack.udp.waits_for(local, remote),
        protocol::ICMP | protocol::ICMPV6 => stack.pings.sender(tuple.dst_port).is_some(),
        _ => false,
    }
}

/// Tell the source of a packet that it is refused. RFC 5508 REQ-8, RFC 6888 REQ-11B.
pub(super) fn tell(stack: &mut Stack, m: &Mbuf, at: usize, report: SourceReport) {
    match report {
        SourceReport::Nothing => {}
        SourceReport::Rejected => reject(stack, m, at),
        SourceReport::Unreachable => unreachable(stack, m, at, Unreachable::Host),
    }
}

/// Send an ICMP error "destination unreachable" to the source of a packet.
#[cold]
fn unreachable(stack: &mut Stack, m: &Mbuf, at: usize, why: Unreachable) {
    let packet = m.as_slice().get(at..).unwrap_or_default();
    let Ok(transit) = transit::examine(packet) else { return };
    let packet = packet.get(..transit.len).unwrap_or_default();
    plain::report(stack, m, packet, &transit, Report::Unreachable(why));
}

/// Tell the source of a packet that a rule refuses it: a RST, or an ICMP error "communication
/// administratively prohibited" (RFC 1812 section 5.2.7.1, RFC 4443 section 3.1).
#[cold]
fn reject(stack: &mut Stack, m: &Mbuf, at: usize) {
    let packet = m.as_slice().get(at..).unwrap_or_default();
    let Ok(found) = filter::states::parse(packet) else { return };
    let tuple = found.key.tuple();
    if tuple.protocol == protocol::TCP && found.piece.is_none() {
        let bytes = packet.get(found.transport..found.transport + found.transport_len);
        let Some(bytes) = bytes else { return };
        let is_reset = SeenSegment::parse(bytes, bytes.len() as u32)
            .is_ok_and(|segment| segment.flags.contains(wire::tcp::Flags::RST));
        if let Ok((_, segment, _)) = Segment::parse(bytes, false)
            && !is_reset
        {
            let local = SocketAddr::new(tuple.dst, tuple.dst_port);
            let remote = SocketAddr::new(tuple.src, tuple.src_port);
            let by = Selector::of_vrf(stack.ports.vrf(m.in_port()));
            bare::reset(stack, (local, remote), &segment, (&Owner::program(), by));
        }
        return;
    }
    unreachable(stack, m, at, Unreachable::Prohibited);
}

/// The datagram of a first fragment that others wait for.
pub(super) fn awaited(stack: &Stack, m: &Mbuf, at: usize) -> Option<Datagram> {
    if stack.forwarding.held.is_empty() {
        return None;
    }
    let packet = m.as_slice().get(at..)?;
    let piece = filter::states::parse(packet).ok()?.piece?;
    (piece.offset == 0).then_some(piece.datagram)
}

/// A packet that a program sends by a mirror leaves by `out_port`: answers to it pass, and if it is
/// itself the answer to a translated packet, it is translated back.
///
/// # Errors
/// There is no buffer for the translated packet.
pub(crate) fn leaves(stack: &mut Stack, m: &mut Mbuf, out_port: u16) -> Fate {
    if stack.firewall.is_none() || !stack.forwarding.on {
        return Ok(());
    }
    // A packet that does not suit its flow's state leaves all the same: rules are not about it.
    match arrive(stack, ROUTER, m, 0) {
        Ok(Some(Arrival::Known(known))) if known.change != Change::None => {
            apply(stack, m, 0, &known.change)
        }
        Ok(Some(Arrival::Begins(new))) => {
            let cx = &mut stack.core.cx;
            if let Some(firewall) = &mut stack.firewall {
                // Without a state the packet leaves all the same; a limit counts its hit.
                let _ = firewall.begin_own(&new, out_port, &mut cx.budget, cx.now);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A frame to a link-level group carries an IP packet: do rules pass it to the router?
///
/// # Errors
/// The reason to drop it.
pub(super) fn admits_group(stack: &mut Stack, port_id: u16, m: &mut Mbuf, at: usize) -> Fate {
    if stack.firewall.is_none() {
        return Ok(());
    }
    let packet = m.as_slice().get(at..).unwrap_or_default();
    if transit::destination(packet).is_none() {
        return Ok(());
    }
    let arrived = arrive(stack, port_id, m, at)?;
    m.set_in_port(port_id);
    admits_to_host(stack, m, at, &arrived)
}

/// The packet in `frame` as it came, if we have translated it: an ICMP error about it quotes that
/// and goes to its source.
#[cold]
pub(super) fn as_it_came(stack: &mut Stack, frame: &Mbuf, at: usize) -> Option<Mbuf> {
    let firewall = stack.firewall.as_deref()?;
    let packet = frame.as_slice().get(at..)?;
    let came = firewall.untranslated(packet)?;
    let mut copy = stack.core.cx.pool.copy_of(frame.as_slice())?;
    copy.set_in_port(frame.in_port());
    let packet = copy.as_mut_slice()?.get_mut(at..)?;
    firewall.change(&Change::Packet(came), packet, false).ok()?;
    Some(copy)
}

/// The destination that a packet is routed by.
pub(super) fn routed_to(arrived: &Arrived, transit: &Transit) -> IpAddr {
    arrived.as_ref().and_then(Arrival::routed_to).unwrap_or(transit.dst)
}
