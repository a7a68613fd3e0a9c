//! Packet sockets: a stack of ours on an interface that the kernel has, beside the kernel's own
//! stack. Linux only.
//!
//! Called by: the stack, once a burst; programs that open one. Only `vnet.rs` looks into frames, as
//! far as the offload header needs. Counters: [`Device::drops`], by name. Source: packet(7).
//!
//! ```no_run
//! use wirespeed_device::packet::{Config, PacketSocket};
//!
//! let mut port = PacketSocket::open(&Config::of("eth1"))?;
//! # Ok::<(), wirespeed_device::packet::PacketError>(())
//! ```
//!
//! The kernel puts frames into a ring that it shares with us ([`Receive`] says how), so receiving
//! takes no system call; a burst is sent by one. Checksums and cutting are left to the kernel by a
//! virtio header in front of each frame, both ways. Why so: docs/decisions/0049-packet-sockets.md.
//!
//! # When the interface goes
//! - Down: frames for it are freed and counted as [`DropReason::DeviceLinkDown`], and
//!   [`Device::link_up`] is false, until it is up again.
//! - Deleted: the same, until there is one of that name again, which is then used. A queue of a
//!   group cannot follow: it is gone for good.
//!
//! Meanwhile [`Device::as_fd`] is a descriptor that is readable when interfaces change, so that
//! whoever sleeps on it wakes up for the return.

mod error;
mod open;
mod receive;
mod ring;
mod state;
mod sys;
mod transmit;
mod watch;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base::{DropReason, Drops, LinkKind, MacAddr, Mtu};
use mbuf::Pool;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::{Burst, Device, Limits, Offloads, interface};

pub use error::PacketError;
pub use open::{Config, Fanout, Receive};
use ring::Ring;
use state::State;
use transmit::Sent;
pub use watch::{Seen, Watch};

/// The largest IP packet, which is also the largest super-segment less its link header.
const PACKET_MAX: usize = 65_535;

/// The longest frame that comes in: with an Ethernet header and two tags.
const LONGEST: usize = PACKET_MAX + 14 + 8;

/// Frames that an interface's queue takes, by Linux' default `txqueuelen`; only a hint.
const DEPTH: usize = 1000;

/// One interface of the kernel's, or one queue of it.
pub struct PacketSocket {
    ring: Ring,
    fd: OwnedFd,
    /// Readable when interfaces change, while there is trouble.
    changes: OwnedFd,
    name: String,
    promiscuous: bool,
    /// It shares its frames with others, and cannot be bound anew.
    grouped: bool,
    limits: Limits,
    pushed_back: bool,
    /// Why frames do not pass: [`PacketError::Down`], `Vanished` or `Gone`.
    trouble: Option<PacketError>,
    drops: Drops,
}

impl PacketSocket {
    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's hardware address, which frames for it come to: a stack's own, if the kernel
    /// has no address there. `None` where there is none, or no interface now.
    pub fn mac(&self) -> Option<MacAddr> {
        let ethernet = self.limits.link == LinkKind::Ethernet;
        let asked = || interface::hardware(&self.fd, &self.name).ok();
        ethernet.then(asked).flatten().map(|(_, mac)| mac)
    }

    fn bind(&mut self, index: i32) -> Result<(), Errno> {
        sys::bind(&self.fd, index)?;
        if self.promiscuous { sys::join_promiscuous(&self.fd, index) } else { Ok(()) }
    }

    /// No frame passes: from now on changes are news.
    fn troubled(&mut self, trouble: PacketError) {
        if self.trouble.is_none() {
            // Without it the return is seen when something is sent.
            let _ = sys::listen(&self.changes, true);
        }
        self.trouble = Some(trouble);
    }

    fn down(&mut self) {
        self.troubled(PacketError::Down { name: self.name.clone() });
    }

    /// What has become of the interface, and use what there is now.
    #[cold]
    #[inline(never)]
    fn look(&mut self) {
        if self.is_gone() {
            return;
        }
        // First whatever there is, then change it: what happens in between is heard of.
        self.troubled(
            self.trouble.clone().unwrap_or(PacketError::Down { name: self.name.clone() }),
        );
        sys::drain(&self.changes);
        let mut state = State::of(&self.fd, &self.name);
        if let State::Another(index) = state
            && !self.grouped
            && self.bind(index).is_ok()
        {
            state = State::of(&self.fd, &self.name);
        }
        let name = || self.name.clone();
        let trouble = match state {
            State::Up => None,
            State::Down => Some(PacketError::Down { name: name() }),
            State::Another(_) | State::Missing if self.grouped => {
                Some(PacketError::Gone { name: name() })
            }
            State::Another(_) | State::Missing => Some(PacketError::Vanished { name: name() }),
        };
        if trouble.is_none() {
            let _ = sys::listen(&self.changes, false);
            sys::drain(&self.changes);
        }
        self.trouble = trouble;
    }

    /// The ring was found empty: has the interface gone, did frames find no room?
    fn emptied(&mut self) {
        if self.trouble.is_none() && sockopt::socket_error(&self.fd) != Ok(Ok(())) {
            self.look();
        }
        if self.ring.may_have_lost()
            && let Ok(lost) = sys::lost(&self.fd)
        {
            self.drops.count_many(DropReason::DeviceRingFull, lost.into());
        }
    }

    fn polled(&self, fd: &OwnedFd, events: PollFlags) -> PollFlags {
        let mut asked = [PollFd::new(fd, events)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut asked, Some(&now)) {
            Ok(_) => asked[0].revents(),
            Err(_) => PollFlags::empty(),
        }
    }
}

impl Device for PacketSocket {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        if self.trouble.is_some() {
            self.look();
        }
        let before = into.len();
        // As many looks as there is room, so that frames to be dropped cannot hold us here.
        for _ in 0..into.remaining_capacity() {
            match self.ring.take(|slot| receive::frame(slot, LONGEST, pool)) {
                Some(Ok(frame)) => into.push(frame),
                Some(Err(reason)) => self.drops.count(reason),
                None => {
                    self.emptied();
                    break;
                }
            }
        }
        into.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        self.pushed_back = false;
        if self.trouble.is_some() {
            self.look();
        }
        let (mut taken, mut returns) = (0, 0);
        while taken < from.len() {
            if self.trouble.is_some() || returns > 1 {
                from[taken..].iter().for_each(|_| self.drops.count(DropReason::DeviceLinkDown));
                taken = from.len();
                break;
            }
            let (sent, ended) = self.send(&from[taken..]);
            taken += sent;
            match ended {
                Sent::All => {}
                Sent::Dropped(reason) => {
                    self.drops.count(reason);
                    taken += 1;
                }
                Sent::Full => {
                    self.pushed_back = true;
                    break;
                }
                // It may have come back meanwhile; then the frame is offered once more.
                Sent::LinkDown => returns += 1,
            }
        }
        from.drain(..taken).for_each(|frame| pool.free(frame));
        taken
    }

    fn rx_ready(&self) -> bool {
        let changed = |fd| !self.polled(fd, PollFlags::IN).is_empty();
        self.ring.is_ready() || self.trouble.is_some() && !self.is_gone() && changed(&self.changes)
    }

    fn tx_ready(&self) -> bool {
        !self.pushed_back
            || self.trouble.is_some()
            || !self.polled(&self.fd, PollFlags::OUT).is_empty()
    }

    fn link_up(&self) -> bool {
        self.trouble.is_none()
    }

    fn is_gone(&self) -> bool {
        matches!(self.trouble, Some(PacketError::Gone { .. }))
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        let fd = if self.trouble.is_some() { &self.changes } else { &self.fd };
        (!self.is_gone()).then(|| fd.as_fd())
    }

    fn failure(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.trouble.as_ref().map(|e| e as _)
    }

    fn rx_depth(&self) -> usize {
        self.ring.depth()
    }

    fn drops(&self) -> Option<&Drops> {
        Some(&self.drops)
    }
}

fn limits(link: LinkKind, offload: bool, mtu: Mtu) -> Limits {
    // An Ethernet header with one tag: the kernel refuses a second one on a full packet.
    let link_header = match link {
        LinkKind::Ethernet => 14 + 4,
        LinkKind::Ip => 0,
    };
    let offloads = Offloads {
        tx_checksum: offload,
        rx_checksum: true,
        tso_max_bytes: if offload { PACKET_MAX + link.header_len() } else { 0 },
    };
    Limits {
        link,
        mtu,
        max_frame: mtu.bytes() + link_header,
        max_segments: 1,
        min_first_segment: 0,
        alignment: 1,
        tx_depth: DEPTH,
        offloads,
    }
}
