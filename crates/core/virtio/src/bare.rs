//! A machine's frames without the header of its card, though with its offloads: libkrun removes the
//! header (its `src/devices/src/virtio/net/`), so frames of up to 64 KB come with a checksum that
//! is only the pseudo-header's sum, and nothing says so.
//!
//! Called by: the stack, once per burst; programs that open one, around the device that has the
//! frames. Counters: the inner device's, and [`DropReason::MbufExhausted`].
//!
//! - What comes is not verified: it has never left this machine. A frame longer than the MTU is a
//!   super-segment, cut by the segments that its connection may have.
//! - What goes has finished checksums, because the guest verifies a frame whose header is all
//!   zeros. Super-segments go as they are: use this only with a guest that takes them (the TSO
//!   features of libkrun's card).

use std::collections::VecDeque;

use base::{DropReason, Drops, Instant, LinkKind, Mtu};
use device::{Burst, Device, Limits, Offloads};
use mbuf::{Flags, Mbuf, Pool};
use wire::checksum::Sum;
use wire::{ipv4, ipv6, protocol, tcp, vlan};

/// The largest IP packet: the inner device has to take these.
const PACKET_MAX: usize = 65_535;

/// A device whose frames have offloads and no header.
pub struct Bare<D> {
    device: D,
    mtu: Mtu,
    /// Finished frames for which the inner device had no room.
    waiting: VecDeque<Mbuf>,
    /// Frames that could not be finished for want of memory; if there are any, the inner device's
    /// drops with them.
    lost: u64,
    drops: Drops,
}

impl<D: Device> Bare<D> {
    /// Around a device with an MTU of 65,535 bytes, whose machine has this one.
    pub fn new(device: D, mtu: Mtu) -> Bare<D> {
        Bare { device, mtu, waiting: VecDeque::new(), lost: 0, drops: Drops::default() }
    }

    /// The largest packet that the inner device has to take, in bytes.
    #[must_use]
    pub fn inner_mtu() -> Mtu {
        Mtu::new(PACKET_MAX).unwrap_or(Mtu::ETHERNET)
    }

    fn add_drops(&mut self) {
        if self.lost > 0 {
            self.drops = self.device.drops().cloned().unwrap_or_default();
            self.drops.count_many(DropReason::MbufExhausted, self.lost);
        }
    }

    /// Offer what waits. `false`: the inner device has no room for all.
    fn send_waiting(&mut self, pool: &mut Pool) -> bool {
        while !self.waiting.is_empty() {
            let count = self.waiting.len().min(device::BURST);
            let mut burst: Burst = self.waiting.drain(..count).collect();
            self.device.tx_burst(pool, &mut burst);
            let is_full = !burst.is_empty();
            burst.drain(..).rev().for_each(|frame| self.waiting.push_front(frame));
            if is_full {
                return false;
            }
        }
        true
    }
}

/// Finish the checksum of a frame, which stays one frame.
fn finish(mut frame: Mbuf, pool: &mut Pool, into: &mut VecDeque<Mbuf>) -> u64 {
    frame.set_segment_size(0);
    link::cut(frame, LinkKind::Ethernet, pool, |whole, _| into.push_back(whole))
}

/// Describe a received frame, as the card's header would.
fn describe(frame: &mut Mbuf, limits: &Limits) {
    frame.set(Flags::CSUM_VERIFIED);
    let Some((at, headers)) = unfinished(frame.as_slice()) else { return };
    frame.set(Flags::CSUM_PARTIAL);
    frame.set_csum(at);
    if frame.len() > limits.max_frame {
        // The connection's segments have the options of this one.
        let most = limits.mtu.bytes().saturating_sub(headers).max(1);
        frame.set_segment_size(most as u16);
    }
}

/// If this is a TCP segment with only the sum of its pseudo-header: where it begins in the frame,
/// and the bytes of its IP and TCP headers.
fn unfinished(frame: &[u8]) -> Option<(u16, usize)> {
    let ip_at = vlan::ip_at(frame, LinkKind::Ethernet)?;
    let packet = frame.get(ip_at..)?;
    let (protocol, header_len, end) = if packet.first()? >> 4 == 4 {
        let ip = ipv4::Header::parse(packet).ok().filter(|ip| !ip.is_fragment())?;
        (ip.protocol, ip.header_len, usize::from(ip.total_len))
    } else {
        let ip = ipv6::Header::parse(packet).ok()?;
        (ip.next_header, ipv6::HEADER_LEN, ipv6::HEADER_LEN + usize::from(ip.payload_len))
    };
    if protocol != protocol::TCP {
        return None;
    }
    let segment = packet.get(header_len..end)?;
    let tcp = tcp::Header::parse(segment).ok()?;
    let field = segment.get(tcp::CHECKSUM_OFFSET..tcp::CHECKSUM_OFFSET + 2)?;
    // A field holds the complement of a finished sum, and the sum itself of an unfinished one.
    let sum = pseudo(packet, segment.len())?.field().map(|byte| !byte);
    let at = u16::try_from(ip_at + header_len).ok()?;
    (field == sum).then_some((at, header_len + tcp.header_len))
}

fn pseudo(packet: &[u8], len: usize) -> Option<Sum> {
    let sum = if packet.first()? >> 4 == 4 {
        let ip = ipv4::Header::parse(packet).ok()?;
        Sum::pseudo_v4(ip.src, ip.dst, protocol::TCP)
    } else {
        let ip = ipv6::Header::parse(packet).ok()?;
        Sum::pseudo_v6(ip.src, ip.dst, protocol::TCP)
    };
    Some(sum.plus(Sum::of_be16(u16::try_from(len).ok()?)))
}

impl<D: Device> Device for Bare<D> {
    fn limits(&self) -> Limits {
        let most = PACKET_MAX + LinkKind::Ethernet.header_len();
        let offloads = Offloads {
            tx_checksum: true,
            rx_checksum: true,
            tso_max_bytes: most,
            uso_max_bytes: 0,
            gro: false,
        };
        // An Ethernet header with two tags.
        let max_frame = self.mtu.bytes() + 14 + 8;
        Limits { mtu: self.mtu, max_frame, offloads, ..self.device.limits() }
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        self.send_waiting(pool);
        let limits = self.limits();
        let before = into.len();
        self.device.rx_burst(pool, into);
        self.add_drops();
        into[before..].iter_mut().for_each(|frame| describe(frame, &limits));
        into.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        if !self.send_waiting(pool) {
            return 0;
        }
        let taken = from.len();
        for frame in from.drain(..) {
            let lost = finish(frame, pool, &mut self.waiting);
            self.lost += lost;
        }
        self.send_waiting(pool);
        self.add_drops();
        taken
    }

    fn rx_ready(&self) -> bool {
        (!self.waiting.is_empty() && self.device.tx_ready()) || self.device.rx_ready()
    }

    fn tx_ready(&self) -> bool {
        self.waiting.is_empty() || self.device.tx_ready()
    }

    fn link_up(&self) -> bool {
        self.device.link_up()
    }

    fn check_link(&mut self) -> bool {
        self.device.check_link()
    }

    fn is_gone(&self) -> bool {
        self.device.is_gone()
    }

    fn is_unfinished(&self) -> bool {
        self.device.is_unfinished()
    }

    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.device.as_fd()
    }

    fn wakes_at(&self) -> Instant {
        self.device.wakes_at()
    }

    fn failure(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.device.failure()
    }

    fn drops(&self) -> Option<&Drops> {
        if self.lost == 0 { self.device.drops() } else { Some(&self.drops) }
    }
}
