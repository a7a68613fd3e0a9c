//! [`AsPhy`]: a device of ours as a `phy::Device` of smoltcp.
//!
//! Called by: programs, which pass it to smoltcp's `Interface`. smoltcp sees plain frames: larger
//! ones that a device received are cut, and unfinished checksums are finished. smoltcp computes and
//! verifies all checksums. Limits: the pool's bytes; one frame waits for a device that is full.

use std::collections::VecDeque;

use base::{DropReason, Drops, LinkKind};
use device::{Burst, Device};
use mbuf::{Flags, Mbuf, Pool};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::time::Instant;

use crate::checksums;

/// A device of ours for smoltcp.
///
/// ```
/// # mod wirespeed { pub use {device, wirespeed_phy as smoltcp}; }
/// use smoltcp::iface::{Config, Interface};
/// use smoltcp::time::Instant;
/// use smoltcp::wire::{EthernetAddress, HardwareAddress};
/// use wirespeed::device::mem;
/// use wirespeed::smoltcp::AsPhy;
///
/// let (end, _other) = mem::pair(&mem::Config::default());
/// let mut device = AsPhy::new(end, 1 << 20);
/// let mac = HardwareAddress::Ethernet(EthernetAddress([2, 0, 0, 0, 0, 1]));
/// let interface = Interface::new(Config::new(mac), &mut device, Instant::now());
/// ```
pub struct AsPhy<D> {
    device: D,
    pool: Pool,
    received: VecDeque<Mbuf>,
    burst: Burst,
    /// The frame that the device pushed back.
    leaving: Burst,
    drops: Drops,
    /// Room for a frame that gets no buffer of the pool.
    scratch: Vec<u8>,
}

impl<D: Device> AsPhy<D> {
    /// Frames take at most `pool_bytes` bytes.
    pub fn new(device: D, pool_bytes: usize) -> AsPhy<D> {
        AsPhy {
            device,
            pool: Pool::new(pool_bytes),
            received: VecDeque::new(),
            burst: Burst::new(),
            leaving: Burst::new(),
            drops: Drops::default(),
            scratch: Vec::new(),
        }
    }

    /// The device: its descriptor and its waker say when to poll the interface again, unless
    /// [`AsPhy::is_ready`].
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The same, to arm it.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Frames that were lost here: without a buffer, or because they could not be cut.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Has [`Interface::poll`](smoltcp::iface::Interface::poll) something to do? Ask before a wait
    /// for the device: a super-segment was cut into several frames, and those that are left are
    /// here, where the device's descriptor and waker do not see them. A frame that the device
    /// pushed back leaves if there is room again.
    pub fn is_ready(&mut self) -> bool {
        self.has_room() && (!self.received.is_empty() || self.device.rx_ready())
    }

    /// Does the device take a frame? One that it pushed back leaves first.
    fn has_room(&mut self) -> bool {
        if !self.leaving.is_empty() {
            self.device.tx_burst(&mut self.pool, &mut self.leaving);
        }
        self.leaving.is_empty() && self.device.tx_ready()
    }

    fn next(&mut self) -> Option<Mbuf> {
        while self.received.is_empty() {
            if self.device.rx_burst(&mut self.pool, &mut self.burst) == 0 {
                return None;
            }
            let link = self.device.limits().link;
            for mut frame in self.burst.drain(..) {
                if frame.has(Flags::CSUM_VERIFIED) && frame.segment_size() == 0 {
                    frame = finished(frame, link, &mut self.pool);
                }
                let received = &mut self.received;
                let lost =
                    link::cut(frame, link, &mut self.pool, |frame, _| received.push_back(frame));
                self.drops.count_many(DropReason::DeviceBadHeader, lost);
            }
        }
        self.received.pop_front()
    }

    fn send(&mut self, frame: Mbuf) {
        // `has_room` was true, and each token sends one frame.
        self.leaving.push(frame);
        self.device.tx_burst(&mut self.pool, &mut self.leaving);
    }
}

/// The frame with its transport checksum in place. A frame that others share is copied.
fn finished(mut frame: Mbuf, link: LinkKind, pool: &mut Pool) -> Mbuf {
    if !frame.is_exclusive()
        && let Some(copy) = pool.copy_of(frame.as_slice())
    {
        pool.free(core::mem::replace(&mut frame, copy));
    }
    if let Some(bytes) = frame.as_mut_slice() {
        checksums::fill(bytes, link);
    }
    frame.clear(Flags::CSUM_VERIFIED | Flags::CSUM_PARTIAL);
    frame
}

impl<D: Device> phy::Device for AsPhy<D> {
    type RxToken<'a>
        = RxToken
    where
        D: 'a;
    type TxToken<'a>
        = TxToken<'a, D>
    where
        D: 'a;

    fn capabilities(&self) -> DeviceCapabilities {
        let limits = self.device.limits();
        let (medium, header) = match limits.link {
            LinkKind::Ethernet => (Medium::Ethernet, 14),
            LinkKind::Ip => (Medium::Ip, 0),
        };
        let mut caps = DeviceCapabilities::default();
        caps.medium = medium;
        caps.max_transmission_unit = limits.mtu.bytes() + header;
        caps
    }

    /// A frame stays in the device while there is no room for an answer.
    fn receive(&mut self, _now: Instant) -> Option<(RxToken, TxToken<'_, D>)> {
        if !self.has_room() {
            return None;
        }
        let frame = self.next()?;
        Some((RxToken(frame), TxToken(self)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<TxToken<'_, D>> {
        self.has_room().then_some(TxToken(self))
    }
}

/// A received frame.
pub struct RxToken(Mbuf);

impl phy::RxToken for RxToken {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0.as_slice())
    }
}

/// Room for a frame.
pub struct TxToken<'a, D>(&'a mut AsPhy<D>);

impl<D: Device> phy::TxToken for TxToken<'_, D> {
    /// The frame leaves at once. Without a buffer for it, it is lost, and counted.
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let phy = self.0;
        let Some(mut frame) = phy.pool.alloc(len).filter(|frame| frame.tailroom() >= len) else {
            phy.drops.count(DropReason::MbufExhausted);
            phy.scratch.resize(len, 0);
            return f(&mut phy.scratch);
        };
        let result = f(&mut frame.tail_mut()[..len]);
        frame.extend(len);
        phy.send(frame);
        result
    }
}
