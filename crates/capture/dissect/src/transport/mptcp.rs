//! Options of Multipath TCP (RFC 8684).
//!
//! Called by: `tcp_options`.

use super::tcp::{ACK, SYN};
use crate::data::{Cut, Data};
use crate::print::{Printer, put};

const NAMES: [&str; 9] =
    ["capable", "join", "dss", "add-addr", "rem-addr", "prio", "fail", "fast-close", "unknown"];

/// Print an option. False if it is invalid.
pub(super) fn print(p: &mut Printer, option: Data<'_>, flags: u8) -> Result<bool, Cut> {
    if option.len < 3 {
        return Ok(false);
    }
    let kind = usize::from(option.u8(2)? >> 4).min(NAMES.len() - 1);
    put!(p, " {} {}", option.len, NAMES[kind]);
    match kind {
        0 => capable(p, option, flags),
        1 => join(p, option, flags),
        2 => sequence(p, option, flags),
        3 => add_address(p, option),
        4 if option.len >= 4 => {
            p.out.push_str(" id");
            for at in 3..option.len {
                put!(p, " {}", option.u8(at)?);
            }
            Ok(true)
        }
        5 if matches!(option.len, 3 | 4) => {
            let is_backup = option.u8(2)? & 1 != 0;
            p.out.push_str(if is_backup { " backup" } else { " non-backup" });
            if option.len == 4 {
                put!(p, " id {}", option.u8(3)?);
            }
            Ok(true)
        }
        6 if option.len == 12 => {
            put!(p, " seq {}", option.u64(4)?);
            Ok(true)
        }
        7 if option.len == 12 => {
            put!(p, " key 0x{:x}", option.u64(4)?);
            Ok(true)
        }
        8 => Ok(true),
        _ => Ok(false),
    }
}

fn capable(p: &mut Printer, option: Data<'_>, flags: u8) -> Result<bool, Cut> {
    let is_good = match option.len {
        4 | 12 => flags & SYN != 0,
        20 | 22 => flags & (SYN | ACK) == ACK,
        _ => false,
    };
    if !is_good {
        return Ok(false);
    }
    let version = option.u8(2)? & 15;
    if version > 1 {
        put!(p, " Unknown Version ({version})");
        return Ok(true);
    }
    put!(p, " v{version}");
    if option.u8(3)? & 0x80 != 0 {
        p.out.push_str(" csum");
    }
    if option.len >= 12 {
        put!(p, " {{0x{:x}", option.u64(4)?);
        if option.len >= 20 {
            put!(p, ",0x{:x}", option.u64(12)?);
        }
        p.out.push('}');
    }
    Ok(true)
}

fn join(p: &mut Printer, option: Data<'_>, flags: u8) -> Result<bool, Cut> {
    let is_good = match option.len {
        12 => flags & SYN != 0,
        16 => flags & (SYN | ACK) == SYN | ACK,
        24 => flags & ACK != 0,
        _ => false,
    };
    if !is_good {
        return Ok(false);
    }
    if option.len != 24 {
        p.out.push_str(if option.u8(2)? & 1 != 0 { " backup" } else { "" });
        put!(p, " id {}", option.u8(3)?);
    }
    match option.len {
        12 => put!(p, " token 0x{:x} nonce 0x{:x}", option.u32(4)?, option.u32(8)?),
        16 => put!(p, " hmac 0x{:x} nonce 0x{:x}", option.u64(4)?, option.u32(12)?),
        _ => {
            p.out.push_str(" hmac 0x");
            p.hex_digits(option.get(4, 20)?);
        }
    }
    Ok(true)
}

/// Print the data sequence signal: acknowledgment and mapping (RFC 8684 section 3.3).
fn sequence(p: &mut Printer, option: Data<'_>, flags: u8) -> Result<bool, Cut> {
    if option.len < 4 || flags & SYN != 0 {
        return Ok(false);
    }
    let what = option.u8(3)?;
    p.out.push_str(if what & 0x10 != 0 { " fin" } else { "" });
    let mut rest = option.skip(4);
    if what & 1 != 0 {
        p.out.push_str(" ack ");
        let Some(after) = number(p, rest, what & 2 != 0)? else { return Ok(false) };
        rest = after;
    }
    if what & 4 != 0 {
        p.out.push_str(" seq ");
        let Some(after) = number(p, rest, what & 8 != 0)? else { return Ok(false) };
        rest = after;
        if rest.len < 4 {
            return Ok(false);
        }
        put!(p, " subseq {}", rest.u32(0)?);
        if rest.len < 6 {
            return Ok(false);
        }
        put!(p, " len {}", rest.u16(4)?);
        rest = rest.skip(6);
        if rest.len >= 2 {
            put!(p, " csum 0x{:x}", rest.u16(0)?);
            rest = rest.skip(2);
        }
    }
    Ok(rest.len == 0)
}

/// Print a number of 8 or 4 bytes. Returns the data after it, or `None` if there are too few bytes.
fn number<'a>(p: &mut Printer, data: Data<'a>, is_long: bool) -> Result<Option<Data<'a>>, Cut> {
    let len = if is_long { 8 } else { 4 };
    if data.len < len {
        return Ok(None);
    }
    match is_long {
        true => put!(p, "{}", data.u64(0)?),
        false => put!(p, "{}", data.u32(0)?),
    }
    Ok(Some(data.skip(len)))
}

fn add_address(p: &mut Printer, option: Data<'_>) -> Result<bool, Cut> {
    let (address_len, rest) = match option.len {
        8 | 10 | 16 | 18 => (4, option.len - 8),
        20 | 22 | 28 | 30 => (16, option.len - 20),
        _ => return Ok(false),
    };
    p.out.push_str(match option.u8(2)? & 15 {
        0 => " v1",
        1 => " v1-echo",
        4 => " v0-ip4",
        6 => " v0-ip6",
        _ => " [bad version/echo]",
    });
    put!(p, " id {}", option.u8(3)?);
    match address_len {
        4 => put!(p, " {}", option.v4(4)?),
        _ => put!(p, " {}", option.v6(4)?),
    }
    let mut at = 4 + address_len;
    if rest == 2 || rest == 10 {
        put!(p, ":{}", option.u16(at)?);
        at += 2;
    }
    if rest >= 8 {
        put!(p, " hmac 0x{:x}", option.u64(at)?);
    }
    Ok(true)
}
