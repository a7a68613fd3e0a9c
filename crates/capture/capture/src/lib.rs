//! Reads capture files, pcap and pcapng, of any byte order and any clock.
//!
//! [`Reader`] gives one packet after the other. It reads what a packet needs (lengths, interface,
//! clock, direction) and skips everything else unread: comments, names of hosts, statistics,
//! secrets, blocks of any type and size. So a block that has only descriptions cannot hide a
//! packet, and no length in a file makes the reader allocate more than [`PACKET_BYTES_MAX`] for a
//! packet.
//!
//! Called by: `dump -r`, `trace`. Source: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng;
//! docs/decisions/0123 gives the reasons for a reader of our own.

mod block;
mod input;
mod packet;
mod pcap;
mod pcapng;

use std::io::BufRead;

use input::Input;
pub use packet::{
    Direction, Error, INTERFACES_MAX, Interface, NAME_BYTES_MAX, PACKET_BYTES_MAX, Packet,
};
use pcap::Pcap;
use pcapng::Pcapng;

/// A reader of a capture file.
#[derive(Debug)]
pub struct Reader<R>(Kind<R>);

#[derive(Debug)]
enum Kind<R> {
    Pcap(Pcap<R>),
    Pcapng(Pcapng<R>),
}

impl<R: BufRead> Reader<R> {
    /// Read the header of a capture file, and make a reader of its packets.
    ///
    /// # Errors
    /// The bytes are not a capture file, or end within its header.
    pub fn new(bytes: R) -> Result<Reader<R>, Error> {
        let mut input = Input::new(bytes);
        let magic = input.first::<4>()?.ok_or(Error::NotOne)?;
        Ok(Reader(match magic {
            block::SECTION_BYTES => Kind::Pcapng(Pcapng::new(input)?),
            magic => Kind::Pcap(Pcap::new(input, magic)?),
        }))
    }

    /// The interfaces that were read so far. Reading packets may add more.
    pub fn interfaces(&self) -> &[Interface] {
        match &self.0 {
            Kind::Pcap(pcap) => pcap.interfaces(),
            Kind::Pcapng(pcapng) => pcapng.interfaces(),
        }
    }

    /// The first interface; reads as much of the file as necessary. `None` if the file has no
    /// interface.
    ///
    /// # Errors
    /// The file is damaged before its first interface.
    pub fn first_interface(&mut self) -> Result<Option<&Interface>, Error> {
        if let Kind::Pcapng(pcapng) = &mut self.0 {
            pcapng.read_to_an_interface()?;
        }
        Ok(self.interfaces().first())
    }

    /// Read the next packet; `None` at the end of the file.
    ///
    /// # Errors
    /// The reason why the rest of the file cannot be read. Results of later calls have no meaning.
    pub fn packet(&mut self) -> Result<Option<Packet>, Error> {
        match &mut self.0 {
            Kind::Pcap(pcap) => pcap.packet(),
            Kind::Pcapng(pcapng) => pcapng.packet(),
        }
    }
}

#[cfg(test)]
mod tests;
