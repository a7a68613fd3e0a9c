//! The receive path, whole: a burst from the device, Ethernet, IP, then TCP, UDP or ICMP.
//!
//! Called by: `Stack::poll`. This file keeps the mbuf; each layer looks at it and returns what
//! comes next, or the named reason to drop it. What is to be sent in answer waits until the burst
//! is through (`tx.rs`): one ACK for a burst, one wake-up for a reader.

use base::{Counter, DropReason, LinkKind, MacAddr, Switch};
use device::{BURST, Burst, vlan};
use inet::Ip;
use inet::ether::{Carries, ether_input};
use inet::flow::Addrs;
use inet::icmp::Unreachable;
use inet::ip_input::{ipv4_any, ipv4_plain, ipv6_plain};
use mbuf::{Flags as MbufFlags, Mbuf};
use tcp::predict;
use tcp::{Fate, Segment};
use wire::checksum::{Ladder, Sum};
use wire::icmpv6::is_neighbour_discovery;
use wire::protocol;
use wire::tcp::{Flags, HEADER_LEN, Header, Options, Timestamps, timestamps_only};

use crate::follow::{self, At};
use crate::local::for_us;
use crate::socket::{passive, udp};
use crate::{
    Stack, TcpHandle, arp, broadcast, extension, flows, forward, frag, groups, icmp, nd,
    no_connection, tx,
};

/// Bursts taken from one port before the others get their turn.
const BURSTS_MAX: usize = 8;

/// Take what a port has; returns how many frames.
/// RFC 9293 MUST-58, MUST-59.
pub(crate) fn bursts(stack: &mut Stack, port_index: usize) -> usize {
    let mut total = 0;
    for _ in 0..BURSTS_MAX {
        let frames = burst(stack, port_index as u16);
        total += frames;
        if frames < BURST {
            // The device had no more; asking again would only say so.
            break;
        }
        tx::run(stack);
    }
    total
}

/// What came in a burst.
pub(crate) struct Received {
    /// Frames.
    pub(crate) count: usize,
    /// Bytes of those that are with forwarding already.
    pub(crate) bytes: u64,
    /// The port's link.
    pub(crate) link: (LinkKind, MacAddr),
}

/// Receive a burst of a port of a host; `None` if there is nothing.
#[inline(always)]
fn receive(stack: &mut Stack, port_id: u16, frames: &mut Burst) -> Option<Received> {
    let port = stack.ports.get_mut(port_id)?;
    let count = port.device.rx_burst(&mut stack.core.cx.pool, frames);
    if count == 0 {
        return None;
    }
    stack.is_overrun = port.received(count, frames, stack.core.cx.now);
    Some(Received { count, bytes: 0, link: (port.limits.link, port.mac) })
}

fn burst(stack: &mut Stack, port_id: u16) -> usize {
    let mut frames = Burst::new();
    let received = match stack.forwarding.on {
        true => forward::receive(stack, port_id, &mut frames),
        false => receive(stack, port_id, &mut frames),
    };
    let Some(Received { count, mut bytes, link }) = received else { return 0 };
    let switches = stack.core.cx.switches;
    // An ACK between two segments would move Last.ACK.sent, and TS.Recent with the second.
    let following = count > 1 && switches.on(Switch::Follow) && switches.on(Switch::BurstAck);
    let intake = Intake { port: port_id, link: link.0, mac: link.1, following };
    // Asked once a burst: a flow of its own stands behind every leader that has no followers.
    let mut apart = following && switches.on(Switch::FollowApart);
    // The next is at the end, from where it is taken without moving the others.
    frames.reverse();
    while let Some(m) = frames.pop() {
        let next = frames.last().filter(|_| following);
        let leads = next.is_some_and(|next| follow::may_follow(&m, next, intake.link.header_len()));
        if apart && !leads && next.is_some() {
            apart = false;
            if stack.flows.are_worth_it() {
                frames.push(m);
                bytes += flows::alternating(stack, &intake, &mut frames);
                break;
            }
        }
        bytes += m.len() as u64;
        one(stack, &intake, leads, m);
        if leads && let Some(handle) = stack.leader.handle.take() {
            bytes += followers(stack, handle, &mut frames);
        }
    }
    stack.core.cx.counters.add(Counter::RxFrames, count as u64);
    stack.core.cx.counters.add(Counter::RxBytes, bytes);
    stack.core.cx.counters.add(Counter::RxBursts, 1);
    if let Some(port) = stack.ports.get_mut(port_id) {
        port.moderation.took(count, bytes, stack.core.cx.now);
    }
    count
}

/// How a burst is taken in.
pub(crate) struct Intake {
    port: u16,
    pub(crate) link: LinkKind,
    mac: MacAddr,
    /// Segments may follow others.
    pub(crate) following: bool,
}

/// One frame; `leads` if those behind it may follow.
#[inline(always)]
pub(crate) fn one(stack: &mut Stack, intake: &Intake, leads: bool, mut m: Mbuf) {
    m.set_in_port(intake.port);
    if let Err(reason) = frame(stack, intake.link, intake.mac, leads, m) {
        stack.core.drops.count(reason);
    }
}

/// The segments behind a leader that have its headers; returns how many bytes they were. The first
/// that has anything unexpected about it stays in `frames` and goes the long way, which knows what
/// to say about it.
#[inline(always)]
fn followers(stack: &mut Stack, handle: TcpHandle, frames: &mut Burst) -> u64 {
    let (core, leader) = (&mut stack.core, &stack.leader);
    let Some(pcb) = stack.connections.get_mut(handle) else { return 0 };
    let (next, most) = predict::expects(&pcb.tcb, leader.len);
    let behind = frames.len() - frames.len().min(most);
    let mut count = leader.count_alike(&frames[behind..], core.cx.ladder, next.0);
    if core.cx.switches.on(Switch::ChecksumRx) {
        count = leader.count_sound(&frames[frames.len() - count..], core.cx.ladder);
    }
    if count == 0 {
        return 0;
    }
    core.cx.counters.add(Counter::TcpSegmentsIn, count as u64);
    let alike = frames.drain(frames.len() - count..).rev();
    predict::accept_alike(&mut pcb.tcb, alike, leader.at.payload, leader.len, &mut core.cx);
    stack.connections.mark_dirty(handle);
    count as u64 * leader.frame_len as u64
}

/// One frame: its link header, its IP header. An error frees it.
#[inline(always)]
fn frame(stack: &mut Stack, link: LinkKind, mac: MacAddr, following: bool, m: Mbuf) -> Fate {
    let carries = match link {
        LinkKind::Ethernet => {
            let (carries, to_group) = match ether_input(m.as_slice(), mac) {
                Ok(found) => found,
                Err(reason) => return priority_tagged(stack, mac, m, reason),
            };
            if to_group {
                return broadcast::input(stack, carries, m, link.header_len());
            }
            carries
        }
        LinkKind::Ip => match m.as_slice().first() {
            Some(first) if first >> 4 == 6 => Carries::Ipv6,
            _ => Carries::Ipv4,
        },
    };
    let at = link.header_len();
    let packet = m.as_slice().get(at..).unwrap_or_default();
    match carries {
        Carries::Ipv4 => match ipv4_plain(packet) {
            Some(ip) if ip.protocol == protocol::TCP => segment(stack, ip, m, at, following),
            Some(ip) => transport(stack, ip, m, at),
            None => other_ipv4(stack, m, at),
        },
        Carries::Ipv6 => match ipv6_plain(packet) {
            Some(ip) if ip.protocol == protocol::TCP => segment(stack, ip, m, at, following),
            Some(ip) => transport(stack, ip, m, at),
            None => other_ipv6(stack, m, at),
        },
        Carries::Arp => arp::input(stack, &m),
    }
}

/// A frame that is refused for `reason`. If that is a priority tag, it is taken without it.
#[cold]
#[inline(never)]
fn priority_tagged(stack: &mut Stack, mac: MacAddr, mut m: Mbuf, reason: DropReason) -> Fate {
    let is_tagged = reason == DropReason::EtherTypeUnknown
        && vlan::strip_priority(&mut m, &mut stack.core.cx.pool);
    if !is_tagged {
        return Err(reason);
    }
    let at = LinkKind::Ethernet.header_len();
    match ether_input(m.as_slice(), mac)? {
        (carries, true) => broadcast::input(stack, carries, m, at),
        (Carries::Ipv4, false) => other_ipv4(stack, m, at),
        (Carries::Ipv6, false) => other_ipv6(stack, m, at),
        (Carries::Arp, false) => arp::input(stack, &m),
    }
}

/// RFC 9293 MUST-50.
#[inline(never)]
pub(crate) fn other_ipv4(stack: &mut Stack, m: Mbuf, at: usize) -> Fate {
    match ipv4_any(&m.as_slice()[at..]) {
        Ok((ip, None)) => transport(stack, ip, m, at),
        Ok((ip, Some(part))) => frag::input(stack, ip, part, m, at),
        Err(reason) => {
            if reason == DropReason::Ipv4Options {
                icmp::malformed_options(stack, &m, at);
            }
            Err(reason)
        }
    }
}

#[inline(never)]
pub(crate) fn other_ipv6(stack: &mut Stack, m: Mbuf, at: usize) -> Fate {
    let (ip, part) = extension::walk(stack, &m, at)?;
    if m.has(MbufFlags::LINK_GROUP) {
        broadcast::check(stack, &ip, &m)?;
    }
    match (ip, part) {
        (ip, None) => {
            frag::check_atomic(&ip, &m, at)?;
            transport(stack, ip, m, at)
        }
        (ip, Some(part)) => frag::input(stack, ip, part, m, at),
    }
}

/// What is not plain TCP. `at` is where the IP header begins.
#[inline(never)]
pub(crate) fn transport<A: Addrs>(stack: &mut Stack, ip: Ip<A>, mut m: Mbuf, at: usize) -> Fate {
    if ip.protocol == protocol::TCP {
        return segment(stack, ip, m, at, false);
    }
    let (from, len) = (at + ip.transport_at as usize, ip.transport_len as usize);
    match ip.protocol {
        protocol::UDP => udp::input::input(stack, &ip, m, at),
        // Each version has its own: the other's number means nothing in it.
        protocol::ICMP if ip.src().is_ipv4() => {
            m.keep(from, len);
            icmp::for_us(stack, &ip, &m)?;
            icmp::input(stack, &ip, m)
        }
        protocol::IGMP if ip.src().is_ipv4() => groups::message(stack, &ip, &m, at),
        protocol::ICMPV6 if ip.src().is_ipv6() => {
            if groups::is_mld(&m, from) {
                return groups::message(stack, &ip, &m, at);
            }
            m.keep(from, len);
            // Neighbour discovery is multicast and may have the unspecified source.
            if m.as_slice().first().is_some_and(|&kind| is_neighbour_discovery(kind)) {
                return nd::input(stack, &ip, &m);
            }
            icmp::for_us(stack, &ip, &m)?;
            icmp::input(stack, &ip, m)
        }
        // RFC 8200 4.7-a.
        protocol::NO_NEXT if ip.src().is_ipv6() => {
            for_us(stack, &ip, &m)?;
            Err(DropReason::Ipv6NoNextHeader)
        }
        _ => {
            for_us(stack, &ip, &m)?;
            icmp::refuse(stack, &ip, &m, at, Unreachable::Protocol);
            Err(DropReason::IpProtocolUnknown)
        }
    }
}

/// One TCP segment: verified, found, predicted or taken through the RFC's steps. `at` is where
/// the IP header begins; bytes behind the IP packet are the link's padding.
#[inline(always)]
fn segment<A: Addrs>(
    stack: &mut Stack,
    ip: Ip<A>,
    mut m: Mbuf,
    at: usize,
    following: bool,
) -> Fate {
    let (ip_at, at) = (at, at + ip.transport_at as usize);
    let len = ip.transport_len as usize;
    let bytes = m.as_slice().get(at..at + len).unwrap_or_default();
    let header = Header::parse(bytes)?;
    let ports = Header::raw_ports(bytes);
    let timestamps = timestamps_only(header.options(bytes));
    let core = &mut stack.core;
    // RFC 9293 MUST-3.
    if core.cx.switches.on(Switch::ChecksumRx)
        && !m.has(MbufFlags::CSUM_VERIFIED)
        && !ip.with_pseudo_header(bytepass_sum(core.cx.ladder, bytes)).is_whole()
    {
        return Err(DropReason::TcpChecksum);
    }
    core.cx.counters.add(Counter::TcpSegmentsIn, 1);
    let key = ip.flow(ports);
    let Some((handle, pcb)) =
        stack.connections.find(key, &core.secret, core.cx.switches, &mut core.cx.counters)
    else {
        m.keep(at, len);
        return no_connection::input(stack, ip, m);
    };
    let seg = segment_of(&header, len, timestamps, ip.is_ce());
    if core.cx.switches.on(Switch::Predict)
        && (timestamps.is_some() || header.header_len == HEADER_LEN)
        && predict::matches(&pcb.tcb, &seg)
    {
        let at = At { ip: ip_at, tcp: at, payload: at + header.header_len };
        let pseudo = || ip.with_pseudo_header(Sum::ZERO);
        predicted(stack, handle, &seg, at, following, m, pseudo);
        return Ok(());
    }
    m.keep(at, len);
    slow_segment(stack, handle, ip, m)?;
    if !stack.core.cx.switches.on(Switch::BurstAck) {
        tx::run(stack);
    }
    Ok(())
}

/// Take a segment that prediction matches, whose headers begin at `at`; `pseudo` sums its
/// pseudo-header.
#[inline(always)]
fn predicted(
    stack: &mut Stack,
    handle: TcpHandle,
    seg: &Segment,
    at: At,
    following: bool,
    mut m: Mbuf,
    pseudo: impl FnOnce() -> Sum,
) {
    let Some(pcb) = stack.connections.get_mut(handle) else { return };
    if following && predict::leads(&pcb.tcb, seg) {
        stack.leader.lead(handle, m.as_slice(), at, seg.len, pseudo());
    }
    m.keep(at.payload, seg.len as usize);
    predict::accept(&mut pcb.tcb, seg, m, &mut stack.core.cx);
    // An ACK of all there was leaves nothing to do, to tell or to time.
    let idle = tcp::output::is_idle(&mut pcb.tcb) && pcb.tcb.next_deadline() >= pcb.wheel_at;
    if !idle && !core::mem::replace(&mut pcb.tcb.dirty, true) {
        stack.connections.dirty.push(handle);
    }
    if !stack.core.cx.switches.on(Switch::BurstAck) {
        tx::run(stack);
    }
}

/// The fields that TCP wants of a segment of `len` bytes, header included.
#[inline(always)]
fn segment_of(header: &Header, len: usize, timestamps: Option<Timestamps>, ce: bool) -> Segment {
    Segment {
        seq: header.seq,
        ack: header.ack,
        len: (len - header.header_len) as u32,
        window: header.window,
        urgent: header.urgent,
        flags: header.flags,
        ce,
        timestamps,
    }
}

/// Header and options of any segment, for the paths that are not in a hurry.
/// RFC 9293 MUST-5.
pub(crate) fn any_segment(m: &Mbuf, ce: bool) -> Result<(Header, Segment, Options), DropReason> {
    let header = Header::parse(m.as_slice())?;
    let options = Options::parse(header.options(m.as_slice()))?;
    let seg = segment_of(&header, m.len(), options.timestamps, ce);
    Ok((header, seg, options))
}

/// What prediction refused, through the steps of RFC 9293.
#[inline(never)]
pub(crate) fn slow_segment<A: Addrs>(
    stack: &mut Stack,
    handle: TcpHandle,
    ip: Ip<A>,
    mut m: Mbuf,
) -> Fate {
    let (header, seg, options) = any_segment(&m, ip.is_ce())?;
    m.trim_front(header.header_len);
    let Some(pcb) = stack.connections.get_mut(handle) else { return Err(DropReason::TcpNoSocket) };
    let embryonic = pcb.tcb.is_embryonic();
    let fate = tcp::input(&mut pcb.tcb, &seg, &options, m, &mut stack.core.cx);
    let unwanted = matches!(fate, Err(DropReason::TcpBadAck | DropReason::TcpAfterClose));
    if unwanted && !seg.flags.contains(Flags::RST) {
        let (owner, mark) = (pcb.owner.clone(), pcb.mark);
        no_connection::reset(stack, &ip, &header, &seg, (&owner, mark));
    }
    if embryonic {
        passive::handshake_progress(stack, handle);
    }
    // Also what was dropped may have left an answer to send.
    stack.connections.mark_dirty(handle);
    fate
}

/// The one pass over a received segment's bytes before its reader's copy; out of line so that
/// instruction counts can tell the bytes from the work on them.
#[inline(never)]
pub(crate) fn bytepass_sum(ladder: Ladder, data: &[u8]) -> Sum {
    ladder.sum(data)
}
