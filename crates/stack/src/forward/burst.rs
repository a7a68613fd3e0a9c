//! Forwarding in bursts: what is plain about a burst is looked at, looked up, and sent, each for
//! all of its frames.
//!
//! Called by: `forward/ingress.rs`, unless the switch `forward-burst` is off. It may only refuse a
//! frame, or do exactly what `forward::take` would have done. Frames leave in the order in which
//! they came; one that is refused takes the long way in its turn, and if that changes anything that
//! the others were looked up by, they follow it. Counters: `forwarded`,
//! `forwarded_in_bursts`. RFC 1812 section 5.2.

use core::net::IpAddr;

use arrayvec::ArrayVec;
use base::{Counter, LinkKind};
use device::vlan::Tag;
use device::{BURST, Burst};
use inet::route::{GroupIndex, MAIN_TABLE, SourceCheck, View};

use super::adjacency::{Adjacencies, Adjacency, Slot};
use super::ingress::Ingress;
use super::leave::leave;
use super::locals::Locals;
use super::look::{BARE, ETHERNET, FIRST_V6, Flows, Seen, Seens, TAGGED};
use crate::Stack;

/// What the burst path remembers from one burst to the next.
pub(super) struct Bursts {
    /// The stack's, as of `locals`.
    generation: u64,
    locals: Locals,
    adjacencies: Adjacencies,
}

/// The egress of a flow.
#[derive(Clone, Copy)]
enum Egress {
    Found(Slot),
    /// The first packet takes the long way, which notes that the neighbour is used.
    New(Slot),
    None,
}

/// The egresses of the flows of IPv4, and of those of IPv6.
type Egresses = [ArrayVec<Egress, BURST>; 2];

impl Egress {
    #[inline(always)]
    fn of_next_packet(&mut self) -> Option<Slot> {
        match *self {
            Egress::Found(slot) => Some(slot),
            Egress::New(slot) => {
                *self = Egress::Found(slot);
                None
            }
            Egress::None => None,
        }
    }
}

impl Bursts {
    pub(super) fn new() -> Bursts {
        // No stack is in this generation: it counts from zero.
        Bursts { generation: u64::MAX, locals: Locals::new(), adjacencies: Adjacencies::new() }
    }

    /// Forward what of a burst is not for this host, and leave the rest in it, in order and without
    /// tags. Returns how many bytes were taken out.
    pub(super) fn divert(
        &mut self,
        stack: &mut Stack,
        ingress: &Ingress,
        frames: &mut Burst,
    ) -> u64 {
        match (ingress.link.0, ingress.tag) {
            (LinkKind::Ip, _) => self.divert_from::<BARE>(stack, ingress, frames),
            (LinkKind::Ethernet, None) => self.divert_from::<ETHERNET>(stack, ingress, frames),
            (LinkKind::Ethernet, Some(_)) => self.divert_from::<TAGGED>(stack, ingress, frames),
        }
    }

    /// Of frames whose packets begin at `AT`.
    fn divert_from<const AT: usize>(
        &mut self,
        stack: &mut Stack,
        ingress: &Ingress,
        frames: &mut Burst,
    ) -> u64 {
        let generation = stack.generation();
        if self.generation != generation {
            self.generation = generation;
            self.locals.rebuild(stack);
        }
        let mut seen = Seens::new();
        let view = stack.routes.view();
        let mut egresses = [ArrayVec::new(), ArrayVec::new()];
        if ingress.check == SourceCheck::Off && !view.has_shared_prefixes() {
            seen.look::<AT, false>(frames, ingress.link.1, (&self.locals, &view));
            self.look_up(stack, &view, &seen, &mut egresses);
        } else {
            seen.look::<AT, true>(frames, ingress.link.1, (&self.locals, &view));
            self.look_up(stack, &view, &seen, &mut egresses);
            check_sources(ingress, &view, &seen, &mut egresses);
        }
        drop(view);
        self.send::<AT>(stack, ingress, frames, (&seen.frames, &mut egresses))
    }

    /// The egress of each flow: destinations are looked up together, so that the memory of all of
    /// them is waited for at once.
    #[inline(always)]
    fn look_up(&mut self, stack: &Stack, view: &View<'_>, seen: &Seens, egresses: &mut Egresses) {
        // By rules that more than the destination decides: flows without egress go the long way.
        if stack.routes.rules_for_transit() {
            return;
        }
        let mut groups = [GroupIndex::NONE; BURST];
        let [v4, v6] = egresses;
        if !seen.v4.dsts.is_empty() {
            view.lookup_burst_v4(&seen.v4.dsts, &mut groups, MAIN_TABLE);
            self.egresses(stack, view, &seen.v4, &groups, v4);
        }
        if !seen.v6.dsts.is_empty() {
            view.lookup_burst_v6(&seen.v6.dsts, &mut groups, MAIN_TABLE);
            self.egresses(stack, view, &seen.v6, &groups, v6);
        }
    }

    #[inline(always)]
    fn egresses<A: Copy + Into<IpAddr>>(
        &mut self,
        stack: &Stack,
        view: &View<'_>,
        flows: &Flows<A>,
        groups: &[GroupIndex; BURST],
        egresses: &mut ArrayVec<Egress, BURST>,
    ) {
        let mut last = (GroupIndex::NONE, Egress::None);
        for ((&dst, &hash), &group) in flows.dsts.iter().zip(&flows.hashes).zip(groups) {
            if group == last.0 {
                egresses.push(last.1);
                continue;
            }
            let dst = dst.into();
            let hop = view.next_hop_of_transit(group, dst, hash);
            let found =
                hop.and_then(|hop| self.adjacencies.find(stack, self.generation, &hop, dst));
            egresses.push(match found {
                Some((slot, false)) => Egress::Found(slot),
                Some((slot, true)) => Egress::New(slot),
                None => Egress::None,
            });
            // The next flow has the same if there is one gateway for all.
            if let Some((slot, _)) = found
                && view.is_one_gateway(group)
            {
                last = (group, Egress::Found(slot));
            }
        }
    }

    /// Send what has an egress; the rest takes the long way, whose leavings stay in `frames`.
    #[inline(always)]
    fn send<const AT: usize>(
        &mut self,
        stack: &mut Stack,
        ingress: &Ingress,
        frames: &mut Burst,
        (seen, egresses): (&ArrayVec<Seen, BURST>, &mut Egresses),
    ) -> u64 {
        let (mut bytes, mut forwarded) = (0, 0);
        // Bytes are counted without tags, as in the host's path.
        let tag_len = if AT == TAGGED { Tag::LEN as u64 } else { 0 };
        let mut generation = self.generation;
        // By the port that they came by only the long way sends: their source may be told.
        let redirects = stack.forwarding.sends_redirects() && AT != BARE;
        let never_by = if redirects { u32::from(ingress.port) } else { u32::MAX };
        let (mut seen, mut rest) = (seen.as_slice(), core::mem::take(frames).into_iter());
        while let Some(first) = seen.first() {
            let slot = egress_of(egresses, first.number).and_then(Egress::of_next_packet);
            let adjacency = slot
                .and_then(|slot| self.adjacencies.at(slot))
                .filter(|a| u32::from(a.port()) != never_by && generation == self.generation);
            let alike = slot.zip(adjacency).map_or(0, |(slot, a)| alike(egresses, slot, a, seen));
            let (now, later) = seen.split_at(alike);
            let adjacency = adjacency.filter(|_| alike > 0);
            if let Some(left) = adjacency.and_then(|a| leave::<AT>(stack, a, now, &mut rest)) {
                bytes += left - alike as u64 * tag_len;
                forwarded += alike as u64;
                seen = later;
                continue;
            }
            seen = &seen[1..];
            let Some(mut m) = rest.next() else { break };
            let len = m.len() as u64 - tag_len;
            if let Some(tag) = ingress.tag {
                tag.strip_from(&mut m);
            }
            match super::take(stack, ingress.port, ingress.link, m) {
                Some(m) => frames.push(m),
                None => bytes += len,
            }
            generation = stack.generation();
        }
        stack.core.cx.counters.add(Counter::Forwarded, forwarded);
        stack.core.cx.counters.add(Counter::ForwardedInBursts, forwarded);
        if let Some(port) = stack.ports.get_mut(ingress.port) {
            port.forwarded.packets_in += forwarded;
        }
        bytes
    }
}

/// Flows whose source does not pass the check, as far as the FIB knows, go the long way: it says
/// whether they do, and drops them. All of a burst are looked up together.
#[inline(never)]
fn check_sources(ingress: &Ingress, view: &View<'_>, seen: &Seens, egresses: &mut Egresses) {
    if ingress.check == SourceCheck::Off {
        return;
    }
    let mut groups = [GroupIndex::NONE; BURST];
    let [v4, v6] = egresses;
    if !v4.is_empty() {
        view.lookup_burst_v4(&seen.v4.srcs, &mut groups, MAIN_TABLE);
        refuse(ingress, view, &groups, v4);
    }
    if !v6.is_empty() {
        view.lookup_burst_v6(&seen.v6.srcs, &mut groups, MAIN_TABLE);
        refuse(ingress, view, &groups, v6);
    }
}

/// No egress for the flows whose source has a group that does not pass.
fn refuse(
    ingress: &Ingress,
    view: &View<'_>,
    groups: &[GroupIndex; BURST],
    egresses: &mut ArrayVec<Egress, BURST>,
) {
    let mut last = (GroupIndex::NONE, false);
    for (egress, &group) in egresses.iter_mut().zip(groups) {
        if group != last.0 {
            last = (group, view.passes(ingress.check, ingress.port, group));
        }
        if !last.1 {
            *egress = Egress::None;
        }
    }
}

/// How many frames, from the first one on, leave by the adjacency in that slot: flows behind one
/// gateway have the same. None if the first is too large for it.
#[inline(always)]
fn alike(egresses: &Egresses, slot: Slot, adjacency: &Adjacency, seen: &[Seen]) -> usize {
    let mut last = u8::MAX;
    let is_alike = |seen: &&Seen| {
        if seen.number != last {
            let number = usize::from(seen.number);
            let egress = egresses.get(number / FIRST_V6).and_then(|of| of.get(number % FIRST_V6));
            if !matches!(egress, Some(Egress::Found(found)) if *found == slot) {
                return false;
            }
            last = seen.number;
        }
        u32::from(seen.len) <= adjacency.mtu
    };
    seen.iter().take_while(is_alike).count()
}

/// The egress of the flow of that number.
#[inline(always)]
fn egress_of(egresses: &mut Egresses, number: u8) -> Option<&mut Egress> {
    let number = usize::from(number);
    egresses.get_mut(number / FIRST_V6)?.get_mut(number % FIRST_V6)
}
