//! ICMP messages; with `-v` also the packet quoted in an error, and extensions (RFC 792, 950, 1256,
//! 4884, 4950).
//!
//! Called by: `demux`.

use wire::checksum::Sum;

use super::carrier::{Carrier, Checksum};
use super::ip;
use crate::data::{Cut, Data, Done};
use crate::hex;
use crate::print::{Printer, put};
use crate::text::{Names, name};

const CHECKSUM_AT: usize = 2;

/// The offset of the packet that an error quotes.
const QUOTE_AT: usize = 8;

/// The smallest offset at which extensions may begin (RFC 4884 section 5.5).
const EXTENSIONS_AT: usize = 136;

const KINDS: Names = &[
    (0, "echo reply"),
    (4, "source quench"),
    (8, "echo request"),
    (10, "router solicitation"),
    (13, "time stamp request"),
    (14, "time stamp reply"),
    (15, "information request"),
    (16, "information reply"),
    (17, "address mask request"),
];

/// The text after the address of a destination unreachable message, by code.
const UNREACHABLE: Names = &[
    (5, " unreachable - source route failed"),
    (6, " unreachable - unknown"),
    (7, " unreachable - unknown"),
    (8, " unreachable - source host isolated"),
    (9, " unreachable - admin prohibited"),
    (10, " unreachable - admin prohibited"),
    (11, " unreachable - tos prohibited"),
    (12, " unreachable - tos prohibited"),
    (13, " unreachable - admin prohibited filter"),
    (14, " unreachable - host precedence violation"),
    (15, " unreachable - precedence cutoff"),
];

const EXTENSIONS: Names = &[(1, "MPLS Stack Entry"), (2, "Interface Identification")];

pub(super) fn print(p: &mut Printer, data: Data<'_>, carrier: &Carrier) -> Done {
    p.protocol = "icmp";
    let (kind, code) = (data.u8(0)?, data.u8(1)?);
    let Some(what) = message(data, kind, code)? else {
        p.cut();
        return Ok(());
    };
    put!(p, "ICMP {what}, length {}", data.len);
    if !p.is_verbose() {
        return Ok(());
    }
    if !carrier.is_fragment
        && let Ok(whole) = data.get(0, data.len)
        && let Some(sum) = Checksum::of(whole, CHECKSUM_AT, Sum::ZERO)
        && !sum.is_right
    {
        put!(p, " (wrong icmp cksum {:x} (->{:x})!)", sum.has, sum.ought);
    }
    if matches!(kind, 3 | 4 | 5 | 11 | 12) {
        p.out.push_str("\n\t");
        let quote = data.skip(QUOTE_AT);
        let len = usize::from(quote.u16(2)?);
        p.deeper(|p| ip(p, quote.within(len)))?;
    }
    p.protocol = "icmp";
    if matches!(kind, 3 | 11 | 12) && data.len > EXTENSIONS_AT {
        extensions(p, data)?;
    }
    Ok(())
}

/// The text of a message; `None` if the quoted packet is cut off.
fn message(data: Data<'_>, kind: u8, code: u8) -> Result<Option<String>, Cut> {
    Ok(Some(match kind {
        0 | 8 => {
            let which = if kind == 8 { "request" } else { "reply" };
            format!("echo {which}, id {}, seq {}", data.u16(4)?, data.u16(6)?)
        }
        3 if code == 3 && !data.has(QUOTE_AT + 9, 1) => return Ok(None),
        3 => unreachable(data, code)?,
        5 => {
            let (to, gateway) = (data.v4(QUOTE_AT + 16)?, data.v4(4)?);
            match code {
                0 => format!("redirect {to} to net {gateway}"),
                1 => format!("redirect {to} to host {gateway}"),
                2 => format!("redirect-tos {to} to net {gateway}"),
                3 => format!("redirect-tos {to} to host {gateway}"),
                code => format!("redirect-#{code} {to} to {gateway}"),
            }
        }
        9 => match router_advertisement(data) {
            Ok(text) => text,
            Err(Cut) => return Ok(None),
        },
        11 if !data.has(QUOTE_AT + 16, 4) => return Ok(None),
        11 => match code {
            0 => "time exceeded in-transit".to_owned(),
            1 => "ip reassembly time exceeded".to_owned(),
            code => format!("time exceeded-#{code}"),
        },
        12 if code != 0 => format!("parameter problem - code {code}"),
        12 => format!("parameter problem - octet {}", data.u8(4)?),
        13 => format!("time stamp query id {} seq {}", data.u16(4)?, data.u16(6)?),
        14 if !data.has(16, 4) => return Ok(None),
        14 => {
            let at = |at| data.u32(at).map(milliseconds);
            let (id, seq) = (data.u16(4)?, data.u16(6)?);
            let (origin, received, sent) = (at(8)?, at(12)?, at(16)?);
            format!(
                "time stamp reply id {id} seq {seq}: org {origin}, recv {received}, xmit {sent}"
            )
        }
        18 => format!("address mask is 0x{:08x}", data.u32(8)?),
        _ => name(KINDS, kind, "type-#{}"),
    }))
}

fn unreachable(data: Data<'_>, code: u8) -> Result<String, Cut> {
    let to = data.v4(QUOTE_AT + 16);
    Ok(match code {
        0 => format!("net {} unreachable", to?),
        1 => format!("host {} unreachable", to?),
        2 => format!("{} protocol {} unreachable", to?, data.u8(QUOTE_AT + 9)?),
        3 => {
            let header_len = usize::from(data.u8(QUOTE_AT)? & 15) * 4;
            let port = data.u16(QUOTE_AT + header_len + 2)?;
            match data.u8(QUOTE_AT + 9)? {
                6 => format!("{} tcp port {port} unreachable", to?),
                17 => format!("{} udp port {port} unreachable", to?),
                protocol => format!("{} protocol {protocol} port {port} unreachable", to?),
            }
        }
        4 => match data.u16(6)? {
            0 => format!("{} unreachable - need to frag", to?),
            mtu => format!("{} unreachable - need to frag (mtu {mtu})", to?),
        },
        _ => {
            let whose = match code {
                6 | 9 | 11 => "net ",
                7 | 10 | 12..=15 => "host ",
                _ => "",
            };
            format!("{whose}{}{}", to?, name(UNREACHABLE, code, " unreachable - #{}"))
        }
    })
}

/// The text of routers and their preference (RFC 1256).
fn router_advertisement(data: Data<'_>) -> Result<String, Cut> {
    data.get(4, 4)?;
    let lifetime = data.u16(6)?;
    let (hours, minutes, seconds) = (lifetime / 3600, lifetime % 3600 / 60, lifetime % 60);
    let lifetime = match (hours, minutes) {
        (0, 0) => format!("{seconds}"),
        (0, minutes) => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    };
    let (count, size) = (data.u8(4)?, data.u8(5)?);
    let mut text = format!("router advertisement lifetime {lifetime} {count}:");
    if size != 2 {
        text += &format!(" [size {size}]");
        return Ok(text);
    }
    for router in 0..usize::from(count) {
        let at = 8 + router * 8;
        text += &format!(" {{{} {}}}", data.v4(at)?, data.u32(at + 4)?);
    }
    Ok(text)
}

/// The text of a time of day that is given in milliseconds since midnight.
fn milliseconds(time: u32) -> String {
    let seconds = time / 1000;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{:03}", seconds % 60, time % 1000)
}

/// Print the extensions after the quoted packet (RFC 4884).
fn extensions(p: &mut Printer, data: Data<'_>) -> Done {
    let here = data.skip(EXTENSIONS_AT);
    data.get(0, EXTENSIONS_AT + 4)?;
    let whole = here.get(0, data.len - EXTENSIONS_AT).ok();
    let sum = whole.and_then(|whole| Checksum::of(whole, CHECKSUM_AT, Sum::ZERO));
    // Not all senders set the length. If it is 0, a right checksum shows that there are extensions.
    if data.u8(5)? == 0 && sum.is_some_and(|sum| !sum.is_right) {
        return Ok(());
    }
    let version = here.u8(0)? >> 4;
    put!(p, "\n\tICMP Multi-Part extension v{version}");
    if version != 2 {
        p.out.push_str(" packet not supported");
        return Ok(());
    }
    if let Some(sum) = sum {
        let wrong = if sum.is_right { "" } else { "in" };
        put!(p, ", checksum 0x{:04x} ({wrong}correct), length {}", sum.has, here.len);
    }
    let mut rest = here.skip(4);
    while rest.len > 4 {
        let (len, class, kind) = (usize::from(rest.u16(0)?), rest.u8(2)?, rest.u8(3)?);
        let what = name(EXTENSIONS, class, "unknown");
        put!(p, "\n\t  {what} Object ({class}), Class-Type: {kind}, length {len}");
        if class == 0 || len < 4 {
            return Ok(());
        }
        let object = rest.skip(4);
        if (class, kind) == (1, 1) {
            let entry = object.u32(0)?;
            put!(p, "\n\t    label {}, tc {}", entry >> 12, entry >> 9 & 7);
            p.out.push_str(if entry & 0x100 != 0 { ", [S]" } else { "" });
            put!(p, ", ttl {}", entry & 0xff);
        } else {
            let bytes = object.within(len - 4).bytes;
            hex::only_indented(&mut p.out, "\n\t    ", bytes);
        }
        if rest.len < len {
            break;
        }
        rest = rest.skip(len);
    }
    Ok(())
}
