//! Bursts of a port of a router: received, shown to taps, and forwarded, in bursts or one by one.
//!
//! Called by: `rx.rs`, instead of what a host does, so that a host pays nothing for it. Where a
//! port of a trunk leaves its tag in the frames, forwarding in bursts skips it. RFC 1812 section
//! 5.2.

use base::{LinkKind, MacAddr, Switch};
use device::Burst;
use device::vlan::Tag;

use crate::Stack;
use crate::rx::Received;

/// Where frames came by.
#[derive(Clone, Copy)]
pub(super) struct Ingress {
    pub(super) port: u16,
    pub(super) link: (LinkKind, MacAddr),
    /// The frames have this tag of the port's.
    pub(super) tag: Option<Tag>,
}

/// Receive a burst and forward what of it is not for this host; the rest is left in `frames`, in
/// order. `None` if nothing came.
#[inline(never)]
pub(crate) fn receive(stack: &mut Stack, port_id: u16, frames: &mut Burst) -> Option<Received> {
    let in_bursts = stack.core.cx.switches.on(Switch::ForwardBurst)
        && !stack.pace.is_on()
        && !stack.listeners.takes_anything();
    let port = stack.ports.get_mut(port_id)?;
    let pool = &mut stack.core.cx.pool;
    // Taps add the tag to what they are shown.
    let tag = port.own_tag.filter(|_| in_bursts && port.taps.is_empty());
    let count = match tag {
        Some(_) => port.device.rx_burst_tagged(pool, frames),
        None => port.device.rx_burst(pool, frames),
    };
    if count == 0 {
        return None;
    }
    stack.is_overrun = port.received(count, frames, stack.core.cx.now);
    let link = (port.limits.link, port.mac);
    let ingress = Ingress { port: port_id, link, tag };
    if in_bursts && let Some(mut bursts) = stack.forwarding.bursts.take() {
        let bytes = bursts.divert(stack, &ingress, frames);
        stack.forwarding.bursts = Some(bursts);
        return Some(Received { count, bytes, link });
    }
    Some(Received { count, bytes: one_by_one(stack, &ingress, frames), link })
}

/// The plain path; how many bytes it took out.
fn one_by_one(stack: &mut Stack, ingress: &Ingress, frames: &mut Burst) -> u64 {
    let mut bytes = 0;
    for mut m in core::mem::take(frames) {
        if let Some(tag) = ingress.tag {
            tag.strip_from(&mut m);
        }
        let len = m.len() as u64;
        match super::take(stack, ingress.port, ingress.link, m) {
            Some(m) => frames.push(m),
            None => bytes += len,
        }
    }
    bytes
}
