//! Forwarding in bursts: what is plain about a burst is looked at, looked up, and sent, each for
//! all of its frames.
//!
//! Called by: `forward::divert`, unless the switch `forward-burst` is off. It may only refuse a
//! frame, or do exactly what `forward::take` would have done. Frames leave in the order in which
//! they came; one that is refused takes the long way in its turn, and if that changes anything that
//! the others were looked up by, they follow it. Counters: `forwarded`,
//! `forwarded_in_bursts`. RFC 1812 section 5.2.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arrayvec::ArrayVec;
use base::{Counter, DropReason, LinkKind, MacAddr};
use device::{BURST, Burst};
use inet::forward::{pass_v4, pass_v6, plain_v4, plain_v6};
use inet::route::{GroupIndex, MAIN_TABLE, View, flow_v4, flow_v6};
use mbuf::{Flags, Mbuf};
use wire::{ether, ipv4, ipv6};

use super::adjacency::{Adjacencies, Adjacency, Slot};
use super::locals::Locals;
use crate::Stack;

/// What the burst path remembers from one burst to the next.
pub(super) struct Bursts {
    /// The stack's, as of `locals`.
    generation: u64,
    locals: Locals,
    adjacencies: Adjacencies,
}

/// What was seen of a frame: the number of its flow among those of the burst, and the packet's
/// length in bytes.
#[derive(Clone, Copy)]
struct Seen {
    number: u8,
    len: u16,
}

/// No flow: the frame takes the long way.
const REFUSED: Seen = Seen { number: u8::MAX, len: 0 };

/// Flows of IPv6 have numbers from here on.
const FIRST_V6: usize = BURST;
const _: () = assert!(2 * BURST < u8::MAX as usize);

/// The flows of one version in a burst: what is looked up.
struct Flows<A> {
    dsts: ArrayVec<A, BURST>,
    /// What chooses among several next hops.
    hashes: ArrayVec<u32, BURST>,
}

impl<A: Copy + PartialEq> Flows<A> {
    fn new() -> Flows<A> {
        Flows { dsts: ArrayVec::new(), hashes: ArrayVec::new() }
    }

    /// The number of a packet's flow, which is a new one unless the last packet was of it.
    #[inline(always)]
    fn number(&mut self, dst: A, hash: u32) -> usize {
        if self.dsts.last() != Some(&dst) || self.hashes.last() != Some(&hash) {
            self.dsts.push(dst);
            self.hashes.push(hash);
        }
        self.dsts.len() - 1
    }
}

/// All flows of a burst.
struct Seens {
    frames: ArrayVec<Seen, BURST>,
    v4: Flows<Ipv4Addr>,
    v6: Flows<Ipv6Addr>,
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

    /// As the plain `forward::divert`.
    pub(super) fn divert(
        &mut self,
        stack: &mut Stack,
        port_id: u16,
        (link, mac): (LinkKind, MacAddr),
        frames: &mut Burst,
    ) -> u64 {
        let generation = stack.generation();
        if self.generation != generation {
            self.generation = generation;
            self.locals.rebuild(stack);
        }
        let mut seen = Seens { frames: ArrayVec::new(), v4: Flows::new(), v6: Flows::new() };
        self.look(frames, (link, mac), &mut seen);
        let mut egresses = [ArrayVec::new(), ArrayVec::new()];
        self.look_up(stack, &seen, &mut egresses);
        let in_port = (port_id, (link, mac));
        self.send(stack, in_port, frames, (&seen.frames, &mut egresses))
    }

    /// What of each frame is plain.
    #[inline(always)]
    fn look(&self, frames: &Burst, (link, mac): (LinkKind, MacAddr), seen: &mut Seens) {
        for m in frames {
            let plain = self.plain(m, link, mac, seen);
            seen.frames.push(plain.unwrap_or(REFUSED));
        }
    }

    /// The flow and the length of a packet that is not for us and that nothing is unusual about.
    #[inline(always)]
    fn plain(&self, m: &Mbuf, link: LinkKind, mac: MacAddr, seen: &mut Seens) -> Option<Seen> {
        if !m.is_exclusive() || m.has(Flags::CSUM_PARTIAL) || m.segment_size() != 0 {
            return None;
        }
        let frame = m.as_slice();
        let (ethertype, packet) = match link {
            LinkKind::Ethernet => {
                let header = ether::Header::parse(frame).ok().filter(|h| h.dst.is(mac))?;
                (header.ethertype, frame.get(ether::HEADER_LEN..)?)
            }
            LinkKind::Ip if frame.first()? >> 4 == 6 => (ether::IPV6, frame),
            LinkKind::Ip => (ether::IPV4, frame),
        };
        match ethertype {
            ether::IPV4 => {
                let ip = plain_v4(packet)?;
                if self.locals.has_v4(ip.dst) || self.locals.has_v4(ip.src) {
                    return None;
                }
                let number = seen.v4.number(ip.dst, flow_v4(ip.src, ip.dst)) as u8;
                Some(Seen { number, len: ip.len as u16 })
            }
            ether::IPV6 => {
                let ip = plain_v6(packet)?;
                if self.locals.has_v6(ip.dst) || self.locals.has_v6(ip.src) {
                    return None;
                }
                // Longer ones do not fit a length of 16 bits, nor any MTU.
                let len = u16::try_from(ip.len).ok()?;
                let number = FIRST_V6 + seen.v6.number(ip.dst, flow_v6(ip.src, ip.dst));
                Some(Seen { number: number as u8, len })
            }
            _ => None,
        }
    }

    /// The egress of each flow: destinations are looked up together, so that the memory of all of
    /// them is waited for at once.
    #[inline(always)]
    fn look_up(&mut self, stack: &Stack, seen: &Seens, egresses: &mut Egresses) {
        // By rules that more than the destination decides: flows without egress go the long way.
        if stack.routes.rules_for_transit() {
            return;
        }
        let view = stack.routes.view();
        let mut groups = [GroupIndex::NONE; BURST];
        let [v4, v6] = egresses;
        if !seen.v4.dsts.is_empty() {
            view.lookup_burst_v4(&seen.v4.dsts, &mut groups, MAIN_TABLE);
            self.egresses(stack, &view, &seen.v4, &groups, v4);
        }
        if !seen.v6.dsts.is_empty() {
            view.lookup_burst_v6(&seen.v6.dsts, &mut groups, MAIN_TABLE);
            self.egresses(stack, &view, &seen.v6, &groups, v6);
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
    fn send(
        &mut self,
        stack: &mut Stack,
        (port_id, link): (u16, (LinkKind, MacAddr)),
        frames: &mut Burst,
        (seen, egresses): (&ArrayVec<Seen, BURST>, &mut Egresses),
    ) -> u64 {
        let (mut bytes, mut forwarded) = (0, 0);
        let mut generation = self.generation;
        let at = link.0.header_len();
        // By the port that they came by only the long way sends: their source may be told.
        let redirects = stack.forwarding.sends_redirects() && link.0 == LinkKind::Ethernet;
        let never_by = if redirects { u32::from(port_id) } else { u32::MAX };
        for (m, seen) in core::mem::take(frames).into_iter().zip(seen) {
            bytes += m.len() as u64;
            let slot = egress_of(egresses, seen.number).and_then(Egress::of_next_packet);
            let adjacency = slot.and_then(|slot| self.adjacencies.at(slot)).filter(|a| {
                u32::from(seen.len) <= a.mtu
                    && u32::from(a.port()) != never_by
                    && generation == self.generation
            });
            let refused = match adjacency {
                Some(adjacency) => leave(stack, adjacency, m, at, usize::from(seen.len)),
                None => Some(m),
            };
            let Some(m) = refused else {
                forwarded += 1;
                continue;
            };
            let len = m.len() as u64;
            if let Some(m) = super::take(stack, port_id, link, m) {
                bytes -= len;
                frames.push(m);
            }
            generation = stack.generation();
        }
        stack.core.cx.counters.add(Counter::Forwarded, forwarded);
        stack.core.cx.counters.add(Counter::ForwardedInBursts, forwarded);
        if let Some(port) = stack.ports.get_mut(port_id) {
            port.forwarded.packets_in += forwarded;
        }
        bytes
    }
}

/// The egress of the flow of that number.
#[inline(always)]
fn egress_of(egresses: &mut Egresses, number: u8) -> Option<&mut Egress> {
    let number = usize::from(number);
    egresses.get_mut(number / FIRST_V6)?.get_mut(number % FIRST_V6)
}

/// A frame, whose packet of `len` bytes begins at `at`, to its next hop; returned, and not changed,
/// if it cannot go there as it is.
#[inline(always)]
fn leave(
    stack: &mut Stack,
    adjacency: &Adjacency,
    mut m: Mbuf,
    at: usize,
    len: usize,
) -> Option<Mbuf> {
    let core = &mut stack.core;
    let header = adjacency.header();
    let port = stack.ports.get_mut(adjacency.port()).filter(|port| !port.gone);
    let room = m.headroom() + at >= header.map_or(0, |header| header.len());
    let Some(port) = port.filter(|_| room) else { return Some(m) };
    m.keep(at, len);
    m.clear(Flags::CSUM_VERIFIED | Flags::SUMMED);
    if let Some(packet) = m.headers_mut(ipv4::HEADER_LEN) {
        match packet[0] >> 4 {
            4 => pass_v4(packet),
            _ => pass_v6(packet),
        }
    }
    if let Some(header) = header
        && let Some(room) = m.prepend(header.len())
    {
        room.copy_from_slice(header);
    }
    if port.has_room(&mut core.cx) {
        port.push(m);
    } else {
        core.drops.count(DropReason::TxFull);
    }
    port.forwarded.packets_out += 1;
    None
}

const _: () = assert!(ipv4::HEADER_LEN < ipv6::HEADER_LEN);
