//! A packet on its way from where it was seen to where it is written or printed.
//!
//! Called by: sources make it, the printer and the writer read it. Must not know: either.

use wirespeed::LinkKind;

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
    pub(crate) link: LinkKind,
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
