//! Captures in files, pcap and pcapng, of any byte order and any clock.
//!
//! [`Reader`] gives one packet after the other. It reads what a packet needs (lengths, interface,
//! clock, direction) and passes over everything else unread: comments, names of hosts, statistics,
//! secrets, blocks of any type and size. A block that only describes can therefore hide no packet,
//! and no length in a file makes the reader allocate more than a packet's [`PACKET_BYTES_MAX`].
//!
//! Called by: `dump -r`, `trace`. Source: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng;
//! docs/decisions/0123 says why it is our own.

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
    /// Why the rest cannot be read. The results of later calls mean nothing.
    pub fn packet(&mut self) -> Result<Option<Packet>, Error> {
        match &mut self.0 {
            Kind::Pcap(pcap) => pcap.packet(),
            Kind::Pcapng(pcapng) => pcapng.packet(),
        }
    }
}

#[cfg(test)]
mod tests;
