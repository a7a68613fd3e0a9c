//! Node information queries (RFC 4620) and router renumbering (RFC 2894).
//!
//! Called by: `icmp6`.

use crate::data::{Data, Done};
use crate::print::{Printer, put};
use crate::text::{Names, name};

const HEADER_LEN: usize = 16;

/// The kinds of a node's addresses, each with the letter that is printed for it.
const ADDRESSES: [(u16, char); 7] =
    [(0x40, 'a'), (0x20, 'G'), (0x10, 'S'), (0x08, 'L'), (0x04, 'C'), (0x02, 'A'), (0x01, 'T')];

pub(super) fn print(p: &mut Printer, data: Data<'_>) -> Done {
    match data.u8(0)? {
        139 if data.here() == 12 => {
            p.out.push_str(" who-are-you request");
            Ok(())
        }
        139 => query(p, data),
        _ => reply(p, data),
    }
}

fn addresses(p: &mut Printer, flags: u16, known: &[(u16, char)]) {
    if flags != 0 {
        let letters = known.iter().filter(|(bit, _)| flags & bit != 0);
        let letters: String = letters.map(|(_, letter)| *letter).collect();
        put!(p, " [{letters}]");
    }
}

fn query(p: &mut Printer, data: Data<'_>) -> Done {
    p.out.push_str(" node information query");
    if !data.has(0, HEADER_LEN) {
        p.cut();
        return Ok(());
    }
    let (kind, flags) = (data.u16(4)?, data.u16(6)?);
    p.out.push_str(" (");
    match kind {
        0 => p.out.push_str("noop"),
        1 => {
            p.out.push_str("supported qtypes");
            if flags != 0 {
                p.out.push_str(if flags & 1 != 0 { " [C]" } else { " []" });
            }
        }
        2 => p.out.push_str("DNS name"),
        3 => {
            p.out.push_str("node addresses");
            addresses(p, flags, &ADDRESSES[..6]);
        }
        _ => p.out.push_str("unknown"),
    }
    let here = data.here();
    if kind < 2 {
        if here != HEADER_LEN && p.is_verbose() {
            p.out.push_str(", invalid len");
        }
        p.out.push(')');
        return Ok(());
    }
    if here == HEADER_LEN {
        p.out.push_str(", 03 draft)");
        return Ok(());
    }
    let code = data.u8(1)?;
    match code {
        0 | 2 => {
            let len = if code == 0 { 16 } else { 4 };
            if here > HEADER_LEN + len {
                if p.is_verbose() {
                    p.out.push_str(", invalid subject len");
                }
            } else if here >= HEADER_LEN + len && code == 0 {
                put!(p, ", subject={}", data.v6(HEADER_LEN)?);
            } else if here >= HEADER_LEN + len {
                put!(p, ", subject={}", data.v4(HEADER_LEN)?);
            }
        }
        1 => {
            p.out.push_str(", subject=DNS name");
            subject(p, data, HEADER_LEN)?;
        }
        _ => p.out.push_str(", unknown subject"),
    }
    p.out.push(')');
    Ok(())
}

/// Print a name: as labels or, as in old drafts, as text that follows its length.
fn subject(p: &mut Printer, data: Data<'_>, at: usize) -> Done {
    let len = usize::from(data.u8(at)?);
    p.out.push_str(if p.is_verbose() && len + at + 1 == data.here() { ", 03 draft" } else { "" });
    if len + at + 1 == data.here() {
        p.out.push_str(", \"");
        p.chars(&data.bytes[at + 1..]);
        p.out.push('"');
        return Ok(());
    }
    p.out.push_str(", \"");
    let bytes = data.bytes;
    let mut at = at;
    while at < bytes.len() {
        let len = usize::from(bytes[at]);
        at += 1;
        if len == 0 {
            match bytes.len() - at {
                0 => p.out.push('.'),
                1 if bytes[at] == 0 => {}
                _ => p.out.push_str("???"),
            }
            break;
        }
        if len > bytes.len() - at {
            p.out.push_str("???");
            break;
        }
        p.chars(&bytes[at..at + len]);
        at += len;
        if at + 1 < bytes.len() && bytes[at] != 0 {
            p.out.push('.');
        }
    }
    p.out.push('"');
    Ok(())
}

fn reply(p: &mut Printer, data: Data<'_>) -> Done {
    if data.len > data.here() || !data.has(0, HEADER_LEN) {
        p.cut();
        return Ok(());
    }
    p.out.push_str(" node information reply (");
    let (code, kind, flags) = (data.u8(1)?, data.u16(4)?, data.u16(6)?);
    if code != 0 {
        p.out.push_str(match code {
            1 => "refused",
            2 => "unknown",
            _ => "",
        });
        if matches!(code, 1 | 2) && data.here() != HEADER_LEN && p.is_verbose() {
            p.out.push_str(", invalid length");
        }
        p.out.push(')');
        return Ok(());
    }
    p.out.push_str(if p.is_verbose() { "success, " } else { "" });
    match kind {
        0 => {
            p.out.push_str("noop");
            if data.here() != HEADER_LEN && p.is_verbose() {
                p.out.push_str(", invalid length");
            }
        }
        1 => {
            p.out.push_str("supported qtypes");
            if flags != 0 {
                p.out.push_str(if flags & 1 != 0 { " [C]" } else { " []" });
            }
        }
        2 => {
            p.out.push_str("DNS name");
            subject(p, data, HEADER_LEN + 4)?;
            if flags & 1 != 0 {
                put!(p, " [TTL={}]", data.u32(HEADER_LEN)?);
            }
        }
        3 => {
            p.out.push_str("node addresses");
            let mut at = HEADER_LEN;
            while at + 20 <= data.here() {
                put!(p, " {}({})", data.v6(at + 4)?, data.u32(at)?);
                at += 20;
            }
            addresses(p, flags, &ADDRESSES);
        }
        _ => p.out.push_str("unknown"),
    }
    p.out.push(')');
    Ok(())
}

const RENUMBERING: Names = &[(0, "command"), (1, "result"), (255, "sequence number reset")];
const OPERATIONS: Names = &[(1, "add"), (2, "change"), (3, "setglobal")];

/// Print router renumbering: operations on matching prefixes.
pub(super) fn renumbering(p: &mut Printer, data: Data<'_>) -> Done {
    if !data.has(12, 4) {
        p.cut();
        return Ok(());
    }
    let code = data.u8(1)?;
    put!(p, ", {}, seq={}", name(RENUMBERING, code, "code-#{}"), data.u32(4)?);
    if p.is_verbose() {
        let flags = data.u8(9)?;
        let letters = [(0x80, 'T'), (0x40, 'R'), (0x20, 'A'), (0x10, 'S'), (0x08, 'P')];
        p.out.push('[');
        if flags != 0 {
            p.out.extend(letters.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, l)| *l));
            p.out.push(',');
        }
        put!(p, "seg={},maxdelay={}", data.u8(8)?, data.u16(10)?);
        if data.u32(12)? != 0 {
            put!(p, "rsvd=0x{:x}", data.u32(12)?);
        }
        p.out.push(']');
    }
    if code != 0 {
        return Ok(());
    }
    let rule = data.skip(16);
    if !rule.has(8, 16) {
        p.cut();
        return Ok(());
    }
    p.out.push_str(if p.style.verbose > 1 { "\n\t" } else { " " });
    put!(p, "match({}", name(OPERATIONS, rule.u8(0)?, "#{}"));
    if p.is_verbose() {
        put!(p, ",ord={},min={},max={}", rule.u8(2)?, rule.u8(4)?, rule.u8(5)?);
    }
    put!(p, ",{}/{})", rule.v6(8)?, rule.u8(3)?);
    let left = i32::from(rule.u8(1)?) - 3;
    if left % 4 != 0 {
        p.cut();
        return Ok(());
    }
    for part in 0..usize::try_from(left / 4).unwrap_or(0) {
        if !use_of(p, rule.skip(24 + part * 32))? {
            p.cut();
            return Ok(());
        }
    }
    Ok(())
}

/// Print the part of an operation that says how a matching prefix is used. False if it is cut off.
fn use_of(p: &mut Printer, data: Data<'_>) -> Result<bool, crate::data::Cut> {
    if !data.has(16, 16) {
        return Ok(false);
    }
    p.out.push_str(if p.style.verbose > 1 { "\n\t" } else { " " });
    p.out.push_str("use(");
    if data.u8(12)? != 0 {
        p.out.push(',');
    }
    if p.is_verbose() {
        let time = |at| -> Result<String, crate::data::Cut> {
            let time = data.u32(at)?;
            Ok(if time == u32::MAX { "infty".to_owned() } else { time.to_string() })
        };
        put!(p, "mask=0x{:x},raflags=0x{:x},", data.u8(2)?, data.u8(3)?);
        put!(p, "vltime={},pltime={},", time(4)?, time(8)?);
    }
    put!(p, "{}/{}/{})", data.v6(16)?, data.u8(0)?, data.u8(1)?);
    Ok(true)
}
