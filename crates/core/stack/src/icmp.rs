//! ICMP: reports a received error to the connection or socket that it is about, and sends an error
//! for a packet that has no receiver here.
//!
//! Called by: `rx.rs`; `neighbours.rs` when a next hop does not answer. No message is trusted: a
//! TCP segment has to be in flight, a path's size plausible, and answers are rate-limited. RFC 792,
//! RFC 4443, RFC 1122 sections 3.2.2 and 4.2.3.9, RFC 5927.

use core::net::{IpAddr, SocketAddr};

use base::{Counter, DropReason, IpVersion, Limit, Mss, Mtu, Owner, SeqNumber};
use inet::flow::Addrs;
use inet::forward as transit;
use inet::frag::Problem;
use inet::icmp::{self, ErrorKind, Message, Quoted, Report, Unreachable};
use inet::ip_input::is_martian_source;
use inet::{FlowKey, Ip, Selector, Vrf};
use mbuf::{Flags as MbufFlags, Mbuf};
use tcp::Fate;
use tcp::path;
use wire::{ipv4, protocol};

use crate::config::IpSettings;
use crate::for_us::{self, is_anycast};
use crate::next_hop::scoped;
use crate::port::Port;
use crate::socket::passive::handshake_progress;
use crate::socket::udp::errors::{Source, about_datagram};
use crate::stack::Stack;
use crate::{frag, icmp_redirect, resolve, vrf};

/// Is the message in `m` for an address of the port, or is it an error about a connection that
/// leaves by the port from another address of ours?
pub(crate) fn for_us<A: Addrs>(stack: &Stack, ip: &Ip<A>, m: &Mbuf) -> Fate {
    match for_us::for_us(stack, ip, m) {
        Err(DropReason::IpNotForUs) if is_about_rerouted(stack, ip, m) => Ok(()),
        other => other,
    }
}

#[cold]
fn is_about_rerouted<A: Addrs>(stack: &Stack, ip: &Ip<A>, m: &Mbuf) -> bool {
    let packet = m.as_slice().get(icmp::HEADER_LEN..).unwrap_or_default();
    matches!(icmp::icmp_input(ip, m.as_slice()), Ok(Message::Error(_)))
        && icmp::quoted(packet, IpVersion::of(&ip.src())).is_ok_and(|quoted| {
            quoted.src == ip.dst() && is_of_connection_by(stack, &quoted, m.in_port())
        })
}

/// Process an ICMP message; `m` holds only the message.
pub(crate) fn input<A: Addrs>(stack: &mut Stack, ip: &Ip<A>, m: Mbuf) -> Fate {
    if m.has(MbufFlags::LINK_GROUP) {
        return Err(DropReason::IcmpUnhandled);
    }
    match icmp::icmp_input(ip, m.as_slice())? {
        Message::EchoRequest => echo_reply(stack, ip, &m),
        Message::EchoReply { id, seq } => {
            let admits = |vrf| vrf::admits(stack, m.in_port(), ip.dst(), vrf);
            if stack.pings.sender(id).is_some_and(|(_, by)| !admits(by.vrf)) {
                return Err(DropReason::IcmpEchoNoSocket);
            }
            let event = stack.pings.reply(ip, (id, seq), m, &mut stack.core.cx)?;
            stack.ready.extend(event);
            Ok(())
        }
        Message::Redirect { gateway } => {
            let quoted = quoted_of_ours(stack, ip, &m)?;
            icmp_redirect::input(stack, (m.in_port(), ip.src()), gateway, &quoted)
        }
        Message::Error(reported) => {
            let quoted = quoted_of_ours(stack, ip, &m)?;
            let vrf = vrf::of_packet(stack, m.in_port(), (ip.src(), ip.dst()));
            let icmp = m.as_slice().first_chunk().map(|&[kind, code]| (kind, code));
            error_about(stack, &quoted, reported, Source { from: ip.src(), icmp, vrf })?;
            stack.core.cx.counters.add(Counter::IcmpErrorsIn, 1);
            Ok(())
        }
    }
}

/// Returns the packet that the message `m` quotes, if its source is an address of the port that `m`
/// came by, or if it belongs to a connection that leaves by that port.
fn quoted_of_ours<'m, A: Addrs>(
    stack: &Stack,
    ip: &Ip<A>,
    m: &'m Mbuf,
) -> Result<Quoted<'m>, DropReason> {
    let packet = m.as_slice().get(icmp::HEADER_LEN..).unwrap_or_default();
    let quoted = icmp::quoted(packet, IpVersion::of(&ip.src()))?;
    let sent_by_us = stack.ports.get(m.in_port()).is_some_and(|p| p.local.is_ours(quoted.src));
    if sent_by_us || is_of_connection_by(stack, &quoted, m.in_port()) {
        Ok(quoted)
    } else {
        Err(DropReason::IcmpErrorNoMatch)
    }
}

/// Does a packet belong to a connection that leaves by this port, even if its address is another
/// port's?
fn is_of_connection_by(stack: &Stack, quoted: &Quoted<'_>, port: u16) -> bool {
    let Some((local, remote)) = quoted.ports().filter(|_| quoted.protocol == protocol::TCP) else {
        return false;
    };
    let key = FlowKey::new(quoted.src, local, quoted.dst, remote).within(stack.ports.vrf(port));
    let found = stack.connections.lookup(&key, &stack.core.secret);
    found.and_then(|handle| stack.connections.get(handle)).is_some_and(|pcb| pcb.port == port)
}

/// The next hop of a packet of ours does not answer: notify the packet's sender. TCP connections
/// are notified elsewhere.
pub(crate) fn host_unreachable(stack: &mut Stack, packet: &[u8], vrf: Vrf) {
    let version = match packet.first() {
        Some(first) if first >> 4 == 6 => IpVersion::V6,
        _ => IpVersion::V4,
    };
    if let Ok(quoted) = icmp::quoted(packet, version)
        && quoted.protocol != protocol::TCP
    {
        // If there is no sender to notify, nothing more is counted: the packet has been counted as
        // dropped.
        let reported = ErrorKind::Unreachable(Unreachable::Host);
        let source = Source { from: quoted.src, icmp: None, vrf };
        let _ = error_about(stack, &quoted, reported, source);
    }
}

/// Report an error about a packet of ours to its connection or socket. RFC 1122 3.2.2.1-b.
fn error_about(
    stack: &mut Stack,
    quoted: &Quoted<'_>,
    reported: ErrorKind,
    source: Source,
) -> Fate {
    match quoted.protocol {
        protocol::TCP => about_segment(stack, quoted, reported, source.vrf),
        protocol::UDP => about_datagram(stack, quoted, reported, source),
        protocol::ICMP | protocol::ICMPV6 => {
            let event = stack.pings.failed(quoted, reported, source.from, &mut stack.core.cx)?;
            stack.ready.extend(event);
            Ok(())
        }
        _ => Err(DropReason::IcmpErrorNoMatch),
    }
}

/// Report an error about a TCP segment, which has to be in flight (RFC 5927 section 4.1).
/// RFC 9293 MUST-54.
fn about_segment(stack: &mut Stack, quoted: &Quoted<'_>, reported: ErrorKind, vrf: Vrf) -> Fate {
    let (local, remote) = quoted.ports().ok_or(DropReason::IcmpMalformed)?;
    let seq = SeqNumber(quoted.second_word().ok_or(DropReason::IcmpMalformed)?);
    let key = FlowKey::new(quoted.src, local, quoted.dst, remote).within(vrf);
    let handle = stack.connections.lookup(&key, &stack.core.secret);
    let handle = handle.ok_or(DropReason::IcmpErrorNoMatch)?;
    let pcb = stack.connections.get_mut(handle).ok_or(DropReason::IcmpErrorNoMatch)?;
    if !path::is_in_flight(&pcb.tcb, seq) {
        return Err(DropReason::IcmpErrorOutOfWindow);
    }
    let embryonic = pcb.tcb.is_embryonic();
    match reported {
        ErrorKind::Unreachable(why) => {
            let error = tcp_error(why);
            if matches!(why, Unreachable::Port | Unreachable::Protocol) {
                path::hard_error(&mut pcb.tcb, error);
            } else {
                path::soft_error(&mut pcb.tcb, error);
            }
        }
        ErrorKind::TooBig(reported) => {
            let mtu = quoted.path_mtu(reported).and_then(Mtu::new);
            let mtu = mtu.ok_or(DropReason::IcmpErrorIgnored)?;
            let core = &mut stack.core;
            let limit = Limit::PathChangesPerSecond;
            if !stack.path_changes.admits(limit, core.cx.now, &mut core.cx.budget) {
                return Err(DropReason::IcmpRateLimited);
            }
            let mss = Mss::for_mtu(mtu, IpVersion::of(&quoted.dst));
            match path::packet_too_big(&mut pcb.tcb, seq, mss, core.cx.now) {
                path::Outcome::Ignored => return Err(DropReason::IcmpErrorIgnored),
                path::Outcome::Doubted => core.cx.counters.add(Counter::PathMtuDoubted, 1),
                path::Outcome::Believed => {
                    core.cx.counters.add(Counter::PathMtuLowered, 1);
                    // The other connections on this path get the new MTU before they send again.
                    stack.path_mtus.learn(quoted.dst, mtu, core.cx.now, &mut core.cx.budget);
                }
            }
        }
        ErrorKind::Transient => path::soft_error(&mut pcb.tcb, tcp::Error::HostUnreachable),
    }
    if embryonic {
        handshake_progress(stack, handle);
    }
    stack.connections.mark_dirty(handle);
    Ok(())
}

/// The error that the user of a connection gets.
fn tcp_error(why: Unreachable) -> tcp::Error {
    match why {
        Unreachable::Net => tcp::Error::NetUnreachable,
        Unreachable::Host => tcp::Error::HostUnreachable,
        Unreachable::Protocol => tcp::Error::ProtocolUnreachable,
        Unreachable::Port => tcp::Error::Refused,
        Unreachable::Prohibited => tcp::Error::Prohibited,
    }
}

/// Send a port or protocol unreachable error to the sender of a packet, which is in `m` from `at`
/// on and not fragmented. The caller counts the packet's own drop reason.
/// RFC 4443 3.1-a, RFC 8200 4-a.
/// RFC 1122 3.2.2.1-a.
#[cold]
pub(crate) fn refuse<A: Addrs>(
    stack: &mut Stack,
    ip: &Ip<A>,
    m: &Mbuf,
    at: usize,
    why: Unreachable,
) {
    let packet_len = ip.transport_at as usize + ip.transport_len as usize;
    let packet = m.as_slice().get(at..at + packet_len).unwrap_or_default();
    report(stack, m, packet, (ip.dst(), ip.src()), Report::Unreachable(why));
}

/// Send a Parameter Problem about the first malformed option of the IPv4 packet at `at` in `m`. No
/// error is sent about ICMP, which may be an error itself, nor about later fragments.
/// RFC 1122 3.2.2.5-a.
#[cold]
pub(crate) fn malformed_options(stack: &mut Stack, m: &Mbuf, at: usize) {
    let packet = m.as_slice().get(at..).unwrap_or_default();
    let (Some(pointer), Ok(h)) =
        (ipv4::malformed_option(packet), ipv4::Header::parse_quoted(packet))
    else {
        return;
    };
    let (src, dst) = (IpAddr::V4(h.src), IpAddr::V4(h.dst));
    let for_us = |port: &Port| port.local.is_ours(dst) && port.local.may_send(src);
    if h.protocol == protocol::ICMP
        || h.fragment_offset != 0
        || !stack.ports.get(m.in_port()).is_some_and(for_us)
    {
        return;
    }
    let packet = packet.get(..usize::from(h.total_len)).unwrap_or(packet);
    let problem = Problem { code: 0, pointer: pointer as u32 };
    report(stack, m, packet, (dst, src), Report::Problem(problem));
}

/// Send an error about `packet`, which came in `m`, from its destination to its source. The error
/// is sent only within the rate limit, and never about a packet to a group, about an error, or to a
/// source that cannot be a host (RFC 1122 section 3.2.2, RFC 4443 section 2.4(e)).
/// RFC 4443 2.4-e.
/// RFC 1122 3.2.2-b, 3.2.2-c.
#[cold]
pub(crate) fn report(
    stack: &mut Stack,
    m: &Mbuf,
    packet: &[u8],
    (src, dst): (IpAddr, IpAddr),
    what: Report,
) {
    // RFC 1112 7.2-c: no error is sent about a datagram to a group.
    let port = stack.ports.get(m.in_port());
    let by_group = port.is_none_or(|port| port.local.is_group(src) || port.local.is_group(dst));
    if !by_group && !m.has(MbufFlags::LINK_GROUP) {
        let src = unicast(stack, src, m);
        report_from(stack, packet, m.in_port(), (src, dst), what);
    }
}

/// The source address of an answer to a packet that was sent to `dst`: `dst` itself, unless it is
/// an anycast address (RFC 4443 section 2.2).
fn unicast(stack: &Stack, dst: IpAddr, m: &Mbuf) -> IpAddr {
    if !is_anycast(stack, dst, m) {
        return dst;
    }
    let addresses = stack.ports.get(m.in_port()).map_or(&[][..], |port| &port.addresses);
    let is_near = |a: &&inet::Address| a.is_usable() && a.cidr.contains(dst);
    addresses.iter().find(is_near).map_or(dst, inet::Address::ip)
}

/// [`report`], about a packet that came by `in_port` and may have been sent to a group. The error's
/// source is `src`, an address of ours. A link-local `dst` is on that port's link. Returns whether
/// the error was sent.
/// RFC 4443 2.2-a, 2.4-f.
#[cold]
pub(crate) fn report_from(
    stack: &mut Stack,
    packet: &[u8],
    in_port: u16,
    (src, dst): (IpAddr, IpAddr),
    what: Report,
) -> bool {
    if is_martian_source(dst) && !dst.is_loopback() {
        return false;
    }
    let core = &mut stack.core;
    if !stack.icmp_errors.admits(dst, core) {
        return false;
    }
    let remote = scoped(SocketAddr::new(dst, 0), in_port);
    let vrf = vrf::of_packet(stack, in_port, (dst, src));
    let sent = send_report(stack, packet, (src, remote), (what, vrf));
    if let Err(reason) = sent {
        stack.core.drops.count(reason);
    }
    sent.is_ok()
}

/// Send an error about `packet`, which came in a VRF, from `src`, which need not be ours; the
/// caller has asked a rate limit.
#[cold]
pub(crate) fn send_report(
    stack: &mut Stack,
    packet: &[u8],
    (src, remote): (IpAddr, SocketAddr),
    (what, vrf): (Report, Vrf),
) -> Fate {
    let version = IpVersion::of(&src);
    let quote = &packet[..icmp::quote_len(version, packet.len())];
    let mut answer = stack.core.cx.pool.copy_of(quote).ok_or(DropReason::MbufExhausted)?;
    answer.prepend(icmp::HEADER_LEN).ok_or(DropReason::MbufExhausted)?;
    if let Some(message) = answer.as_mut_slice() {
        icmp::report(message, what, src, remote.ip());
    }
    let (protocol, flow) = match version {
        IpVersion::V4 => (protocol::ICMP, transit::quoted_v4(packet)),
        IpVersion::V6 => (protocol::ICMPV6, transit::quoted_v6(packet)),
    };
    let ends = (SocketAddr::new(src, 0), remote);
    let flow = flow.unwrap_or_default();
    let egress = resolve::route_of_error(stack, ends, protocol, (flow, vrf))?;
    resolve::send(stack, &egress, answer)?;
    stack.core.cx.counters.add(Counter::IcmpErrorsOut, 1);
    Ok(())
}

/// Answer an echo request, within a rate limit of its own. If echo replies shared the limit of ICMP
/// errors, a flood to a closed port would make a host look dead to ping.
/// RFC 4443 4.2-a.
/// RFC 1122 3.2.2.6-a, 3.2.2.6-b.
fn echo_reply<A: Addrs>(stack: &mut Stack, ip: &Ip<A>, request: &Mbuf) -> Result<(), DropReason> {
    let core = &mut stack.core;
    if !stack.echo_replies.admits(Limit::EchoRepliesPerSecond, core.cx.now, &mut core.cx.budget) {
        return Err(DropReason::IcmpRateLimited);
    }
    let local = SocketAddr::new(unicast(stack, ip.dst(), request), 0);
    let remote = scoped(SocketAddr::new(ip.src(), 0), request.in_port());
    let vrf = vrf::of_packet(stack, request.in_port(), (ip.src(), ip.dst()));
    let (owner, settings) = (Owner::program(), IpSettings::by(Selector::of_vrf(vrf)));
    let egress = resolve::route(stack, local, remote, ip.protocol, &owner, settings)?;
    let most = stack.path_mtus.mtu(ip.src(), egress.mtu, stack.core.cx.now);
    let Some((header, data)) = request.as_slice().split_first_chunk() else {
        return Err(DropReason::IcmpMalformed);
    };
    let mut header: [u8; inet::icmp::HEADER_LEN] = *header;
    inet::icmp::make_reply(&mut header, IpVersion::of(&ip.src()) == IpVersion::V4);
    frag::output::send(stack, &egress, &header, data, most)?;
    stack.core.cx.counters.add(Counter::IcmpEchoReplies, 1);
    Ok(())
}
