//! A packet of a capture, its interface, and the errors that end the reading of a file.
//!
//! Called by: every file here. Plain data.

use std::io;

/// The most bytes of a packet. Of a longer packet in pcapng only the first bytes are kept. A longer
/// packet in pcap is damage, as in libpcap: only its length says where the next packet begins.
pub const PACKET_BYTES_MAX: u32 = 262_144;

/// Maximum number of interfaces in a file, all sections together.
pub const INTERFACES_MAX: usize = 1 << 16;

/// The most bytes of an interface's name that are kept.
pub const NAME_BYTES_MAX: usize = 255;

/// The bits of a link-type field that hold the type; those above give the length of a frame check
/// sequence.
pub(crate) const LINK_BITS: u32 = 0x03ff_ffff;

/// An interface of a file. A pcap file has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The name; bytes that are not UTF-8 are replaced. `None` if the file has no name.
    pub name: Option<String>,
    /// The link type (LINKTYPE_).
    pub link: u32,
    /// The snapshot length that the file gives, in bytes; 0 means no limit.
    pub snaplen: u32,
    /// The file's byte order is not this machine's. Fields of link headers in the capturing
    /// machine's byte order (LINKTYPE_NULL) are in that order too.
    pub is_swapped: bool,
}

/// Whether a packet's interface received or sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The interface received the packet.
    In,
    /// The interface sent the packet.
    Out,
}

/// A captured packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The packet's interface, as an index of [`crate::Reader::interfaces`].
    pub interface: usize,
    /// The time in nanoseconds since 1970; 0 if the file gives no time; the highest value if the
    /// time is later than that.
    pub time_ns: u64,
    /// The length on the wire in bytes; at least the length of `bytes`, whatever the file says.
    pub wire_len: u32,
    /// The direction; `None` if the file does not give it.
    pub direction: Option<Direction>,
    /// The captured bytes.
    pub bytes: Vec<u8>,
}

/// The reason why a file is read no further.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is neither pcap nor pcapng.
    #[error("neither pcap nor pcapng")]
    NotOne,
    /// The system reported an error.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file ends within a packet or a block.
    #[error("the file ends within a packet or a block")]
    CutOff,
    /// The length in bytes of a packet (pcap) or a block (pcapng) is so long or so short that the
    /// file must be damaged.
    #[error("a {0} of {1} bytes")]
    Length(&'static str, u32),
    /// The two lengths of a block differ, and no block follows.
    #[error("a block whose two lengths differ, with no block after it")]
    Lengths,
    /// The file has a version of the format that is not known.
    #[error("version {0} of {1}, which is not known")]
    Version(u16, &'static str),
    /// The packet's interface is not described in its section.
    #[error("a packet of interface {0}, which the section does not describe")]
    NoInterface(u32),
    /// The file has more interfaces than [`INTERFACES_MAX`].
    #[error("more than {INTERFACES_MAX} interfaces, which are not read")]
    Interfaces,
}

// The clock of a pcapng interface: its unit, and the time at which it is zero.
//
// Source: draft-ietf-opsawg-pcapng, `if_tsresol` and `if_tsoffset`: units of 10^-n or 2^-n seconds,
// n up to 127, and an offset in seconds.

const SECOND_NS: i128 = 1_000_000_000;

/// The number of decimal places of a second in nanoseconds.
const NANO: u32 = 9;

/// The bit of `if_tsresol` for powers of 2.
const BINARY: u8 = 0x80;

/// The clock of an interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    resolution: u8,
    offset_s: i64,
}

impl Clock {
    /// `resolution` is a value of `if_tsresol`.
    pub(crate) fn new(resolution: Option<u8>, offset_s: Option<i64>) -> Clock {
        // If the option is missing, the unit is a microsecond.
        Clock { resolution: resolution.unwrap_or(6), offset_s: offset_s.unwrap_or(0) }
    }

    /// Convert a time of this clock to nanoseconds since 1970, rounded down. A time before 1970
    /// gives 0, a time after 2554 the highest value.
    pub(crate) fn ns(self, units: u64) -> u64 {
        let exponent = u32::from(self.resolution & !BINARY);
        let units = i128::from(units);
        let ns = if self.resolution & BINARY != 0 {
            // The product is at most 2^94 before the shift.
            (units * SECOND_NS) >> exponent
        } else if exponent <= NANO {
            units * 10_i128.pow(NANO - exponent)
        } else {
            10_i128.checked_pow(exponent - NANO).map_or(0, |unit| units / unit)
        };
        let ns = ns.saturating_add(i128::from(self.offset_s) * SECOND_NS);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}
