//! The whole receive path: a burst from the device, Ethernet, IP, then TCP, UDP or ICMP.
//!
//! Called by: `Stack::poll`. This file keeps the mbuf; each layer looks at it and returns what
//! comes next, or the named reason to drop it. `unusual.rs` handles packets that are not plain TCP.
//! Answers wait until the whole burst is processed (`tx.rs`): one ACK for a burst, one wake-up for
//! a reader.

mod unusual;

use base::{Counter, DropReason, LinkKind, MacAddr, Switch};
use device::{BURST, Burst};
use inet::Ip;
use inet::ether::{Carries, ether_input};
use inet::flow::Addrs;
use inet::ip_input::{ipv4_plain, ipv6_plain};
use mbuf::{Flags as MbufFlags, Mbuf};
use tcp::predict;
use tcp::{Fate, Segment};
use wire::checksum::Sum;
use wire::protocol;
use wire::tcp::{Flags, HEADER_LEN, Header, timestamps_only};

use crate::flows::Frames;
use crate::follow::{self, At, Behind, bytepass_sum};
use crate::forward::Received;
use crate::handles::TcpHandle;
use crate::socket::passive::handshake_progress;
use crate::stack::Stack;
use crate::{arp, bare, forward, no_connection, punt, tx};

pub(crate) use unusual::looped;
use unusual::{other_ipv4, other_ipv6, priority_tagged, transport};

/// How many bursts are taken from one port before the next port is visited.
const BURSTS_MAX: usize = 8;

/// Process the frames that a port has received; returns how many.
/// RFC 9293 MUST-58, MUST-59.
#[inline(always)]
pub(crate) fn bursts(stack: &mut Stack, port_index: usize) -> usize {
    let mut total = 0;
    for _ in 0..BURSTS_MAX {
        let frames = burst(stack, port_index as u16);
        total += frames;
        if frames < BURST {
            // The device had no more frames: another call would return none.
            break;
        }
        tx::run(stack);
    }
    total
}

/// Receive a burst from a port of a host; `None` if there are no frames.
#[inline(always)]
fn receive(stack: &mut Stack, port_id: u16, frames: &mut Burst) -> Option<Received> {
    let port = stack.ports.get_mut(port_id)?;
    let count = port.device.rx_burst(&mut stack.core.cx.pool, frames);
    if count == 0 {
        return None;
    }
    stack.is_overrun = port.received(count, frames, stack.core.cx.now);
    stack.in_vrf = port.vrf;
    Some(Received { count, bytes: 0, link: (port.limits.link, port.mac) })
}

/// [`receive`] from a router's port. Only frames for this host are returned; the others are
/// forwarded.
#[inline(always)]
fn receive_of_router(stack: &mut Stack, port_id: u16, frames: &mut Burst) -> Option<Received> {
    let received = forward::receive(stack, port_id, frames);
    if !stack.forwarding.to_host.is_empty() {
        unusual::to_other_ports(stack, port_id);
    }
    received
}

/// Process one burst. There is one caller, so that this and both ways to receive are inlined.
#[inline(always)]
fn burst(stack: &mut Stack, port_id: u16) -> usize {
    let mut frames = Burst::new();
    let received = match stack.forwarding.on {
        true => receive_of_router(stack, port_id, &mut frames),
        false => receive(stack, port_id, &mut frames),
    };
    let Some(Received { count, mut bytes, link }) = received else { return 0 };
    let switches = stack.core.cx.switches;
    // If an ACK were sent between two segments, it would change Last.ACK.sent, and so TS.Recent at
    // the second segment.
    let following = count > 1 && switches.on(Switch::Follow) && switches.on(Switch::BurstAck);
    let intake = Intake { port: port_id, link: link.0, mac: link.1, following };
    // Checked once a burst, at the first frame whose next frame does not follow: flows may
    // alternate.
    let mut apart = following && switches.on(Switch::FollowApart);
    // The next frame is last, so that it can be taken without moving the others.
    frames.reverse();
    while let Some(m) = frames.pop() {
        let next = frames.last().filter(|_| following);
        let leads = next.is_some_and(|next| follow::may_follow(&m, next, intake.link.header_len()));
        if apart && !leads && next.is_some() {
            apart = false;
            if stack.flows.are_worth_it() {
                frames.push(m);
                bytes += alternating(stack, &intake, &mut frames);
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

/// How the frames of a burst are processed.
struct Intake {
    port: u16,
    link: LinkKind,
    mac: MacAddr,
    /// Segments may follow others without being parsed.
    following: bool,
}

/// Process one frame. `leads`: the next frames of the burst may follow it.
#[inline(always)]
fn one(stack: &mut Stack, intake: &Intake, leads: bool, mut m: Mbuf) {
    m.set_in_port(intake.port);
    if let Err(reason) = frame(stack, intake.link, intake.mac, leads, m) {
        stack.core.drops.count(reason);
    }
}

/// Accept the segments after a leader that have the leader's headers; returns the number of their
/// bytes. The first other segment stays in `frames` and is processed by [`frame`], which finds the
/// reason.
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

/// Process a burst in which flows alternate; its last frame comes first. A leader's followers are
/// found where they are, and are accepted before frames of other flows that came earlier. The order
/// makes no difference, because each frame changes only its own connection. Returns the number of
/// bytes.
#[inline(never)]
fn alternating(stack: &mut Stack, intake: &Intake, burst: &mut Burst) -> u64 {
    let (mut frames, count) = stack.flows.link(burst, intake.link.header_len());
    let (mut bytes, mut found) = (0, 0);
    for place in 0..count {
        let Some(m) = frames[place].take() else { continue };
        let leads = intake.following && stack.flows.next(place).is_some();
        bytes += m.len() as u64;
        one(stack, intake, leads, m);
        if let Some(handle) = stack.leader.handle.take() {
            let (more, their_bytes) = followers_behind(stack, handle, place, &mut frames, burst);
            bytes += their_bytes;
            found += more;
        }
    }
    stack.flows.found(found);
    bytes
}

/// [`followers`] where flows alternate. The leader was at `place`; its followers are taken from
/// their places and collected in `taken`, which is empty before. Returns their number, and their
/// bytes.
#[inline(always)]
fn followers_behind(
    stack: &mut Stack,
    handle: TcpHandle,
    place: usize,
    frames: &mut Frames,
    taken: &mut Burst,
) -> (usize, u64) {
    let (core, leader) = (&mut stack.core, &stack.leader);
    let Some(pcb) = stack.connections.get_mut(handle) else { return (0, 0) };
    let (next, most) = predict::expects(&pcb.tcb, leader.len);
    let verify = core.cx.switches.on(Switch::ChecksumRx);
    let behind = Behind { flows: &stack.flows, place, most, verify };
    leader.gather(frames, behind, core.cx.ladder, next.0, taken);
    let count = taken.len();
    if count > 0 {
        core.cx.counters.add(Counter::TcpSegmentsIn, count as u64);
        let alike = taken.drain(..);
        predict::accept_alike(&mut pcb.tcb, alike, leader.at.payload, leader.len, &mut core.cx);
        stack.connections.mark_dirty(handle);
    }
    (count, count as u64 * leader.frame_len as u64)
}

/// Process one frame: its link header, then its IP header. An error frees the frame.
#[inline(always)]
fn frame(stack: &mut Stack, link: LinkKind, mac: MacAddr, following: bool, m: Mbuf) -> Fate {
    let carries = match link {
        LinkKind::Ethernet => {
            let (carries, to_group) = match ether_input(m.as_slice(), mac) {
                Ok(found) => found,
                Err(reason) => return priority_tagged(stack, mac, m, reason),
            };
            if to_group {
                return unusual::to_group(stack, carries, m, link.header_len());
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

/// Process one TCP segment: verify its checksum, find its connection, then predict it or take the
/// RFC's steps. The IP header begins at `at`; bytes after the IP packet are the link's padding.
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
    // RFC 9293 MUST-3: the receiver verifies the checksum.
    if core.cx.switches.on(Switch::ChecksumRx)
        && !m.has(MbufFlags::CSUM_VERIFIED)
        && !ip.with_pseudo_header(bytepass_sum(core.cx.ladder, bytes)).is_whole()
    {
        return Err(DropReason::TcpChecksum);
    }
    core.cx.counters.add(Counter::TcpSegmentsIn, 1);
    let key = ip.flow(ports).within(stack.in_vrf);
    let Some((handle, pcb)) =
        stack.connections.find(key, &core.secret, core.cx.switches, &mut core.cx.counters)
    else {
        return of_no_connection(stack, ip, m, at);
    };
    let seg = Segment::new(&header, len, timestamps, ip.is_ce());
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

/// Accept a segment that prediction matches. Its headers begin at `at`; `pseudo` is the sum of its
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
    // An ACK of everything in flight leaves nothing to send, to report or to time.
    let idle = tcp::output::is_idle(&mut pcb.tcb) && pcb.tcb.next_deadline() >= pcb.wheel_at;
    if !idle && !core::mem::replace(&mut pcb.tcb.dirty, true) {
        stack.connections.dirty.push(handle);
    }
    if !stack.core.cx.switches.on(Switch::BurstAck) {
        tx::run(stack);
    }
}

/// Process a segment that belongs to no connection; it begins at `at`. A valid cookie in it creates
/// one. A segment that would get a RST goes to the port's mirror, if there is one.
#[cold]
#[inline(never)]
fn of_no_connection<A: Addrs>(stack: &mut Stack, ip: Ip<A>, mut m: Mbuf, at: usize) -> Fate {
    if stack.punt.is_some() && punt::ingress::takes_segment(stack, &ip, &m, at) {
        return punt::ingress::take(stack, &ip, m, at - ip.transport_at as usize);
    }
    m.keep(at, ip.transport_len as usize);
    match no_connection::input(stack, &ip, m)? {
        Some((handle, m)) => slow_segment(stack, handle, ip, m),
        None => Ok(()),
    }
}

/// Process a segment that prediction refused, by the steps of RFC 9293.
#[inline(never)]
pub(crate) fn slow_segment<A: Addrs>(
    stack: &mut Stack,
    handle: TcpHandle,
    ip: Ip<A>,
    mut m: Mbuf,
) -> Fate {
    let (header, seg, options) = Segment::parse(m.as_slice(), ip.is_ce())?;
    m.trim_front(header.header_len);
    let Some(pcb) = stack.connections.get_mut(handle) else { return Err(DropReason::TcpNoSocket) };
    let embryonic = pcb.tcb.is_embryonic();
    let fate = tcp::input(&mut pcb.tcb, &seg, &options, m, &mut stack.core.cx);
    let unwanted = matches!(fate, Err(DropReason::TcpBadAck | DropReason::TcpAfterClose));
    if unwanted && !seg.flags.contains(Flags::RST) {
        let (owner, by) = (pcb.owner.clone(), pcb.by);
        bare::reset(stack, no_connection::ends(&ip, &header), &seg, (&owner, by));
    }
    if embryonic {
        handshake_progress(stack, handle);
    }
    // A dropped segment may also have caused an answer to send.
    stack.connections.mark_dirty(handle);
    fate
}
