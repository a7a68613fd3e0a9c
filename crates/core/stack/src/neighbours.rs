//! Acts when the resolution of a neighbour's link address has succeeded or failed: sends or drops
//! the packets that waited for the address, wakes the connections that waited, and notes whether a
//! router answers. Also the calls by which programs set, remove and read neighbours.
//!
//! Called by: `arp.rs` and `nd.rs` after a received message, `poll.rs` when a neighbour's timer
//! expires, and every call that may have looked up a neighbour. A look-up in the middle of sending
//! (`resolve.rs`) sends solicitations at once, and queues outcomes in `Resolving::outcomes`,
//! because they may concern its own caller. RFC 4861 section 7.2 and 7.3.3, RFC 1122 section
//! 3.3.1.4. Counter: `neighbour_failures`.

use core::net::IpAddr;
use std::collections::VecDeque;

use base::{Counter, DropReason, Limit, MacAddr};
use inet::neighbour::{Key, Learnt, State};
use mbuf::Mbuf;
use tcp::Fate;
use wire::ether;

use crate::handles::PortId;
use crate::resolving::Outcome;
use crate::socket::passive::handshake_progress;
use crate::stack::Stack;
use crate::{autoconf, forward, frag, icmp, icmp_redirect, resolve};

/// Carry out the actions that the neighbour table requests, and the outcomes that earlier look-ups
/// queued.
pub(crate) fn act(stack: &mut Stack) {
    resolve::ask(stack);
    while let Some(outcome) = stack.resolving.outcomes.pop_front() {
        match outcome {
            Outcome::Resolved(key, mac, pending) => resolved(stack, key, mac, pending),
            Outcome::Failed(key, pending) => failed(stack, key, pending),
        }
        resolve::ask(stack);
    }
}

/// The neighbour `key` has this link address: send the packets that waited for it, and let the
/// connections that waited for it send.
fn resolved(stack: &mut Stack, key: Key, mac: MacAddr, pending: VecDeque<Mbuf>) {
    autoconf::router::set_silent(stack, key, false);
    for mut frame in pending {
        if let Some(dst) = frame.as_mut_slice().and_then(|b| b.get_mut(..6)) {
            dst.copy_from_slice(&mac.0);
        }
        frag::output::put(stack, key, frame);
    }
    for handle in stack.resolving.waiting.remove(&key).unwrap_or_default() {
        if let Some(pcb) = stack.connections.get_mut(handle) {
            pcb.waiting = false;
            stack.connections.mark_dirty(handle);
        }
    }
}

/// The neighbour `key` did not answer, or its entry was removed by a program or to make room for
/// another. Drop the packets in its pending queue, and report that to their senders and to the
/// connections that waited. Only a neighbour that did not answer counts as a router that is down.
#[cold]
fn failed(stack: &mut Stack, key: Key, pending: VecDeque<Mbuf>) {
    stack.core.cx.counters.add(Counter::NeighbourFailures, 1);
    icmp_redirect::forget_gateway(stack, key);
    stack.progress.forget(key);
    let vrf = stack.ports.vrf(key.0);
    for frame in pending {
        stack.core.drops.count(DropReason::IpNoNeighbour);
        icmp::host_unreachable(
            stack,
            frame.as_slice().get(ether::HEADER_LEN..).unwrap_or_default(),
            vrf,
        );
        forward::unreachable(stack, &frame);
        stack.core.cx.pool.free(frame);
    }
    // A neighbour whose entry was removed may have been solicited again meanwhile. Then connections
    // go on waiting for it.
    let is_asked = stack.neighbours.state(key).is_some();
    let waiting = if is_asked { None } else { stack.resolving.waiting.remove(&key) };
    for handle in waiting.unwrap_or_default() {
        let Some(pcb) = stack.connections.get_mut(handle) else { continue };
        pcb.waiting = false;
        let embryonic = pcb.tcb.is_embryonic();
        tcp::path::host_unreachable(&mut pcb.tcb);
        if embryonic {
            handshake_progress(stack, handle);
        }
        stack.connections.mark_dirty(handle);
    }
    if stack.resolving.is_expiring {
        autoconf::nd_redirect::forget_target(stack, key);
        autoconf::router::set_silent(stack, key, true);
    }
}

/// Handle expired timers of neighbours.
#[cold]
pub(crate) fn expire(stack: &mut Stack) {
    // First act on entries that were removed earlier, while `is_expiring` is false: those
    // neighbours were not silent.
    act(stack);
    let Stack { neighbours, progress, connections, .. } = stack;
    neighbours.expire(stack.core.cx.now, |key| progress.is_made(key, connections));
    stack.resolving.is_expiring = true;
    act(stack);
    stack.resolving.is_expiring = false;
}

/// May another answer to an ARP request or neighbour solicitation be sent now? One rate limit
/// counts for all ports together ([`Limit::AdvertisementsPerSecond`]).
///
/// # Errors
/// [`DropReason::NeighbourRateLimited`].
pub(crate) fn may_answer(stack: &mut Stack) -> Fate {
    let core = &mut stack.core;
    let limit = Limit::AdvertisementsPerSecond;
    match stack.resolving.advertisements.admits(limit, core.cx.now, &mut core.cx.budget) {
        true => Ok(()),
        false => Err(DropReason::NeighbourRateLimited),
    }
}

/// The drop reason of an advertisement that the table did not use: `useless`, unless the neighbour
/// changes its link address too often.
pub(crate) fn not_learnt(learnt: Learnt, useless: DropReason) -> DropReason {
    if learnt == Learnt::TooOften { DropReason::NeighbourMovesTooOften } else { useless }
}

impl Stack {
    /// Set a permanent link address of a neighbour: it is never solicited, and packets cannot
    /// change it. `false` when the table is full.
    pub fn add_neighbour(&mut self, port: PortId, ip: IpAddr, mac: MacAddr) -> bool {
        let set =
            self.neighbours.set((port.0, ip), mac, self.core.cx.now, &mut self.core.cx.budget);
        act(self);
        set
    }

    /// Forget a link address that [`Stack::add_neighbour`] set: the neighbour is solicited for the
    /// next packet to it. `false` if no address was set.
    pub fn remove_neighbour(&mut self, port: PortId, ip: IpAddr) -> bool {
        self.neighbours.unset((port.0, ip))
    }

    /// Forget a neighbour's link address, whether it was set or learnt. `false` if none was known.
    pub fn forget_neighbour(&mut self, port: PortId, ip: IpAddr) -> bool {
        let was_known = self.neighbours.remove((port.0, ip));
        act(self);
        was_known
    }

    /// The state of a neighbour; `None` if nothing is known of it.
    pub fn neighbour_state(&self, port: PortId, ip: IpAddr) -> Option<State> {
        self.neighbours.state((port.0, ip))
    }
}
