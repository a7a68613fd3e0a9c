//! ICMP errors through NAT: the outer addresses, and the packet that the error quotes.
//!
//! Called by: the stack, for an error whose quoted packet is of a translated flow. The host that
//! sent the quoted packet gets it back as it sent it, and an error of an inside host hides that
//! host. RFC 5508 section 4, RFC 4787 section 9, RFC 5382 section 7.3, RFC 4443, RFC 4884.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::DropReason;

use super::rewrite::{Edit, Extent, Layout, Options, Ports, identifier};
use crate::Tuple;
use crate::packet::query_dst_port;

/// Bytes of an ICMP error in front of the quote.
const HEADER_LEN: usize = 8;

/// The tuple of the packet that an ICMP error quotes, as it is in the quote; ports are zero if the
/// quote has none.
///
/// # Errors
/// [`DropReason::FilterIcmp`] if `packet` is no ICMP error, or quotes less than an IP header.
pub fn quoted_tuple(packet: &[u8]) -> Result<Tuple, DropReason> {
    let error = IcmpError::of(packet).ok_or(DropReason::FilterIcmp)?;
    let quote = packet.get(error.quote..error.end).ok_or(DropReason::FilterIcmp)?;
    tuple(quote, &error.quoted).ok_or(DropReason::FilterIcmp)
}

/// Rewrite an ICMP error: the packet inside gets the tuple `quoted_to`, in the direction of that
/// packet, and the outer addresses follow.
///
/// The packet inside is as its sender sent it: RFC 5508 REQ-4a, REQ-5a, RFC 4787 REQ-12b, RFC 5382
/// REQ-9. The error goes to that sender: its destination becomes `quoted_to.src` (RFC 5508 REQ-4c,
/// REQ-7a). Its source stays if the destination of the quoted packet was not translated. If it was,
/// an inside host is behind it, and the source becomes `quoted_to.dst`, whichever router or host on
/// the inside sent the error (RFC 5508 REQ-5c). Type and code stay (RFC 5508 REQ-4b, REQ-5b).
///
/// The quote may end anywhere behind its IP header; fields that are not there are skipped. A wrong
/// checksum stays wrong, in the quote (RFC 5508 REQ-3c) and outside.
///
/// # Errors
/// [`DropReason::FilterIcmp`] if `packet` is no ICMP error, or its quote has no IP header of the
/// version of `quoted_to`. Nothing was written then.
pub fn rewrite_error(packet: &mut [u8], quoted_to: &Tuple) -> Result<(), DropReason> {
    let error = IcmpError::of(packet).ok_or(DropReason::FilterIcmp)?;
    if !error.outer.fits(quoted_to) || !error.quoted.fits(quoted_to) {
        return Err(DropReason::FilterIcmp);
    }
    let seen = quoted_tuple(packet)?;
    let (src, _) = addresses(packet, error.outer.is_v6).ok_or(DropReason::FilterIcmp)?;
    let is_hidden = seen.dst != quoted_to.dst;
    let src = if is_hidden { quoted_to.dst } else { src };

    let quote = packet.get_mut(error.quote..error.end).ok_or(DropReason::FilterIcmp)?;
    let mut inside = Edit::new(quote);
    inside.packet(&error.quoted, quoted_to, Options::default());
    let mut change = inside.all();

    let whole = packet.get_mut(..error.outer.end).ok_or(DropReason::FilterIcmp)?;
    let mut outside = Edit::new(whole);
    let addresses = outside.addresses(src, quoted_to.src);
    if error.outer.is_v6 {
        change = change.and(addresses);
    }
    outside.update(error.message + 2, change);
    Ok(())
}

/// An ICMP error and where its parts are.
struct IcmpError {
    outer: Layout,
    /// The quoted packet, from its own beginning.
    quoted: Layout,
    /// Where the ICMP message begins.
    message: usize,
    /// Where the quoted packet begins and ends.
    quote: usize,
    end: usize,
}

impl IcmpError {
    fn of(packet: &[u8]) -> Option<IcmpError> {
        let outer = Layout::of(packet, Extent::Whole)?;
        let message = outer.transport.filter(|_| outer.is_icmp())?;
        let data = packet.get(message..outer.end)?;
        let header = data.first_chunk::<HEADER_LEN>()?;
        if !is_error(outer.is_v6, header[0]) {
            return None;
        }
        // RFC 4884 sections 4 and 5: where there are extensions, the quote's length in words of 4
        // or 8 bytes. RFC 5508 REQ-3d.
        let words = match outer.is_v6 {
            false if matches!(header[0], 3 | 11 | 12) => usize::from(header[5]) * 4,
            true if matches!(header[0], 1 | 3) => usize::from(header[4]) * 8,
            _ => 0,
        };
        let quote = message + HEADER_LEN;
        let len = outer.end - quote;
        let len = if words == 0 { len } else { len.min(words) };
        let end = quote + len;
        let quoted = Layout::of(packet.get(quote..end)?, Extent::Quoted)?;
        Some(IcmpError { outer, quoted, message, quote, end })
    }
}

/// Does an ICMP message of this type quote a packet? RFC 792: destination unreachable, source
/// quench, time exceeded, parameter problem; a redirect is for a host of the link and is not
/// forwarded. RFC 4443 section 2.1: types below 128.
fn is_error(is_v6: bool, kind: u8) -> bool {
    match is_v6 {
        false => matches!(kind, 3 | 4 | 11 | 12),
        true => kind < 128,
    }
}

fn addresses(packet: &[u8], is_v6: bool) -> Option<(IpAddr, IpAddr)> {
    if is_v6 {
        let addr = |at: usize| packet.get(at..)?.first_chunk::<16>().copied().map(Ipv6Addr::from);
        return Some((addr(8)?.into(), addr(24)?.into()));
    }
    let addr = |at: usize| packet.get(at..)?.first_chunk::<4>().copied().map(Ipv4Addr::from);
    Some((addr(12)?.into(), addr(16)?.into()))
}

fn tuple(quote: &[u8], layout: &Layout) -> Option<Tuple> {
    let (src, dst) = addresses(quote, layout.is_v6)?;
    let data = layout.transport.and_then(|at| quote.get(at..)).unwrap_or_default();
    let word = |at: usize| {
        data.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |two| u16::from_be_bytes(*two))
    };
    let (src_port, dst_port) = match layout.protocol {
        wire::protocol::TCP | wire::protocol::UDP => (word(0), word(2)),
        _ if layout.is_icmp() => {
            let id = word(4);
            match data.first().map(|kind| identifier(layout.is_v6, *kind)) {
                Some(Ports::Query) => (id, query_dst_port(id)),
                Some(Ports::Answer) => (query_dst_port(id), id),
                _ => (0, 0),
            }
        }
        _ => (0, 0),
    };
    Some(Tuple { src, dst, protocol: layout.protocol, src_port, dst_port })
}

#[cfg(test)]
mod tests;
