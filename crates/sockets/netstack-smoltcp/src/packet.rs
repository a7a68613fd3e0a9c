//! What `Stack` reads of a packet before the stack takes it: addresses and protocol. Called by
//! `stack.rs`. The stack itself checks the rest, checksums included.

use core::net::IpAddr;
use std::io;

use wire::{ipv4, ipv6};

/// The ends of a packet, and the protocol that its IP header names.
pub(crate) struct Packet {
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    pub(crate) protocol: u8,
}

impl Packet {
    /// Parse the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if that is no IP packet, or a part of one.
    pub(crate) fn parse(bytes: &[u8]) -> io::Result<Packet> {
        let (packet, len) = match bytes.first().map(|first| first >> 4) {
            Some(4) => {
                let ip = ipv4::Header::parse_quoted(bytes).map_err(|_| malformed())?;
                let len = usize::from(ip.total_len);
                let packet =
                    Packet { src: ip.src.into(), dst: ip.dst.into(), protocol: ip.protocol };
                (packet, if len < ip.header_len { usize::MAX } else { len })
            }
            Some(6) => {
                let ip = ipv6::Header::parse_quoted(bytes).map_err(|_| malformed())?;
                let packet =
                    Packet { src: ip.src.into(), dst: ip.dst.into(), protocol: ip.next_header };
                (packet, ipv6::HEADER_LEN + usize::from(ip.payload_len))
            }
            _ => return Err(malformed()),
        };
        if len > bytes.len() { Err(malformed()) } else { Ok(packet) }
    }
}

fn malformed() -> io::Error {
    let text = "no whole IP packet; send what a TUN interface delivers, without a header in front";
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
