//! AF_XDP: the kernel puts frames of an interface's queues into memory shared with us, before its
//! own stack sees them. Linux only.
//!
//! Called by: the stack, once per burst; programs that open one. Counters: [`Device::drops`], by
//! reason. Source: Linux `Documentation/networking/af_xdp.rst`.
//!
//! ```no_run
//! # mod wirespeed { pub use wirespeed_device as device; }
//! use wirespeed::device::xdp::{Config, XdpSocket};
//!
//! let mut port = XdpSocket::open(&Config::of("eth1"))?;
//! # Ok::<(), wirespeed::device::xdp::XdpError>(())
//! ```
//!
//! Frames of an open queue go only to us, not to the kernel's stack. Received frames become mbufs
//! in place ([`mbuf::Frames`]). They are copied if they are short, or if programs hold so many
//! frames that the kernel could run out of them. Sent frames are copied into the shared memory.
//! There are no offloads in either direction: frames are as on a cable. A veth has no cable, and
//! the kernel at its other end leaves checksums and segmentation undone; `ethtool -K PEER tx off`
//! disables both offloads there.
//!
//! # When the interface goes
//! - Down: frames for it are freed and counted as [`DropReason::DeviceLinkDown`], and
//!   [`Device::link_up`] is false, until a frame passes again.
//! - Deleted: the same for good; [`Device::as_fd`] is `None`.
#![allow(unsafe_code)]

mod error;
mod open;
mod program;
mod ring;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use base::{DropReason, Drops, LinkKind, MacAddr, Mtu};
use mbuf::{Frames, Mbuf, Pool, copy};
use rustix::io::Errno;
use rustix::net::xdp::{XdpDesc, XdpDescOptions};
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

use crate::{Burst, Device, Limits, Offloads, interface};

pub use error::XdpError;
pub use open::Config;
use open::{FRAMES, RECEIVE, TRANSMIT};
use program::Program;
use ring::Ring;

/// The most calls to send for each burst: the kernel sends 32 frames in each call.
const KICKS: usize = 8;

/// If programs hold more frames than this, received frames are copied. It is half of the frames
/// that are in neither the transmit nor the receive ring.
const HELD: usize = (FRAMES - TRANSMIT - RECEIVE) as usize / 2;

/// Shorter frames are always copied: a copy is cheaper than passing the buffer on, and a sockbuf
/// would keep a whole buffer for a few bytes.
const COPIED: u32 = 256;

/// With unaligned chunks, the lower bits of a received frame's address are the chunk's address, the
/// bits above are the offset of its first byte from there.
const ADDRESS_BITS: u32 = 48;

/// After this many calls in a row that sent nothing, stop calling at once, and leave it to the
/// driver to try again at its interval. A ring that is only full has room sooner; a ring that has
/// stopped does not.
const FRUITLESS_MAX: u32 = 64;

/// Empty bursts between two reads of the kernel's drop counters.
const LOOK: u32 = 256;

/// One queue of an interface.
pub struct XdpSocket {
    fill: Ring<u64>,
    completion: Ring<u64>,
    rx: Ring<XdpDesc>,
    tx: Ring<XdpDesc>,
    fd: OwnedFd,
    /// A socket for requests about the interface, in its namespace.
    asked: OwnedFd,
    program: Arc<Program>,
    frames: Frames,
    /// Frames that were copied out, for the fill ring.
    emptied: Vec<u64>,
    /// Free transmit frames; they stay lent by `frames`.
    free: Vec<u64>,
    name: String,
    index: i32,
    queue: u32,
    limits: Limits,
    pushed_back: bool,
    /// Calls in a row that sent nothing.
    fruitless: u32,
    idle: u32,
    /// The kernel's drop counters as last read: `rx_dropped`, `rx_ring_full`,
    /// `rx_fill_ring_empty_descs`.
    lost: [u64; 3],
    /// Why frames do not pass: [`XdpError::Down`] or [`XdpError::Gone`].
    trouble: Option<XdpError>,
    drops: Drops,
}

impl XdpSocket {
    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of the queue.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// The interface's hardware address; a stack uses it as its own, because the kernel's stack
    /// receives nothing there.
    pub fn mac(&self) -> Option<MacAddr> {
        interface::hardware(&self.asked, &self.name).ok().map(|(_, mac)| mac)
    }

    /// Put free frames on the fill ring.
    fn refill(&mut self) {
        let room = self.fill.room();
        let mut left = room;
        while left > 0
            && let Some(address) = self.emptied.pop().or_else(|| self.frames.lend())
        {
            self.fill.put(address);
            left -= 1;
        }
        self.fill.publish();
        if left < room && self.fill.wants_waking() {
            // This receives nothing, it only wakes the kernel; the next burst handles errors.
            let _ = recv(&self.fd, &mut [0u8; 1], RecvFlags::DONTWAIT);
        }
    }

    /// Take frames that were sent off the completion ring.
    fn reclaim(&mut self) {
        while let Some(address) = self.completion.take() {
            self.free.push(address);
        }
        self.completion.release();
    }

    /// Let the kernel send what is on the transmit ring, if it needs a call for that.
    fn kick(&mut self) {
        for _ in 0..KICKS {
            let left = self.tx.untaken();
            if left == 0 {
                self.fruitless = 0;
                return;
            }
            if self.trouble.is_some() || !self.tx.wants_waking() {
                return;
            }
            let sent = send(&self.fd, &[], SendFlags::DONTWAIT);
            let took = self.tx.untaken() < left;
            self.fruitless = if took { 0 } else { self.fruitless.saturating_add(1) };
            match sent {
                Ok(_) | Err(Errno::INTR) => {}
                // The device's queue was full, and one frame was dropped.
                Err(Errno::BUSY) if took => self.drops.count(DropReason::DeviceQueueFull),
                Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::NOMEM) => {
                    if !took {
                        return;
                    }
                }
                Err(_) => return self.look(),
            }
        }
    }

    /// Is there a frame on the transmit ring that the kernel has not taken yet?
    fn has_unsent(&self) -> bool {
        self.trouble.is_none() && self.tx.untaken() > 0
    }

    /// Find out the state of the interface.
    #[cold]
    #[inline(never)]
    fn look(&mut self) {
        if self.is_gone() {
            return;
        }
        let _ = sockopt::socket_error(&self.fd);
        let name = self.name.clone();
        let here = interface::index(&self.asked, &name) == Ok(self.index);
        self.trouble = if !here {
            Some(XdpError::Gone { name })
        } else if interface::is_up(&self.asked, &name) == Ok(true) {
            None
        } else {
            Some(XdpError::Down { name })
        };
    }

    /// No frame was received: check for an error of the interface, and for lost frames.
    fn emptied(&mut self) {
        if sockopt::socket_error(&self.fd) != Ok(Ok(())) {
            self.look();
        }
        self.idle += 1;
        if self.idle < LOOK {
            return;
        }
        self.idle = 0;
        let Ok(now) = sockopt::xdp_statistics(&self.fd) else { return };
        let now = [
            now.rx_dropped,
            now.rx_ring_full.unwrap_or(0),
            now.rx_fill_ring_empty_descs.unwrap_or(0),
        ];
        let [refused, no_place, no_frame] =
            core::array::from_fn(|i| now[i].saturating_sub(self.lost[i]));
        self.lost = now;
        // `rx_dropped` counts frames for which the fill ring had no free frame, and frames that
        // were too long.
        let too_big = refused.saturating_sub(no_frame);
        self.drops.count_many(DropReason::DeviceRingFull, refused - too_big + no_place);
        self.drops.count_many(DropReason::DeviceFrameTooBig, too_big);
    }

    /// The next received frame.
    #[inline]
    fn take(&mut self, pool: &mut Pool, is_scarce: bool) -> Option<Result<Mbuf, DropReason>> {
        let entry = self.rx.take()?;
        let offset = (entry.addr & ((1 << ADDRESS_BITS) - 1)) + (entry.addr >> ADDRESS_BITS);
        let len = entry.len as usize;
        if entry.len >= COPIED && !is_scarce {
            // SAFETY: the kernel has put the frame on the receive ring, and writes only to frames
            // on the fill ring.
            let frame = unsafe { self.frames.filled(offset, len) };
            return Some(frame.ok_or(DropReason::DeviceBadHeader));
        }
        // SAFETY: as above.
        let Some((bytes, begin)) = (unsafe { self.frames.look(offset, len) }) else {
            // SAFETY: as above. If it was lent at all, it is free now.
            drop(unsafe { self.frames.filled(offset, 0) });
            return Some(Err(DropReason::DeviceBadHeader));
        };
        let copied = pool.alloc_filled(len, len, |room| copy(bytes, room));
        self.emptied.push(begin);
        Some(copied.map(|(frame, ())| frame).ok_or(DropReason::MbufExhausted))
    }

    /// Copy a frame into shared memory and put it on the transmit ring. Returns `false` if there is
    /// no room.
    #[inline]
    fn put(&mut self, frame: &Mbuf) -> bool {
        let Some(address) = self.free.pop() else { return false };
        // SAFETY: the kernel has sent this frame and returned it (`reclaim`), or never had it.
        let room = unsafe { self.frames.room(address, frame.len()) };
        let Some(room) = room else { return false };
        copy(frame.as_slice(), room);
        let options = XdpDescOptions::empty();
        self.tx.put(XdpDesc { addr: address, len: frame.len() as u32, options });
        true
    }
}

impl Device for XdpSocket {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        if self.is_gone() {
            return 0;
        }
        self.kick();
        let (before, room) = (into.len(), into.remaining_capacity());
        self.frames.collect();
        let is_scarce = self.frames.held() > HELD;
        let mut taken = 0;
        // Take no more frames than there was room for, so that dropped frames cannot keep this loop
        // running.
        while taken < room
            && let Some(frame) = self.take(pool, is_scarce)
        {
            taken += 1;
            match frame {
                Ok(frame) => into.push(frame),
                Err(reason) => self.drops.count(reason),
            }
        }
        if taken == 0 {
            self.emptied();
            return 0;
        }
        self.rx.release();
        self.refill();
        // A frame was received: the interface is up.
        self.trouble = None;
        into.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        self.pushed_back = false;
        if self.trouble.is_some() {
            self.look();
        }
        self.reclaim();
        let mut room = self.tx.room();
        let mut taken = 0;
        while let Some(frame) = from.get(taken) {
            if self.trouble.is_some() {
                self.drops.count(DropReason::DeviceLinkDown);
            } else if frame.len() > self.limits.max_frame {
                self.drops.count(DropReason::DeviceFrameTooBig);
            } else if room == 0 || !self.put(frame) {
                self.pushed_back = true;
                break;
            } else {
                room -= 1;
            }
            taken += 1;
        }
        from.drain(..taken).for_each(|frame| pool.free(frame));
        self.tx.publish();
        self.kick();
        taken
    }

    fn rx_ready(&self) -> bool {
        // Frames that were not sent are tried again at once if the kernel needs a call for that,
        // unless too many calls have sent nothing. So there is no busy loop for a stalled device.
        let is_worth_a_call = self.fruitless < FRUITLESS_MAX && self.tx.wants_waking();
        !self.is_gone() && (self.rx.has_entry() || is_worth_a_call && self.has_unsent())
    }

    fn tx_ready(&self) -> bool {
        !self.pushed_back || self.trouble.is_some() || self.completion.has_entry()
    }

    fn rx_depth(&self) -> usize {
        RECEIVE as usize
    }

    fn link_up(&self) -> bool {
        self.trouble.is_none()
    }

    fn check_link(&mut self) -> bool {
        self.look();
        self.link_up()
    }

    fn is_gone(&self) -> bool {
        matches!(self.trouble, Some(XdpError::Gone { .. }))
    }

    fn is_unfinished(&self) -> bool {
        self.has_unsent()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_gone()).then(|| self.fd.as_fd())
    }

    fn failure(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.trouble.as_ref().map(|e| e as _)
    }

    fn drops(&self) -> Option<&Drops> {
        Some(&self.drops)
    }
}

fn limits(mtu: Mtu) -> Limits {
    Limits {
        link: LinkKind::Ethernet,
        mtu,
        // An Ethernet header with one tag; the kernel refuses a second one on a full packet.
        max_frame: mtu.bytes() + 14 + 4,
        max_segments: 1,
        tx_depth: TRANSMIT as usize,
        offloads: Offloads::default(),
    }
}
