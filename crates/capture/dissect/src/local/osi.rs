//! OSI network layers, chosen by their identifier. For IS-IS (ISO 10589) the kind of message and
//! its sender are printed, for others only the name.
//!
//! Called by: link layers, GRE, MPLS.

use crate::data::{Cut, Data, Done};
use crate::hex;
use crate::link;
use crate::net;
use crate::print::{Printer, put};
use crate::text::{Names, name};

const COMMON_LEN: usize = 8;

const MESSAGES: Names = &[
    (15, "L1 Lan IIH"),
    (16, "L2 Lan IIH"),
    (17, "p2p IIH"),
    (18, "L1 LSP"),
    (20, "L2 LSP"),
    (24, "L1 CSNP"),
    (25, "L2 CSNP"),
    (26, "L1 PSNP"),
    (27, "L2 PSNP"),
];

pub(crate) fn print(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "isoclns";
    let id = data.u8(0)?;
    if p.style.link {
        put!(p, "OSI NLPID {} (0x{id:02x}): ", name(link::NLPIDS, id, "Unknown"));
    }
    let between = if p.style.link { "" } else { ", " };
    match id {
        0x83 => {
            if !is_is(p, data)? {
                hex::only_indented(&mut p.out, "\n\t", data.bounded().bytes);
            }
        }
        0x00 => put!(p, "{between}length: {}", data.len),
        0xcc => net::ip(p, data.skip(1))?,
        0x8e => net::ip6(p, data.skip(1))?,
        0xcf => {
            p.deeper(|p| link::ppp(p, data.skip(1)))?;
        }
        0x08 | 0x81 | 0x82 => {
            let what = name(link::NLPIDS, id, "OSI");
            put!(p, "{what}, length {}", data.len);
        }
        _ => {
            if !p.style.link {
                put!(p, "OSI NLPID 0x{id:02x} unknown");
            }
            put!(p, "{between}length: {}", data.len);
            if data.len > 1 {
                hex::only_indented(&mut p.out, "\n\t", data.bounded().bytes);
            }
        }
    }
    Ok(())
}

/// A system, LAN or LSP identifier as text in IS-IS notation.
fn id_text(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (at, byte) in bytes.iter().enumerate() {
        text += match at {
            2 | 4 | 6 => ".",
            7 => "-",
            _ => "",
        };
        text += &format!("{byte:02x}");
    }
    text
}

/// Print IS-IS. False if it is invalid and should be shown in hex.
fn is_is(p: &mut Printer, data: Data<'_>) -> Result<bool, Cut> {
    p.protocol = "isis";
    if !data.has(0, COMMON_LEN) || data.len < COMMON_LEN {
        p.cut();
        return Ok(true);
    }
    if !p.style.link {
        p.out.push_str("IS-IS");
    }
    let fixed = usize::from(data.u8(1)?);
    let wrong = match (data.u8(2)?, data.u8(3)?, data.u8(5)?, data.u8(7)?) {
        (version, ..) if version != 1 => format!("version {version} packet not supported"),
        (_, len, ..) if len != 6 && len != 0 => {
            format!("system ID length of {len} is not supported")
        }
        (_, _, version, _) if version != 1 => format!("version {version} packet not supported"),
        _ if data.len < fixed => {
            format!("fixed header length {fixed} > packet length {}", data.len)
        }
        _ if fixed < COMMON_LEN => {
            format!("fixed header length {fixed} < minimum header size {COMMON_LEN}")
        }
        (.., 255) => "bad packet -- 255 areas".to_owned(),
        _ => String::new(),
    };
    if !wrong.is_empty() {
        p.out.push_str(&wrong);
        return Ok(false);
    }
    let kind = data.u8(4)? & 0x1f;
    let between = if p.style.link { "" } else { ", " };
    if p.is_verbose() {
        put!(p, "{between}length {}", data.len);
        let what = name(MESSAGES, kind, "unknown, type {}");
        put!(p, "\n\t{what}, hlen: {fixed}, v: 1, pdu-v: 1, sys-id-len: 6 ({})", data.u8(3)?);
        let areas = data.u8(7)?;
        let most = if areas == 0 { 3 } else { areas };
        put!(p, ", max-area: {most} ({areas})");
        return Ok(true);
    }
    put!(p, "{between}{}", name(MESSAGES, kind, "unknown PDU-Type {}"));
    message(p, data, kind, fixed)
}

fn message(p: &mut Printer, data: Data<'_>, kind: u8, fixed: usize) -> Result<bool, Cut> {
    // The header length that this kind of message must have, and how tcpdump reports a wrong one.
    let (len, wrong) = match kind {
        15 | 16 => (27, (27, ", ")),
        17 => (20, (20, ", ")),
        18 | 20 => (27, (19, ", ")),
        24 | 25 => (33, (33, ", ")),
        26 | 27 => (17, (17, "- ")),
        _ => {
            put!(p, ", length {}", data.len);
            return Ok(true);
        }
    };
    if fixed != len {
        let (said, before) = wrong;
        put!(p, "{before}bogus fixed header length {fixed} should be {said}");
        return Ok(false);
    }
    if !data.has(0, len) || data.len < len {
        p.cut();
        return Ok(true);
    }
    match kind {
        15 | 16 => {
            put!(p, ", src-id {}", id_text(data.get(9, 6)?));
            put!(p, ", lan-id {}, prio {}", id_text(data.get(20, 7)?), data.u8(19)?);
        }
        17 => put!(p, ", src-id {}", id_text(data.get(9, 6)?)),
        18 | 20 => {
            let id = id_text(data.get(12, 8)?);
            put!(p, ", lsp-id {id}, seq 0x{:08x}, lifetime {:5}s", data.u32(20)?, data.u16(10)?);
        }
        _ => put!(p, ", src-id {}", id_text(data.get(10, 7)?)),
    }
    put!(p, ", length {}", data.len);
    Ok(true)
}
