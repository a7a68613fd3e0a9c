//! A captured packet.
//!
//! Called by: sources make packets; lines and files read them.

use wirespeed::LinkKind;

/// A link type, by its number in capture files (LINKTYPE_).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Link(pub(crate) u32);

impl Link {
    /// Ethernet.
    pub(crate) const ETHERNET: Link = Link(1);
    /// Raw IP of either version.
    pub(crate) const RAW: Link = Link(101);

    /// The stack's name for it, if it has one.
    pub(crate) fn kind(self) -> Option<LinkKind> {
        match self.0 {
            1 => Some(LinkKind::Ethernet),
            12 | 14 | 101 | 228 | 229 => Some(LinkKind::Ip),
            _ => None,
        }
    }

    /// libpcap's number (DLT_), which differs for a few types.
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

/// The packet's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    In,
    Out,
}

/// A packet that was captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Nanoseconds since 1970, UTC.
    pub(crate) time_ns: u64,
    /// Its link type.
    pub(crate) link: Link,
    /// The port of the source that saw it, from 0.
    pub(crate) port: usize,
    pub(crate) direction: Option<Direction>,
    /// Its length on the wire, in bytes.
    pub(crate) wire_len: u32,
    /// For a super-segment, the payload bytes of each segment that it is to be cut into; else 0.
    pub(crate) segment_bytes: u16,
    /// The captured bytes.
    pub(crate) bytes: Vec<u8>,
}
