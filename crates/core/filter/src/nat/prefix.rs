//! Networks that are exchanged for others without states: NPTv6, whose addresses change so that no
//! checksum does, and one-to-one translation.
//!
//! Called by: what compiles the rules (`prefix` and `both`), and the stack for the tuples of a
//! flow's first packet. An inside address has one outside address and the reverse, so that flows
//! may begin on both sides. RFC 6296 sections 3.1 to 3.7; RFC 3022 section 2.1 (Basic NAT).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::Cidr;

/// Why two networks cannot be exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidPrefix {
    /// NPTv6 is for IPv6, and other networks must be of one version.
    Version,
    /// NPTv6 changes a part of the address behind bit 48 or 64, so that a prefix has at most 64
    /// bits.
    TooLong,
    /// One-to-one translation is for networks of equal length.
    Lengths,
}

/// NPTv6: an internal prefix is exchanged for an external one, and a word behind them is adjusted,
/// so that the sum of the address stays. Checksums of all protocols stay right, also those that are
/// encrypted.
///
/// The word is bits 48 to 63 if both prefixes have at most 48 bits (RFC 6296 section 3.4), else the
/// first word of the interface identifier that is not 0xffff (section 3.5). If one prefix is
/// longer, the other one is its network of the same length whose additional bits are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    internal: u128,
    external: u128,
    mask: u128,
    /// What an address on its way out gets added, in one's complement arithmetic.
    adjustment: u16,
    is_short: bool,
}

impl Prefix {
    /// The translation of these two prefixes; host bits are ignored. RFC 6296 3.1-a, 3.1-b.
    ///
    /// # Errors
    /// [`InvalidPrefix::Version`], [`InvalidPrefix::TooLong`].
    pub fn new(internal: Cidr, external: Cidr) -> Result<Prefix, InvalidPrefix> {
        let (IpAddr::V6(inside), IpAddr::V6(outside)) =
            (internal.network().addr, external.network().addr)
        else {
            return Err(InvalidPrefix::Version);
        };
        let len = internal.prefix_len.max(external.prefix_len);
        if len > 64 {
            return Err(InvalidPrefix::TooLong);
        }
        let (internal, external) = (inside.to_bits(), outside.to_bits());
        // The sum of an address stays if the word gains what the prefix loses.
        let adjustment = add(sum(internal), !sum(external));
        Ok(Prefix { internal, external, mask: mask(len), adjustment, is_short: len <= 48 })
    }

    /// The external address of an internal one. RFC 6296 3.2-a, 3.2-b.
    ///
    /// `None` if `addr` is not of the internal prefix, or if it has no external address: all
    /// words that may be adjusted are 0xffff, which one's complement arithmetic cannot tell from 0.
    /// Subnet 0xffff of a prefix of up to 48 bits is such a case (RFC 6296 sections 3.2 and 4.2).
    pub fn outbound(&self, addr: Ipv6Addr) -> Option<Ipv6Addr> {
        self.exchange(addr, self.internal, self.external, self.adjustment)
    }

    /// The internal address of an external one; `None` as for [`Prefix::outbound`]. RFC 6296 3.3-a.
    pub fn inbound(&self, addr: Ipv6Addr) -> Option<Ipv6Addr> {
        self.exchange(addr, self.external, self.internal, !self.adjustment)
    }

    fn exchange(&self, addr: Ipv6Addr, from: u128, to: u128, adjustment: u16) -> Option<Ipv6Addr> {
        let bits = addr.to_bits();
        if bits & self.mask != from {
            return None;
        }
        let mut words = Ipv6Addr::from_bits(bits & !self.mask | to).segments();
        // RFC 6296 3.4-a, 3.4-b, 3.5-a, 3.5-b.
        let mut behind = match self.is_short {
            true => words.get_mut(3..4)?.iter_mut(),
            false => words.get_mut(4..)?.iter_mut(),
        };
        let word = behind.find(|word| **word != 0xffff)?;
        *word = match add(*word, adjustment) {
            0xffff => 0,
            adjusted => adjusted,
        };
        Some(Ipv6Addr::from(words))
    }
}

/// One-to-one translation of two networks of equal length, or of two addresses: the bits behind the
/// prefix stay. Ports stay too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneToOne {
    inside: Cidr,
    outside: Cidr,
}

impl OneToOne {
    /// The translation of these two networks; host bits are ignored.
    ///
    /// # Errors
    /// [`InvalidPrefix::Version`], [`InvalidPrefix::Lengths`].
    pub fn new(inside: Cidr, outside: Cidr) -> Result<OneToOne, InvalidPrefix> {
        if inside.addr.is_ipv4() != outside.addr.is_ipv4() {
            return Err(InvalidPrefix::Version);
        }
        if inside.prefix_len != outside.prefix_len {
            return Err(InvalidPrefix::Lengths);
        }
        Ok(OneToOne { inside: inside.network(), outside: outside.network() })
    }

    /// The outside address of an inside one, if `addr` is of the inside network.
    pub fn outbound(&self, addr: IpAddr) -> Option<IpAddr> {
        exchange(addr, &self.inside, &self.outside)
    }

    /// The inside address of an outside one, if `addr` is of the outside network.
    pub fn inbound(&self, addr: IpAddr) -> Option<IpAddr> {
        exchange(addr, &self.outside, &self.inside)
    }
}

fn exchange(addr: IpAddr, from: &Cidr, to: &Cidr) -> Option<IpAddr> {
    if !from.contains(addr) {
        return None;
    }
    match (addr, to.addr) {
        (IpAddr::V4(addr), IpAddr::V4(to_addr)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(to.prefix_len)).unwrap_or(0);
            Some(Ipv4Addr::from_bits(addr.to_bits() & !mask | to_addr.to_bits()).into())
        }
        (IpAddr::V6(addr), IpAddr::V6(to_addr)) => {
            let bits = addr.to_bits() & !mask(to.prefix_len) | to_addr.to_bits();
            Some(Ipv6Addr::from_bits(bits).into())
        }
        _ => None,
    }
}

/// The first `len` bits of an IPv6 address.
fn mask(len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(len.min(128))).unwrap_or(0)
}

/// The one's complement sum of the words of an address.
fn sum(bits: u128) -> u16 {
    Ipv6Addr::from_bits(bits).segments().into_iter().fold(0, add)
}

/// One's complement addition: the carry is added at the end.
fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

#[cfg(test)]
mod tests;
