//! TCP options with their content (RFC 9293, 7323, 2018, 7413, 8684, 5925 and others).
//!
//! Called by: `tcp`. `mptcp` prints the options of Multipath TCP.

use super::mptcp;
use crate::data::{Cut, Data};
use crate::print::{Printer, put};
use crate::text::{Names, name};

const NAMES: Names = &[
    (0, "eol"),
    (1, "nop"),
    (2, "mss"),
    (3, "wscale"),
    (4, "sackOK"),
    (5, "sack"),
    (6, "echo"),
    (7, "echoreply"),
    (8, "TS"),
    (11, "cc"),
    (12, "ccnew"),
    (13, ""),
    (19, "md5"),
    (20, "scps"),
    (28, "uto"),
    (29, "tcp-ao"),
    (30, "mptcp"),
    (34, "tfo"),
    (254, "exp"),
];

/// The number of bytes of an MD5 signature (RFC 2385).
const SIGNATURE_LEN: usize = 16;

/// The numbers that are subtracted from a segment's numbers to make them relative.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bases {
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) sack: u32,
}

/// The options of a segment.
pub(super) struct Options<'a> {
    pub(super) data: Data<'a>,
    /// The length of the options, according to the header length.
    pub(super) len: usize,
    pub(super) flags: u8,
}

/// The result of printing an option.
enum Found {
    /// This many bytes of the option's content were printed.
    Printed(usize),
    Bad,
}

/// Print the options. False if they were cut off or invalid; then nothing follows on the line.
pub(super) fn print(
    p: &mut Printer,
    options: &Options<'_>,
    segment: Data<'_>,
    bases: Bases,
) -> Result<bool, Cut> {
    let (mut at, mut is_first) = (0, true);
    while at < options.len {
        if !is_first {
            p.out.push(',');
        }
        let kind = options.data.u8(at)?;
        let len = if kind < 2 { 1 } else { usize::from(options.data.u8(at + 1)?) };
        let found = if kind >= 2 && (len < 2 || len > options.len - at) {
            Found::Bad
        } else {
            p.out.push_str(&name(NAMES, kind, "unknown-{}"));
            let content = (at + 2).min(at + len);
            match option(p, options, segment, (kind, content, len), bases) {
                Err(Cut) => {
                    // As in tcpdump, an option that is cut off ends the line.
                    p.cut();
                    p.out.push_str(if is_first { "" } else { ">" });
                    return Ok(false);
                }
                Ok(found) => found,
            }
        };
        let Found::Printed(printed) = found else {
            p.out.push_str(if is_first { "[bad opt]" } else { "[bad opt]]" });
            return Ok(false);
        };
        let header = if kind < 2 { 1 } else { 2 };
        if printed + header != len {
            put!(p, "[len {len}]");
        }
        is_first = false;
        if kind == 0 {
            break;
        }
        at += printed + header;
    }
    Ok(true)
}

/// Print the content of an option, which begins at `at`.
fn option(
    p: &mut Printer,
    options: &Options<'_>,
    segment: Data<'_>,
    (kind, at, len): (u8, usize, usize),
    bases: Bases,
) -> Result<Found, Cut> {
    let content_len = len.saturating_sub(2);
    let left = options.len - at;
    let needed = match kind {
        3 => 1,
        2 | 20 | 28 => 2,
        6 | 7 | 11..=13 => 4,
        8 => 8,
        19 => SIGNATURE_LEN,
        30 | 34 | 254 => content_len,
        _ => 0,
    };
    if needed > left {
        return Ok(Found::Bad);
    }
    options.data.get(at, needed)?;
    let data = options.data.skip(at);
    match kind {
        0 | 1 | 4 => return Ok(Found::Printed(0)),
        2 => put!(p, " {}", data.u16(0)?),
        3 => put!(p, " {}", data.u8(0)?),
        5 => return sack(p, data, content_len, bases.sack),
        6 | 7 | 11..=13 => put!(p, " {}", data.u32(0)?),
        8 => put!(p, " val {} ecr {}", data.u32(0)?, data.u32(4)?),
        19 => {
            let is_whole = segment.has(0, segment.len);
            let why = if is_whole {
                "shared secret not supplied with -M, "
            } else {
                "snaplen too short, "
            };
            put!(p, " {why}can't check - ");
            p.hex_digits(data.get(0, SIGNATURE_LEN)?);
        }
        20 => put!(p, " cap {:02x} id {}", data.u8(0)?, data.u8(1)?),
        28 => {
            let timeout = data.u16(0)?;
            let unit = if timeout & 1 != 0 { 60 } else { 1 };
            put!(p, " 0x{timeout:x} {}", u32::from(timeout >> 1) * unit);
        }
        29 => return authentication(p, data, content_len),
        30 => {
            let option = options.data.skip(at - 2).within(len);
            p.protocol = "mptcp";
            let is_good = mptcp::print(p, option, options.flags)?;
            p.protocol = "tcp";
            return Ok(if is_good { Found::Printed(content_len) } else { Found::Bad });
        }
        _ => return of_any_length(p, kind, data, content_len),
    }
    Ok(Found::Printed(needed))
}

/// Print Fast Open cookies, experiments, and unknown options.
fn of_any_length(p: &mut Printer, kind: u8, data: Data<'_>, len: usize) -> Result<Found, Cut> {
    match kind {
        34 => {
            p.out.push(' ');
            fast_open(p, data.within(len))?;
        }
        254 if len < 2 => return Ok(Found::Bad),
        254 => match data.u16(0)? {
            0xf989 => {
                p.out.push_str("-tfo");
                fast_open(p, data.within(len).skip(2))?;
            }
            magic => put!(p, "-{magic:04x}"),
        },
        _ => {
            if len > 0 {
                p.out.push_str(" 0x");
            }
            p.hex_digits(data.within(len).bytes);
            data.get(0, len)?;
        }
    }
    Ok(Found::Printed(len))
}

fn sack(p: &mut Printer, data: Data<'_>, len: usize, base: u32) -> Result<Found, Cut> {
    if !len.is_multiple_of(8) {
        p.out.push_str(" invalid sack");
        return Ok(Found::Printed(len));
    }
    put!(p, " {} ", len / 8);
    for at in (0..len).step_by(8) {
        let (from, to) = (data.u32(at)?, data.u32(at + 4)?);
        put!(p, "{{{}:{}}}", from.wrapping_sub(base), to.wrapping_sub(base));
    }
    Ok(Found::Printed(len))
}

/// Print the authentication option (RFC 5925 section 2.2).
fn authentication(p: &mut Printer, data: Data<'_>, len: usize) -> Result<Found, Cut> {
    if len < 2 {
        p.invalid();
        return Ok(Found::Printed(len));
    }
    put!(p, " keyid {}", data.u8(0)?);
    put!(p, " rnextkeyid {}", data.u8(1)?);
    if len > 2 {
        p.out.push_str(" mac 0x");
        p.hex_digits(data.within(len).skip(2).bytes);
        data.get(0, len)?;
    }
    Ok(Found::Printed(len))
}

/// Print a Fast Open cookie, or the request for one (RFC 7413 section 4.1.1).
fn fast_open(p: &mut Printer, data: Data<'_>) -> Result<(), Cut> {
    match data.len {
        0 => p.out.push_str(" cookiereq"),
        len if len % 2 != 0 || !(4..=16).contains(&len) => p.invalid(),
        len => {
            p.out.push_str(" cookie ");
            p.hex_digits(data.get(0, len)?);
        }
    }
    Ok(())
}
