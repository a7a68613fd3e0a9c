//! Bursts of a port of a router: received, shown to taps, and forwarded, in bursts or one by one.
//!
//! Called by: `rx.rs`, instead of what a host does, so that a host pays nothing for it. Where a
//! port of a trunk leaves its tag in the frames, forwarding in bursts skips it. Any shard of a
//! router forwards what its queue brings: only frames for the host have to reach their flow's shard
//! (docs/decisions/0081). RFC 1812 section 5.2.

use base::{LinkKind, MacAddr, Switch};
use device::Burst;

use super::plain::{self, Ingress};
use crate::shard;
use crate::shard::homes::{self, Step};
use crate::stack::Stack;

/// The frames of a burst.
pub(crate) struct Received {
    /// Frames.
    pub(crate) count: usize,
    /// Bytes of the frames that forwarding has taken.
    pub(crate) bytes: u64,
    /// The port's link.
    pub(crate) link: (LinkKind, MacAddr),
}

/// Receive a burst and forward the frames that are not for this host; the rest is left in `frames`,
/// in order. `None` if nothing came.
#[inline(never)]
pub(crate) fn receive(stack: &mut Stack, port_id: u16, frames: &mut Burst) -> Option<Received> {
    for _ in 0..shard::ROUNDS_MAX {
        let received = burst(stack, port_id, frames)?;
        if received.count > 0 {
            return Some(received);
        }
        // All frames were for the host, but for flows of other shards.
    }
    None
}

#[inline(always)]
fn burst(stack: &mut Stack, port_id: u16, frames: &mut Burst) -> Option<Received> {
    let in_bursts = stack.core.cx.switches.on(Switch::ForwardBurst)
        && !stack.pace.is_on()
        && !stack.listeners.takes_anything();
    let port = stack.ports.get_mut(port_id)?;
    let in_bursts = in_bursts && port.offers.is_none();
    let pool = &mut stack.core.cx.pool;
    // Tags are not left in frames for taps, which add the tag themselves.
    let tag = port.own_tag.filter(|_| in_bursts && port.taps.is_empty());
    // Taps see a frame at its own shard, once; the state of a flow is there too.
    let is_unsteered = port.outbox.is_some() && port.taps.is_empty() && stack.firewall.is_none();
    if port.outbox.is_some() && stack.firewall.is_some() {
        return filtered(stack, port_id, frames, in_bursts);
    }
    let (handed_over, count) = match tag {
        Some(_) => (0, port.device.rx_burst_tagged(pool, frames)),
        None if is_unsteered => port.device.rx_burst_unsteered(pool, frames),
        None => (0, port.device.rx_burst(pool, frames)),
    };
    if count == 0 {
        return None;
    }
    stack.is_overrun = port.received(count, frames, stack.core.cx.now);
    if !port.macs.is_empty() {
        port.take_by_further_macs(frames);
    }
    let link = (port.limits.link, port.mac);
    let (check, vrf) = (port.source_check, port.vrf);
    stack.in_vrf = vrf;
    let ingress = Ingress { port: port_id, link, in_bursts, tag, check, vrf };
    if !is_unsteered {
        return Some(Received { count, bytes: divert(stack, &ingress, frames), link });
    }
    if handed_over > 0 {
        let (elsewhere, bytes) = of_several(stack, &ingress, frames, handed_over);
        return Some(Received { count: count - elsewhere, bytes, link });
    }
    let bytes = divert(stack, &ingress, frames);
    let elsewhere = if frames.is_empty() { 0 } else { shard::steer(stack, port_id, frames) };
    Some(Received { count: count - elsewhere, bytes, link })
}

/// [`burst`] of a shard with rules: it forwards no frames but those of its flows.
#[inline(never)]
fn filtered(
    stack: &mut Stack,
    port_id: u16,
    frames: &mut Burst,
    in_bursts: bool,
) -> Option<Received> {
    let port = stack.ports.get_mut(port_id)?;
    let (handed_over, count) = port.device.rx_burst_unsteered(&mut stack.core.cx.pool, frames);
    if count == 0 {
        return None;
    }
    homes::steer(stack, port_id, frames, handed_over);
    let port = stack.ports.get_mut(port_id)?;
    // Taps have seen those that come a second time, all of them by rings.
    if handed_over > 0 {
        let (again, new): (Burst, Burst) =
            core::mem::take(frames).into_iter().partition(|m| homes::step(m) != Step::First);
        stack.is_overrun = port.received(count, &new, stack.core.cx.now);
        frames.extend(again.into_iter().chain(new));
    } else {
        stack.is_overrun = port.received(count, frames, stack.core.cx.now);
    }
    if !port.macs.is_empty() {
        port.take_by_further_macs(frames);
    }
    let link = (port.limits.link, port.mac);
    let (check, vrf) = (port.source_check, port.vrf);
    stack.in_vrf = vrf;
    let ingress = Ingress { port: port_id, link, in_bursts, tag: None, check, vrf };
    let count = frames.len();
    Some(Received { count, bytes: divert(stack, &ingress, frames), link })
}

/// A burst whose first frames other shards handed over: they stay here. Returns how many of the
/// others were handed on, and the bytes that were taken out.
#[cold]
#[inline(never)]
fn of_several(
    stack: &mut Stack,
    ingress: &Ingress,
    frames: &mut Burst,
    handed_over: usize,
) -> (usize, u64) {
    let mut own: Burst = frames.drain(handed_over..).collect();
    let bytes = divert(stack, ingress, frames) + divert(stack, ingress, &mut own);
    let elsewhere = shard::steer(stack, ingress.port, &mut own);
    frames.extend(own);
    (elsewhere, bytes)
}

/// Forward frames that are not for this host, and leave the rest; returns how many bytes were taken
/// out.
#[inline(always)]
fn divert(stack: &mut Stack, ingress: &Ingress, frames: &mut Burst) -> u64 {
    if ingress.in_bursts
        && let Some(mut bursts) = stack.forwarding.bursts.take()
    {
        let bytes = bursts.divert(stack, ingress, frames);
        stack.forwarding.bursts = Some(bursts);
        return bytes;
    }
    one_by_one(stack, ingress, frames)
}

/// Forward packet by packet (`plain.rs`); returns how many bytes were taken out.
fn one_by_one(stack: &mut Stack, ingress: &Ingress, frames: &mut Burst) -> u64 {
    let mut bytes = 0;
    for mut m in core::mem::take(frames) {
        if let Some(tag) = ingress.tag {
            tag.strip_from(&mut m);
        }
        let len = m.len() as u64;
        match plain::take(stack, ingress.port, ingress.link, m) {
            Some(m) => frames.push(m),
            None => bytes += len,
        }
    }
    bytes
}
