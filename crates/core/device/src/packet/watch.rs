//! Shows the frames that an interface receives and sends to a passive observer.
//!
//! Called by: `wirespeed dump` and `top`. Counters: [`Watch::lost`].
//!
//! A frame is shown in place, in the kernel's ring, with the kernel's timestamp. The caller copies
//! what it wants to keep. A VLAN tag that the kernel has removed is put back: see [`Seen::front`].
//!
//! A watch survives an interface that goes down and up again, but not one that is deleted:
//! [`Watch::trouble`] tells the two apart.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base::LinkKind;

use super::open::{Frames, link, ring};
use super::receive::{ADDRESSES, State, TAG};
use super::ring::{Ring, Slot};
use super::{PacketError, Receive, sys};
use crate::interface;
use crate::packet::error::refused;
use crate::vnet::Header;

/// A frame of the interface, borrowed from the ring.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    front: [u8; ADDRESSES + TAG],
    front_len: usize,
    /// The bytes after [`Seen::front`].
    pub rest: &'a [u8],
    /// The frame's length on the wire, in bytes; fewer bytes may be captured.
    pub wire_len: usize,
    /// The kernel's timestamp, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Did this machine send the frame?
    pub is_sent: bool,
    /// If the sender left the checksum to its device: the offset at which the sum begins, and the
    /// offset of the checksum field.
    pub unfinished: Option<(u16, u16)>,
    /// The payload bytes of each segment if the frame is a super-segment, else 0.
    pub segment_bytes: u16,
}

impl Seen<'_> {
    /// If the kernel has removed a tag, the first bytes of the frame: both addresses and the tag.
    /// Else empty.
    pub fn front(&self) -> &[u8] {
        self.front.get(..self.front_len).unwrap_or_default()
    }
}

/// A watched interface.
pub struct Watch {
    ring: Ring,
    fd: OwnedFd,
    name: String,
    link: LinkKind,
    lost: u64,
}

impl Watch {
    /// Watch an interface; with `promiscuous` frames for other stations too. It may be down. A
    /// loopback interface receives all that it sends, so only the received frames are shown.
    ///
    /// # Errors
    /// No privilege, no such interface, or an unsupported link type.
    pub fn open(name: &str, promiscuous: bool) -> Result<Watch, PacketError> {
        let fd = sys::socket().map_err(refused("opening a packet socket", name))?;
        let index = interface::index(&fd, name).map_err(refused("reading the index", name))?;
        let link = link(&fd, name)?;
        let ring = ring(&fd, name, Receive::BLOCKS, Frames::all_of(&fd, name)?)?;
        sys::bind(&fd, index).map_err(refused("binding", name))?;
        if promiscuous {
            sys::join_promiscuous(&fd, index).map_err(refused("promiscuous mode", name))?;
        }
        Ok(Watch { ring, fd, name: name.to_owned(), link, lost: 0 })
    }

    /// The kind of link header.
    pub fn link(&self) -> LinkKind {
        self.link
    }

    /// Readable when there are frames. Has an error pending when the interface goes down or is
    /// deleted, until [`Watch::trouble`] is called.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Call `look` with the next frame; `None` if there is none, or its metadata is invalid.
    pub fn next<R>(&mut self, look: impl FnOnce(&Seen<'_>) -> R) -> Option<R> {
        self.ring.take(|slot| slot.as_ref().map(|slot| look(&seen(slot)))).flatten()
    }

    /// Is there a frame?
    pub fn is_ready(&self) -> bool {
        self.ring.is_ready()
    }

    /// Why no frames come now: [`PacketError::Down`] until the interface is up again,
    /// [`PacketError::Gone`] for good. If an interface that is down is deleted, its descriptor has
    /// no error, so after `Down` call this again from time to time.
    pub fn trouble(&self) -> Option<PacketError> {
        let name = || self.name.clone();
        match State::of(&self.fd, &self.name) {
            State::Up => None,
            State::Down => Some(PacketError::Down { name: name() }),
            State::Another(_) | State::Missing => Some(PacketError::Gone { name: name() }),
        }
    }

    /// Frames lost so far because the ring was full.
    pub fn lost(&mut self) -> u64 {
        if let Ok(lost) = sys::lost(&self.fd) {
            self.lost += u64::from(lost);
        }
        self.lost
    }
}

fn seen<'a>(slot: &Slot<'a>) -> Seen<'a> {
    let header = Header::from_bytes(&slot.header);
    let mut seen = Seen {
        front: [0; ADDRESSES + TAG],
        front_len: 0,
        rest: slot.bytes,
        wire_len: slot.len,
        time_ns: slot.time_ns,
        is_sent: slot.is_sent,
        unfinished: None,
        segment_bytes: 0,
    };
    let mut moved = header;
    if let Some((protocol, control)) = slot.tag
        && let Some((addresses, rest)) = slot.bytes.split_at_checked(ADDRESSES)
    {
        seen.front[..ADDRESSES].copy_from_slice(addresses);
        seen.front[ADDRESSES..ADDRESSES + 2].copy_from_slice(&protocol.to_be_bytes());
        seen.front[ADDRESSES + 2..].copy_from_slice(&control.to_be_bytes());
        seen.front_len = ADDRESSES + TAG;
        seen.rest = rest;
        seen.wire_len += TAG;
        moved = header.moved(TAG as u16);
    }
    (seen.unfinished, seen.segment_bytes) = moved.asked();
    seen
}
