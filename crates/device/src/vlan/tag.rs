//! The 4 bytes of a tag, into a frame and out of it.
//!
//! Called by: `vlan.rs`, `vlan/trunk.rs`. Source: IEEE 802.1Q section 9.6. `wire::vlan` has the
//! same header for the stack; a test holds this beside that.

use base::DropReason;
use mbuf::{Flags, Mbuf, Pool};

use crate::wrap;

/// Bytes in front of a tag: both hardware addresses.
const ADDRESSES: usize = 12;
/// Bytes of a tag, its protocol identifier included.
pub(super) const LEN: usize = 4;
/// Bits of the control information that are the VLAN identifier; above them are priority and
/// whether the frame may be dropped first.
pub(super) const ID_MASK: u16 = 0x0fff;

/// Tags that are shown at most: a provider's and a customer's. Of more, the outer ones are.
const TAGS_MAX: usize = 2;

/// The tags that a device puts into each frame and takes out again, the outer one first. Who shows
/// what is on the wire puts them back: [`Tags::front`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    /// Protocol identifier and VLAN of each.
    tags: [(u16, u16); TAGS_MAX],
    count: usize,
}

/// The front of a frame as the wire has it: both addresses, and the tags.
#[derive(Clone, Copy, Debug)]
pub struct Front {
    bytes: [u8; ADDRESSES + TAGS_MAX * LEN],
    len: usize,
}

impl Tags {
    /// None at all?
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// These, and another one behind them.
    pub(super) fn and(mut self, protocol: u16, id: u16) -> Tags {
        if let Some(tag) = self.tags.get_mut(self.count) {
            *tag = (protocol, id);
            self.count += 1;
        }
        self
    }

    /// What stands in front of the type of `frame` on the wire; its priority is the last tag's.
    /// `None` of a frame too short for both addresses.
    pub fn front(&self, frame: &Mbuf) -> Option<Front> {
        let addresses: &[u8; ADDRESSES] = frame.as_slice().first_chunk()?;
        let mut front = Front { bytes: [0; ADDRESSES + TAGS_MAX * LEN], len: ADDRESSES };
        front.bytes[..ADDRESSES].copy_from_slice(addresses);
        let priority = if frame.has(Flags::VLAN) { frame.vlan() & !ID_MASK } else { 0 };
        let tags = self.tags.get(..self.count).unwrap_or_default();
        for (number, &(protocol, id)) in tags.iter().enumerate() {
            let control = if number + 1 == self.count { priority | id } else { id };
            let [a, b] = protocol.to_be_bytes();
            let [c, d] = control.to_be_bytes();
            front.bytes[front.len..front.len + LEN].copy_from_slice(&[a, b, c, d]);
            front.len += LEN;
        }
        Some(front)
    }
}

impl Front {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// How many of them are tags.
    pub fn tag_bytes(&self) -> usize {
        self.len.saturating_sub(ADDRESSES)
    }

    /// What follows them of the frame that they are of.
    pub fn rest<'a>(&self, frame: &'a Mbuf) -> &'a [u8] {
        frame.as_slice().get(ADDRESSES..).unwrap_or_default()
    }
}

/// What stands where the tag would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Another Ethernet type, or a frame too short to have one.
    Untagged,
    /// A tag with this control information.
    Tag(u16),
    /// A tag that the frame ends in, or behind which there is no type.
    Cut,
}

/// Has this frame a tag of this protocol?
#[inline]
pub(super) fn find(bytes: &[u8], protocol: u16) -> Found {
    let [high, low] = protocol.to_be_bytes();
    match bytes.get(ADDRESSES..) {
        Some(&[a, b, c, d, _, _, ..]) if [a, b] == [high, low] => {
            Found::Tag(u16::from_be_bytes([c, d]))
        }
        Some(&[a, b, ..]) if [a, b] == [high, low] => Found::Cut,
        _ => Found::Untagged,
    }
}

/// Put a tag in. The frame's own buffer has room for it, as the stack makes frames; where it has
/// not, the frame becomes a copy.
///
/// # Errors
/// A frame too short for a link header, or no memory for a copy; it stays as it was.
#[inline]
pub(super) fn push(
    frame: &mut Mbuf,
    protocol: u16,
    control: u16,
    pool: &mut Pool,
) -> Result<(), DropReason> {
    if frame.len() < ADDRESSES + 2 {
        return Err(DropReason::EtherShort);
    }
    // Both conditions before anything is changed.
    if frame.headroom() < LEN || frame.headers_mut(ADDRESSES).is_none() {
        let copy = wrap::copy_of(pool, frame).ok_or(DropReason::MbufExhausted)?;
        pool.free(core::mem::replace(frame, copy));
    }
    frame.prepend(LEN).ok_or(DropReason::DeviceRefused)?;
    let head = frame.headers_mut(ADDRESSES + LEN).ok_or(DropReason::DeviceRefused)?;
    head.copy_within(LEN.., 0);
    head[ADDRESSES..ADDRESSES + 2].copy_from_slice(&protocol.to_be_bytes());
    head[ADDRESSES + 2..].copy_from_slice(&control.to_be_bytes());
    if frame.has(Flags::CSUM_PARTIAL) {
        frame.set_csum(frame.csum() + LEN as u16);
    }
    Ok(())
}

/// Take the tag out again, that [`find`] or [`push`] knows to be there.
#[inline]
pub(super) fn pop(frame: &mut Mbuf) {
    if let Some(head) = frame.headers_mut(ADDRESSES + LEN) {
        head.copy_within(..ADDRESSES, LEN);
        frame.trim_front(LEN);
        if frame.has(Flags::CSUM_PARTIAL) {
            frame.set_csum(frame.csum().saturating_sub(LEN as u16));
        }
    }
}
