//! The input of a filter: a packet's bytes in one piece or two, and its length on the wire.
//!
//! Called by: code that runs a filter; `vm.rs` and `filter.rs` read it.

use base::WallTime;

/// A packet whose bytes are borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    pub(crate) head: &'a [u8],
    rest: &'a [u8],
    pub(crate) wire_len: u32,
}

impl<'a> Packet<'a> {
    /// A whole packet; a length above 2^32 - 1 bytes reads as 2^32 - 1.
    pub fn whole(bytes: &'a [u8]) -> Packet<'a> {
        Packet::cut(bytes, u32::try_from(bytes.len()).unwrap_or(u32::MAX))
    }

    /// The first bytes of a packet that had `wire_len` bytes.
    pub fn cut(bytes: &'a [u8], wire_len: u32) -> Packet<'a> {
        Packet { head: bytes, rest: &[], wire_len }
    }

    /// A packet in two pieces. Loads from `head` are faster.
    pub fn in_two(head: &'a [u8], rest: &'a [u8], wire_len: u32) -> Packet<'a> {
        Packet { head, rest, wire_len }
    }

    /// The number of bytes that can be read.
    pub fn captured_bytes(&self) -> usize {
        self.head.len() + self.rest.len()
    }

    /// Copy the packet's first bytes to `out`, which is no longer than [`Packet::captured_bytes`].
    #[inline(always)]
    pub(crate) fn copy_to(&self, out: &mut [u8]) {
        match self.head.get(..out.len()) {
            Some(all) => out.copy_from_slice(all),
            None => self.copy_both(out),
        }
    }

    #[cold]
    #[inline(never)]
    fn copy_both(self, out: &mut [u8]) {
        let (head, rest) = out.split_at_mut(self.head.len());
        head.copy_from_slice(self.head);
        rest.copy_from_slice(&self.rest[..rest.len()]);
    }

    /// Does the packet have bytes after the head?
    #[cfg(all(feature = "jit", unix, target_arch = "x86_64"))]
    pub(crate) fn has_rest(&self) -> bool {
        !self.rest.is_empty()
    }

    /// N bytes at `offset`; `None` unless all are in the head.
    #[inline(always)]
    pub(crate) fn in_head<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        let at = usize::try_from(offset).ok()?;
        self.head.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    /// N bytes at `offset`; `None` if not all of them were captured.
    #[inline(always)]
    pub(crate) fn bytes<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        let at = usize::try_from(offset).ok()?;
        match self.head.get(at..at.checked_add(N)?) {
            Some(bytes) => bytes.try_into().ok(),
            None => self.beyond(at),
        }
    }

    /// N bytes at `at` that are not all in the head: copied from both pieces or from the second.
    #[cold]
    #[inline(never)]
    fn beyond<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        for (n, byte) in bytes.iter_mut().enumerate() {
            let at = at.checked_add(n)?;
            *byte = match at.checked_sub(self.head.len()) {
                None => self.head[at],
                Some(at) => *self.rest.get(at)?,
            };
        }
        Some(bytes)
    }
}

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The packet was received.
    In,
    /// The packet was sent.
    Out,
}

/// A packet that is shown to taps, with what a capture records about it.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The packet's bytes, borrowed.
    pub packet: Packet<'a>,
    /// Whether the packet was received or sent.
    pub direction: Direction,
    /// When the packet was received or sent.
    pub time: WallTime,
    /// For a super-segment, the payload bytes of each of its segments; else 0.
    pub segment_bytes: u16,
}
