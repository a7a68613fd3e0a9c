//! Forwarding in bursts: what is plain about a burst is looked at, looked up, and sent, each for
//! all of its frames.
//!
//! Called by: `forward::divert`, unless the switch `forward-burst` is off. It may only refuse a
//! frame, or do exactly what `forward::take` would have done. Frames leave in the order in which
//! they came; one that is refused takes the long way in its turn, and if that changes anything that
//! the others were looked up by, they follow it. Counters: `forwarded`,
//! `forwarded_in_bursts`. RFC 1812 section 5.2.

use core::net::IpAddr;

use arrayvec::ArrayVec;
use base::{Counter, DropReason, LinkKind, MacAddr};
use device::{BURST, Burst};
use inet::forward::{pass_v4, pass_v6, plain_v4, plain_v6};
use inet::{NextHop, Routes};
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

/// What was seen of a frame: the number of its destination among those of the burst, and the
/// packet's length in bytes.
#[derive(Clone, Copy)]
struct Seen {
    number: u8,
    len: u16,
}

/// No destination: the frame takes the long way.
const REFUSED: Seen = Seen { number: u8::MAX, len: 0 };

const _: () = assert!(BURST < u8::MAX as usize);

/// The egress of packets to a destination.
#[derive(Clone, Copy)]
enum Egress {
    Found(Slot),
    /// The first packet takes the long way, which notes that the neighbour is used.
    New(Slot),
    None,
}

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
        let (mut seen, mut destinations) = (ArrayVec::new(), ArrayVec::new());
        self.look(frames, (link, mac), &mut seen, &mut destinations);
        let mut egresses = ArrayVec::new();
        self.look_up(stack, &destinations, &mut egresses);
        let in_port = (port_id, (link, mac));
        self.send(stack, in_port, frames, (&seen, &mut egresses))
    }

    /// What of each frame is plain.
    #[inline(always)]
    fn look(
        &self,
        frames: &Burst,
        (link, mac): (LinkKind, MacAddr),
        seen: &mut ArrayVec<Seen, BURST>,
        destinations: &mut ArrayVec<IpAddr, BURST>,
    ) {
        for m in frames {
            let Some((dst, len)) = self.plain(m, link, mac) else {
                seen.push(REFUSED);
                continue;
            };
            if destinations.last() != Some(&dst) {
                destinations.push(dst);
            }
            seen.push(Seen { number: (destinations.len() - 1) as u8, len });
        }
    }

    /// The destination and the length of a packet that is not for us and that nothing is unusual
    /// about.
    #[inline(always)]
    fn plain(&self, m: &Mbuf, link: LinkKind, mac: MacAddr) -> Option<(IpAddr, u16)> {
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
                let crosses = !self.locals.has_v4(ip.dst) && !self.locals.has_v4(ip.src);
                crosses.then_some((IpAddr::V4(ip.dst), ip.len as u16))
            }
            ether::IPV6 => {
                let ip = plain_v6(packet)?;
                let crosses = !self.locals.has_v6(ip.dst) && !self.locals.has_v6(ip.src);
                // Longer ones do not fit a length of 16 bits, nor any MTU.
                let len = u16::try_from(ip.len).ok()?;
                crosses.then_some((IpAddr::V6(ip.dst), len))
            }
            _ => None,
        }
    }

    /// The egress of each destination.
    #[inline(always)]
    fn look_up(
        &mut self,
        stack: &Stack,
        destinations: &ArrayVec<IpAddr, BURST>,
        egresses: &mut ArrayVec<Egress, BURST>,
    ) {
        let mut hops = ArrayVec::new();
        next_hops(&stack.routes, destinations, &mut hops);
        for (hop, &dst) in hops.iter().zip(destinations) {
            let found =
                hop.and_then(|hop| self.adjacencies.find(stack, self.generation, &hop, dst));
            egresses.push(match found {
                Some((slot, false)) => Egress::Found(slot),
                Some((slot, true)) => Egress::New(slot),
                None => Egress::None,
            });
        }
    }

    /// Send what has an egress; the rest takes the long way, whose leavings stay in `frames`.
    #[inline(always)]
    fn send(
        &mut self,
        stack: &mut Stack,
        (port_id, link): (u16, (LinkKind, MacAddr)),
        frames: &mut Burst,
        (seen, egresses): (&ArrayVec<Seen, BURST>, &mut ArrayVec<Egress, BURST>),
    ) -> u64 {
        let (mut bytes, mut forwarded) = (0, 0);
        let mut generation = self.generation;
        let at = link.0.header_len();
        // By the port that they came by only the long way sends: their source may be told.
        let redirects = stack.forwarding.sends_redirects() && link.0 == LinkKind::Ethernet;
        let never_by = if redirects { u32::from(port_id) } else { u32::MAX };
        for (m, seen) in core::mem::take(frames).into_iter().zip(seen) {
            bytes += m.len() as u64;
            let egress = egresses.get_mut(usize::from(seen.number));
            let slot = egress.and_then(Egress::of_next_packet);
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

/// The next hop of each destination, if nothing else decides it.
#[inline(always)]
fn next_hops(
    routes: &Routes,
    destinations: &ArrayVec<IpAddr, BURST>,
    hops: &mut ArrayVec<Option<NextHop>, BURST>,
) {
    for &dst in destinations {
        hops.push(routes.lookup_transit(dst));
    }
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
