//! Finds, inserts and removes the 4 bytes of a VLAN tag.
//!
//! Called by: `vlan/port.rs`, `vlan/trunk.rs`. Source: IEEE 802.1Q section 9.6. `wire::vlan` parses
//! the same header for the stack; a test compares the two.

use base::DropReason;
use mbuf::{Flags, Mbuf, Pool};

use crate::wrap;

/// Bytes before a tag: both hardware addresses.
const ADDRESSES: usize = 12;
/// Bytes of a tag, TPID included.
pub(super) const LEN: usize = 4;
/// The bits of the TCI that are the VLAN identifier; above them are priority (PCP) and DEI.
pub(super) const ID_MASK: u16 = 0x0fff;

/// Maximum tags in [`Tags`]: a service tag and a customer tag. If a frame has more, the outer ones
/// are kept.
const TAGS_MAX: usize = 2;

/// The tags that a device inserts into each frame and removes again, the outer tag first. A tap
/// restores them with [`Tags::front`], to show frames as they are on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    /// The TPID and the VLAN of each tag.
    tags: [(u16, u16); TAGS_MAX],
    count: usize,
}

/// Which frames of a trunk belong to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// Frames without a tag, and those with a priority tag (VLAN 0).
    Untagged,
    /// Frames of this VLAN, 1 to 4094.
    Vlan(u16),
}

/// One tag: a TPID and a VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// TPID and VLAN as one number, with priority zero.
    word: u32,
}

impl Tag {
    /// Bytes of a tag in a frame, after the addresses.
    pub const LEN: usize = LEN;

    pub(super) fn new(protocol: u16, id: u16) -> Tag {
        Tag { word: u32::from(protocol) << 16 | u32::from(id & ID_MASK) }
    }

    /// The tag's bytes, with priority zero. The priority is the upper half of the third byte.
    pub fn bytes(self) -> [u8; LEN] {
        self.word.to_be_bytes()
    }

    /// The VLAN.
    pub(super) fn id(self) -> u16 {
        self.word as u16
    }

    /// Does a frame have this tag, followed by an EtherType? The priority in the frame's tag does
    /// not matter.
    #[inline(always)]
    pub fn is_in(self, frame: &Mbuf) -> bool {
        let front = frame.as_slice().first_chunk::<{ ADDRESSES + LEN + 2 }>();
        // In memory order this is one load; in network order the compiler makes four of it.
        let word = front.and_then(|front| front[ADDRESSES..].first_chunk::<LEN>());
        let mask = (!u32::from(!ID_MASK)).to_be();
        word.is_some_and(|word| u32::from_ne_bytes(*word) & mask == self.word.to_be())
    }

    /// Remove this tag from a frame that has it; the mbuf keeps the priority. Frames without it are
    /// not changed.
    pub fn strip_from(self, frame: &mut Mbuf) {
        if self.is_in(frame) {
            strip(frame);
        }
    }
}

/// The front of a frame as on the wire: both addresses, and the tags.
#[derive(Clone, Copy, Debug)]
pub struct Front {
    bytes: [u8; ADDRESSES + TAGS_MAX * LEN],
    len: usize,
}

impl Tags {
    /// Are there no tags?
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// These tags, followed by another one.
    pub(super) fn and(mut self, protocol: u16, id: u16) -> Tags {
        if let Some(tag) = self.tags.get_mut(self.count) {
            *tag = (protocol, id);
            self.count += 1;
        }
        self
    }

    /// The bytes before the EtherType of `frame` on the wire; the frame's priority goes into the
    /// last tag. `None` if the frame is too short for both addresses.
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
    /// The bytes of the front.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// How many of the bytes are tags.
    pub fn tag_bytes(&self) -> usize {
        self.len.saturating_sub(ADDRESSES)
    }

    /// The bytes of `frame` that follow the front.
    pub fn rest<'a>(&self, frame: &'a Mbuf) -> &'a [u8] {
        frame.as_slice().get(ADDRESSES..).unwrap_or_default()
    }
}

/// What a frame has in the place of the tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Another EtherType, or a frame too short to have one.
    Untagged,
    /// A tag with this TCI.
    Tag(u16),
    /// A truncated tag, or a tag that no EtherType follows.
    Cut,
}

/// Does this frame have a tag with this TPID?
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

/// Insert a tag: in place if the frame's buffer has headroom, which frames from the stack have,
/// otherwise in a copy.
///
/// # Errors
/// The frame is too short for a link header, or the pool is exhausted; the frame is unchanged.
#[inline]
pub(super) fn push(
    frame: &mut Mbuf,
    protocol: u16,
    control: u16,
    pool: &mut Pool,
) -> Result<(), DropReason> {
    let addresses = match frame.as_slice().first_chunk::<ADDRESSES>() {
        Some(addresses) if frame.len() >= ADDRESSES + 2 => *addresses,
        _ => return Err(DropReason::EtherShort),
    };
    if !insert(frame, &addresses, protocol, control) {
        let copy = wrap::copy_of(pool, frame).ok_or(DropReason::MbufExhausted)?;
        pool.free(core::mem::replace(frame, copy));
        if !insert(frame, &addresses, protocol, control) {
            return Err(DropReason::DeviceRefused);
        }
    }
    if frame.has(Flags::CSUM_PARTIAL) {
        frame.set_csum(frame.csum() + LEN as u16);
    }
    Ok(())
}

/// Insert a tag in place. Returns `false`, and changes nothing, if there is no headroom or if
/// another handle shares the addresses.
#[inline(always)]
fn insert(frame: &mut Mbuf, addresses: &[u8; ADDRESSES], protocol: u16, control: u16) -> bool {
    if frame.prepend(LEN).is_none() {
        return false;
    }
    let head = frame.headers_mut(ADDRESSES + LEN);
    let Some(head) = head.and_then(|head| head.first_chunk_mut::<{ ADDRESSES + LEN }>()) else {
        frame.trim_front(LEN);
        return false;
    };
    let ([a, b], [c, d]) = (protocol.to_be_bytes(), control.to_be_bytes());
    let (front, tag) = head.split_at_mut(ADDRESSES);
    front.copy_from_slice(addresses);
    tag.copy_from_slice(&[a, b, c, d]);
    true
}

/// Remove the tag, which [`find`] found or [`push`] inserted.
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

/// Tags of VLAN 0 that one frame may have: a service tag and a customer tag. No bridge makes a
/// frame with more.
const PRIORITY_TAGS_MAX: usize = 2;

/// Remove the priority tags with these TPIDs from the front of a frame. A priority tag is a tag of
/// VLAN 0: it tells how urgent a frame is and does not put it into a VLAN. A frame without such a
/// tag is not changed. The mbuf keeps the priority of the last tag that was removed. 802.1Q section
/// 6.9, table 9-2.
pub(super) fn strip_priority_of(frame: &mut Mbuf, protocols: &[u16], pool: &mut Pool) -> bool {
    let has_one = |frame: &Mbuf| {
        let is_it = |&protocol: &u16| match find(frame.as_slice(), protocol) {
            Found::Tag(control) => control & ID_MASK == 0,
            Found::Untagged | Found::Cut => false,
        };
        protocols.iter().any(is_it)
    };
    let mut count = 0;
    while count < PRIORITY_TAGS_MAX && has_one(frame) {
        if frame.headers_mut(ADDRESSES + LEN).is_none() {
            let Some(copy) = wrap::copy_of(pool, frame) else { break };
            pool.free(core::mem::replace(frame, copy));
        }
        strip(frame);
        count += 1;
    }
    count > 0
}

/// Remove the tag from a frame that has one; the mbuf keeps the tag's TCI.
#[inline]
pub(super) fn strip(frame: &mut Mbuf) {
    let tag = frame.as_slice().get(ADDRESSES..).and_then(|tag| tag.first_chunk::<LEN>());
    if let Some(&[_, _, c, d]) = tag {
        pop(frame);
        frame.set(Flags::VLAN);
        frame.set_vlan(u16::from_be_bytes([c, d]));
    }
}
