//! Segments that came apart leave as one super-segment by a device to which that is worth a copy
//! ([`device::Offloads::gro`]).
//!
//! Called by: `burst.rs`, for frames that leave by such a device; others do not come here. Only
//! frames that follow each other are merged, so the order stays. The rules are in
//! `inet::forward::merge`. Switch: `forward-merge`. Counter: `segments_merged`. Decision 0133.

use arrayvec::{ArrayVec, IntoIter};
use base::{Counter, Switch};
use device::BURST;
use inet::forward::{Inner, Run, is_sound};
use mbuf::{Flags, Mbuf};
use wire::checksum::Ladder;

use super::adjacency::Adjacency;
use super::look::{Seen, TAGGED};
use super::whole;
use crate::stack::Stack;

/// Send the next frames of a burst, as many as there are in `seen`, to their next hop, and merge
/// those that may be. As [`super::leave::leave`].
#[inline(never)]
pub(super) fn leave<const AT: usize>(
    stack: &mut Stack,
    adjacency: &Adjacency,
    mut seen: &[Seen],
    frames: &mut IntoIter<Mbuf, BURST>,
) -> Option<u64> {
    let port = stack.ports.get(adjacency.port()).filter(|port| !port.gone)?;
    let most = port.limits.offloads.tso_max_bytes.saturating_sub(TAGGED);
    let (mut at, mut bytes) = (0, 0);
    if !stack.core.cx.switches.on(Switch::ForwardMerge) {
        at = seen.len();
    }
    while at < seen.len() {
        let ladder = stack.core.cx.ladder;
        let run = run::<AT>(&seen[at..], &frames.as_slice()[at..], most, ladder);
        let count = run.as_ref().map_or(1, Run::count);
        let whole = run.filter(|run| run.count() > 1).and_then(|run| {
            let merged = merged::<AT>(stack, &run, &frames.as_slice()[at..])?;
            Some((merged, run.inner(), run.packet_len()))
        });
        let Some((merged, inner, len)) = whole else {
            at += count;
            continue;
        };
        // Frames that came before the run leave before it.
        let (before, later) = seen.split_at(at);
        if at > 0 {
            bytes += super::leave::leave::<AT>(stack, adjacency, before, frames)?;
        }
        let of_run = Seen { len: len as u16, ..later[0] };
        let mut one: ArrayVec<Mbuf, BURST> = ArrayVec::new();
        one.push(merged);
        let is_sent =
            whole::leave_as_is::<AT>(stack, adjacency, &inner, of_run, &mut one.into_iter());
        is_sent?;
        for m in frames.take(count) {
            bytes += m.len() as u64;
            stack.core.cx.pool.free(m);
        }
        stack.core.cx.counters.add(Counter::SegmentsMerged, count as u64);
        if let Some(port) = stack.ports.get_mut(adjacency.port()) {
            port.forwarded.packets_out += count as u64 - 1;
        }
        (seen, at) = (&later[count..], 0);
    }
    if !seen.is_empty() {
        bytes += super::leave::leave::<AT>(stack, adjacency, seen, frames)?;
    }
    Some(bytes)
}

/// The packet of a frame, without the link's padding.
fn packet_of<const AT: usize>(m: &Mbuf, seen: Seen) -> Option<&[u8]> {
    m.as_slice().get(AT..AT + usize::from(seen.len))
}

/// The longest run that begins with the first of these frames; `None` if no frame may follow it.
fn run<'a, const AT: usize>(
    seen: &[Seen],
    frames: &'a [Mbuf],
    most: usize,
    ladder: Ladder,
) -> Option<Run<'a>> {
    let (first, first_seen) = (frames.first()?, *seen.first()?);
    let mut run = Run::begin(packet_of::<AT>(first, first_seen)?)?;
    let tag = |m: &Mbuf| m.has(Flags::VLAN).then(|| m.vlan());
    // A wrong checksum must not be made right.
    let is_right = |m: &Mbuf, packet: &[u8], inner: &Inner| {
        m.has(Flags::CSUM_VERIFIED) || is_sound(packet, inner, ladder)
    };
    let inner = run.inner();
    for (m, &next) in frames.iter().zip(seen).skip(1) {
        let is_of_flow = next.number == first_seen.number
            && m.as_slice().get(..AT) == first.as_slice().get(..AT)
            && tag(m) == tag(first);
        let packet = packet_of::<AT>(m, next).filter(|_| is_of_flow)?;
        let mut longer = run;
        if !longer.take(packet, most) || !is_right(m, packet, &inner) {
            break;
        }
        run = longer;
    }
    (run.count() == 1 || is_right(first, packet_of::<AT>(first, first_seen)?, &inner))
        .then_some(run)
}

/// The super-segment of a run that begins with the first of these frames.
fn merged<const AT: usize>(stack: &mut Stack, run: &Run<'_>, frames: &[Mbuf]) -> Option<Mbuf> {
    let (first, inner) = (frames.first()?, run.inner());
    let len = AT + run.packet_len();
    let made = stack.core.cx.pool.alloc_filled(len, len, |to| {
        let (link, packet) = to.split_at_mut(AT);
        link.copy_from_slice(&first.as_slice()[..AT]);
        run.write_headers(packet);
        let mut rest = &mut packet[inner.payload_at..];
        for m in &frames[..run.count()] {
            let payload = m.as_slice().get(AT + inner.payload_at..).unwrap_or_default();
            let part = payload.len().min(run.size()).min(rest.len());
            mbuf::copy(&payload[..part], &mut rest[..part]);
            rest = &mut rest[part..];
        }
    });
    let (mut m, ()) = made?;
    m.set(Flags::CSUM_PARTIAL);
    m.set_csum((AT + inner.at) as u16);
    m.set_segment_size(run.size() as u16);
    m.set_in_port(first.in_port());
    if first.has(Flags::VLAN) {
        m.set(Flags::VLAN);
        m.set_vlan(first.vlan());
    }
    Some(m)
}
