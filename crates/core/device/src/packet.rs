//! Packet sockets: a stack uses an interface of the kernel together with the kernel's own stack.
//! Linux only.
//!
//! Called by: the stack, once per burst; programs that open one. Only `vnet.rs` parses frames, as
//! far as the offload header needs. Counters: [`Device::drops`], by reason. Source: packet(7).
//!
//! ```no_run
//! # mod wirespeed { pub use wirespeed_device as device; }
//! use wirespeed::device::packet::{Config, PacketSocket};
//!
//! let mut port = PacketSocket::open(&Config::of("eth1"))?;
//! # Ok::<(), wirespeed::device::packet::PacketError>(())
//! ```
//!
//! The kernel puts frames into a shared ring ([`Receive`]), so receiving takes no system call; one
//! system call sends a burst. A virtio header before each frame carries checksum and segmentation
//! offload in both directions. The reasons: docs/decisions/0049-packet-sockets.md.
//!
//! # When the interface goes
//! - Down: frames for it are freed and counted as [`DropReason::DeviceLinkDown`], and
//!   [`Device::link_up`] is false, until it is up again.
//! - Deleted: the same, until an interface of that name exists again, which is then used. A queue
//!   of a fanout group cannot be bound again: it is gone for good.
//!
//! While frames do not pass, [`Device::as_fd`] is a descriptor that is readable when interfaces
//! change, so that a driver which sleeps on it wakes up when the interface returns. A socket that
//! another process has opened ([`PacketSocket::adopt`]) has no such descriptor. Its user calls
//! [`Device::check_link`], and if the interface is deleted, that other process has to open it
//! again.

mod error;
mod hand_over;
mod open;
mod receive;
mod ring;
mod sys;
mod transmit;
mod watch;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base::{DropReason, Drops, LinkKind, MacAddr, Mtu};
pub use error::PacketError;
use mbuf::Pool;
pub use open::{Config, Fanout, Receive};
use receive::State;
use ring::Ring;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;
use transmit::Sent;
pub use watch::{Seen, Watch};

use crate::{Burst, Device, Limits, Offloads, interface};

/// The largest IP packet, and the largest super-segment without its link header, in bytes.
const PACKET_MAX: usize = 65_535;

/// The longest received frame: with an Ethernet header and two tags.
const LONGEST: usize = PACKET_MAX + 14 + 8;

/// The declared transmit depth: the default `txqueuelen` of Linux; only a hint.
const DEPTH: usize = 1000;

/// One interface of the kernel, or one queue of it.
pub struct PacketSocket {
    ring: Ring,
    fd: OwnedFd,
    /// A netlink socket that is readable when interfaces change. It receives these messages only
    /// while frames do not pass. `None` if another process opened the interface: the user learns of
    /// changes in another way.
    changes: Option<OwnedFd>,
    name: String,
    promiscuous: bool,
    /// The socket is in a fanout group, and cannot be bound again.
    grouped: bool,
    /// Did another process open the socket? Then it is never bound again, and sends by calls
    /// without an address.
    adopted: bool,
    /// Does the owner look for errors of the descriptor?
    watched: bool,
    limits: Limits,
    pushed_back: bool,
    /// Why frames do not pass: [`PacketError::Down`], `Vanished` or `Gone`.
    trouble: Option<PacketError>,
    /// [`PacketError::NoCarrier`], as of the last [`Device::check_link`]. Frames are offered to the
    /// interface anyway.
    unplugged: Option<PacketError>,
    drops: Drops,
}

impl PacketSocket {
    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's hardware address. A stack can use it as its own address if the kernel has no
    /// IP address on the interface. `None` if the link kind has no addresses, or if the interface
    /// does not exist now.
    pub fn mac(&self) -> Option<MacAddr> {
        let ethernet = self.limits.link == LinkKind::Ethernet;
        let asked = || interface::hardware(&self.fd, &self.name).ok();
        ethernet.then(asked).flatten().map(|(_, mac)| mac)
    }

    fn bind(&mut self, index: i32) -> Result<(), Errno> {
        sys::bind(&self.fd, index)?;
        if self.promiscuous { sys::join_promiscuous(&self.fd, index) } else { Ok(()) }
    }

    /// Note that no frame passes, and listen for changes of interfaces from now on.
    fn troubled(&mut self, trouble: PacketError) {
        if self.trouble.is_none() {
            // If this fails, the next call to send or receive finds out.
            self.listen(true);
        }
        self.trouble = Some(trouble);
    }

    fn listen(&self, on: bool) {
        let Some(changes) = &self.changes else { return };
        let _ = sys::listen(changes, on);
    }

    /// Discard the messages about changes.
    fn drain(&self) {
        self.changes.iter().for_each(sys::drain);
    }

    fn down(&mut self) {
        self.troubled(PacketError::Down { name: self.name.clone() });
    }

    /// Find out the state of the interface. If a new interface has its name, bind to that one.
    #[cold]
    #[inline(never)]
    fn look(&mut self) {
        if self.is_gone() {
            return;
        }
        // Listen first, then look at the state: a change in between leaves a message.
        self.troubled(
            self.trouble.clone().unwrap_or(PacketError::Down { name: self.name.clone() }),
        );
        self.drain();
        let mut state = State::of(&self.fd, &self.name);
        if let State::Another(index) = state
            && !self.grouped
            && !self.adopted
            && self.bind(index).is_ok()
        {
            state = State::of(&self.fd, &self.name);
        }
        let name = || self.name.clone();
        let trouble = match state {
            State::Up => None,
            State::Down => Some(PacketError::Down { name: name() }),
            State::Another(_) | State::Missing if self.grouped && !self.adopted => {
                Some(PacketError::Gone { name: name() })
            }
            State::Another(_) | State::Missing => Some(PacketError::Vanished { name: name() }),
        };
        if trouble.is_none() {
            self.listen(false);
            self.drain();
        }
        self.trouble = trouble;
    }

    /// The ring is empty: check for an error of the interface, and for lost frames.
    fn emptied(&mut self) {
        let asks = self.trouble.is_none() && !self.watched;
        if asks && sockopt::socket_error(&self.fd) != Ok(Ok(())) {
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
        // Take no more frames than there was room for, so that dropped frames cannot keep this loop
        // running.
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
                // If the interface is back already, the frame is offered once more.
                Sent::LinkDown => returns += 1,
            }
        }
        from.drain(..taken).for_each(|frame| pool.free(frame));
        taken
    }

    fn rx_ready(&self) -> bool {
        let changed = |fd| !self.polled(fd, PollFlags::IN).is_empty();
        let has_changed = || self.changes.as_ref().is_some_and(changed);
        self.ring.is_ready() || self.trouble.is_some() && !self.is_gone() && has_changed()
    }

    fn tx_ready(&self) -> bool {
        !self.pushed_back
            || self.trouble.is_some()
            || !self.polled(&self.fd, PollFlags::OUT).is_empty()
    }

    fn link_up(&self) -> bool {
        self.trouble.is_none() && self.unplugged.is_none()
    }

    fn check_link(&mut self) -> bool {
        if self.trouble.is_some() || sockopt::socket_error(&self.fd) != Ok(Ok(())) {
            self.look();
        }
        let is_unplugged =
            self.trouble.is_none() && interface::has_carrier(&self.fd, &self.name) == Ok(false);
        self.unplugged = is_unplugged.then(|| PacketError::NoCarrier { name: self.name.clone() });
        self.link_up()
    }

    fn is_gone(&self) -> bool {
        matches!(self.trouble, Some(PacketError::Gone { .. }))
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        let changes = self.changes.as_ref().filter(|_| self.trouble.is_some());
        let fd = changes.unwrap_or(&self.fd);
        (!self.is_gone()).then(|| fd.as_fd())
    }

    fn failure(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.trouble.as_ref().or(self.unplugged.as_ref()).map(|e| e as _)
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
        uso_max_bytes: if offload && open::cuts_datagrams() {
            PACKET_MAX + link.header_len()
        } else {
            0
        },
        gro: offload,
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
