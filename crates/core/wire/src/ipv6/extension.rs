//! Walks over IPv6 extension headers to the upper-layer header, within limits.
//!
//! Called by: `inet::ip_input` for packets that have any, and by code that needs the last header of
//! an accepted packet. RFC 8200 sections 4.1 to 4.4, RFC 5095 (type 0 routing headers), RFC 6946
//! (atomic fragments), RFC 8504 section 5.3 (limits), RFC 2675 (jumbograms are refused).

use base::{DropReason, Limit};

use super::{Fragment, HEADER_LEN, Header, has_transport_header};
use crate::protocol::{DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING};

/// Offset of the next header field in the IPv6 header.
const NEXT_HEADER_AT: usize = 6;

/// Codes of a Parameter Problem, RFC 4443 section 3.4.
const ERRONEOUS_FIELD: u8 = 0;
const UNKNOWN_NEXT_HEADER: u8 = 1;
const UNKNOWN_OPTION: u8 = 2;

/// The most extension headers that a packet may have, RFC 8504 section 5.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainLimits {
    /// Headers.
    pub headers: usize,
    /// Bytes of all headers.
    pub bytes: usize,
    /// Options of one header that are unknown and skipped; padding is not counted.
    pub options: usize,
}

impl Default for ChainLimits {
    fn default() -> ChainLimits {
        ChainLimits {
            headers: Limit::ExtensionHeaders.default_value(),
            bytes: Limit::ExtensionHeaderBytes.default_value(),
            options: Limit::ExtensionOptions.default_value(),
        }
    }
}

/// The contents of an ICMPv6 Parameter Problem about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// RFC 4443 section 3.4.
    pub code: u8,
    /// Offset of the wrong byte, from the start of the IPv6 header.
    pub pointer: u32,
    /// Report it even if the packet was sent to a multicast group (RFC 8200 section 4.2, action
    /// 10).
    pub even_to_group: bool,
}

/// Why a packet's extension headers were not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The drop to count.
    pub reason: DropReason,
    /// What to report to the sender, if anything.
    pub problem: Option<Problem>,
    /// The limit that was hit.
    pub limit: Option<Limit>,
}

impl Refused {
    /// A refusal without a report to the sender.
    pub const fn silent(reason: DropReason) -> Refused {
        Refused { reason, problem: None, limit: None }
    }

    const fn over(limit: Limit) -> Refused {
        Refused { reason: DropReason::Ipv6HeaderChain, problem: None, limit: Some(limit) }
    }

    /// `at` is an offset from the end of the IPv6 header.
    fn problem(reason: DropReason, code: u8, at: usize, even_to_group: bool) -> Refused {
        let problem = Problem { code, pointer: (HEADER_LEN + at) as u32, even_to_group };
        Refused { reason, problem: Some(problem), limit: None }
    }
}

const MALFORMED: Refused = Refused::silent(DropReason::Ipv6ExtensionHeader);

/// [`chain`] within the default limits, for callers that need only the reason.
///
/// # Errors
/// Those of [`chain`].
#[inline]
pub fn upper_layer(payload: &[u8], next_header: u8) -> Result<(u8, usize), DropReason> {
    chain(payload, next_header, &ChainLimits::default()).map_err(|refused| refused.reason)
}

/// Find the upper-layer protocol after the extension headers, and its offset in `payload` (the
/// bytes after the IPv6 header, cut to `payload_len`). `next_header` is that of the IPv6 header.
///
/// A real fragment is returned as ([`FRAGMENT`], offset of the fragment header) for reassembly; the
/// fragment header of an atomic fragment (RFC 6946) is skipped. ESP, AH and No Next Header are
/// returned like upper-layer protocols.
///
/// # Errors
/// [`DropReason::Ipv6ExtensionHeader`]: a header or an option past the end.
/// [`DropReason::Ipv6HeaderChain`]: more headers than `limits` admits, or hop-by-hop options that
/// are not first. [`DropReason::Ipv6Option`]: an unknown option that must not be skipped, such as a
/// jumbo payload. [`DropReason::Ipv6RoutingHeader`]: a routing header with segments left.
pub fn chain(
    payload: &[u8],
    mut next_header: u8,
    limits: &ChainLimits,
) -> Result<(u8, usize), Refused> {
    let mut at = 0;
    let mut headers = 0;
    // The offset, from the end of the IPv6 header, of the field that names the present header;
    // `None` while that field is in the IPv6 header itself.
    let mut named_at = None;
    loop {
        if !matches!(next_header, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS) {
            return Ok((next_header, at));
        }
        // RFC 8200 4-b, 4.1-a.
        if let (HOP_BY_HOP, Some(field)) = (next_header, named_at) {
            let reason = DropReason::Ipv6HeaderChain;
            return Err(Refused::problem(reason, UNKNOWN_NEXT_HEADER, field, false));
        }
        if headers >= limits.headers {
            return Err(Refused::over(Limit::ExtensionHeaders));
        }
        headers += 1;
        let rest = payload.get(at..).ok_or(MALFORMED)?;
        let len = header_len(rest, next_header).ok_or(MALFORMED)?;
        if at + len > limits.bytes {
            return Err(Refused::over(Limit::ExtensionHeaderBytes));
        }
        let header = rest.get(..len).ok_or(MALFORMED)?;
        match next_header {
            FRAGMENT => {
                let fragment = Fragment::parse(header).map_err(Refused::silent)?;
                if fragment.more_fragments || fragment.fragment_offset != 0 {
                    return Ok((FRAGMENT, at));
                }
            }
            ROUTING => check_routing(header, at)?,
            _ => check_options(header, at, limits.options)?,
        }
        next_header = *header.first().ok_or(MALFORMED)?;
        named_at = Some(at);
        at += len;
    }
}

/// Bytes of the extension header at the start of `bytes`; `None` if `bytes` is too short to contain
/// the length.
fn header_len(bytes: &[u8], kind: u8) -> Option<usize> {
    match kind {
        FRAGMENT => Some(Fragment::LEN),
        _ => bytes.get(1).map(|units| (usize::from(*units) + 1) * 8),
    }
}

/// Check a routing header. Every routing type is unknown here, type 0 as well, as RFC 5095
/// requires. Without segments left the header is skipped; otherwise the packet is refused (RFC 8200
/// section 4.4).
fn check_routing(header: &[u8], at: usize) -> Result<(), Refused> {
    let [_, _, _kind, segments_left, ..] = *header else { return Err(MALFORMED) };
    // RFC 8200 4.4-a, 4.4-b; RFC 5095 3-a.
    match segments_left {
        0 => Ok(()),
        _ => Err(Refused::problem(DropReason::Ipv6RoutingHeader, ERRONEOUS_FIELD, at + 2, false)),
    }
}

/// Check the options of a hop-by-hop or destination options header that begins at `at`. Only
/// padding is known here. The two highest bits of another option's type determine what is done (RFC
/// 8200 section 4.2).
fn check_options(header: &[u8], at: usize, most: usize) -> Result<(), Refused> {
    const PAD1: u8 = 0;
    const PADN: u8 = 1;
    let (mut place, mut skipped) = (2, 0);
    while let Some(&kind) = header.get(place) {
        if kind == PAD1 {
            place += 1;
            continue;
        }
        // RFC 8200 4.2-a, 4.2-b, 4.2-c, 4.2-d.
        let reason = DropReason::Ipv6Option;
        match kind >> 6 {
            0 => {}
            1 => return Err(Refused::silent(reason)),
            action => {
                let even_to_group = action == 2;
                let field = at + place;
                return Err(Refused::problem(reason, UNKNOWN_OPTION, field, even_to_group));
            }
        }
        skipped += usize::from(kind != PADN);
        if skipped > most {
            return Err(Refused::over(Limit::ExtensionOptions));
        }
        let len = header.get(place + 1).ok_or(MALFORMED)?;
        place += 2 + usize::from(*len);
        if place > header.len() {
            return Err(MALFORMED);
        }
    }
    Ok(())
}

/// The end of a chain of headers, found only by lengths.
struct End {
    /// The first header that is no extension header; [`FRAGMENT`] for a fragment that is not first.
    protocol: u8,
    at: usize,
    /// The offset, like `at`, of the header that names this one; `None`: the IPv6 header names it.
    named_at: Option<usize>,
    has_fragment_header: bool,
}

/// Follow the headers of `data`, which begins with a header of type `next_header`; `None` if one is
/// cut off. Each header has at least 8 bytes, so the walk ends.
fn follow(data: &[u8], next_header: u8) -> Option<End> {
    let mut end = End { protocol: next_header, at: 0, named_at: None, has_fragment_header: false };
    while let HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS = end.protocol {
        let rest = data.get(end.at..)?;
        let header = rest.get(..header_len(rest, end.protocol)?)?;
        if end.protocol == FRAGMENT {
            end.has_fragment_header = true;
            if Fragment::parse(header).ok()?.fragment_offset != 0 {
                return Some(end);
            }
        }
        end.protocol = *header.first()?;
        end.named_at = Some(end.at);
        end.at += header.len();
    }
    Some(end)
}

/// Does `data`, which begins with a header of type `next_header`, contain all extension headers and
/// the whole header of TCP, UDP or ICMPv6 after them? The first fragment of a datagram must (RFC
/// 7112 section 5). Only lengths are checked here: [`chain`] checks the contents of the headers.
pub fn has_all_headers(data: &[u8], next_header: u8) -> bool {
    follow(data, next_header).is_some_and(|end| {
        has_transport_header(data.get(end.at..).unwrap_or_default(), end.protocol)
    })
}

/// Does `packet` have a fragment header, and no header before it that is cut off?
pub fn has_fragment_header(packet: &[u8]) -> bool {
    let Ok(header) = Header::parse_quoted(packet) else { return false };
    let data = packet.get(HEADER_LEN..).unwrap_or_default();
    follow(data, header.next_header).is_some_and(|end| end.has_fragment_header)
}

/// The last header of `packet`: its protocol, its offset, and the offset of the byte that names it.
/// Both offsets are from the start of the packet. `None` if an extension header is cut off.
pub fn last_header(packet: &[u8]) -> Option<(u8, usize, usize)> {
    let header = Header::parse_quoted(packet).ok()?;
    let end = follow(packet.get(HEADER_LEN..)?, header.next_header)?;
    let named_at = end.named_at.map_or(NEXT_HEADER_AT, |at| HEADER_LEN + at);
    Some((end.protocol, HEADER_LEN + end.at, named_at))
}

#[cfg(test)]
mod tests;
