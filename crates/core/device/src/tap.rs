//! TAP and TUN: the kernel of this machine is the host at the other end of the link. Linux only.
//!
//! Called by: the stack, once per burst; programs that open one. Only `vnet.rs` parses frames, as
//! far as the offload header needs. Counters: [`Device::drops`], by reason.
//!
//! ```no_run
//! # mod wirespeed { pub use wirespeed_device as device; }
//! use wirespeed::device::tap::{Config, Setup, Tap};
//!
//! let mut tap = Tap::open(&Config { name: Some("ws0".to_owned()), ..Config::default() })?;
//! let addresses = vec!["192.0.2.1/24".parse().expect("an address of the kernel's end")];
//! tap.configure(&Setup { addresses, up: true, ..Setup::default() })?;
//! # Ok::<(), wirespeed::device::tap::TapError>(())
//! ```
//!
//! One system call reads one frame. One system call writes a burst with io_uring, otherwise one
//! frame. [`Tap`] keeps two buffers for the next frame, so that a read which finds no frame
//! allocates nothing.
//!
//! # When the interface goes
//! - Down (`ip link set NAME down`): frames for it are freed and counted as
//!   [`DropReason::DeviceLinkDown`]; [`Device::link_up`] is false until a frame passes again, or
//!   until [`Device::check_link`] finds it up.
//! - Deleted: the same for good; [`Device::as_fd`] is `None`, because the descriptor stays readable
//!   from then on. [`Device::failure`] has the reason in both cases.

mod configure;
mod error;
mod open;
mod receive;
mod ring;
mod sys;
mod transmit;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base::{DropReason, Drops, LinkKind, Mtu};
use mbuf::Pool;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::{Burst, Device, Limits, Offloads};

pub use configure::Setup;
pub use error::TapError;
pub use open::{Config, Declared};
use receive::{Receiver, Taken};
use ring::Ring;

/// The largest IP packet, and the largest super-segment without its link header, in bytes.
const PACKET_MAX: usize = 65_535;

/// The declared transmit depth: `txqueuelen` of a new TUN. It is only a hint: frames that we send
/// do not wait in that queue.
const DEPTH: usize = 500;

/// The bytes of a received burst, unless [`Config::burst_bytes`] sets another limit. This many
/// bytes are still in a core's own cache when a program reads them; the 4 MB of 64 super-segments
/// are not. A burst of ordinary Ethernet frames never reaches the limit.
pub const BURST_BYTES: usize = 128 << 10;

/// One queue of a TAP or TUN interface, or a descriptor that behaves like one.
pub struct Tap {
    fd: OwnedFd,
    name: String,
    limits: Limits,
    /// Bytes of virtio header in front of each frame; 0 for none.
    header_len: usize,
    /// The work that the kernel and we leave to each other by that header.
    work: Work,
    receiver: Receiver,
    /// A received burst ends with the frame with which it has at least this many bytes.
    burst_bytes: usize,
    /// Writes several frames by one system call; `None` if that was not requested or is not
    /// available.
    ring: Option<Box<Ring>>,
    /// Did the last burst end because it was full? Then there may be more frames.
    more: bool,
    pushed_back: bool,
    gone: bool,
    /// Why frames do not pass: [`TapError::Down`] or [`TapError::Gone`].
    trouble: Option<TapError>,
    drops: Drops,
}

/// The work that the kernel and we leave to each other: super-segments and unfinished checksums.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    None,
    Tcp,
    /// Also super-datagrams of UDP, which kernels support since Linux 6.2.
    TcpAndUdp,
}

impl Tap {
    fn around(
        fd: OwnedFd,
        name: String,
        link: LinkKind,
        (header_len, work): (usize, Work),
        mtu: Mtu,
    ) -> Tap {
        let limits = limits(link, work, mtu);
        Tap {
            fd,
            name,
            limits,
            header_len,
            work,
            receiver: receiver(&limits, header_len),
            burst_bytes: BURST_BYTES,
            ring: None,
            more: false,
            pushed_back: false,
            gone: false,
            trouble: None,
            drops: Drops::default(),
        }
    }

    /// The interface's name; empty for an adopted descriptor that has none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Are bursts written by one system call? Not if the kernel lacks io_uring or forbids it.
    pub fn uses_io_uring(&self) -> bool {
        self.ring.is_some()
    }

    /// Adapt to a changed MTU of the interface.
    fn set_mtu(&mut self, mtu: Mtu) {
        self.limits = limits(self.limits.link, self.work, mtu);
        self.receiver = receiver(&self.limits, self.header_len);
    }

    /// Note that `count` frames were received without an error. If there were any, an interface
    /// that was down is up again.
    #[inline(always)]
    fn received(&mut self, count: usize) -> usize {
        if count > 0 && self.trouble.is_some() && !self.gone {
            self.trouble = None;
        }
        count
    }

    /// Handle an error of a read, other than `AGAIN`.
    #[cold]
    #[inline(never)]
    fn not_received(&mut self, errno: Errno) {
        match errno {
            Errno::IO | Errno::NETDOWN => self.down(),
            Errno::NOMEM | Errno::NOBUFS => {}
            errno => self.lose(errno),
        }
    }

    fn down(&mut self) {
        self.trouble = Some(TapError::Down { name: self.name.clone() });
    }

    fn lose(&mut self, errno: Errno) {
        self.gone = true;
        self.more = false;
        self.trouble = Some(TapError::Gone { name: self.name.clone(), errno });
    }

    /// A read returned 0 bytes: the socket's peer has closed, or has sent an empty datagram.
    #[cold]
    fn empty(&mut self) {
        if self.polled(PollFlags::IN).intersects(PollFlags::HUP | PollFlags::ERR) {
            self.lose(Errno::PIPE);
        } else {
            self.drops.count(DropReason::DeviceBadHeader);
        }
    }

    fn polled(&self, events: PollFlags) -> PollFlags {
        let mut asked = [PollFd::new(&self.fd, events)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut asked, Some(&now)) {
            Ok(_) => asked[0].revents(),
            Err(_) => PollFlags::empty(),
        }
    }
}

impl Device for Tap {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        self.more = false;
        if self.gone {
            return 0;
        }
        let before = into.len();
        // Read no more frames than there was room for, so that dropped frames cannot keep this loop
        // running.
        let mut bytes = 0;
        for _ in 0..into.remaining_capacity() {
            if bytes >= self.burst_bytes {
                break;
            }
            match retried(|| self.receiver.take(self.fd.as_fd(), pool)) {
                Ok(Taken::Frame(frame)) => {
                    bytes += frame.len();
                    into.push(frame);
                }
                Ok(Taken::Dropped(reason)) => self.drops.count(reason),
                Ok(Taken::Empty) => self.empty(),
                Err(Errno::AGAIN) => return self.received(into.len() - before),
                Err(errno) => {
                    self.not_received(errno);
                    self.receiver.release(pool);
                    return into.len() - before;
                }
            }
        }
        self.more = !self.gone;
        self.received(into.len() - before)
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        self.pushed_back = false;
        // For one frame a plain write is cheaper.
        if from.len() > 1
            && !self.gone
            && let Some(mut ring) = self.ring.take()
        {
            let taken = self.send_by_ring(&mut ring, pool, from);
            self.ring = (!ring.is_broken()).then_some(ring);
            return taken;
        }
        self.send_one_by_one(pool, from)
    }

    /// This costs a `poll`, unless the last burst was full.
    fn rx_ready(&self) -> bool {
        // Any event counts, also an error: the next burst handles it.
        !self.gone && (self.more || !self.polled(PollFlags::IN).is_empty())
    }

    fn tx_ready(&self) -> bool {
        !self.pushed_back || self.gone || !self.polled(PollFlags::OUT).is_empty()
    }

    fn link_up(&self) -> bool {
        self.trouble.is_none()
    }

    /// The kernel reports room at an interface that is up, and none at one that is down. (It does
    /// so since Linux 5.2; before, an interface always counts as up here.) An interface that was
    /// deleted has an error, which the next read finds.
    fn check_link(&mut self) -> bool {
        // A socket has no interface name, and its queue is full at times.
        if !self.gone && !self.name.is_empty() {
            let events = self.polled(PollFlags::OUT);
            if events.contains(PollFlags::OUT) {
                self.trouble = None;
            } else if !events.intersects(PollFlags::ERR | PollFlags::HUP) {
                self.down();
            }
        }
        self.link_up()
    }

    fn is_gone(&self) -> bool {
        self.gone
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.gone).then(|| self.fd.as_fd())
    }

    fn failure(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.trouble.as_ref().map(|e| e as _)
    }

    fn drops(&self) -> Option<&Drops> {
        Some(&self.drops)
    }
}

fn limits(link: LinkKind, work: Work, mtu: Mtu) -> Limits {
    // An Ethernet header with two tags.
    let link_header = match link {
        LinkKind::Ethernet => 14 + 8,
        LinkKind::Ip => 0,
    };
    let most = PACKET_MAX + link.header_len();
    let offloads = Offloads {
        tx_checksum: work != Work::None,
        rx_checksum: work != Work::None,
        tso_max_bytes: if work == Work::None { 0 } else { most },
        uso_max_bytes: if work == Work::TcpAndUdp { most } else { 0 },
        gro: work != Work::None,
    };
    Limits {
        link,
        mtu,
        max_frame: mtu.bytes() + link_header,
        max_segments: 1,
        tx_depth: DEPTH,
        offloads,
    }
}

fn receiver(limits: &Limits, header_len: usize) -> Receiver {
    // Add 8 bytes for two tags, which the kernel may add to a super-segment.
    let longest = limits.max_frame.max(match limits.offloads.tso_max_bytes {
        0 => 0,
        most => most + 8,
    });
    Receiver::new(longest, header_len)
}

/// Repeat a call that a signal interrupted.
#[inline(always)]
fn retried<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests;
