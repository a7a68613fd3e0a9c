//! Examines the frames of a burst: the flow and the length of each plain packet.
//!
//! Called by: `forward/burst.rs`, which looks up each flow once. The checks of the IP headers are
//! in `inet::forward`. RFC 1812 sections 5.2 and 5.3, RFC 8200 section 3.

use core::net::{Ipv4Addr, Ipv6Addr};

use arrayvec::ArrayVec;
use base::MacAddr;
use device::{BURST, Burst};
use inet::forward::{flow_of_error_v4, flow_of_error_v6, plain_v4, plain_v6};
use inet::route::{View, flow_v4, flow_v6};
use mbuf::{Flags, Mbuf};
use wire::{ether, protocol};

use crate::forward::Locals;

/// Bytes of the link header of bare packets, of Ethernet, and of Ethernet with a tag: the code is
/// compiled for each.
pub(super) const BARE: usize = 0;
pub(super) const ETHERNET: usize = ether::HEADER_LEN;
pub(super) const TAGGED: usize = ETHERNET + device::vlan::Tag::LEN;

/// The result of looking at a frame: the number of its flow among those of the burst, and the
/// packet's length in bytes.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) number: u8,
    pub(super) len: u16,
}

impl Seen {
    /// A frame with offloads, without the mark that keeps it out of runs of frames that leave
    /// together. `None` for any other frame.
    #[inline(always)]
    pub(super) fn offloaded(self) -> Option<Seen> {
        let is_offloaded = self.number & OFFLOADED != 0 && self.number != REFUSED.number;
        is_offloaded.then_some(Seen { number: self.number & !OFFLOADED, ..self })
    }

    #[inline(always)]
    pub(super) fn is_v6(self) -> bool {
        usize::from(self.number) >= FIRST_V6
    }
}

/// No flow: the frame takes the long way (`plain.rs`).
pub(super) const REFUSED: Seen = Seen { number: u8::MAX, len: 0 };

/// Flows of IPv6 have numbers from here on.
pub(super) const FIRST_V6: usize = BURST;
/// Numbers of frames that ask for offloads have this bit, so that they are in no flow of plain
/// frames.
const OFFLOADED: u8 = 0x80;
const _: () = assert!(2 * BURST <= OFFLOADED as usize);

/// The flows of one version in a burst, which are looked up.
pub(super) struct Flows<A> {
    pub(super) dsts: ArrayVec<A, BURST>,
    /// As many as `dsts`, if sources are needed; else empty.
    pub(super) srcs: ArrayVec<A, BURST>,
    /// The hashes that choose among several next hops.
    pub(super) hashes: ArrayVec<u32, BURST>,
}

impl<A: Copy + PartialEq> Flows<A> {
    fn new() -> Flows<A> {
        Flows { dsts: ArrayVec::new(), srcs: ArrayVec::new(), hashes: ArrayVec::new() }
    }

    /// The number of a packet's flow, which is a new one unless the last packet was of it. `None`
    /// if its source is its destination.
    #[inline(always)]
    fn number<const CAREFUL: bool>(
        &mut self,
        (src, dst): (A, A),
        hash: u32,
        new: impl FnOnce(A),
    ) -> Option<usize> {
        let is_other = self.dsts.last() != Some(&dst)
            || self.hashes.last() != Some(&hash)
            || CAREFUL && self.srcs.last() != Some(&src);
        if is_other {
            if src == dst {
                return None;
            }
            new(dst);
            self.dsts.push(dst);
            self.hashes.push(hash);
            if CAREFUL {
                self.srcs.push(src);
            }
        }
        Some(self.dsts.len() - 1)
    }

    /// The same for a router with rules: the destination is the translated one, and the source is
    /// kept if it will be checked.
    #[inline(always)]
    pub(super) fn number_filtered(
        &mut self,
        (src, dst): (A, A),
        hash: u32,
        keeps_sources: bool,
        new: impl FnOnce(A),
    ) -> usize {
        let is_same = self.dsts.last() == Some(&dst)
            && self.hashes.last() == Some(&hash)
            && (!keeps_sources || self.srcs.last() == Some(&src));
        if !is_same {
            new(dst);
            self.dsts.push(dst);
            self.hashes.push(hash);
            if keeps_sources {
                self.srcs.push(src);
            }
        }
        self.dsts.len() - 1
    }
}

/// The packet in a frame that was sent to `mac`, and whether it is of IPv6, if the frame has room
/// for the longest link header.
#[inline(always)]
pub(super) fn framed<const AT: usize>(m: &Mbuf, mac: MacAddr) -> Option<(bool, &[u8])> {
    // Room for the longest link header, which may be longer than the received one.
    if m.headroom() + AT < TAGGED {
        return None;
    }
    let (link, packet) = m.as_slice().split_first_chunk::<AT>()?;
    let is_v6 = match (link.first_chunk::<6>(), link.last_chunk::<2>()) {
        (Some(&dst), Some(&ethertype)) => {
            if !MacAddr(dst).is(mac) {
                return None;
            }
            match u16::from_be_bytes(ethertype) {
                ether::IPV4 => false,
                ether::IPV6 => true,
                _ => return None,
            }
        }
        _ => packet.first()? >> 4 == 6,
    };
    Some((is_v6, packet))
}

/// The result of looking at a burst.
pub(super) struct Seens {
    pub(super) frames: ArrayVec<Seen, BURST>,
    pub(super) v4: Flows<Ipv4Addr>,
    pub(super) v6: Flows<Ipv6Addr>,
}

impl Seens {
    pub(super) fn new() -> Seens {
        Seens { frames: ArrayVec::new(), v4: Flows::new(), v6: Flows::new() }
    }

    /// Look at all frames, whose packets begin at `AT`. With `CAREFUL` also at their sources, and
    /// at the flows that ICMP errors are about. A router with neither source checks nor several
    /// next hops does not pay for that.
    #[inline(always)]
    pub(super) fn look<const AT: usize, const CAREFUL: bool>(
        &mut self,
        frames: &Burst,
        mac: MacAddr,
        (locals, view): (&Locals, &View<'_>),
    ) {
        for m in frames {
            let seen = self.plain::<AT, CAREFUL>(m, mac, locals, view);
            self.frames.push(seen.unwrap_or(REFUSED));
        }
    }

    /// The flow and the length of a packet that is not for us and has nothing unusual. The memory
    /// that its destination is looked up in is fetched meanwhile.
    #[inline(always)]
    fn plain<const AT: usize, const CAREFUL: bool>(
        &mut self,
        m: &Mbuf,
        mac: MacAddr,
        locals: &Locals,
        view: &View<'_>,
    ) -> Option<Seen> {
        if !m.is_exclusive() || m.has(Flags::CSUM_PARTIAL) || m.segment_size() != 0 {
            return self.offloaded::<AT, CAREFUL>(m, mac, locals, view);
        }
        self.flow::<AT, CAREFUL>(m, mac, locals, view)
    }

    /// [`Seens::plain`] for a frame that asks for offloads; it is marked.
    #[cold]
    #[inline(never)]
    fn offloaded<const AT: usize, const CAREFUL: bool>(
        &mut self,
        m: &Mbuf,
        mac: MacAddr,
        locals: &Locals,
        view: &View<'_>,
    ) -> Option<Seen> {
        if !m.has(Flags::CSUM_PARTIAL) || !m.is_exclusive() {
            return None;
        }
        let seen = self.flow::<AT, CAREFUL>(m, mac, locals, view)?;
        let number = seen.number | OFFLOADED;
        // The last flow of a full burst has no number left.
        (number != REFUSED.number).then_some(Seen { number, ..seen })
    }

    #[inline(always)]
    fn flow<const AT: usize, const CAREFUL: bool>(
        &mut self,
        m: &Mbuf,
        mac: MacAddr,
        locals: &Locals,
        view: &View<'_>,
    ) -> Option<Seen> {
        let (is_v6, packet) = framed::<AT>(m, mac)?;
        if is_v6 {
            let ip = plain_v6(packet)?;
            if locals.has_v6(ip.dst) || locals.has_v6(ip.src) {
                return None;
            }
            // Longer ones do not fit a length of 16 bits, nor any MTU.
            let len = u16::try_from(ip.len).ok()?;
            let mut hash = flow_v6(ip.src, ip.dst);
            // Packets of TCP and UDP, by far the most, hold no ICMP.
            if CAREFUL && !matches!(packet[6], protocol::TCP | protocol::UDP) {
                hash = flow_of_error_v6(packet).unwrap_or(hash);
            }
            let addrs = (ip.src, ip.dst);
            let number = self.v6.number::<CAREFUL>(addrs, hash, |dst| view.prefetch_v6(dst))?;
            return Some(Seen { number: (FIRST_V6 + number) as u8, len });
        }
        let ip = plain_v4(packet)?;
        if locals.has_v4(ip.dst) || locals.has_v4(ip.src) {
            return None;
        }
        let mut hash = flow_v4(ip.src, ip.dst);
        if CAREFUL && packet[9] == protocol::ICMP {
            hash = flow_of_error_v4(packet).unwrap_or(hash);
        }
        let addrs = (ip.src, ip.dst);
        let number = self.v4.number::<CAREFUL>(addrs, hash, |dst| view.prefetch_v4(dst))?;
        Some(Seen { number: number as u8, len: ip.len as u16 })
    }
}
