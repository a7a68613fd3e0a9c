//! The IP header that carries a payload, and the checksums that cover parts of it.
//!
//! Called by: `net`, `transport` and `app`, which print the payload.

use core::net::{IpAddr, Ipv6Addr};

use wire::checksum::{Ladder, Sum};

use crate::data::Data;

/// The fields of the IP header in front of a payload.
#[derive(Clone, Copy)]
pub(crate) struct Carrier {
    pub(crate) src: IpAddr,
    /// The destination in the header.
    pub(crate) dst: IpAddr,
    /// The final destination of a source route or routing header, which checksums cover.
    pub(crate) last: IpAddr,
    /// The protocol that the IP header names; extension headers may follow it.
    pub(crate) protocol: u8,
    /// The packet is a fragment.
    pub(crate) is_fragment: bool,
    /// The TTL or hop limit.
    pub(crate) hops: u8,
}

/// The value of a checksum field, and whether it is right.
#[derive(Clone, Copy)]
pub(crate) struct Checksum {
    pub(crate) has: u16,
    pub(crate) ought: u16,
    /// Whether the sum over all bytes is right. So both zeros of ones' complement are accepted.
    pub(crate) is_right: bool,
}

impl Checksum {
    /// Check the checksum field at `at`; `pseudo` is the sum of the pseudo-header.
    pub(crate) fn of(bytes: &[u8], at: usize, pseudo: Sum) -> Option<Checksum> {
        let has = u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?);
        let sum = pseudo.plus(Ladder::best().sum(bytes));
        let ought = u16::from_be_bytes(sum.minus(Sum::of_be16(has)).field());
        Some(Checksum { has, ought, is_right: sum.is_whole() })
    }
}

impl Carrier {
    pub(crate) fn is_v6(&self) -> bool {
        self.src.is_ipv6()
    }

    /// Source and destination address as text.
    pub(crate) fn ends(&self) -> (String, String) {
        (address(self.src), address(self.dst))
    }

    /// Check the field at `at` of a payload with a pseudo-header; `None` if not all of it was
    /// captured.
    pub(crate) fn checksum(&self, protocol: u8, data: Data<'_>, at: usize) -> Option<Checksum> {
        let bytes = data.get(0, data.len).ok()?;
        let length = Sum::of_be16(u16::try_from(data.len & 0xffff).ok()?)
            .plus(Sum::of_be16(u16::try_from(data.len >> 16).ok()?));
        let pseudo = match (self.src, self.last) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Sum::pseudo_v4(src, dst, protocol),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Sum::pseudo_v6(src, dst, protocol),
            _ => return None,
        };
        Checksum::of(bytes, at, pseudo.plus(length))
    }
}

/// An address as tcpdump writes it.
pub(crate) fn address(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => crate::data::V6(address).to_string(),
    }
}

/// An IPv6 address as tcpdump writes it.
pub(crate) fn v6(address: Ipv6Addr) -> crate::data::V6 {
    crate::data::V6(address)
}
