//! Handles packets that arrive for groups: IGMP and MLD messages, and datagrams. Every socket that
//! has joined gets a copy of a datagram.
//!
//! Called by: `rx.rs` for messages, `socket/udp/input.rs` for datagrams; `output.rs` for datagrams
//! to sockets of this host. RFC 1112 section 7.2, RFC 3376 sections 3.2 and 5.2, RFC 3810 section
//! 6.2.

use core::net::{IpAddr, SocketAddr};

use base::{Counter, DropReason};
use inet::Ip;
use inet::flow::Addrs;
use inet::group::{self, check};
use mbuf::Mbuf;
use tcp::Fate;
use wire::group::Message;
use wire::{icmpv6, ipv4, ipv6, mld};

use crate::handles::UdpHandle;
use crate::socket::udp::{Datagram, receive};
use crate::stack::Stack;

/// Is the ICMPv6 message that begins at `at` one of MLD?
pub(crate) fn is_mld(m: &Mbuf, at: usize) -> bool {
    m.as_slice().get(at).is_some_and(|&kind| mld::is_mld(kind))
}

/// Process a message of IGMP or MLD. The packet is not fragmented; its IP header begins at `at`.
#[cold]
pub(crate) fn message<A: Addrs>(stack: &mut Stack, ip: &Ip<A>, m: &Mbuf, at: usize) -> Fate {
    let packet = m.as_slice().get(at..).unwrap_or_default();
    let (begin, len) = (ip.transport_at as usize, ip.transport_len as usize);
    let bytes = packet.get(begin..begin + len).unwrap_or_default();
    let port = stack.ports.get(m.in_port()).ok_or(DropReason::TxNoPort)?;
    // RFC 3376 4.1.12-a, RFC 3810 5.1.15-a.
    if !port.local.is_ours(ip.dst()) && !stack.groups.are_received(port, ip.dst()) {
        return Err(DropReason::GroupNotJoined);
    }
    let mut arrived = check::Arrived { src: ip.src(), ttl: ip.ttl, router_alert: false };
    let message = match (ip.src(), ip.dst()) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            icmpv6::Header::parse(bytes, src, dst)?;
            arrived.router_alert = ipv6::has_router_alert(packet);
            check::mld(bytes, &arrived)?
        }
        _ => {
            let header = packet.get(..begin).unwrap_or_default();
            arrived.router_alert = ipv4::has_router_alert(header);
            check::igmp(bytes, &arrived)?
        }
    };
    let (now, id) = (stack.core.cx.now, m.in_port());
    let counted = match message {
        Message::Query(query) => {
            let on = stack.groups.port_mut(id);
            on.host_mut(base::IpVersion::of(&ip.src())).query(&query, now);
            Counter::GroupQueriesIn
        }
        // A report that was not sent to its group suppresses none of our reports.
        // RFC 3376 9.2-a.
        Message::Report(_, group) if group == ip.dst() => {
            let on = stack.groups.port_mut(id);
            on.host_mut(base::IpVersion::of(&group)).heard_report(group, now);
            Counter::GroupReportsIn
        }
        _ => return Err(DropReason::GroupUnhandled),
    };
    stack.core.cx.counters.add(counted, 1);
    stack.groups.look_ahead();
    stack.rare_timers.note(stack.groups.next_deadline());
    Ok(())
}

/// Deliver a datagram that is addressed to a group and arrived on the port `in_port`. Copies that
/// cannot be delivered are counted as drops, except for the last one: its result is returned, and
/// the caller counts it.
/// RFC 1112 7.2-b, RFC 3376 3.2-c.
pub(crate) fn deliver(
    stack: &mut Stack,
    in_port: u16,
    mut datagram: Datagram,
    without_checksum: bool,
) -> Fate {
    let (from, to) = (datagram.from, datagram.to);
    stack.core.cx.counters.add(Counter::GroupDatagramsIn, 1);
    let mut takers = core::mem::take(&mut stack.groups.takers);
    let found = find_takers(stack, (from, to), in_port, &mut takers);
    let mut fate = found;
    while let Some(handle) = takers.pop() {
        if takers.is_empty() {
            fate = receive::deliver(stack, handle, datagram, without_checksum);
            break;
        }
        let copied = match stack.core.cx.pool.share(&mut datagram.payload) {
            Some(payload) => {
                let copy = Datagram { from, to, payload };
                receive::deliver(stack, handle, copy, without_checksum)
            }
            None => Err(DropReason::MbufExhausted),
        };
        if let Err(reason) = copied {
            stack.core.drops.count(reason);
        }
    }
    stack.groups.takers = takers;
    fate
}

/// Does a socket take a datagram to a group that arrived on the port `in_port`?
pub(crate) fn are_taken(stack: &mut Stack, ends: (SocketAddr, SocketAddr), in_port: u16) -> bool {
    let mut takers = core::mem::take(&mut stack.groups.takers);
    let found = find_takers(stack, ends, in_port, &mut takers).is_ok();
    takers.clear();
    stack.groups.takers = takers;
    found
}

/// The sockets that get a datagram: those that have joined, and are bound to no address or to the
/// group's.
fn find_takers(
    stack: &Stack,
    (from, to): (SocketAddr, SocketAddr),
    in_port: u16,
    takers: &mut Vec<UdpHandle>,
) -> Fate {
    let (groups, group) = (&stack.groups, to.ip());
    let mut reason = DropReason::UdpNoSocket;
    let bound = groups.bound.get(&(to.port(), group)).into_iter().flatten().copied();
    for handle in stack.udp.unbound_at(to.port()).chain(bound) {
        let filter = groups.sockets.get(handle).and_then(|s| s.filter(in_port, group));
        let takes = match filter {
            Some(filter) => filter.takes(from.ip()),
            // Every host is a member of all-nodes, so no socket has to join.
            None => group::is_all_nodes(group),
        };
        if !takes {
            reason = if filter.is_some() { DropReason::GroupFiltered } else { reason };
        } else if stack.udp.takes_from(handle, from) {
            takers.push(handle);
        } else {
            reason = DropReason::UdpNotPeer;
        }
    }
    if takers.is_empty() { Err(reason) } else { Ok(()) }
}
