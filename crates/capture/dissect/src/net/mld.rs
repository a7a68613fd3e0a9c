//! Multicast listener discovery, both versions (RFC 2710, 3810).
//!
//! Called by: `icmp6`.

use super::igmp;
use crate::data::{Data, Done};
use crate::print::{Printer, put};

/// Print a group, and the maximum response delay.
pub(super) fn group(p: &mut Printer, data: Data<'_>) -> Done {
    if data.has(0, 24) {
        put!(p, "max resp delay: {} addr: {}", data.u16(4)?, data.v6(8)?);
    }
    Ok(())
}

/// The value that a code stands for: if the first bit is set, the code has three bits of exponent
/// and then a mantissa; else the code is the value itself.
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
        } else {
            igmp::sources::<16>(p, data.skip(28), count)?;
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
    igmp::group_records::<16>(p, data, " [v2-report-#{}]")
}
