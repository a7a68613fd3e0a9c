//! The fast path in: headers that nearly every TCP segment has are read where their fields always
//! are. No IP options, no fragment, no TCP options but timestamps.
//!
//! Called by: `rx.rs`, before anything is parsed. A segment is taken if it has such headers and a
//! right checksum, its connection is in the flow cache, and prediction matches. Any other, damaged
//! ones too, is handed back for the long way, which knows what to say about it: nothing has been
//! changed. Switch `fast-path` turns it off and a differential test compares (decision 0057).

use base::{Counter, LinkKind, Switch, Switches};
use inet::Ip;
use inet::flow::Addrs;
use inet::ip_input::{ipv4_plain_of, ipv6_plain};
use mbuf::{Flags, Mbuf};
use tcp::{Segment, predict};
use wire::checksum::Sum;
use wire::tcp::Established;
use wire::{ether, ipv4};

use crate::Stack;
use crate::follow::At;
use crate::rx::{Intake, bytepass_sum, predicted};

/// Do the switches let it stand for the long way?
#[inline(always)]
pub(crate) fn is_on(switches: Switches) -> bool {
    let needed = [Switch::FastPath, Switch::Predict, Switch::FlowCache];
    needed.into_iter().all(|switch| switches.on(switch))
}

/// Take a frame, or hand it back; `leads` if those behind it may follow.
#[inline(always)]
pub(crate) fn take(stack: &mut Stack, intake: &Intake, leads: bool, m: Mbuf) -> Result<(), Mbuf> {
    let at = intake.link.header_len();
    let frame = m.as_slice();
    let Some((packet, first)) = frame.get(at..).and_then(|p| Some((p, *p.first()?))) else {
        return Err(m);
    };
    let is_v6 = first >> 4 == 6;
    if intake.link == LinkKind::Ethernet {
        let carries = if is_v6 { ether::IPV6 } else { ether::IPV4 };
        let ours = |h: ether::Header| h.dst == intake.mac && h.ethertype == carries;
        if !ether::Header::parse(frame).is_ok_and(ours) {
            return Err(m);
        }
    }
    if is_v6 {
        return take_v6(stack, leads, m, at);
    }
    match packet.first_chunk().and_then(|header| ipv4_plain_of(header, packet.len())) {
        Some(ip) => segment(stack, ip, at, leads, m),
        None => Err(m),
    }
}

#[inline(never)]
fn take_v6(stack: &mut Stack, leads: bool, m: Mbuf, at: usize) -> Result<(), Mbuf> {
    match m.as_slice().get(at..).and_then(ipv6_plain) {
        Some(ip) => segment(stack, ip, at, leads, m),
        None => Err(m),
    }
}

/// `ip` is the header at `ip_at`.
#[inline(always)]
fn segment<A: Addrs>(
    stack: &mut Stack,
    ip: Ip<A>,
    ip_at: usize,
    leads: bool,
    mut m: Mbuf,
) -> Result<(), Mbuf> {
    let (tcp, len) = (ip_at + ip.transport_at as usize, ip.transport_len as usize);
    let bytes = m.as_slice().get(tcp..tcp + len).unwrap_or_default();
    let Some(header) = bytes.first_chunk().filter(|b| Established::is_at(b)) else { return Err(m) };
    if ip.protocol != ipv4::TCP {
        return Err(m);
    }
    let core = &mut stack.core;
    // What is needed of the headers is read behind the sum: a call keeps little in registers.
    if core.cx.switches.on(Switch::ChecksumRx)
        && !m.has(Flags::CSUM_VERIFIED)
        && !ip.with_pseudo_header(bytepass_sum(core.cx.ladder, bytes)).is_whole()
    {
        return Err(m);
    }
    let Some(header) = Established::parse(header) else { return Err(m) };
    let seg = Segment {
        seq: header.seq,
        ack: header.ack,
        // `bytes` are 32 at least.
        len: (len - header.len()) as u32,
        window: header.window,
        urgent: 0,
        flags: header.flags,
        ce: ip.is_ce(),
        timestamps: header.timestamps,
    };
    let key = ip.flow(u32::from_ne_bytes(header.ports));
    let found = stack.connections.find_cached(&key);
    let Some((handle, _)) = found.filter(|(_, pcb)| predict::matches(&pcb.tcb, &seg)) else {
        // The long way need not sum it again.
        if core.cx.switches.on(Switch::ChecksumRx) {
            m.set(Flags::CSUM_VERIFIED);
        }
        return Err(m);
    };
    core.cx.counters.add(Counter::TcpSegmentsIn, 1);
    core.cx.counters.add(Counter::DemuxHit, 1);
    let at = At { ip: ip_at, tcp, payload: tcp + header.len() };
    predicted(stack, handle, &seg, at, leads, m, || ip.with_pseudo_header(Sum::ZERO));
    Ok(())
}
