//! Multicast listener discovery, both versions (RFC 2710, 3810).
//!
//! Called by: `icmp6`.

use crate::data::{Data, Done};
use crate::print::{Printer, put};
use crate::text::{Names, name};

const RECORDS: Names =
    &[(1, "is_in"), (2, "is_ex"), (3, "to_in"), (4, "to_ex"), (5, "allow"), (6, "block")];

/// A group, and the maximum response delay.
pub(super) fn group(p: &mut Printer, data: Data<'_>) -> Done {
    if data.has(0, 24) {
        put!(p, "max resp delay: {} addr: {}", data.u16(4)?, data.v6(8)?);
    }
    Ok(())
}

/// A number with three bits of exponent and a mantissa, if its first bit is set.
fn unpacked(code: u32, mantissa_bits: u32) -> u32 {
    if code >> (mantissa_bits + 3) == 0 {
        return code;
    }
    let mantissa = code & ((1 << mantissa_bits) - 1) | 1 << mantissa_bits;
    mantissa << ((code >> mantissa_bits & 7) + 3)
}

pub(super) fn query(p: &mut Printer, data: Data<'_>) -> Done {
    let delay = unpacked(data.u16(4)?.into(), 12);
    if p.is_verbose() {
        put!(p, " [max resp delay={delay}]");
    }
    put!(p, " [gaddr {}", data.v6(8)?);
    if p.is_verbose() {
        let flags = data.u8(24)?;
        if flags & 8 != 0 {
            p.out.push_str(" sflag");
        }
        if flags & 7 != 0 {
            put!(p, " robustness={}", flags & 7);
        }
        put!(p, " qqi={}", unpacked(data.u8(25)?.into(), 4));
    }
    let count = usize::from(data.u16(26)?);
    if count > 0 {
        if data.len < 28 + count * 16 {
            p.out.push_str(" [invalid number of sources]");
        } else if p.style.verbose > 1 {
            p.out.push_str(" {");
            for source in 0..count {
                put!(p, " {}", data.v6(28 + source * 16)?);
            }
            p.out.push_str(" }");
        } else {
            put!(p, ", {count} source(s)");
        }
    }
    p.out.push(']');
    Ok(())
}

pub(super) fn report(p: &mut Printer, data: Data<'_>) -> Done {
    if data.len < 8 {
        put!(p, " [invalid len {}]", data.len);
        return Ok(());
    }
    let count = data.u16(6)?;
    put!(p, ", {count} group record(s)");
    if !p.is_verbose() {
        return Ok(());
    }
    let mut at = 8;
    for _ in 0..count {
        if data.len < at + 20 {
            p.out.push_str(" [invalid number of groups]");
            return Ok(());
        }
        put!(p, " [gaddr {}", data.v6(at + 4)?);
        put!(p, " {}", name(RECORDS, data.u8(at)?, " [v2-report-#{}]"));
        let sources = usize::from(data.u16(at + 2)?);
        if data.len < at + 20 + sources * 16 {
            put!(p, " [invalid number of sources {sources}]");
            return Ok(());
        }
        if p.style.verbose == 1 {
            put!(p, ", {sources} source(s)");
        } else {
            p.out.push_str(" {");
            for source in 0..sources {
                put!(p, " {}", data.v6(at + 20 + source * 16)?);
            }
            p.out.push_str(" }");
        }
        at += 20 + sources * 16;
        p.out.push(']');
    }
    Ok(())
}
