//! The captured bytes that a dissector may read, and their length on the wire.
//!
//! Called by: all dissectors. A read past the end returns [`Cut`], which `?` passes up to the
//! printer. Nothing here panics, whatever lengths the packet claims.

use core::net::{Ipv4Addr, Ipv6Addr};

/// The packet ends, or the capture cut it, before the bytes that should be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut;

/// The result of a dissector.
pub(crate) type Done = Result<(), Cut>;

/// A part of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data<'a> {
    /// The captured bytes.
    pub(crate) bytes: &'a [u8],
    /// The part's length on the wire, according to the headers around it; it may be more or less
    /// than was captured.
    pub(crate) len: usize,
}

impl<'a> Data<'a> {
    pub(crate) fn new(bytes: &'a [u8], len: usize) -> Data<'a> {
        Data { bytes, len }
    }

    /// The number of captured bytes.
    pub(crate) fn here(&self) -> usize {
        self.bytes.len()
    }

    /// The part after `count` bytes.
    pub(crate) fn skip(&self, count: usize) -> Data<'a> {
        let bytes = self.bytes.get(count..).unwrap_or_default();
        Data { bytes, len: self.len.saturating_sub(count) }
    }

    /// The first `len` bytes: the length on the wire is `len`, and at most that many captured bytes
    /// are kept.
    pub(crate) fn within(&self, len: usize) -> Data<'a> {
        Data { bytes: &self.bytes[..self.bytes.len().min(len)], len }
    }

    /// Drop captured bytes beyond the length on the wire.
    pub(crate) fn bounded(&self) -> Data<'a> {
        self.within(self.len)
    }

    /// Were all `count` bytes from `at` on captured?
    pub(crate) fn has(&self, at: usize, count: usize) -> bool {
        self.get(at, count).is_ok()
    }

    pub(crate) fn get(&self, at: usize, count: usize) -> Result<&'a [u8], Cut> {
        let end = at.checked_add(count).ok_or(Cut)?;
        self.bytes.get(at..end).ok_or(Cut)
    }

    pub(crate) fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], Cut> {
        self.bytes.get(at..).and_then(|bytes| bytes.first_chunk()).copied().ok_or(Cut)
    }

    pub(crate) fn u8(&self, at: usize) -> Result<u8, Cut> {
        self.bytes.get(at).copied().ok_or(Cut)
    }

    pub(crate) fn u16(&self, at: usize) -> Result<u16, Cut> {
        self.array(at).map(u16::from_be_bytes)
    }

    pub(crate) fn u24(&self, at: usize) -> Result<u32, Cut> {
        let [a, b, c] = self.array(at)?;
        Ok(u32::from_be_bytes([0, a, b, c]))
    }

    pub(crate) fn u32(&self, at: usize) -> Result<u32, Cut> {
        self.array(at).map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&self, at: usize) -> Result<u64, Cut> {
        self.array(at).map(u64::from_be_bytes)
    }

    /// Two bytes in little-endian order, for the few protocols that use it.
    pub(crate) fn u16_le(&self, at: usize) -> Result<u16, Cut> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub(crate) fn u32_le(&self, at: usize) -> Result<u32, Cut> {
        self.array(at).map(u32::from_le_bytes)
    }

    pub(crate) fn v4(&self, at: usize) -> Result<Ipv4Addr, Cut> {
        self.array::<4>(at).map(Ipv4Addr::from)
    }

    pub(crate) fn v6(&self, at: usize) -> Result<V6, Cut> {
        self.array::<16>(at).map(|bytes| V6(Ipv6Addr::from(bytes)))
    }

    /// The Ethernet address at `at`.
    pub(crate) fn mac(&self, at: usize) -> Result<Mac<'a>, Cut> {
        self.get(at, 6).map(Mac)
    }

    /// The hardware address of `len` bytes at `at`.
    pub(crate) fn hardware(&self, at: usize, len: usize) -> Result<Mac<'a>, Cut> {
        self.get(at, len).map(Mac)
    }
}

/// A hardware address, printed in hex with colons.
#[derive(Clone, Copy)]
pub(crate) struct Mac<'a>(pub(crate) &'a [u8]);

impl core::fmt::Display for Mac<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("<empty>");
        }
        for (at, byte) in self.0.iter().enumerate() {
            let colon = if at > 0 { ":" } else { "" };
            write!(f, "{colon}{byte:02x}")?;
        }
        Ok(())
    }
}

/// An IPv6 address, printed as by tcpdump: unlike with the standard library, an IPv4-compatible
/// address ends in IPv4 notation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct V6(pub(crate) Ipv6Addr);

impl core::fmt::Display for V6 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let words = self.0.segments();
        let [.., a, b, c, d] = self.0.octets();
        if words[..6] == [0; 6] && words[6] != 0 {
            return write!(f, "::{a}.{b}.{c}.{d}");
        }
        write!(f, "{}", self.0)
    }
}

/// Source and destination address of a frame, if it has them.
pub(crate) type Ends<'a> = Option<(Mac<'a>, Mac<'a>)>;
