//! Numbers, addresses and texts in the body of a datagram.
//!
//! Called by: the files that know bodies. A reader that runs out of bytes says so; it never reads
//! beyond them.

use core::net::IpAddr;

use crate::counts::Refused;

/// The rest of a body.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn chunk<const N: usize>(&mut self) -> Result<[u8; N], Refused> {
        let (chunk, rest) = self.0.split_first_chunk().ok_or(Refused::Malformed)?;
        self.0 = rest;
        Ok(*chunk)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Refused> {
        self.chunk().map(|[byte]| byte)
    }

    pub(crate) fn short(&mut self) -> Result<u16, Refused> {
        self.chunk().map(u16::from_be_bytes)
    }

    pub(crate) fn word(&mut self) -> Result<u32, Refused> {
        self.chunk().map(u32::from_be_bytes)
    }

    pub(crate) fn long(&mut self) -> Result<u64, Refused> {
        self.chunk().map(u64::from_be_bytes)
    }

    /// A number of seven bits a byte, the lowest first.
    pub(crate) fn small(&mut self) -> Result<u64, Refused> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift > 63 || shift == 63 && bits > 1 {
                return Err(Refused::Malformed);
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    pub(crate) fn addr(&mut self, is_v6: bool) -> Result<IpAddr, Refused> {
        match is_v6 {
            false => self.chunk::<4>().map(IpAddr::from),
            true => self.chunk::<16>().map(IpAddr::from),
        }
    }

    /// A text of up to 255 bytes behind its length.
    pub(crate) fn text(&mut self) -> Result<&'a str, Refused> {
        let len = usize::from(self.byte()?);
        let (text, rest) = self.0.split_at_checked(len).ok_or(Refused::Malformed)?;
        self.0 = rest;
        str::from_utf8(text).map_err(|_| Refused::Malformed)
    }
}

/// Append a number of seven bits a byte.
pub(crate) fn put_small(to: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

pub(crate) fn put_addr(to: &mut Vec<u8>, addr: IpAddr) {
    match addr {
        IpAddr::V4(addr) => to.extend(addr.octets()),
        IpAddr::V6(addr) => to.extend(addr.octets()),
    }
}
