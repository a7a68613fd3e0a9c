//! Offloads of forwarded packets: a super-segment leaves whole by a port that takes it, and in
//! packets by another one; a checksum that the sender left to its device is left to the next one.
//!
//! Called by: `plain.rs`; `burst/whole.rs` sends what leaves as it is. A super-segment is one
//! packet to routes, rules and counters; the MTU is compared with the packets that it becomes.
//! Decision 0133. Counters: `super_segments_forwarded`, `super_segments_cut`. Drop:
//! `ip_super_segment`.

use core::net::IpAddr;

use base::{Counter, DropReason, Mtu};
use inet::forward::{self as transit, Inner, SuperSegment};
use mbuf::{Flags, Mbuf};
use tcp::Fate;

use super::{Egress, put_or_fragment};
use crate::port::Port;
use crate::stack::Stack;

/// What becomes of the offloads that a packet asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Offload {
    /// It asks for none.
    None,
    /// Its checksum is finished here.
    Finish,
    /// The device of the port out does the work. The transport header is this many bytes behind the
    /// start of the packet.
    Leave(u16),
    /// It is cut here.
    Cut,
}

impl Offload {
    /// For a packet to `dst` that leaves by `port`, behind no link header.
    ///
    /// # Errors
    /// As [`longest`].
    #[inline]
    pub(super) fn of(
        stack: &Stack,
        m: &Mbuf,
        (port, dst): (u16, IpAddr),
        mtu: Mtu,
    ) -> Result<Offload, DropReason> {
        if m.segment_size() == 0 && !m.has(Flags::CSUM_PARTIAL) {
            return Ok(Offload::None);
        }
        let port = stack.ports.get(port).ok_or(DropReason::TxNoPort)?;
        let packet = m.as_slice();
        let inner = Inner::of(packet);
        let is_super = m.segment_size() != 0;
        let inner = match inner {
            Some(inner) => inner,
            None if is_super => return Err(DropReason::IpSuperSegment),
            None => return Ok(Offload::Finish),
        };
        // Packets to a destination with a gap leave one by one.
        let has_gap = is_super && stack.pace.is_on() && stack.pace.gap(dst).is_some();
        let at = u16::try_from(inner.at).ok();
        let at = at.filter(|_| !has_gap && takes(port, m, packet, &inner, mtu.bytes()));
        Ok(match at {
            Some(at) => Offload::Leave(at),
            None if is_super => Offload::Cut,
            None => Offload::Finish,
        })
    }
}

/// Does the device of a port do the work that a packet asks for, so that all packets on the wire
/// have at most `mtu` bytes?
#[inline]
pub(in crate::forward) fn takes(
    port: &Port,
    m: &Mbuf,
    packet: &[u8],
    inner: &Inner,
    mtu: usize,
) -> bool {
    let offloads = &port.limits.offloads;
    let most = if inner.is_tcp { offloads.tso_max_bytes } else { offloads.uso_max_bytes };
    let size = m.segment_size();
    let is_cut_there = size == 0 || inner.len + port.limits.link.header_len() <= most;
    let is_cut_there = is_cut_there && inner.has_few_pieces(size);
    offloads.tx_checksum && is_cut_there && inner.is_direct(packet) && inner.longest(size) <= mtu
}

/// Bytes of the longest packet that a packet of `len` bytes becomes on the wire.
///
/// # Errors
/// [`DropReason::IpSuperSegment`]: a super-segment that is neither TCP nor UDP, a fragment, one
/// whose checksum is finished, or one of more segments than [`transit::SEGMENTS_MAX`]: no kernel
/// makes them.
#[inline]
pub(super) fn longest(m: &Mbuf, packet: &[u8]) -> Result<usize, DropReason> {
    match m.segment_size() {
        0 => Ok(packet.len()),
        size => {
            let inner = Inner::of(packet).filter(|_| m.has(Flags::CSUM_PARTIAL));
            let inner = inner.filter(|inner| inner.has_few_pieces(size));
            inner.map(|inner| inner.longest(size)).ok_or(DropReason::IpSuperSegment)
        }
    }
}

/// The first packet that a super-segment is cut into, for an ICMP error: its sender looks for the
/// headers that it would have on the wire. `None` for any other packet.
#[cold]
pub(super) fn first(stack: &mut Stack, m: &Mbuf, packet: &[u8]) -> Option<Mbuf> {
    let whole = SuperSegment::new(packet, m.segment_size())?;
    piece(stack, &whole, 0)
}

fn piece(stack: &mut Stack, whole: &SuperSegment<'_>, number: usize) -> Option<Mbuf> {
    let cx = &mut stack.core.cx;
    let (len, ladder) = (whole.len_of(number), cx.ladder);
    let made = cx.pool.alloc_filled(len, len, |to| whole.write(number, ladder, to));
    made.map(|(piece, ())| piece)
}

/// Cut a super-segment and send its packets, in fragments if they are too large for the path and
/// may be.
#[inline(never)]
pub(super) fn cut(stack: &mut Stack, m: &Mbuf, mtu: Mtu, egress: &Egress) -> Fate {
    let whole = SuperSegment::new(m.as_slice(), m.segment_size());
    let whole = whole.ok_or(DropReason::IpSuperSegment)?;
    for number in 0..whole.count() {
        let mut part = piece(stack, &whole, number).ok_or(DropReason::MbufExhausted)?;
        part.set_in_port(m.in_port());
        if !part.as_mut_slice().is_some_and(transit::hop) {
            return Err(DropReason::IpHopLimit);
        }
        put_or_fragment(stack, part, mtu, egress)?;
    }
    stack.core.cx.counters.add(Counter::SuperSegmentsCut, 1);
    Ok(())
}
