//! A packet's way in, whole: a burst from the device, Ethernet, IP, then TCP, UDP or ICMP.
//!
//! Called by: `Stack::poll`. This file keeps the mbuf; each layer looks at it and returns what
//! comes next, or the named reason to drop it. What is to be sent in answer waits until the burst
//! is through (`tx.rs`): one ACK for a burst, one wake-up for a reader.

use core::net::SocketAddr;

use base::{Counter, DropReason, LinkKind, Switch};
use device::Burst;
use inet::ether::{Carries, ether_input};
use inet::ip_input::{ipv4_input, ipv6_input, is_martian_source};
use inet::{FlowKey, Ip};
use mbuf::{Flags as MbufFlags, Mbuf};
use tcp::handshake::{self, Listen};
use tcp::timewait::Late;
use tcp::{Fate, Segment, predict};
use wire::checksum::{Ladder, Sum};
use wire::tcp::{Flags, Header, Options, timestamps_only};
use wire::{ether, ipv4, ipv6};

use crate::event::Event;
use crate::port::Stage;
use crate::{Stack, TcpHandle, socket, tx};

/// Bursts taken from one port before the others get their turn.
const BURSTS_MAX: usize = 8;

/// Take what a port has; returns how many frames.
pub(crate) fn bursts(stack: &mut Stack, port_index: usize) -> usize {
    let mut total = 0;
    for _ in 0..BURSTS_MAX {
        let frames = burst(stack, port_index as u16);
        if frames == 0 {
            break;
        }
        total += frames;
        tx::run(stack);
    }
    total
}

fn burst(stack: &mut Stack, port_id: u16) -> usize {
    let mut frames = Burst::new();
    let Some(port) = stack.ports.get_mut(port_id) else { return 0 };
    if port.device.rx_burst(&mut stack.core.pool, &mut frames) == 0 {
        return 0;
    }
    if let Some(observer) = &mut port.observer {
        observer.burst(Stage::Received, port.id, &frames);
    }
    let count = frames.len();
    stack.core.counters.add(Counter::RxFrames, count as u64);
    stack.core.counters.add(Counter::RxBursts, 1);
    for m in frames {
        stack.core.counters.add(Counter::RxBytes, m.len() as u64);
        if let Err(reason) = frame(stack, port_id, m) {
            stack.core.drops.count(reason);
        }
    }
    count
}

/// One frame. An error frees it.
#[inline(always)]
fn frame(stack: &mut Stack, port_id: u16, mut m: Mbuf) -> Fate {
    m.set_in_port(port_id);
    let Some(port) = stack.ports.get(port_id) else { return Err(DropReason::TxNoPort) };
    let carries = match port.limits.link {
        LinkKind::Ethernet => {
            let (carries, to_group) = ether_input(m.as_slice(), port.mac)?;
            if to_group {
                m.set(MbufFlags::LINK_GROUP);
            }
            m.trim_front(ether::HEADER_LEN);
            carries
        }
        LinkKind::Ip => match m.as_slice().first() {
            Some(first) if first >> 4 == 6 => Carries::Ipv6,
            _ => Carries::Ipv4,
        },
    };
    let ip = match carries {
        Carries::Ipv4 => ipv4_input(m.as_slice())?,
        Carries::Ipv6 => ipv6_input(m.as_slice())?,
        // Neighbours are static so far.
        Carries::Arp => return Err(DropReason::ArpUnsolicited),
    };
    // From here on the mbuf is the transport segment, the link's padding cut off.
    m.truncate(ip.transport_at + ip.transport_len);
    m.trim_front(ip.transport_at);
    match ip.protocol {
        ipv4::TCP => segment(stack, port_id, &ip, m),
        ipv4::UDP => datagram(stack, port_id, &ip, m),
        ipv4::ICMP | ipv6::ICMPV6 => icmp(stack, port_id, &ip, m),
        _ => {
            for_us(stack, port_id, &ip)?;
            Err(DropReason::IpProtocolUnknown)
        }
    }
}

/// One TCP segment: verified, found, predicted or taken through the RFC's steps.
#[inline(always)]
fn segment(stack: &mut Stack, port_id: u16, ip: &Ip, mut m: Mbuf) -> Fate {
    let header = Header::parse(m.as_slice())?;
    let core = &mut stack.core;
    if core.switches.on(Switch::ChecksumRx)
        && !m.has(MbufFlags::CSUM_VERIFIED)
        && !ip.pseudo_sum().plus(bytepass_sum(core.ladder, m.as_slice())).is_whole()
    {
        return Err(DropReason::TcpChecksum);
    }
    core.counters.add(Counter::TcpSegmentsIn, 1);
    let options = header.options(m.as_slice());
    let timestamps = timestamps_only(options);
    let plain = timestamps.is_some() || options.is_empty();
    let mut seg = Segment {
        seq: header.seq,
        ack: header.ack,
        len: (m.len() - header.header_len) as u32,
        window: header.window,
        urgent: header.urgent,
        flags: header.flags,
        timestamps,
    };
    let key = FlowKey::new(ip.dst, header.dst_port, ip.src, header.src_port);
    let found = stack.connections.find(&key, &core.secret, core.switches, &mut core.counters);
    let Some(handle) = found else {
        return no_connection(stack, port_id, ip, &header, &mut seg, &key, m);
    };
    let Some(pcb) = stack.connections.get_mut(handle) else { return Err(DropReason::TcpNoSocket) };
    if plain && core.switches.on(Switch::Predict) && predict::matches(&pcb.tcb, &seg) {
        m.trim_front(header.header_len);
        predict::accept(&mut pcb.tcb, &seg, m, &mut core.tcp());
    } else {
        slow_segment(stack, handle, port_id, ip, &header, &mut seg, m)?;
    }
    stack.connections.mark_dirty(handle);
    if !stack.core.switches.on(Switch::BurstAck) {
        tx::run(stack);
    }
    Ok(())
}

/// What prediction refused, through the steps of RFC 9293.
#[inline(never)]
fn slow_segment(
    stack: &mut Stack,
    handle: TcpHandle,
    port_id: u16,
    ip: &Ip,
    header: &Header,
    seg: &mut Segment,
    mut m: Mbuf,
) -> Fate {
    let options = Options::parse(header.options(m.as_slice()))?;
    seg.timestamps = options.timestamps;
    m.trim_front(header.header_len);
    let Some(pcb) = stack.connections.get_mut(handle) else { return Err(DropReason::TcpNoSocket) };
    let embryonic = pcb.tcb.is_embryonic();
    let fate = tcp::input(&mut pcb.tcb, seg, &options, m, &mut stack.core.tcp());
    if fate == Err(DropReason::TcpBadAck) && !seg.flags.contains(Flags::RST) {
        reset(stack, port_id, ip, header, seg);
    }
    if embryonic {
        socket::handshake_progress(stack, handle);
    }
    // Also what was dropped may have left an answer to send.
    stack.connections.mark_dirty(handle);
    fate
}

/// A segment of no connection: TIME-WAIT, a listener, or nobody's (RFC 9293 section 3.10.7.1).
#[cold]
fn no_connection(
    stack: &mut Stack,
    port_id: u16,
    ip: &Ip,
    header: &Header,
    seg: &mut Segment,
    key: &FlowKey,
    m: Mbuf,
) -> Fate {
    let options = Options::parse(header.options(m.as_slice()))?;
    seg.timestamps = options.timestamps;
    if m.has(MbufFlags::LINK_GROUP) {
        return Err(DropReason::TcpGroupAddress);
    }
    if ip.src == ip.dst && header.src_port == header.dst_port {
        return Err(DropReason::TcpLand);
    }
    if let Some(entry) = stack.connections.time_wait(key, &stack.core.secret).copied() {
        match entry.record.input(seg) {
            Late::Ignore(reason) => return Err(reason),
            Late::Answer => {
                tx::answer_time_wait(stack, &entry);
                return Err(DropReason::TcpTimeWait);
            }
            Late::Reopen => stack.connections.remove_time_wait(key, &stack.core.secret),
        }
    }
    if stack.listeners.takes_anything() {
        for_any_host(stack, port_id, ip)?;
    } else {
        for_us(stack, port_id, ip)?;
    }
    let Some(listener) = stack.listeners.find(ip.dst, header.dst_port) else {
        if seg.flags.contains(Flags::RST) {
            return Err(DropReason::TcpNoSocketRst);
        }
        reset(stack, port_id, ip, header, seg);
        return Err(DropReason::TcpNoSocket);
    };
    match handshake::listen(seg) {
        Listen::Ignore(reason) => Err(reason),
        Listen::Reset(reason) => {
            reset(stack, port_id, ip, header, seg);
            Err(reason)
        }
        Listen::Open => {
            let local = SocketAddr::new(ip.dst, header.dst_port);
            let remote = SocketAddr::new(ip.src, header.src_port);
            socket::passive_open(stack, listener, port_id, local, remote, seg, &options)
        }
    }
}

/// Answer a segment that nobody wants, RFC 9293 section 3.10.7.1.
fn reset(stack: &mut Stack, port_id: u16, ip: &Ip, header: &Header, seg: &Segment) {
    let local = SocketAddr::new(ip.dst, header.dst_port);
    let remote = SocketAddr::new(ip.src, header.src_port);
    tx::reset(stack, port_id, local, remote, seg);
}

/// Is a packet addressed to this host, by an address that a host can have?
fn for_us(stack: &Stack, port_id: u16, ip: &Ip) -> Fate {
    if is_martian_source(ip.src) {
        return Err(DropReason::IpMartianSource);
    }
    match stack.ports.get(port_id) {
        Some(port) if port.is_ours(ip.dst) => Ok(()),
        _ => Err(DropReason::IpNotForUs),
    }
}

/// Is a packet from and to addresses that a host can have, ours or not?
fn for_any_host(stack: &Stack, port_id: u16, ip: &Ip) -> Fate {
    if is_martian_source(ip.src) {
        return Err(DropReason::IpMartianSource);
    }
    if stack.ports.get(port_id).is_some_and(|p| p.is_group(ip.dst)) {
        return Err(DropReason::TcpGroupAddress);
    }
    Ok(())
}

fn datagram(stack: &mut Stack, port_id: u16, ip: &Ip, mut m: Mbuf) -> Fate {
    let group = stack.ports.get(port_id).is_some_and(|p| p.is_group(ip.dst));
    if group {
        if is_martian_source(ip.src) {
            return Err(DropReason::IpMartianSource);
        }
    } else {
        for_us(stack, port_id, ip)?;
    }
    let verify = stack.core.switches.on(Switch::ChecksumRx) && !m.has(MbufFlags::CSUM_VERIFIED);
    let header = inet::udp::udp_input(ip, m.as_slice(), verify, stack.core.ladder)?;
    m.truncate(usize::from(header.length));
    m.trim_front(wire::udp::HEADER_LEN);
    let from = SocketAddr::new(ip.src, header.src_port);
    let to = SocketAddr::new(ip.dst, header.dst_port);
    let (handle, first) = stack.udp.deliver(from, to, m, &mut stack.core)?;
    if first {
        stack.ready.push_back(Event::Udp(handle));
    }
    Ok(())
}

fn icmp(stack: &mut Stack, port_id: u16, ip: &Ip, m: Mbuf) -> Fate {
    for_us(stack, port_id, ip)?;
    if m.has(MbufFlags::LINK_GROUP) {
        return Err(DropReason::IcmpUnhandled);
    }
    inet::icmp::echo_request(ip, m.as_slice(), stack.core.ladder)?;
    tx::echo_reply(stack, port_id, ip, &m)
}

/// The one pass over a received segment's bytes before its reader's copy; out of line so that
/// instruction counts can tell the bytes from the work on them.
#[inline(never)]
fn bytepass_sum(ladder: Ladder, data: &[u8]) -> Sum {
    ladder.sum(data)
}
