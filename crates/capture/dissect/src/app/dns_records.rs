//! Records of DNS messages, and the options of messages (RFC 1035, 2782, 2874, 6891, 7871 and
//! others).
//!
//! Called by: `dns`.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::dns::{self, Message, OPT};
use crate::data::{Cut, Data, V6};
use crate::print::{Printer, put};
use crate::text::{Names, duration, name};

pub(super) const CLASSES: Names = &[(1, "IN"), (3, "CHAOS"), (4, "HS"), (255, "ANY")];

pub(super) const TYPES: Names = &[
    (1, "A"),
    (2, "NS"),
    (3, "MD"),
    (4, "MF"),
    (5, "CNAME"),
    (6, "SOA"),
    (7, "MB"),
    (8, "MG"),
    (9, "MR"),
    (10, "NULL"),
    (11, "WKS"),
    (12, "PTR"),
    (13, "HINFO"),
    (14, "MINFO"),
    (15, "MX"),
    (16, "TXT"),
    (17, "RP"),
    (18, "AFSDB"),
    (19, "X25"),
    (20, "ISDN"),
    (21, "RT"),
    (22, "NSAP"),
    (23, "NSAP_PTR"),
    (24, "SIG"),
    (25, "KEY"),
    (26, "PX"),
    (27, "GPOS"),
    (28, "AAAA"),
    (29, "LOC"),
    (30, "NXT"),
    (31, "EID"),
    (32, "NIMLOC"),
    (33, "SRV"),
    (34, "ATMA"),
    (35, "NAPTR"),
    (36, "KX"),
    (37, "CERT"),
    (38, "A6"),
    (39, "DNAME"),
    (40, "SINK"),
    (41, "OPT"),
    (42, "APL"),
    (43, "DS"),
    (44, "SSHFP"),
    (45, "IPSECKEY"),
    (46, "RRSIG"),
    (47, "NSEC"),
    (48, "DNSKEY"),
    (99, "SPF"),
    (100, "UINFO"),
    (101, "UID"),
    (102, "GID"),
    (103, "UNSPEC"),
    (104, "UNSPECA"),
    (249, "TKEY"),
    (250, "TSIG"),
    (251, "IXFR"),
    (252, "AXFR"),
    (253, "MAILB"),
    (254, "MAILA"),
    (255, "ANY"),
    (256, "URI"),
];

const OPTIONS: Names = &[
    (1, "LLQ"),
    (2, "UL"),
    (3, "NSID"),
    (5, "DAU"),
    (6, "DHU"),
    (7, "N3U"),
    (8, "ECS"),
    (9, "EXPIRE"),
    (10, "COOKIE"),
    (11, "KEEPALIVE"),
    (12, "PADDING"),
    (13, "CHAIN"),
    (14, "KEY-TAG"),
    (16, "CLIENT-TAG"),
    (17, "SERVER-TAG"),
];

const SIGNATURES: Names = &[
    (0, "DELETE"),
    (1, "RSAMD5"),
    (2, "DH"),
    (3, "DS"),
    (5, "RSASHA1"),
    (6, "DSA-NSEC3-SHA1"),
    (7, "RSASHA1-NSEC3-SHA1"),
    (8, "RSASHA256"),
    (10, "RSASHA512"),
    (12, "ECC-GOST"),
    (13, "ECDSAP256SHA256"),
    (14, "ECDSAP384SHA384"),
    (15, "ED25519"),
    (16, "ED448"),
    (252, "INDIRECT"),
    (253, "PRIVATEDNS"),
    (254, "PRIVATEOID"),
];

const DIGESTS: Names = &[(1, "SHA-1"), (2, "SHA-256"), (3, "GOST_R_34.11-94"), (4, "SHA-384")];

const NSEC3_DIGESTS: Names = &[(1, "SHA-1")];

/// Print a record. Returns where the next one begins, or `None` if the record is cut off.
pub(super) fn print(
    p: &mut Printer,
    message: Message<'_>,
    at: usize,
) -> Result<Option<usize>, Cut> {
    let data = message.data;
    let end = if p.is_verbose() {
        p.out.push(' ');
        let Some(end) = dns::name(p, data, at) else { return Ok(None) };
        Some(end)
    } else {
        dns::skip(data, at)
    };
    // As in tcpdump, a record whose fixed fields are incomplete ends the output silently.
    let Some(at) = end.filter(|at| data.has(*at, 10)) else { return Ok(Some(data.here())) };
    let (kind, class, ttl) = (data.u16(at)?, data.u16(at + 2)?, data.u32(at + 4)?);
    let class_alone = if message.is_multicast { class & 0x7fff } else { class };
    if class_alone != 1 && kind != OPT {
        put!(p, " {}", name(CLASSES, class_alone, "(Class {})"));
    }
    if message.is_multicast && class & 0x8000 != 0 {
        p.out.push_str(" (Cache flush)");
    }
    if kind != OPT && p.style.verbose > 2 {
        put!(p, " [{}]", duration(ttl));
    }
    let len = usize::from(data.u16(at + 8)?);
    put!(p, " {}", name(TYPES, kind, "Type{}"));
    let at = at + 10;
    if !data.has(at, len) {
        return Ok(None);
    }
    let is_whole = if kind == OPT {
        put!(p, " UDPsize={class_alone}");
        p.out.push_str(if ttl & 0x8000 != 0 { " DO" } else { "" });
        options(p, Data::new(data.get(at, len)?, len))?
    } else {
        content(p, data, kind, at, len)?
    };
    Ok(is_whole.map(|()| at + len))
}

/// Print the content of a record. `None` if it is cut off.
fn content(
    p: &mut Printer,
    data: Data<'_>,
    kind: u16,
    at: usize,
    len: usize,
) -> Result<Option<()>, Cut> {
    let is_whole = match kind {
        1 => data.v4(at).ok().map(|address| put!(p, " {address}")),
        28 => data.v6(at).ok().map(|address| put!(p, " {address}")),
        2 | 5 | 12 | 39 => {
            p.out.push(' ');
            dns::name(p, data, at).map(drop)
        }
        6 if p.is_verbose() => authority(p, data, at),
        15 => {
            p.out.push(' ');
            if data.u16(at).is_err() || dns::name(p, data, at + 2).is_none() {
                return Ok(None);
            }
            put!(p, " {}", data.u16(at)?);
            Some(())
        }
        16 => strings(p, data, at, at + len),
        33 => {
            p.out.push(' ');
            if !data.has(at, 6) || dns::name(p, data, at + 6).is_none() {
                return Ok(None);
            }
            put!(p, ":{} {} {}", data.u16(at + 4)?, data.u16(at)?, data.u16(at + 2)?);
            Some(())
        }
        38 => prefix(p, data, at)?,
        256 => {
            put!(p, " {} {} ", data.u16(at)?, data.u16(at + 2)?);
            p.chars_of(data, at + 4, len.wrapping_sub(4)).ok()
        }
        104 => p.chars_of(data, at, len).ok(),
        250 if p.is_verbose() => signature(p, data, at),
        _ => Some(()),
    };
    Ok(is_whole)
}

/// Print an SOA record, with `-v`.
fn authority(p: &mut Printer, data: Data<'_>, at: usize) -> Option<()> {
    p.out.push(' ');
    let at = dns::name(p, data, at)?;
    p.out.push(' ');
    let at = dns::name(p, data, at)?;
    data.get(at, 20).ok()?;
    for field in 0..5 {
        put!(p, " {}", data.u32(at + field * 4).ok()?);
    }
    Some(())
}

/// Print a TSIG record, with `-v` (RFC 8945).
fn signature(p: &mut Printer, data: Data<'_>, at: usize) -> Option<()> {
    p.out.push(' ');
    let at = dns::name(p, data, at)? + 6;
    put!(p, " fudge={}", data.u16(at).ok()?);
    let mac_len = data.u16(at + 2).ok()?;
    put!(p, " maclen={mac_len}");
    let at = at + 4 + usize::from(mac_len);
    put!(p, " origid={}", data.u16(at).ok()?);
    put!(p, " error={}", data.u16(at + 2).ok()?);
    put!(p, " otherlen={}", data.u16(at + 4).ok()?);
    Some(())
}

fn strings(p: &mut Printer, data: Data<'_>, at: usize, end: usize) -> Option<()> {
    let mut at = at;
    while at < end {
        p.out.push_str(" \"");
        let len = usize::from(data.u8(at).ok()?);
        p.chars_of(data, at + 1, len).ok()?;
        p.out.push('"');
        at += 1 + len;
    }
    Some(())
}

/// Print an A6 record: a part of an address, and the name whose record has the rest of the address
/// (RFC 2874).
fn prefix(p: &mut Printer, data: Data<'_>, at: usize) -> Result<Option<()>, Cut> {
    let Ok(bits) = data.u8(at) else { return Ok(None) };
    let known = usize::from(bits) / 8;
    if bits > 128 {
        put!(p, " {bits}(bad plen)");
        return Ok(Some(()));
    }
    if bits < 128 {
        let mut address = [0; 16];
        address[known..].copy_from_slice(data.get(at + 1, 16 - known)?);
        put!(p, " {bits} {}", V6(Ipv6Addr::from(address)));
    }
    if bits > 0 {
        p.out.push(' ');
        return Ok(dns::name(p, data, at + 1 + 16 - known).map(drop));
    }
    Ok(Some(()))
}

/// Print the options of a message. `None` if they are cut off.
fn options(p: &mut Printer, data: Data<'_>) -> Result<Option<()>, Cut> {
    if data.len == 0 {
        return Ok(Some(()));
    }
    p.out.push_str(" [");
    let mut at = 0;
    while at < data.len {
        let Ok(kind) = data.u16(at) else { return Ok(None) };
        p.out.push_str(&name(OPTIONS, kind, "Opt{}"));
        let Ok(len) = data.u16(at + 2) else { return Ok(None) };
        let len = usize::from(len);
        let Ok(content) = data.get(at + 4, len) else { return Ok(None) };
        if len > 0 {
            p.out.push(' ');
            option(p, kind, Data::new(content, len))?;
        }
        at += 4 + len;
        p.out.push_str(if at < data.len { "," } else { "" });
    }
    p.out.push(']');
    Ok(Some(()))
}

fn option(p: &mut Printer, kind: u16, data: Data<'_>) -> Result<(), Cut> {
    let list = |names: Names| {
        let items = data.bytes.iter().map(|item| name(names, *item, "Alg_{}"));
        items.collect::<Vec<_>>().join(" ")
    };
    match (kind, data.len) {
        (8, _) => match subnet(data) {
            Some(subnet) => p.out.push_str(&subnet),
            None => p.invalid(),
        },
        (10, 8) | (10, 16..=40) => {
            p.hex_digits(&data.bytes[..8]);
            p.out.push_str(if data.len > 8 { " " } else { "" });
            p.hex_digits(&data.bytes[8..]);
        }
        (11, 2) => {
            let tenths = data.u16(0)?;
            put!(p, "{}.{} sec", tenths / 10, tenths % 10);
        }
        (9, 4) => put!(p, "{} sec", data.u32(0)?),
        (12, len) => put!(p, "({len})"),
        (14, len) if len % 2 == 0 => {
            for at in (0..len).step_by(2) {
                put!(p, "{}{}", if at > 0 { " " } else { "" }, data.u16(at)?);
            }
        }
        (9..=11 | 14, _) => p.invalid(),
        (5, _) => p.out.push_str(&list(SIGNATURES)),
        (6, _) => p.out.push_str(&list(DIGESTS)),
        (7, _) => p.out.push_str(&list(NSEC3_DIGESTS)),
        (13, _) => {
            dns::name(p, data, 0);
        }
        _ => p.hex_digits(data.bytes),
    }
    Ok(())
}

/// The client subnet option as text (RFC 7871 section 6).
fn subnet(data: Data<'_>) -> Option<String> {
    let (family, len, scope) = (data.u16(0).ok()?, data.u8(2).ok()?, data.u8(3).ok()?);
    let bits = match family {
        1 => 32,
        2 => 128,
        _ => return None,
    };
    let prefix = data.bytes.get(4..)?;
    let is_good = len <= bits
        && scope <= bits
        && prefix.len() <= usize::from(bits / 8)
        && usize::from(len).div_ceil(8) == prefix.len();
    if !is_good {
        return None;
    }
    let mut padded = [0; 16];
    padded[..prefix.len()].copy_from_slice(prefix);
    let address = match family {
        1 => Ipv4Addr::new(padded[0], padded[1], padded[2], padded[3]).to_string(),
        _ => V6(Ipv6Addr::from(padded)).to_string(),
    };
    Some(format!("{address}/{len}/{scope}"))
}
