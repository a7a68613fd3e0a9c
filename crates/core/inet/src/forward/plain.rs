//! Plain packets: packets to forward that have nothing unusual. The functions return the header
//! fields that the burst path of forwarding needs, or `None` for any other packet.
//!
//! Called by: `stack/forward/burst.rs`. [`super::examine`] examines the packets that are refused
//! here, and has the reasons. A fragment is as plain as a whole packet: its headers change in the
//! same way. RFC 1812 sections 5.2 and 5.3, RFC 8200 section 3.

use core::net::{Ipv4Addr, Ipv6Addr};

use wire::checksum::Sum;
use wire::{ipv4, ipv6};

/// The addresses and the length of a plain packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain<A> {
    /// Its source.
    pub src: A,
    /// Its destination.
    pub dst: A,
    /// Bytes of the packet. Any bytes after them in a frame are padding.
    pub len: usize,
}

/// Parse an IPv4 packet that has no options, a correct checksum, a TTL of more than 1, and two
/// addresses that pass `may_cross_v4`.
#[inline(always)]
pub fn plain_v4(packet: &[u8]) -> Option<Plain<Ipv4Addr>> {
    let b = packet.first_chunk::<{ ipv4::HEADER_LEN }>()?;
    let word = |at: usize| u32::from_ne_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
    let pair = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    let len = usize::from(u16::from_be_bytes([b[2], b[3]]));
    let (src, dst) = (u32::from_be(word(12)), u32::from_be(word(16)));
    let is_plain = b[0] == 0x45
        && len >= ipv4::HEADER_LEN
        && len <= packet.len()
        && b[8] > 1
        && may_cross_v4(src)
        && may_cross_v4(dst)
        && Sum::from_u64s([pair(0), pair(8), u64::from(word(16))]).is_whole();
    is_plain.then_some(Plain { src: Ipv4Addr::from_bits(src), dst: Ipv4Addr::from_bits(dst), len })
}

/// Parse an IPv6 packet that has a hop limit of more than 1, between global or unique local
/// addresses. A router does not read extension headers.
#[inline(always)]
pub fn plain_v6(packet: &[u8]) -> Option<Plain<Ipv6Addr>> {
    let b = packet.first_chunk::<{ ipv6::HEADER_LEN }>()?;
    let len = ipv6::HEADER_LEN + usize::from(u16::from_be_bytes([b[4], b[5]]));
    let is_plain = b[0] >> 4 == 6
        && packet.len() >= len
        && b[7] > 1
        && may_cross_v6(b[8])
        && may_cross_v6(b[24]);
    if !is_plain {
        return None;
    }
    let src: &[u8; 16] = b[8..].first_chunk()?;
    let dst: &[u8; 16] = b[24..].first_chunk()?;
    Some(Plain { src: Ipv6Addr::from(*src), dst: Ipv6Addr::from(*dst), len })
}

/// Is this any address but those of this network, loopback, link-local, multicast and 240.0.0.0/4?
/// The general path may forward to 240.0.0.0/4, except to the limited broadcast address.
#[inline(always)]
fn may_cross_v4(addr: u32) -> bool {
    let first = addr >> 24;
    // 1 to 223.
    first.wrapping_sub(1) < 223 && first != 127 && addr >> 16 != 0xa9fe
}

/// Is this the first byte of an address in 2000::/3 or fc00::/7? The general path may forward
/// others.
#[inline(always)]
fn may_cross_v6(first: u8) -> bool {
    first >> 5 == 1 || first & 0xfe == 0xfc
}

/// Prepare an IPv4 packet that [`plain_v4`] admitted to be sent on: decrement the TTL, and update
/// the checksum (RFC 1624).
/// RFC 1812 5.3.1-a.
#[inline(always)]
pub fn pass_v4(packet: &mut [u8]) {
    let Some(b) = packet.first_chunk_mut::<{ ipv4::HEADER_LEN }>() else { return };
    // Equation 3, HC' = ~(~HC + ~m + m'): with one hop less m' is m - 0x0100, whatever m is.
    let sum = u32::from(!u16::from_be_bytes([b[10], b[11]])) + u32::from(!0x0100_u16);
    let [high, low] = (!((sum + (sum >> 16)) as u16)).to_be_bytes();
    b[8] = b[8].wrapping_sub(1);
    b[10] = high;
    b[11] = low;
}

/// Prepare an IPv6 packet that [`plain_v6`] admitted to be sent on: decrement the hop limit.
#[inline(always)]
pub fn pass_v6(packet: &mut [u8]) {
    if let Some(hops) = packet.get_mut(7) {
        *hops = hops.wrapping_sub(1);
    }
}

#[cfg(test)]
mod tests;
