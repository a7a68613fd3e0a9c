//! Looks up a connection's route again when its route, neighbour or path MTU may have changed. If
//! the route is now over another port, segments leave by that port; the connection keeps its
//! address.
//!
//! Called by: `tx.rs`, before such a connection sends; `change.rs`, when a port is removed. About a
//! path only evidence from TCP counts: a report that names a sequence number in flight, or a
//! connection that saw large segments vanish and small ones arrive. RFC 1122 sections 3.3.1.4
//! (another gateway after one has failed) and 3.3.4.2 (the weak model: an address is the host's,
//! whatever port a packet uses). RFC 4007 section 9: link-local addresses stay on their link. RFC

use core::net::IpAddr;

use base::{Counter, IpVersion, Mss};
use device::Offloads;
use inet::neighbour::Key;
use inet::select::is_link_scoped;
use tcp::{Todo, path};
use wire::protocol;

use crate::config::IpSettings;
use crate::connections::Pcb;
use crate::handles::TcpHandle;
use crate::next_hop::scoped;
use crate::port::LOOPBACK;
use crate::resolve;
use crate::stack::Stack;

/// Look up the route and neighbour of a connection that is about to send and whose template may be
/// out of date. `false` if the connection has to wait, because it never had a link address.
#[cold]
#[inline(never)]
pub(crate) fn refresh(stack: &mut Stack, handle: TcpHandle) -> bool {
    let Some(pcb) = stack.connections.get(handle) else { return false };
    if !pcb.is_resolved && pcb.tcb.state == tcp::State::Closed {
        // The connection never sent anything, so there is nothing to send now either.
        return false;
    }
    let (local, remote, owner, port) =
        (pcb.key.local(), pcb.key.remote(), pcb.owner.clone(), pcb.port);
    let (tos, ttl) = pcb.template.tos_ttl();
    let ip = IpSettings { tos, ttl, ..IpSettings::by(pcb.by) };
    // The count is read before the solicitation, because an answer to that counts as a change.
    let changes = stack.changes();
    let egress = resolve::route(stack, local, scoped(remote, port), protocol::TCP, &owner, ip);
    let has_policy = stack.routes.has_policy();
    let is_usable = egress.as_ref().is_ok_and(|egress| {
        let is_loop = |port| port == LOOPBACK;
        egress.port == port
            || !is_loop(egress.port)
                && !is_loop(port)
                && is_possible(stack, local.ip(), port, egress.port)
    });
    if let Ok(egress) = &egress
        && is_usable
        && egress.port != port
    {
        go(stack, handle, egress.port);
        stack.core.cx.counters.add(Counter::TcpRerouted, 1);
    }
    let Some(pcb) = stack.connections.get_mut(handle) else { return false };
    match egress {
        Ok(egress) if is_usable => {
            let mss = Mss::for_mtu(egress.mtu, IpVersion::of(&remote.ip()));
            if path::link_carries(&mut pcb.tcb, mss, stack.core.cx.now) {
                stack.core.cx.counters.add(Counter::PathMtuLowered, 1);
            }
            if egress.is_complete {
                pcb.template = egress.template;
                pcb.is_resolved = true;
            } else {
                // The template's link address may be that of a gateway that the connection's owner
                // may no longer use.
                pcb.is_resolved &= !has_policy;
                if !core::mem::replace(&mut pcb.waiting, true) {
                    wait(stack, (egress.port, egress.neighbour), handle);
                }
            }
        }
        // The connection cannot move to the route's port, and stays on its own. With policy routing
        // it sends nothing there, because its owner may no longer use that route.
        Ok(_) => pcb.is_resolved = !has_policy,
        Err(_) => pcb.is_resolved &= !has_policy,
    }
    let Some(pcb) = stack.connections.get_mut(handle) else { return false };
    // A connection that had a link address goes on with that address: if it is wrong, TCP's own
    // timers find out.
    pcb.seen = if pcb.is_resolved { changes } else { Pcb::NEVER_SEEN };
    pcb.is_resolved
}

fn wait(stack: &mut Stack, key: Key, handle: TcpHandle) {
    let connections = &stack.connections;
    let list = stack.resolving.waiting.entry(key).or_default();
    // Handles of connections that have ended while they waited are still in the list.
    if list.len() > 2 * connections.len() + 16 {
        list.retain(|&handle| connections.get(handle).is_some());
    }
    list.push(handle);
}

/// Does the offload set `new` cover all that `old` covers? Segments that wait for the device to
/// finish them were made for the old offloads.
pub(crate) fn suffices(new: &Offloads, old: &Offloads) -> bool {
    (new.tx_checksum || !old.tx_checksum) && new.tso_max_bytes >= old.tso_max_bytes
}

/// May a connection from `local` leave by the port `to` from now on? If not, it keeps its port.
fn is_possible(stack: &Stack, local: IpAddr, from: u16, to: u16) -> bool {
    let offloads = |port| Some(&stack.ports.get(port)?.limits.offloads);
    let Some((new, old)) = offloads(to).zip(offloads(from)) else { return false };
    !is_link_scoped(local) && suffices(new, old)
}

/// Let a connection leave by port `to` from now on. The caller then makes a template for that port.
#[cold]
pub(crate) fn go(stack: &mut Stack, handle: TcpHandle, to: u16) {
    let Some(pcb) = stack.connections.get_mut(handle) else { return };
    let from = core::mem::replace(&mut pcb.port, to);
    pcb.is_resolved = false;
    if core::mem::take(&mut pcb.blocked) {
        pcb.tcb.todo.set(Todo::OUTPUT);
        if let Some(port) = stack.ports.get_mut(from) {
            port.blocked.retain(|&other| other != handle);
        }
    }
}

/// Look up the path MTU of a connection, which may have become known since the last time.
#[cold]
pub(crate) fn refresh_path_mtu(stack: &mut Stack, handle: TcpHandle) {
    let core = &mut stack.core;
    let Some(pcb) = stack.connections.get_mut(handle) else { return };
    let remote = pcb.key.remote().ip();
    let Some((mtu, _)) = stack.path_mtus.known(remote, core.cx.now) else { return };
    let mss = Mss::for_mtu(mtu, IpVersion::of(&remote));
    if path::learnt(&mut pcb.tcb, mss, core.cx.now) {
        core.cx.counters.add(Counter::PathMtuLowered, 1);
    }
}

/// A connection has found out by itself what its path carries: share that with the other
/// connections.
#[cold]
#[inline(never)]
pub(crate) fn found_path_mtu(stack: &mut Stack, handle: TcpHandle) {
    let core = &mut stack.core;
    let Some(pcb) = stack.connections.get_mut(handle) else { return };
    let Some((mss, is_worse)) = path::take_news(&mut pcb.tcb) else { return };
    let remote = pcb.key.remote().ip();
    let Some(mtu) = mss.mtu(IpVersion::of(&remote)) else { return };
    let known = stack.path_mtus.known(remote, core.cx.now).map(|(known, _)| known);
    // An unknown path counts as carrying the port's MTU. A result that is not worse is then no
    // news, and the peer's MSS may have limited it.
    let is_news =
        if is_worse { known.is_none_or(|k| mtu < k) } else { known.is_some_and(|k| mtu > k) };
    if is_news {
        stack.path_mtus.learn(remote, mtu, core.cx.now, &mut core.cx.budget);
    }
}
