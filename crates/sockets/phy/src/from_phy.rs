//! [`FromPhy`]: a device of smoltcp as a device of a stack.
//!
//! Called by: programs, which pass it to `Stack::add_port`. Limits: the device's capabilities. A
//! device without a token for transmission pushes back. Counters: [`DropReason::MbufExhausted`],
//! [`DropReason::DeviceFrameTooBig`].

use core::cell::RefCell;
use core::fmt;
use core::task::Waker;
use std::time::Instant as Clock;

use base::{DropReason, Drops, LinkKind, Mtu};
use device::{Burst, Device, Doorbell, Limits, Offloads};
use mbuf::{Flags, Pool};
use smoltcp::phy::{self, ChecksumCapabilities, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

use crate::checksums;

/// Frames that a device without a limit of its own takes at a time.
const DEPTH: usize = 64;

/// A `phy::Device` as a device of a stack.
///
/// smoltcp's trait has neither a waker nor a descriptor, so a driver looks for frames every
/// millisecond. [`FromPhy::with_doorbell`] and [`FromPhy::wait_on`] avoid that.
///
/// ```
/// # mod wirespeed { pub use {stack::*, wirespeed_phy as smoltcp}; }
/// use smoltcp::phy::{Loopback, Medium};
/// use wirespeed::smoltcp::FromPhy;
/// use wirespeed::{PortConfig, Stack, StackConfig};
///
/// let device = FromPhy::new(Loopback::new(Medium::Ethernet))?;
/// let mut stack = Stack::new(StackConfig::new([1, 2]));
/// let addresses = vec!["192.0.2.1/24".parse()?];
/// stack.add_port(Box::new(device), PortConfig { addresses, ..PortConfig::default() });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FromPhy<D> {
    /// In a cell, because to look for a frame is to receive it.
    inner: RefCell<Inner<D>>,
    limits: Limits,
    checksum: ChecksumCapabilities,
    in_software: bool,
    epoch: Clock,
    bell: Option<Doorbell>,
    #[cfg(unix)]
    descriptor: Option<std::os::fd::OwnedFd>,
    drops: Drops,
    pushed_back: bool,
}

struct Inner<D> {
    device: D,
    /// The frame that a look for one has received; empty if there is none.
    ahead: Vec<u8>,
}

impl<D: phy::Device> Inner<D> {
    /// Is there a frame? It is received if there is one.
    fn look(&mut self, now: Instant) -> bool {
        if self.ahead.is_empty()
            && let Some((token, _)) = self.device.receive(now)
        {
            token.consume(|bytes| self.ahead.extend_from_slice(bytes));
        }
        !self.ahead.is_empty()
    }
}

impl<D: phy::Device + Send> FromPhy<D> {
    /// A device that is polled: its driver looks for frames every millisecond.
    ///
    /// # Errors
    /// [`NotAPort`]: the stack has no such link.
    pub fn new(device: D) -> Result<FromPhy<D>, NotAPort> {
        let caps = device.capabilities();
        let limits = limits(&caps)?;
        Ok(FromPhy {
            inner: RefCell::new(Inner { device, ahead: Vec::new() }),
            limits,
            in_software: checksums::all_in_software(&caps.checksum),
            checksum: caps.checksum,
            epoch: Clock::now(),
            bell: None,
            #[cfg(unix)]
            descriptor: None,
            drops: Drops::default(),
            pushed_back: false,
        })
    }

    /// The same for a device whose owner rings `bell` when there is a frame or room.
    ///
    /// # Errors
    /// [`NotAPort`]: the stack has no such link.
    pub fn with_doorbell(device: D, bell: Doorbell) -> Result<FromPhy<D>, NotAPort> {
        Ok(FromPhy { bell: Some(bell), ..FromPhy::new(device)? })
    }

    /// The driver sleeps until `descriptor` is readable: a duplicate of the one that the device
    /// reads.
    #[cfg(unix)]
    #[must_use]
    pub fn wait_on(mut self, descriptor: std::os::fd::OwnedFd) -> FromPhy<D> {
        self.descriptor = Some(descriptor);
        self
    }

    /// The device, once the stack has given the port back.
    pub fn into_inner(self) -> D {
        self.inner.into_inner().device
    }

    fn now(&self) -> Instant {
        let micros = self.epoch.elapsed().as_micros();
        Instant::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
    }
}

/// The limits of a device with these capabilities.
///
/// # Errors
/// [`NotAPort`].
pub(crate) fn limits(caps: &DeviceCapabilities) -> Result<Limits, NotAPort> {
    let (link, header) = match caps.medium {
        Medium::Ethernet => (LinkKind::Ethernet, 14),
        Medium::Ip => (LinkKind::Ip, 0),
        // A feature of smoltcp that another crate of the program may have turned on.
        #[allow(unreachable_patterns)]
        _ => return Err(NotAPort::Medium),
    };
    let most = caps.max_transmission_unit.min(Mtu::MAX.bytes() + header);
    let mtu = most.checked_sub(header).and_then(Mtu::new).ok_or(NotAPort::TooSmall(most))?;
    let tx_checksum = !caps.checksum.tcp.tx() && !caps.checksum.udp.tx();
    let rx_checksum = !caps.checksum.tcp.rx() && !caps.checksum.udp.rx();
    Ok(Limits {
        link,
        mtu,
        max_frame: most,
        max_segments: 1,
        tx_depth: caps.max_burst_size.unwrap_or(DEPTH).max(1),
        offloads: Offloads { tx_checksum, rx_checksum, ..Offloads::default() },
    })
}

impl<D: phy::Device + Send> Device for FromPhy<D> {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        let now = self.now();
        let inner = self.inner.get_mut();
        let before = into.len();
        while !into.is_full() {
            let mbuf = if inner.ahead.is_empty() {
                let Some((token, _)) = inner.device.receive(now) else { break };
                token.consume(|bytes| pool.copy_of(bytes))
            } else {
                let mbuf = pool.copy_of(&inner.ahead);
                inner.ahead.clear();
                mbuf
            };
            let Some(mut mbuf) = mbuf else {
                self.drops.count(DropReason::MbufExhausted);
                continue;
            };
            if !self.in_software
                && let Some(frame) = mbuf.as_mut_slice()
                && checksums::received(frame, self.limits.link, &self.checksum)
            {
                mbuf.set(Flags::CSUM_VERIFIED);
            }
            into.push(mbuf);
        }
        into.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        let now = self.now();
        let inner = self.inner.get_mut();
        let mut taken = 0;
        for frame in from.iter() {
            let bytes = frame.as_slice();
            if bytes.len() > self.limits.max_frame {
                self.drops.count(DropReason::DeviceFrameTooBig);
            } else {
                let Some(token) = inner.device.transmit(now) else { break };
                token.consume(bytes.len(), |room| {
                    let n = bytes.len().min(room.len());
                    room[..n].copy_from_slice(&bytes[..n]);
                    if !self.in_software {
                        checksums::sent(room, self.limits.link, &self.checksum);
                    }
                });
            }
            taken += 1;
        }
        pool.free_all(from.drain(..taken));
        self.pushed_back = !from.is_empty();
        taken
    }

    fn rx_ready(&self) -> bool {
        self.inner.borrow_mut().look(self.now())
    }

    fn tx_ready(&self) -> bool {
        self.inner.borrow_mut().device.transmit(self.now()).is_some()
    }

    fn link_up(&self) -> bool {
        true
    }

    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.descriptor.as_ref().map(std::os::fd::AsFd::as_fd)
    }

    fn arm(&mut self, waker: &Waker) -> bool {
        let Some(bell) = &self.bell else { return false };
        bell.arm_waker(waker);
        let ready = self.rx_ready() || (self.pushed_back && self.tx_ready());
        if ready {
            bell.disarm();
        }
        !ready
    }

    fn drops(&self) -> Option<&Drops> {
        Some(&self.drops)
    }
}

/// Why a device of smoltcp cannot be a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAPort {
    /// Its medium is neither Ethernet nor IP.
    Medium,
    /// Its frames have at most this many bytes, too few for an IP packet of 68 bytes.
    TooSmall(usize),
}

impl fmt::Display for NotAPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAPort::Medium => f.write_str(
                "the device is neither Ethernet nor IP; stay with smoltcp for IEEE 802.15.4",
            ),
            NotAPort::TooSmall(bytes) => write!(
                f,
                "max_transmission_unit is {bytes} bytes; make it 68 or more, and 14 bytes larger \
                 for Ethernet"
            ),
        }
    }
}

impl core::error::Error for NotAPort {}
