//! An interface's frames, received and sent, for who only looks.
//!
//! Called by: `wirespeed dump` and `top`. Counters: [`Watch::lost`].
//!
//! A frame is shown in the ring that the kernel filled, with the kernel's time; who wants to keep
//! something copies it. What the wire has and the kernel took out, a tag, is in front of it again.
//!
//! An interface that goes down is watched on, and shown when it is up again. One that is deleted is
//! gone for good: [`Watch::trouble`] tells which.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base::LinkKind;

use super::open::{Frames, link, ring};
use super::receive::{ADDRESSES, TAG};
use super::ring::{Ring, Slot};
use super::state::State;
use super::{PacketError, Receive, sys};
use crate::interface;
use crate::packet::error::refused;
use crate::vnet::Header;

/// A frame that passes, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    front: [u8; ADDRESSES + TAG],
    front_len: usize,
    /// What is behind the front.
    pub rest: &'a [u8],
    /// Its length on the wire, in bytes; there may be fewer here.
    pub wire_len: usize,
    /// When the kernel saw it, in nanoseconds since 1970.
    pub time_ns: u64,
    /// This machine sent it.
    pub is_sent: bool,
    /// Where a checksum that the sender left to its device begins, and where its field is.
    pub unfinished: Option<(u16, u16)>,
    /// Payload bytes of each segment of a super-segment; else 0.
    pub segment_bytes: u16,
}

impl Seen<'_> {
    /// Its first bytes, where the kernel took a tag out: both addresses and the tag. Else none.
    pub fn front(&self) -> &[u8] {
        self.front.get(..self.front_len).unwrap_or_default()
    }
}

/// One interface, watched.
pub struct Watch {
    ring: Ring,
    fd: OwnedFd,
    name: String,
    link: LinkKind,
    lost: u64,
}

impl Watch {
    /// Watch an interface; with `promiscuous` it takes frames for other stations as well. It may be
    /// down. On a loopback interface, which receives all it sends, a frame is shown as received
    /// alone, once.
    ///
    /// # Errors
    /// No privilege, no such interface, a link that we do not speak.
    pub fn open(name: &str, promiscuous: bool) -> Result<Watch, PacketError> {
        let fd = sys::socket().map_err(refused("opening a packet socket", name))?;
        let index = interface::index(&fd, name).map_err(refused("the number", name))?;
        let link = link(&fd, name)?;
        let ring = ring(&fd, name, Receive::BLOCKS, Frames::all_of(&fd, name)?)?;
        sys::bind(&fd, index).map_err(refused("binding", name))?;
        if promiscuous {
            sys::join_promiscuous(&fd, index).map_err(refused("hearing all frames", name))?;
        }
        Ok(Watch { ring, fd, name: name.to_owned(), link, lost: 0 })
    }

    /// What its frames begin with.
    pub fn link(&self) -> LinkKind {
        self.link
    }

    /// Readable when there are frames. With an error when the interface goes down or away, until
    /// [`Watch::trouble`] is asked.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Look at the next frame; `None` if there is none, or none that makes sense.
    pub fn next<R>(&mut self, look: impl FnOnce(&Seen<'_>) -> R) -> Option<R> {
        self.ring.take(|slot| slot.as_ref().map(|slot| look(&seen(slot)))).flatten()
    }

    /// Is there a frame?
    pub fn is_ready(&self) -> bool {
        self.ring.is_ready()
    }

    /// Why no more frames come, now: [`PacketError::Down`] until it is up again,
    /// [`PacketError::Gone`] for good. An interface that is down when it is deleted leaves no error
    /// at the descriptor: who was notified of the one asks again for the other.
    pub fn trouble(&self) -> Option<PacketError> {
        let name = || self.name.clone();
        match State::of(&self.fd, &self.name) {
            State::Up => None,
            State::Down => Some(PacketError::Down { name: name() }),
            State::Another(_) | State::Missing => Some(PacketError::Gone { name: name() }),
        }
    }

    /// Frames that found no room in the ring so far.
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
