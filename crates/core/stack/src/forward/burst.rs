//! Forwarding in bursts: the plain frames of a burst are examined, looked up and sent, each step
//! for all of them.
//!
//! Called by: `forward/ingress.rs`, unless the switch `forward-burst` is off. It may only refuse a
//! frame, or do exactly what `plain::take` would have done. Frames leave in the order in which
//! they came; one that is refused takes the long way (`plain.rs`) in its turn. If that changes
//! anything that the lookup of the others depended on, they take it too. Counters: `forwarded`,
//! `forwarded_in_bursts`. RFC 1812 section 5.2.

mod adjacency;
mod begin;
mod filtered;
mod leave;
mod look;
mod merge;
mod whole;

use core::net::IpAddr;

pub(super) use adjacency::Adjacencies;
use adjacency::{Adjacency, Link, Slot, tagged};
use arrayvec::{ArrayVec, IntoIter};
use base::{Counter, Duration, Instant, IpVersion, LinkKind, MacAddr, Mtu};
use begin::{Said, Verdicts};
use device::vlan::Tag;
use device::{BURST, Burst};
use filtered::Context;
use inet::NextHop;
use inet::route::{GroupIndex, SourceCheck, View};
use leave::leave;
use look::{BARE, ETHERNET, FIRST_V6, Flows, Seen, Seens, TAGGED};
use mbuf::Mbuf;
use wire::ether;

use super::plain::Ingress;
use super::{Bursts, firewall, plain};
use crate::stack::Stack;

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
    /// Forward the frames of a burst that are not for this host, and leave the rest in it, in order
    /// and without tags. Returns how many bytes were taken out.
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

    /// [`Bursts::divert`] for frames whose packets begin at `AT`.
    fn divert_from<const AT: usize>(
        &mut self,
        stack: &mut Stack,
        ingress: &Ingress,
        frames: &mut Burst,
    ) -> u64 {
        let generation = generation_of(stack);
        if self.generation != generation {
            self.generation = generation;
            self.locals.rebuild(&stack.ports);
        }
        let mut seen = Seens::new();
        let mut egresses = [ArrayVec::new(), ArrayVec::new()];
        let table = ingress.vrf.table();
        if let Some(mut firewall) = stack.firewall.take() {
            let now = stack.core.cx.now;
            let view = stack.routes.view();
            let keeps_sources = ingress.check != SourceCheck::Off;
            let (mac, locals) = (ingress.link.1, &self.locals);
            let context = Context { mac, locals, view: &view, now, keeps_sources };
            let mut verdicts = seen.look_filtered::<AT>(frames, &mut firewall, &context);
            self.look_up((stack, table), &view, &seen, &mut egresses);
            check_sources(ingress, &view, &seen, &mut egresses);
            drop(view);
            stack.firewall = Some(firewall);
            if verdicts.asks {
                let out_port = |number| self.port_of(&egresses, number);
                verdicts.ask::<AT>(stack, ingress.port, (&*frames, &mut seen), out_port);
            }
            let burst = (&seen.frames, &mut egresses, &verdicts);
            return self.send::<AT, true>(stack, ingress, frames, burst);
        }
        let view = stack.routes.view();
        if ingress.check == SourceCheck::Off && !view.has_shared_prefixes() {
            seen.look::<AT, false>(frames, ingress.link.1, (&self.locals, &view));
            self.look_up((stack, table), &view, &seen, &mut egresses);
        } else {
            seen.look::<AT, true>(frames, ingress.link.1, (&self.locals, &view));
            self.look_up((stack, table), &view, &seen, &mut egresses);
            check_sources(ingress, &view, &seen, &mut egresses);
        }
        drop(view);
        let burst = (&seen.frames, &mut egresses, &Verdicts::none());
        self.send::<AT, false>(stack, ingress, frames, burst)
    }

    /// The egress of each flow, by the table of the port's VRF: destinations are looked up
    /// together, so that the memory of all of them is waited for at once.
    #[inline(always)]
    fn look_up(
        &mut self,
        (stack, table): (&Stack, u32),
        view: &View<'_>,
        seen: &Seens,
        egresses: &mut Egresses,
    ) {
        // With rules, more than the destination decides: no flow gets an egress, so all go the long
        // way.
        if stack.routes.rules_for_transit() {
            return;
        }
        let mut groups = [GroupIndex::NONE; BURST];
        let [v4, v6] = egresses;
        if !seen.v4.dsts.is_empty() {
            view.lookup_burst_v4(&seen.v4.dsts, &mut groups, table);
            self.egresses(stack, view, &seen.v4, &groups, v4);
        }
        if !seen.v6.dsts.is_empty() {
            view.lookup_burst_v6(&seen.v6.dsts, &mut groups, table);
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
            let found = hop.and_then(|hop| self.find(stack, &hop, dst));
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

    /// The adjacency of a next hop for packets to `dst`, and whether it was made by this call;
    /// `None` if there is none without going the long way.
    #[inline(always)]
    fn find(&mut self, stack: &Stack, hop: &NextHop, dst: IpAddr) -> Option<(Slot, bool)> {
        // The header has the EtherType of the packet's version, whatever that of the next hop is.
        let version = IpVersion::of(&dst);
        match self.adjacencies.find((hop, version), self.generation, stack.core.cx.now) {
            Some(slot) => Some((slot, false)),
            None => self.make(stack, hop, version).map(|slot| (slot, true)),
        }
    }

    #[cold]
    #[inline(never)]
    fn make(&mut self, stack: &Stack, hop: &NextHop, version: IpVersion) -> Option<Slot> {
        let made = long_way(stack, hop, version)?;
        Some(self.adjacencies.insert(made, self.generation))
    }

    /// Send the frames that have an egress; the others take the long way. Frames that are not
    /// forwarded stay in `frames`.
    #[inline(always)]
    fn send<const AT: usize, const FILTERED: bool>(
        &mut self,
        stack: &mut Stack,
        ingress: &Ingress,
        frames: &mut Burst,
        (seen, egresses, verdicts): (&ArrayVec<Seen, BURST>, &mut Egresses, &Verdicts),
    ) -> u64 {
        let (mut bytes, mut forwarded) = (0, 0);
        // Bytes are counted without tags, as in the host's path.
        let tag_len = if AT == TAGGED { Tag::LEN as u64 } else { 0 };
        let (mut generation, said) = (self.generation, verdicts.said.as_slice());
        // Only the long way sends frames by the port that they came by: their source may get a
        // redirect.
        let redirects = stack.forwarding.sends_redirects() && AT != BARE;
        let never_by = if redirects { u32::from(ingress.port) } else { u32::MAX };
        let (mut seen, mut rest) = (seen.as_slice(), core::mem::take(frames).into_iter());
        while let Some(first) = seen.first() {
            let slot = egress_of(egresses, first.number).and_then(Egress::of_next_packet);
            let adjacency = slot
                .and_then(|slot| self.adjacencies.at(slot))
                .filter(|a| u32::from(a.port()) != never_by && generation == self.generation);
            let found = slot.zip(adjacency);
            let alike = found.map_or(0, |(slot, a)| alike(egresses, slot, a.mtu, seen));
            let (now, later) = seen.split_at(alike);
            let from = said.len().saturating_sub(seen.len());
            // Nothing leaves untranslated because its state has ended meanwhile.
            let are_gone = |count| FILTERED && verdicts.are_gone(stack, from..from + count);
            let plain = adjacency.filter(|_| alike > 0 && !are_gone(alike));
            if FILTERED && let Some(adjacency) = plain {
                translate::<AT>(stack, adjacency.port(), &said[from..from + alike], &mut rest);
            }
            if let Some(left) = plain.and_then(|a| leave::<AT>(stack, a, now, &mut rest)) {
                bytes += left - alike as u64 * tag_len;
                forwarded += alike as u64;
                seen = later;
                continue;
            }
            let merging = found.filter(|(_, a)| a.merges());
            let merging =
                merging.filter(|_| !(FILTERED && verdicts.are_gone(stack, from..said.len())));
            if FILTERED && let Some((slot, a)) = merging {
                let count = self::alike(egresses, slot, a.path_mtu, seen);
                translate::<AT>(stack, a.port(), &said[from..from + count], &mut rest);
            }
            if let Some((slot, a)) = merging
                && let Some((left, count)) =
                    leave_merged::<AT>(stack, (slot, a), egresses, seen, &mut rest)
            {
                bytes += left - count as u64 * tag_len;
                forwarded += count as u64;
                seen = &seen[count..];
                continue;
            }
            seen = &seen[1..];
            let offloaded = first.offloaded().filter(|_| generation == self.generation);
            if let Some(offloaded) = offloaded
                && let Some(a) = self.adjacency_of(egresses, offloaded, never_by)
                && let Some(left) = whole::leave_whole::<AT>(stack, a, offloaded, &mut rest)
            {
                bytes += left - tag_len;
                forwarded += 1;
                continue;
            }
            let Some(m) = rest.next() else { break };
            let len = m.len() as u64 - tag_len;
            let said = if FILTERED { said.get(from).copied() } else { None };
            match take_long_way(stack, ingress, m, said.unwrap_or(Said::Nothing)) {
                Some(m) => frames.push(m),
                None => bytes += len,
            }
            generation = generation_of(stack);
        }
        stack.core.cx.counters.add(Counter::Forwarded, forwarded);
        stack.core.cx.counters.add(Counter::ForwardedInBursts, forwarded);
        if let Some(port) = stack.ports.get_mut(ingress.port) {
            port.forwarded.packets_in += forwarded;
        }
        bytes
    }
}

/// A frame takes the long way, without its tag, or is dropped if the firewall said so. It is
/// returned if it is for the host.
fn take_long_way(stack: &mut Stack, ingress: &Ingress, mut m: Mbuf, said: Said) -> Option<Mbuf> {
    if let Some(tag) = ingress.tag {
        tag.strip_from(&mut m);
    }
    let lives = |flow| stack.firewall.as_ref().is_some_and(|firewall| firewall.lives(flow));
    match said {
        Said::Passes(flow) if !lives(&flow) => plain::take(stack, ingress.port, ingress.link, m),
        Said::Passes(flow) => plain::take_passed(stack, ingress.port, ingress.link, m, Some(&flow)),
        Said::PassesAlone => plain::take_passed(stack, ingress.port, ingress.link, m, None),
        Said::Nothing | Said::Asks => plain::take(stack, ingress.port, ingress.link, m),
        Said::Drops(reason, report) => {
            m.set_in_port(ingress.port);
            firewall::tell(stack, &m, ingress.link.0.header_len(), report);
            stack.core.drops.count(reason);
            stack.core.cx.pool.free(m);
            None
        }
    }
}

/// Translate the next frames, which have passed the firewall and leave by `port`.
#[inline(always)]
fn translate<const AT: usize>(
    stack: &Stack,
    port: u16,
    said: &[Said],
    frames: &mut IntoIter<Mbuf, BURST>,
) {
    let is_there = stack.ports.get(port).is_some_and(|port| !port.gone);
    let Some(firewall) = stack.firewall.as_deref().filter(|_| is_there) else { return };
    for (m, said) in frames.as_mut_slice().iter_mut().zip(said) {
        if let Said::Passes(flow) = said
            && flow.is_translated
            && let Some(packet) = m.as_mut_slice().and_then(|frame| frame.get_mut(AT..))
        {
            firewall.translate(flow, packet);
        }
    }
}

impl Bursts {
    /// The port that the flow of that number leaves by.
    fn port_of(&self, egresses: &Egresses, number: u8) -> Option<u16> {
        let number = usize::from(number);
        let egress = egresses.get(number / FIRST_V6)?.get(number % FIRST_V6)?;
        let (Egress::Found(slot) | Egress::New(slot)) = egress else { return None };
        self.adjacencies.at(*slot).map(Adjacency::port)
    }

    /// How a frame leaves by another port than number `never_by`.
    fn adjacency_of(&self, all: &mut Egresses, seen: Seen, never_by: u32) -> Option<&Adjacency> {
        let slot = egress_of(all, seen.number)?.of_next_packet()?;
        self.adjacencies.at(slot).filter(|a| u32::from(a.port()) != never_by)
    }
}

/// Flows whose source fails the check by the FIB go the long way, which checks again and drops
/// them. All sources of a burst are looked up together.
#[inline(never)]
fn check_sources(ingress: &Ingress, view: &View<'_>, seen: &Seens, egresses: &mut Egresses) {
    if ingress.check == SourceCheck::Off {
        return;
    }
    let table = ingress.vrf.table();
    let mut groups = [GroupIndex::NONE; BURST];
    let [v4, v6] = egresses;
    if !v4.is_empty() {
        view.lookup_burst_v4(&seen.v4.srcs, &mut groups, table);
        refuse(ingress, view, &groups, v4);
    }
    if !v6.is_empty() {
        view.lookup_burst_v6(&seen.v6.srcs, &mut groups, table);
        refuse(ingress, view, &groups, v6);
    }
}

/// Take the egress from the flows whose source has a next-hop group that fails the check.
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
/// gateway have the same. 0 if the first frame is too large for it.
#[inline(always)]
fn alike(egresses: &Egresses, slot: Slot, mtu: u32, seen: &[Seen]) -> usize {
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
        u32::from(seen.len) <= mtu
    };
    seen.iter().take_while(is_alike).count()
}

/// Send the frames that leave one behind the other by the adjacency in that slot, whose port has
/// segments merged. Returns their bytes as received, and their number; `None` if the first frame
/// has to take the long way.
#[cold]
#[inline(never)]
fn leave_merged<const AT: usize>(
    stack: &mut Stack,
    (slot, adjacency): (Slot, &Adjacency),
    egresses: &Egresses,
    seen: &[Seen],
    frames: &mut IntoIter<Mbuf, BURST>,
) -> Option<(u64, usize)> {
    let count = alike(egresses, slot, adjacency.path_mtu, seen);
    let now = seen.get(..count).filter(|now| !now.is_empty())?;
    Some((merge::leave::<AT>(stack, adjacency, now, frames)?, count))
}

/// The egress of the flow of that number.
#[inline(always)]
fn egress_of(egresses: &mut Egresses, number: u8) -> Option<&mut Egress> {
    let number = usize::from(number);
    egresses.get_mut(number / FIRST_V6)?.get_mut(number % FIRST_V6)
}

/// How often the use of a neighbour is noted.
const NOTED_EVERY: Duration = Duration::from_secs(1);

/// The adjacency that the long way would find for this next hop of a packet of this version,
/// without a solicitation and without a change. `None` if it would do more than send.
fn long_way(stack: &Stack, hop: &NextHop, version: IpVersion) -> Option<Adjacency> {
    let port = stack.ports.get(hop.port)?;
    let mtu = stack.neighbour_mtus.of_hop(&stack.ports, hop).map_or(0, Mtu::bytes) as u32;
    let merges = port.limits.offloads.gro && port.limits.offloads.tx_checksum;
    if port.limits.link == LinkKind::Ip {
        return Some(Adjacency::new(hop, version, mtu, Link::Bare, Instant::NEVER).merging(merges));
    }
    if port.local.is_group(hop.neighbour) {
        return None;
    }
    let now = stack.core.cx.now;
    let (mac, until) = stack.neighbours.usable((hop.port, hop.neighbour), now)?;
    let until = if until == Instant::NEVER { until } else { until.min(now + NOTED_EVERY) };
    let header = header(mac, port.mac, version);
    let link =
        port.own_tag.map_or(Link::Ethernet(header), |tag| Link::Tagged(tagged(&header, tag)));
    Some(Adjacency::new(hop, version, mtu, link, until).merging(merges))
}

fn header(dst: MacAddr, src: MacAddr, version: IpVersion) -> [u8; ether::HEADER_LEN] {
    let ethertype = if version == IpVersion::V6 { ether::IPV6 } else { ether::IPV4 };
    let mut header = [0; ether::HEADER_LEN];
    ether::Header { dst, src, ethertype }.emit(&mut header);
    header
}

/// Grows whenever anything changes that the egress of a forwarded packet depends on: addresses,
/// ports, routes, MTUs, and neighbours that have another link address or are to be asked.
#[inline(always)]
fn generation_of(stack: &Stack) -> u64 {
    stack.changes() + stack.ports.epoch() + stack.neighbours.demotions()
}
