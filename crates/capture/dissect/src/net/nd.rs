//! Options of neighbour discovery (RFC 4861, 4191, 6275, 8106).
//!
//! Called by: `icmp6`, with `-v`.

use core::net::Ipv6Addr;

use super::carrier::v6;
use crate::app::dns;
use crate::data::{Cut, Data};
use crate::hex;
use crate::print::{Printer, put};
use crate::text::{Names, bits, name};

const OPTIONS: Names = &[
    (1, "source link-address"),
    (2, "destination link-address"),
    (3, "prefix info"),
    (4, "redirected header"),
    (5, "mtu"),
    (25, "rdnss"),
    (31, "dnssl"),
    (7, "advertisement interval"),
    (8, "homeagent information"),
    (24, "route info"),
];

const PREFIX_FLAGS: Names = &[(0x80, "onlink"), (0x40, "auto"), (0x20, "router")];

/// The name of a router's preference (RFC 4191 section 2.1).
pub(super) fn preference(flags: u8) -> &'static str {
    ["medium", "high", "rsv", "low"][usize::from(flags >> 3 & 3)]
}

fn lifetime(seconds: u32) -> String {
    if seconds == u32::MAX { "infinity".to_owned() } else { format!("{seconds}s") }
}

/// Print a line for each option. `None` if the last option is cut off.
pub(super) fn options(p: &mut Printer, data: Data<'_>) -> Result<Option<()>, Cut> {
    let mut at = 0;
    while at < data.here() {
        if data.len <= at {
            return Ok(Some(()));
        }
        let rest = data.skip(at);
        let Ok(units) = rest.u8(1) else { return Ok(None) };
        let len = usize::from(units) * 8;
        if len == 0 || rest.here() < len {
            return Ok(None);
        }
        let option = rest.within(len);
        let kind = option.u8(0)?;
        let what = name(OPTIONS, kind, "unknown");
        put!(p, "\n\t  {what} option ({kind}), length {len} ({units}): ");
        match kind {
            1 | 2 => put!(p, "{}", option.hardware(2, len - 2)?),
            3 => prefix(p, option)?,
            4 => hex::only_indented(&mut p.out, "\n\t    ", data.within(len).bytes),
            5 => {
                let wrong = if units == 1 { "" } else { "bad option length" };
                put!(p, " {}{wrong}", option.u32(4)?);
            }
            7 => put!(p, " {}ms", option.u32(4)?),
            8 => put!(p, " preference {}, lifetime {}", option.u16(4)?, option.u16(6)?),
            24 if route(p, option)?.is_none() => return Ok(None),
            24 => {}
            25 => {
                put!(p, " lifetime {}s,", option.u32(4)?);
                for server in 0..usize::from(units - 1) / 2 {
                    put!(p, " addr: {}", option.v6(8 + server * 16)?);
                }
            }
            31 => {
                put!(p, " lifetime {}s, domain(s):", option.u32(4)?);
                let mut name_at = 8;
                while name_at < len && option.u8(name_at)? != 0 {
                    p.out.push(' ');
                    let Some(next) = dns::name(p, option, name_at) else { return Ok(None) };
                    name_at = next;
                }
            }
            _ if p.style.verbose <= 1 => {
                hex::only_indented(&mut p.out, "\n\t  ", option.skip(2).bytes);
                return Ok(Some(()));
            }
            _ => {}
        }
        if p.style.verbose > 1 {
            hex::only_indented(&mut p.out, "\n\t    ", option.skip(2).bytes);
        }
        at += len;
    }
    Ok(Some(()))
}

fn prefix(p: &mut Printer, option: Data<'_>) -> Result<(), Cut> {
    let wrong = if option.len == 32 { "" } else { "badlen" };
    let flags = bits(PREFIX_FLAGS, option.u8(3)?, ", ", "none");
    put!(p, "{}/{}{wrong}, Flags [{flags}]", option.v6(16)?, option.u8(2)?);
    put!(p, ", valid time {}", lifetime(option.u32(4)?));
    put!(p, ", pref. time {}", lifetime(option.u32(8)?));
    Ok(())
}

fn route(p: &mut Printer, option: Data<'_>) -> Result<Option<()>, Cut> {
    let mut prefix = [0; 16];
    let known = match option.len {
        8 => 0,
        16 => 8,
        24 => 16,
        _ => return Ok(None),
    };
    prefix[..known].copy_from_slice(option.get(8, known)?);
    put!(p, " {}/{}", v6(Ipv6Addr::from(prefix)), option.u8(2)?);
    put!(p, ", pref={}", preference(option.u8(3)?));
    put!(p, ", lifetime={}", lifetime(option.u32(4)?));
    Ok(Some(()))
}
