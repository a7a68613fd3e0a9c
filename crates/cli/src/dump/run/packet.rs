//! A packet on its way from where it was seen to where it is written or printed.
//!
//! Called by: sources make it, lines and files read it.

use wirespeed::LinkKind;

/// What packets begin with, by its number in capture files (LINKTYPE_).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Link(pub(crate) u32);

/// Bits of a number in a file that is a link type; those above say how long a checksum behind each
/// packet is.
const LINK_BITS: u32 = 0x03ff_ffff;

impl Link {
    /// Ethernet.
    pub(crate) const ETHERNET: Link = Link(1);
    /// Bare IP of either version.
    pub(crate) const RAW: Link = Link(101);

    /// As the header of a file has it.
    pub(crate) fn of_file(number: u32) -> Link {
        Link(number & LINK_BITS)
    }

    /// What the stack calls it, if it knows it.
    pub(crate) fn kind(self) -> Option<LinkKind> {
        match self.0 {
            1 => Some(LinkKind::Ethernet),
            12 | 14 | 101 | 228 | 229 => Some(LinkKind::Ip),
            _ => None,
        }
    }

    /// libpcap's number for it (DLT_), which is another for a few.
    pub(crate) fn dlt(self) -> i32 {
        match self.0 {
            100 => 11,
            14 | 101 => 12,
            102 => 15,
            103 => 16,
            106 => 19,
            number => i32::try_from(number).unwrap_or(i32::MAX),
        }
    }
}

impl From<LinkKind> for Link {
    fn from(kind: LinkKind) -> Link {
        match kind {
            LinkKind::Ethernet => Link::ETHERNET,
            LinkKind::Ip => Link::RAW,
        }
    }
}

/// Which way it went, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    In,
    Out,
}

/// A packet that was captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Since 1970, in UTC.
    pub(crate) time_ns: u64,
    /// What it begins with.
    pub(crate) link: Link,
    /// Which of its source's ports saw it, counted from 0.
    pub(crate) port: usize,
    pub(crate) direction: Option<Direction>,
    /// Its length on the wire, in bytes.
    pub(crate) wire_len: u32,
    /// For a super-segment, the payload bytes of each segment it is cut into; else 0.
    pub(crate) segment_bytes: u16,
    /// What was kept of it.
    pub(crate) bytes: Vec<u8>,
}
