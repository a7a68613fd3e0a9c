//! Cisco HDLC, and SLARP, its address resolution (LINKTYPE_C_HDLC).
//!
//! Called by: `link`, `ppp`.

use crate::data::{Cut, Data};
use crate::hex;
use crate::names::ethertype_name;
use crate::net;
use crate::print::{Printer, put};
use crate::text::{Names, name};

const HEADER_LEN: usize = 4;

/// The number of bytes of SLARP, without and with the link's uptime.
const SLARP_LEN_MIN: usize = 14;
const SLARP_LEN_MAX: usize = 18;

const CASTS: Names = &[(0x0f, "unicast"), (0x8f, "bcast")];

pub(super) fn print(p: &mut Printer, data: Data<'_>) -> Result<usize, Cut> {
    p.protocol = "chdlc";
    if data.len < HEADER_LEN {
        p.cut();
        return Ok(data.here());
    }
    let kind = data.u16(2)?;
    if p.style.link {
        let cast = name(CASTS, data.u8(0)?, "0x{02x}");
        let what = ethertype_name(kind, "Unknown");
        put!(p, "{cast}, ethertype {what} (0x{kind:04x}), length {}: ", data.len);
    }
    let rest = data.skip(HEADER_LEN);
    match kind {
        0x0800 => net::ip(p, rest)?,
        0x86dd => net::ip6(p, rest)?,
        0x8035 => slarp(p, rest)?,
        0x8847 | 0x8848 => crate::net::mpls(p, rest)?,
        0xfefe => {
            if rest.len < 2 {
                p.cut();
                return Ok(data.here());
            }
            // A pad byte may precede the protocol's number.
            let has_pad = matches!(rest.u8(1)?, 0x81..=0x83);
            crate::local::osi(p, rest.skip(usize::from(has_pad)))?;
        }
        _ if !p.style.link => put!(p, "unknown CHDLC protocol (0x{kind:04x})"),
        _ => {}
    }
    Ok(HEADER_LEN)
}

fn slarp(p: &mut Printer, data: Data<'_>) -> Result<(), Cut> {
    p.protocol = "chdlc_slarp";
    put!(p, "SLARP (length: {}), ", data.len);
    if data.len < SLARP_LEN_MIN || !data.has(0, SLARP_LEN_MIN) {
        p.cut();
        return Ok(());
    }
    match data.u32(0)? {
        0 => p.out.push_str("request"),
        1 => put!(p, "reply {}/{}", data.v4(4)?, data.v4(8)?),
        2 => {
            let (mine, yours) = (data.u32(4)?, data.u32(8)?);
            put!(p, "keepalive: mineseen=0x{mine:08x}, yourseen=0x{yours:08x}");
            put!(p, ", reliability=0x{:04x}", data.u16(12)?);
            if data.len >= SLARP_LEN_MAX {
                let up = data.u32(SLARP_LEN_MIN)? / 1000;
                let (days, hours) = (up / 86_400, up / 3600 % 24);
                put!(p, ", link uptime={days}d{hours}h{}m{}s", up / 60 % 60, up % 60);
            }
        }
        code => {
            put!(p, "0x{code:02x} unknown");
            if p.style.verbose < 2 {
                hex::only_indented(&mut p.out, "\n\t", data.bounded().skip(4).bytes);
            }
        }
    }
    if data.len > SLARP_LEN_MAX && p.is_verbose() {
        put!(p, ", (trailing junk: {} bytes)", data.len - SLARP_LEN_MAX);
    }
    if p.style.verbose > 1 {
        hex::only_indented(&mut p.out, "\n\t", data.bounded().skip(4).bytes);
    }
    Ok(())
}
