//! IPv6 extension headers: hop-by-hop and destination options, fragments, routing (RFC 8200, 2675,
//! 6275, 8754).
//!
//! Called by: `ip6`, which walks from one header to the next. Each function returns the header's
//! length, or `None` if nothing after the header can be printed.

use core::net::Ipv6Addr;

use crate::data::{Cut, Data, Done};
use crate::print::{Printer, put};

/// The payload length: from the IPv6 header or, if its field is too small for the length, from an
/// option.
#[derive(Clone, Copy)]
pub(super) struct Jumbo {
    pub(super) payload_len: usize,
    pub(super) is_found: bool,
}

/// The reason why hop-by-hop options may not follow this header, if there is one.
pub(super) fn misplaced(before: Option<u8>) -> Option<&'static str> {
    match before {
        None => None,
        Some(0) => Some("[The Hop-by-Hop Options header was already found]"),
        Some(_) => Some("[The Hop-by-Hop Options header don't follow the IPv6 header]"),
    }
}

pub(super) fn hop_by_hop(
    p: &mut Printer,
    data: Data<'_>,
    jumbo: &mut Jumbo,
) -> Result<Option<usize>, Cut> {
    options_header(p, data, ("hbhopt", "HBH "), Some(jumbo))
}

pub(super) fn destination(p: &mut Printer, data: Data<'_>) -> Result<Option<usize>, Cut> {
    options_header(p, data, ("dstopt", "DSTOPT "), None)
}

fn options_header(
    p: &mut Printer,
    data: Data<'_>,
    (protocol, name): (&'static str, &str),
    jumbo: Option<&mut Jumbo>,
) -> Result<Option<usize>, Cut> {
    p.protocol = protocol;
    let len = (usize::from(data.u8(1)?) + 1) * 8;
    let Ok(bytes) = data.get(0, len) else {
        p.cut();
        return Ok(None);
    };
    p.out.push_str(name);
    if (jumbo.is_some() || p.is_verbose())
        && options(p, Data::new(&bytes[2..], len - 2), jumbo).is_err()
    {
        p.cut();
        return Ok(None);
    }
    Ok(Some(len))
}

fn options(p: &mut Printer, data: Data<'_>, mut jumbo: Option<&mut Jumbo>) -> Done {
    let (mut at, mut has_jumbo) = (0, false);
    while at < data.len {
        let kind = data.u8(at)?;
        let len = if kind == 0 { 1 } else { usize::from(data.u8(at + 1)?) + 2 };
        let option = Data::new(data.get(at, len)?, len);
        let wrong = match kind {
            5 if len != 4 => Some("rtalert"),
            0xc2 if len != 6 => Some("jumbo"),
            0xc9 if len < 18 => Some("homeaddr"),
            _ => None,
        };
        if let Some(wrong) = wrong {
            put!(p, "({wrong}: invalid len {})", len - 2);
            return Err(Cut);
        }
        if kind == 0xc2 {
            let text = jumbo_option(option.u32(2)?, jumbo.as_deref_mut(), &mut has_jumbo);
            if p.is_verbose() {
                p.out.push_str(&text);
            }
        } else if p.is_verbose() {
            match kind {
                0 => p.out.push_str("(pad1)"),
                1 => p.out.push_str("(padn)"),
                5 => put!(p, "(rtalert: 0x{:04x}) ", option.u16(2)?),
                0xc9 => {
                    put!(p, "(homeaddr: {}", option.v6(2)?);
                    sub_options(p, option.skip(18))?;
                    p.out.push(')');
                }
                _ => put!(p, "(opt_type 0x{kind:02x}: len={})", len - 2),
            }
        }
        at += len;
    }
    if p.is_verbose() {
        p.out.push(' ');
    }
    Ok(())
}

/// Use the length of a jumbo option, if that is allowed (RFC 2675 section 3).
fn jumbo_option(len: u32, jumbo: Option<&mut Jumbo>, has_jumbo: &mut bool) -> String {
    if *has_jumbo {
        return format!("(jumbo: {len} - already seen) ");
    }
    *has_jumbo = true;
    match jumbo {
        None => format!("(jumbo: {len} - not a hop-by-hop option) "),
        Some(jumbo) if jumbo.payload_len != 0 => {
            format!("(jumbo: {len} - payload len != 0) ")
        }
        Some(_) if len < 65_536 => format!("(jumbo: {len} - < 65536) "),
        Some(jumbo) => {
            *jumbo = Jumbo { payload_len: len as usize, is_found: true };
            format!("(jumbo: {len}) ")
        }
    }
}

fn sub_options(p: &mut Printer, data: Data<'_>) -> Done {
    let mut at = 0;
    while at < data.len {
        let kind = data.u8(at)?;
        let len = if kind == 0 { 1 } else { usize::from(data.u8(at + 1)?) + 2 };
        data.get(at, len)?;
        match kind {
            0 => p.out.push_str(", pad1"),
            1 => p.out.push_str(", padn"),
            kind => put!(p, ", sopt_type 0x{kind:02x}: len={}", len - 2),
        }
        at += len;
    }
    Ok(())
}

/// Print a fragment header; `left` is the length of the rest of the packet.
pub(super) fn fragment(p: &mut Printer, data: Data<'_>, left: usize) -> Result<Option<usize>, Cut> {
    p.protocol = "frag6";
    let offset = data.u16(2)? & 0xfff8;
    if p.is_verbose() {
        put!(p, "frag (0x{:08x}:{offset}|{left})", data.u32(4)?);
    } else {
        put!(p, "frag ({offset}|{left})");
    }
    if offset != 0 {
        return Ok(None);
    }
    p.out.push(' ');
    Ok(Some(8))
}

pub(super) fn routing(p: &mut Printer, data: Data<'_>) -> Result<Option<usize>, Cut> {
    p.protocol = "rt6";
    p.out.push_str("RT6");
    let len = usize::from(data.u8(1)?);
    put!(p, " (len={len}");
    let kind = data.u8(2)?;
    put!(p, ", type={kind}");
    if kind == 0 {
        p.out.push_str(" [Deprecated]");
    }
    put!(p, ", segleft={}", data.u8(3)?);
    match kind {
        0 | 2 => {
            let reserved = data.u32(4)?;
            if reserved != 0 || p.is_verbose() {
                put!(p, ", rsv=0x{reserved:x}");
            }
        }
        4 => {
            put!(p, ", last-entry={}", data.u8(4)?);
            let flags = data.u8(5)?;
            if flags != 0 || p.is_verbose() {
                put!(p, ", flags=0x{flags:x}");
            }
            put!(p, ", tag={:x}", data.u16(6)?);
        }
        _ => {
            p.out.push_str(" (unknown type)");
            p.invalid();
            return Ok(None);
        }
    }
    if len % 2 == 1 {
        put!(p, " (invalid length {len})");
        p.invalid();
        return Ok(None);
    }
    for hop in 0..len / 2 {
        put!(p, ", [{hop}]{}", data.v6(8 + hop * 16)?);
    }
    p.out.push_str(") ");
    Ok(Some((len + 1) * 8))
}

/// The final destination of a routing header, which checksums cover (RFC 8200 section 8.1).
pub(super) fn last_hop(packet: Data<'_>, first: u8) -> Option<Ipv6Addr> {
    let (mut next, mut at) = (first, 40);
    loop {
        let len = match next {
            0 | 60 | 62 | 135 => (usize::from(packet.u8(at + 1).ok()?) + 1) * 8,
            44 => 8,
            43 => {
                let hops = usize::from(packet.u8(at + 1).ok()?);
                let last = match packet.u8(at + 2).ok()? {
                    0 | 2 if hops >= 2 => hops / 2 - 1,
                    4 => 0,
                    _ => return None,
                };
                if hops % 2 == 1 {
                    return None;
                }
                return packet.v6(at + 8 + last * 16).ok().map(|address| address.0);
            }
            _ => return None,
        };
        next = packet.u8(at).ok()?;
        at += len;
    }
}
