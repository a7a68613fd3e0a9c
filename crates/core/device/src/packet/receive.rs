//! Copies one frame from the ring into a buffer.
//!
//! Called by: `packet.rs`. Counters: none; it returns the reason of a drop.
//!
//! The copy lets the kernel use the place in the ring again at once, while the stack keeps the
//! frame as long as it needs to. A VLAN tag that the kernel has removed is inserted again, because
//! `vlan` looks for it in the bytes.

use core::ffi::c_int;
use std::os::fd::OwnedFd;

use base::DropReason;
use mbuf::{Mbuf, Pool, copy};
use rustix::net::sockopt;

use super::ring::Slot;
use super::sys;
use crate::interface;
use crate::vnet::Header;

/// Bytes before a tag (both hardware addresses), and bytes of a tag.
pub(super) const ADDRESSES: usize = 12;
pub(super) const TAG: usize = 4;

/// Make an mbuf of a frame in the ring.
///
/// # Errors
/// The reason why it is dropped.
#[inline]
pub(super) fn frame(
    slot: Option<Slot<'_>>,
    longest: usize,
    pool: &mut Pool,
) -> Result<Mbuf, DropReason> {
    let slot = slot.ok_or(DropReason::DeviceBadHeader)?;
    if slot.bytes.len() < slot.len || slot.len > longest {
        return Err(DropReason::DeviceFrameTooBig);
    }
    let header = Header::from_bytes(&slot.header);
    let (mut frame, header) = match slot.tag {
        None => (plain(slot.bytes, pool)?, header),
        Some(tag) => (tagged(slot.bytes, tag, pool)?, header.moved(TAG as u16)),
    };
    if header.describe(&mut frame).is_err() {
        pool.free(frame);
        return Err(DropReason::DeviceBadHeader);
    }
    Ok(frame)
}

#[inline]
fn plain(bytes: &[u8], pool: &mut Pool) -> Result<Mbuf, DropReason> {
    let made = pool.alloc_filled(bytes.len(), bytes.len(), |room| copy(bytes, room));
    made.map(|(frame, ())| frame).ok_or(DropReason::MbufExhausted)
}

fn tagged(bytes: &[u8], tag: (u16, u16), pool: &mut Pool) -> Result<Mbuf, DropReason> {
    let (addresses, rest) = bytes.split_at_checked(ADDRESSES).ok_or(DropReason::EtherShort)?;
    let (protocol, control) = tag;
    let len = bytes.len() + TAG;
    let made = pool.alloc_filled(len, len, |room| {
        let (front, back) = room.split_at_mut(ADDRESSES);
        let (tag, back) = back.split_at_mut(TAG);
        front.copy_from_slice(addresses);
        tag[..2].copy_from_slice(&protocol.to_be_bytes());
        tag[2..].copy_from_slice(&control.to_be_bytes());
        copy(rest, back);
    });
    made.map(|(frame, ())| frame).ok_or(DropReason::MbufExhausted)
}

/// The state of an interface, seen from its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Up,
    Down,
    /// The socket's interface is gone; there is another one of its name, with this index.
    Another(c_int),
    /// There is no interface of that name.
    Missing,
}

impl State {
    /// Ask the kernel for the state. This clears the socket's error, which reported the change, so
    /// that a poll of the socket sleeps until the next change.
    pub(super) fn of(fd: &OwnedFd, name: &str) -> State {
        // First clear the error, then look: a change in between leaves another error.
        let _ = sockopt::socket_error(fd);
        let Ok(index) = interface::index(fd, name) else { return State::Missing };
        if sys::bound_to(fd) != Ok(index) {
            State::Another(index)
        } else if interface::is_up(fd, name) == Ok(true) {
            State::Up
        } else {
            State::Down
        }
    }
}
