//! The UDP header.
//!
//! Called by: `inet::udp`, and code that writes datagrams. The caller verifies and computes the
//! checksum, because it has the addresses and maybe the sum already. RFC 768, RFC 1122 section
//! 4.1.3.4, RFC 8200 section 8.1.

use base::DropReason;

use crate::bytes::{array, be16, put};
use crate::checksum::Sum;

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;
/// Offset of the checksum in the header, for devices that finish it.
pub const CHECKSUM_OFFSET: usize = 6;

/// A UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source port; 0 means none.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Bytes of header and data.
    pub length: u16,
    /// In memory order; zero means no checksum, which IPv6 does not allow.
    pub checksum: [u8; 2],
}

impl Header {
    /// Parse the header at the start of `datagram` (cut to the IP payload). After `Ok`, `8 <=
    /// length <= datagram.len()`; bytes past `length` are not data.
    ///
    /// # Errors
    /// [`DropReason::UdpShort`].
    #[inline]
    pub fn parse(datagram: &[u8]) -> Result<Header, DropReason> {
        let b = datagram.first_chunk::<HEADER_LEN>().ok_or(DropReason::UdpShort)?;
        let length = be16(b, 4);
        if usize::from(length) < HEADER_LEN || usize::from(length) > datagram.len() {
            return Err(DropReason::UdpShort);
        }
        Ok(Header {
            src_port: be16(b, 0),
            dst_port: be16(b, 2),
            length,
            checksum: array(b, CHECKSUM_OFFSET),
        })
    }

    /// Write the 8 bytes; `false` if `buf` is shorter or `length` is below 8.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> bool {
        let Some(b) = buf.first_chunk_mut::<HEADER_LEN>() else { return false };
        if usize::from(self.length) < HEADER_LEN {
            return false;
        }
        put(b, 0, self.src_port.to_be_bytes());
        put(b, 2, self.dst_port.to_be_bytes());
        put(b, 4, self.length.to_be_bytes());
        put(b, CHECKSUM_OFFSET, self.checksum);
        true
    }
}

/// The checksum field of a datagram that sums to `sum` (pseudo-header, header with a zero field,
/// data). A checksum of zero is sent as all ones (RFC 768), since zero means none.
#[inline]
pub const fn checksum_field(sum: Sum) -> [u8; 2] {
    match sum.field() {
        [0, 0] => [0xff, 0xff],
        field => field,
    }
}

#[cfg(test)]
mod tests;
