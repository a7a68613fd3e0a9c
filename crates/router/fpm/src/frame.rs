//! The frames of FPM in a stream of bytes: `01 01 length`, two bytes of length in network order,
//! which count the header; netlink messages follow.
//!
//! Called by: `session.rs`. Source: fpm/fpm.h of FRR. A frame is at most 65,535 bytes, so that is
//! the most that waits for the rest of its frame.

use core::fmt;

/// Bytes of the header.
const HEADER: usize = 4;
/// The version of FPM.
const VERSION: u8 = 1;
/// The message is netlink (2: protobuf).
const NETLINK: u8 = 1;

/// Why a session ends: the peer does not keep to the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The version of FPM is not 1.
    Version(u8),
    /// The frame's message is not netlink.
    MessageType(u8),
    /// The frame's length does not cover its header.
    FrameLength(u16),
    /// The length of a netlink message reaches beyond its frame, or does not cover its header.
    MessageLength(u32),
    /// A netlink message of this type is shorter than its own header.
    ShortMessage(u16),
    /// An attribute in a netlink message of this type has a wrong length.
    Attribute(u16),
    /// The prefix of a route is longer than its address.
    PrefixLength(u8),
    /// An address of so many bytes is not one of the route's version.
    Address(usize),
    /// A nexthop has no number.
    NoNumber,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Version(is) => write!(f, "the version of FPM is {is}, not 1"),
            Violation::MessageType(2) => f.write_str(
                "the messages are protobuf: load zebra's module dplane_fpm_nl instead of fpm",
            ),
            Violation::MessageType(is) => {
                write!(f, "a frame has messages of type {is}, not 1 (netlink)")
            }
            Violation::FrameLength(is) => {
                write!(f, "a frame says it has {is} bytes, not 4 or more")
            }
            Violation::MessageLength(is) => {
                write!(f, "a netlink message says it has {is} bytes, and its frame has others")
            }
            Violation::ShortMessage(kind) => {
                write!(f, "a netlink message of type {kind} is shorter than its header")
            }
            Violation::Attribute(kind) => {
                write!(f, "an attribute of a netlink message of type {kind} has a wrong length")
            }
            Violation::PrefixLength(is) => {
                write!(f, "a prefix of {is} bits is longer than its address")
            }
            Violation::Address(is) => {
                write!(f, "an address of {is} bytes is not one of the route's version")
            }
            Violation::NoNumber => f.write_str("a nexthop has no number (NHA_ID)"),
        }
    }
}

impl core::error::Error for Violation {}

/// The beginning of a frame whose rest has not come.
#[derive(Debug, Default)]
pub(crate) struct Partial(Vec<u8>);

impl Partial {
    /// Forget it.
    pub(crate) fn clear(&mut self) {
        self.0 = Vec::new();
    }

    /// Call `each` with the payload of each whole frame of what is here and `bytes`; keep the rest.
    pub(crate) fn frames(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        while !self.0.is_empty() {
            // What is missing: first of the header, then of the frame.
            let whole = if self.0.len() < HEADER { HEADER } else { length(&self.0)? };
            let missing = whole - self.0.len();
            let now = missing.min(bytes.len());
            self.0.extend_from_slice(&bytes[..now]);
            bytes = &bytes[now..];
            if now < missing {
                return Ok(());
            }
            if self.0.len() == length(&self.0)? {
                each(&self.0[HEADER..])?;
                self.0.clear();
            }
        }
        while bytes.len() >= HEADER {
            let whole = length(bytes)?;
            let Some(frame) = bytes.get(..whole) else { break };
            each(&frame[HEADER..])?;
            bytes = &bytes[whole..];
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// The length of the frame that begins here; `frame` has at least a header.
fn length(frame: &[u8]) -> Result<usize, Violation> {
    let [version, kind, high, low, ..] = *frame else { return Ok(HEADER) };
    let length = u16::from_be_bytes([high, low]);
    match (version, kind) {
        (VERSION, NETLINK) if usize::from(length) >= HEADER => Ok(length.into()),
        (VERSION, NETLINK) => Err(Violation::FrameLength(length)),
        (VERSION, kind) => Err(Violation::MessageType(kind)),
        (version, _) => Err(Violation::Version(version)),
    }
}
