//! The IPv4 header: `parse` checks everything that a receiver must check, `emit` computes the
//! checksum.
//!
//! Called by: `inet::ip_input`, `inet::ip_output`, and `inet::icmp` for quoted headers. RFC 791
//! section 3.1, RFC 1122 section 3.2.1, RFC 7126 (refused options).

use base::DropReason;
use core::net::Ipv4Addr;

use crate::bytes::{array, be16, put};
use crate::checksum::{self, Sum};

/// Bytes of the header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes of the longest header.
pub const HEADER_LEN_MAX: usize = 60;
/// Offset of the identification in the header, in bytes.
pub const ID_OFFSET: usize = 4;
/// Offset of the checksum in the header, in bytes.
pub const CHECKSUM_OFFSET: usize = 10;

/// The bit that forbids fragmentation, in the word of flags and offset.
pub const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

/// An IPv4 header without version and checksum, which parse verifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of header with options: 20 to 60, a multiple of 4.
    pub header_len: usize,
    /// DSCP in the upper six bits (RFC 2474), ECN in the lower two (RFC 3168).
    pub tos: u8,
    /// Bytes of header and data.
    pub total_len: u16,
    /// Identification of a datagram's fragments.
    pub id: u16,
    /// Routers must not fragment the packet.
    pub dont_fragment: bool,
    /// The packet is a fragment, and not the last one.
    pub more_fragments: bool,
    /// Offset of the data in the datagram, in bytes, a multiple of 8.
    pub fragment_offset: u16,
    /// Hops left.
    pub ttl: u8,
    /// Protocol of the data: [`TCP`], [`UDP`], [`ICMP`] ...
    pub protocol: u8,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
}

impl Header {
    /// Parse the header at the start of `packet`. After `Ok`, `header_len <= total_len <=
    /// packet.len()`, the checksum is right, and there is no option that must be refused.
    ///
    /// # Errors
    /// In this order: [`DropReason::Ipv4Short`], [`DropReason::Ipv4Version`],
    /// [`DropReason::Ipv4HeaderLength`], [`DropReason::Ipv4TotalLength`],
    /// [`DropReason::Ipv4Checksum`], [`DropReason::Ipv4SourceRoute`], [`DropReason::Ipv4Options`].
    /// RFC 791 3.1-a, 3.1-b, 3.1-c.
    /// RFC 1122 3.2.1.1-a, 3.2.1.2-a, 3.2.1.7-a.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Header, DropReason> {
        let b = packet.first_chunk::<HEADER_LEN>().ok_or(DropReason::Ipv4Short)?;
        if b[0] >> 4 != 4 {
            return Err(DropReason::Ipv4Version);
        }
        let header_len = usize::from(b[0] & 0x0f) * 4;
        if header_len < HEADER_LEN || header_len > packet.len() {
            return Err(DropReason::Ipv4HeaderLength);
        }
        let total_len = be16(b, 2);
        if usize::from(total_len) < header_len || usize::from(total_len) > packet.len() {
            return Err(DropReason::Ipv4TotalLength);
        }
        if header_len == HEADER_LEN {
            if !header_sum(b).is_whole() {
                return Err(DropReason::Ipv4Checksum);
            }
        } else {
            check_options(&packet[..header_len])?;
        }
        Ok(Header::fields(b, header_len, total_len))
    }

    #[inline(always)]
    fn fields(b: &[u8; HEADER_LEN], header_len: usize, total_len: u16) -> Header {
        let fragment = be16(b, 6);
        Header {
            header_len,
            tos: b[1],
            total_len,
            id: be16(b, 4),
            dont_fragment: fragment & DONT_FRAGMENT != 0,
            more_fragments: fragment & MORE_FRAGMENTS != 0,
            fragment_offset: (fragment & OFFSET_MASK) << 3,
            ttl: b[8],
            protocol: b[9],
            src: Ipv4Addr::from(array::<_, 4>(b, 12)),
            dst: Ipv4Addr::from(array::<_, 4>(b, 16)),
        }
    }

    /// Parse a header quoted in an ICMP error. Only the fields are read, because routers change
    /// some of them and may quote as few as eight bytes of data (RFC 792, RFC 1812 section
    /// 4.3.2.3). `total_len` may exceed `quote`.
    ///
    /// # Errors
    /// [`DropReason::Ipv4Short`], [`DropReason::Ipv4Version`], [`DropReason::Ipv4HeaderLength`].
    #[inline(always)]
    pub fn parse_quoted(quote: &[u8]) -> Result<Header, DropReason> {
        let b = quote.first_chunk::<HEADER_LEN>().ok_or(DropReason::Ipv4Short)?;
        if b[0] >> 4 != 4 {
            return Err(DropReason::Ipv4Version);
        }
        let header_len = usize::from(b[0] & 0x0f) * 4;
        if header_len < HEADER_LEN || header_len > quote.len() {
            return Err(DropReason::Ipv4HeaderLength);
        }
        Ok(Header::fields(b, header_len, be16(b, 2)))
    }

    /// Write the 20 bytes with their checksum. Options of a longer header must be in
    /// `buf[20..header_len]` already and are summed.
    ///
    /// Returns `false`, with nothing written, if `buf` is shorter than `header_len`, if
    /// `header_len` is not a multiple of 4 from 20 to 60, if `total_len` is less, or if the offset
    /// is not a multiple of 8.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> bool {
        let encodes = self.header_len.is_multiple_of(4)
            && (HEADER_LEN..=HEADER_LEN_MAX).contains(&self.header_len)
            && usize::from(self.total_len) >= self.header_len
            && self.fragment_offset.is_multiple_of(8);
        if !encodes || buf.len() < self.header_len {
            return false;
        }
        let (header, _) = buf.split_at_mut(self.header_len);
        let Some((b, options)) = header.split_first_chunk_mut::<HEADER_LEN>() else { return false };
        let fragment = self.fragment_offset >> 3
            | if self.dont_fragment { DONT_FRAGMENT } else { 0 }
            | if self.more_fragments { MORE_FRAGMENTS } else { 0 };
        b[0] = 0x40 | (self.header_len / 4) as u8;
        b[1] = self.tos;
        put(b, 2, self.total_len.to_be_bytes());
        put(b, 4, self.id.to_be_bytes());
        put(b, 6, fragment.to_be_bytes());
        b[8] = self.ttl;
        b[9] = self.protocol;
        put(b, 10, [0, 0]);
        put(b, 12, self.src.octets());
        put(b, 16, self.dst.octets());
        let mut sum = header_sum(b);
        if !options.is_empty() {
            sum = sum.plus(checksum::sum_short(options));
        }
        put(b, 10, sum.field());
        true
    }

    /// Differentiated services code point, RFC 2474.
    #[inline]
    pub const fn dscp(&self) -> u8 {
        self.tos >> 2
    }

    /// Explicit congestion notification field, RFC 3168 section 5.
    #[inline]
    pub const fn ecn(&self) -> u8 {
        self.tos & 3
    }

    /// Is it a fragment of a datagram?
    #[inline]
    pub const fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }
}

/// The usual header: no options, no fragment, valid. Its words are in memory order, because they
/// are only compared or summed.
#[derive(Clone, Copy, Debug)]
pub struct Plain {
    /// Source and destination in memory order.
    pub addrs: u64,
    /// Bytes of header and data, at most the packet's length.
    pub total_len: u32,
    /// Protocol of the data.
    pub protocol: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// Hops left.
    pub ttl: u8,
}

impl Plain {
    /// Parse the header at the start of `packet` if it is plain; [`Header::parse`] handles any
    /// other.
    #[inline(always)]
    pub fn parse(packet: &[u8]) -> Option<Plain> {
        let b = packet.first_chunk::<HEADER_LEN>()?;
        let words = [u64::from_ne_bytes(array(b, 0)), u64::from_ne_bytes(array(b, 8))];
        let addrs = u64::from_ne_bytes(array(b, 12));
        let total_len = u32::from(be16(b, 2));
        let last = u64::from(u32::from_ne_bytes(array(b, 16)));
        let plain = b[0] == 0x45
            && be16(b, 6) & (MORE_FRAGMENTS | OFFSET_MASK) == 0
            && total_len >= HEADER_LEN as u32
            && total_len as usize <= packet.len()
            && Sum::from_u64s([words[0], words[1], last]).is_whole();
        plain.then_some(Plain { addrs, total_len, protocol: b[9], tos: b[1], ttl: b[8] })
    }
}

/// The sum of a header without options, computed from registers.
#[inline(always)]
pub fn header_sum(b: &[u8; HEADER_LEN]) -> Sum {
    Sum::from_u64s([
        u64::from_ne_bytes(array(b, 0)),
        u64::from_ne_bytes(array(b, 8)),
        u64::from(u32::from_ne_bytes(array(b, 16))),
    ])
}

/// Decrement the TTL of a valid header and update the checksum (RFC 1812 section 5.3.1, RFC 1624).
/// Returns the new TTL, or `None`, with nothing written, if it was zero or `packet` is shorter than
/// a header.
#[inline]
pub fn decrement_ttl(packet: &mut [u8]) -> Option<u8> {
    let b = packet.first_chunk_mut::<HEADER_LEN>()?;
    let ttl = b[8].checked_sub(1)?;
    let old = Sum(u16::from_ne_bytes([b[8], b[9]]));
    let new = Sum(u16::from_ne_bytes([ttl, b[9]]));
    let field = Sum::updated([b[10], b[11]], old, new);
    b[8] = ttl;
    put(b, 10, field);
    Some(ttl)
}

/// Check checksum and options of a header longer than 20 bytes.
#[cold]
fn check_options(header: &[u8]) -> Result<(), DropReason> {
    if !checksum::sum_short(header).is_whole() {
        return Err(DropReason::Ipv4Checksum);
    }
    walk_options(header).map_err(|(reason, _)| reason)
}

/// The offset in the header, in bytes, of the first malformed option, for a report to the sender
/// (RFC 1122 section 3.2.2.5). `None` if no option is malformed.
pub fn malformed_option(packet: &[u8]) -> Option<usize> {
    let h = Header::parse_quoted(packet).ok()?;
    match walk_options(packet.get(..h.header_len)?) {
        Err((DropReason::Ipv4Options, at)) => Some(at),
        _ => None,
    }
}

/// Walk the options. Each step advances by at least one byte, and at most to the header's end. An
/// option that must be refused is returned with its offset in the header.
/// RFC 1122 3.2.1.8-b, 3.2.1.8-c.
/// RFC 791 3.1-d.
fn walk_options(header: &[u8]) -> Result<(), (DropReason, usize)> {
    const END: u8 = 0;
    const NOP: u8 = 1;
    const LSRR: u8 = 131;
    const SSRR: u8 = 137;
    let mut at = HEADER_LEN;
    while let Some(&kind) = header.get(at) {
        match kind {
            END => return Ok(()),
            NOP => at += 1,
            // RFC 7126 sections 4.3 and 4.4: drop by default, whatever its length and pointer are.
            LSRR | SSRR => return Err((DropReason::Ipv4SourceRoute, at)),
            // All other options are skipped: record route, timestamp and security have no effect
            // here.
            _ => {
                let len = header.get(at + 1).map_or(0, |&len| usize::from(len));
                if len < 2 || at + len > header.len() {
                    return Err((DropReason::Ipv4Options, at));
                }
                at += len;
            }
        }
    }
    Ok(())
}

/// The Router Alert option, RFC 2113: routers examine the packet although it is not for them.
pub const ROUTER_ALERT: [u8; 4] = [148, 4, 0, 0];

/// Does this header, which [`Header::parse`] accepted, have the Router Alert option?
pub fn has_router_alert(header: &[u8]) -> bool {
    let mut options = header.get(HEADER_LEN..).unwrap_or_default();
    while let [kind, rest @ ..] = options {
        options = match (*kind, rest) {
            (0, _) => return false,
            (1, rest) => rest,
            (148, [4, ..]) => return true,
            (_, [len @ 2..=255, ..]) => options.get(usize::from(*len)..).unwrap_or_default(),
            _ => return false,
        };
    }
    false
}

#[cfg(test)]
mod tests;
