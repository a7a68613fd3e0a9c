//! Captures in files, pcap and pcapng, of any byte order and any clock.
//!
//! [`Reader`] gives one packet after the other. It reads what a packet needs (lengths, interface,
//! clock, direction) and passes over everything else unread: comments, names of hosts, statistics,
//! secrets, blocks of any type and size. What only describes can therefore hide no packet, and no
//! length in a file makes the reader allocate more than a packet's [`PACKET_BYTES_MAX`].
//!
//! Called by: `dump -r`, `trace`. Source: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng;
//! docs/decisions/0123 says why it is our own.

mod block;
mod clock;
mod input;
mod pcap;
mod pcapng;

use std::io::{self, BufRead};

use input::Input;
use pcap::Pcap;
use pcapng::Pcapng;

/// Bytes of a packet that are kept. Of a longer one in pcapng the first are; in pcap, where nothing
/// but this length says where the next packet begins, a longer one is damage, as in libpcap.
pub const PACKET_BYTES_MAX: u32 = 262_144;

/// Maximum number of interfaces in a file, all sections together.
pub const INTERFACES_MAX: usize = 1 << 16;

/// Bytes of an interface's name that are kept.
pub const NAME_BYTES_MAX: usize = 255;

/// The bits of a link-type field that hold the type; those above give the length of a frame check
/// sequence.
const LINK_BITS: u32 = 0x03ff_ffff;

/// An interface of a file. A pcap file has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name; bytes that are no UTF-8 are replaced. `None` if the file gives none.
    pub name: Option<String>,
    /// The link type (LINKTYPE_).
    pub link: u32,
    /// The snapshot length as the file has it, in bytes; 0 is no limit.
    pub snaplen: u32,
    /// The file has the other byte order than this machine, and so have link headers in the byte
    /// order of the machine that captured (LINKTYPE_NULL).
    pub is_swapped: bool,
}

/// The direction of a packet at its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    In,
    /// Sent.
    Out,
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its interface: an index of [`Reader::interfaces`].
    pub interface: usize,
    /// Nanoseconds since 1970; 0 if the file gives no time, the last that fits for a later one.
    pub time_ns: u64,
    /// Its length on the wire in bytes; at least that of `bytes`, whatever the file says.
    pub wire_len: u32,
    /// `None` if the file does not say.
    pub direction: Option<Direction>,
    /// What was captured of it.
    pub bytes: Vec<u8>,
}

/// Why a file is read no further.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is neither pcap nor pcapng.
    #[error("neither pcap nor pcapng")]
    NotOne,
    /// The system does not read on.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file ends within a packet or a block.
    #[error("it ends within a packet or a block")]
    CutOff,
    /// A length that only damage explains, in bytes: of a packet in pcap, of a block in pcapng.
    #[error("a {0} of {1} bytes")]
    Length(&'static str, u32),
    /// The two lengths of a block differ, and no block follows.
    #[error("a block whose two lengths differ, and no block behind it")]
    Lengths,
    /// A version of the format that does not exist yet.
    #[error("version {0} of {1}, which is not known")]
    Version(u16, &'static str),
    /// A packet of an interface that the section does not describe.
    #[error("a packet of interface {0}, which the section does not describe")]
    NoInterface(u32),
    /// More interfaces than [`INTERFACES_MAX`].
    #[error("more than {INTERFACES_MAX} interfaces, which are not read")]
    Interfaces,
}

/// A capture that is read.
#[derive(Debug)]
pub struct Reader<R>(Kind<R>);

#[derive(Debug)]
enum Kind<R> {
    Pcap(Pcap<R>),
    Pcapng(Pcapng<R>),
}

impl<R: BufRead> Reader<R> {
    /// Read the head of a capture.
    ///
    /// # Errors
    /// It is no capture, or ends within its head.
    pub fn new(bytes: R) -> Result<Reader<R>, Error> {
        let mut input = Input::new(bytes);
        let magic = input.first::<4>()?.ok_or(Error::NotOne)?;
        Ok(Reader(match magic {
            block::SECTION_BYTES => Kind::Pcapng(Pcapng::new(input)?),
            magic => Kind::Pcap(Pcap::new(input, magic)?),
        }))
    }

    /// The interfaces so far: packets may bring more.
    pub fn interfaces(&self) -> &[Interface] {
        match &self.0 {
            Kind::Pcap(pcap) => pcap.interfaces(),
            Kind::Pcapng(pcapng) => pcapng.interfaces(),
        }
    }

    /// The first interface, read as far as necessary; `None` if the file has none.
    ///
    /// # Errors
    /// The file is damaged before it.
    pub fn first_interface(&mut self) -> Result<Option<&Interface>, Error> {
        if let Kind::Pcapng(pcapng) = &mut self.0 {
            pcapng.read_to_an_interface()?;
        }
        Ok(self.interfaces().first())
    }

    /// The next packet; `None` at the end.
    ///
    /// # Errors
    /// Why the rest cannot be read. The next call may give anything.
    pub fn packet(&mut self) -> Result<Option<Packet>, Error> {
        match &mut self.0 {
            Kind::Pcap(pcap) => pcap.packet(),
            Kind::Pcapng(pcapng) => pcapng.packet(),
        }
    }
}

#[cfg(test)]
mod tests;
