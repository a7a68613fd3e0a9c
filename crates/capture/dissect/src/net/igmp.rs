//! IGMP, all three versions (RFC 1112, 2236, 3376), and multicast traceroute.
//!
//! Called by: `demux`.

use wire::checksum::Sum;

use super::carrier::Checksum;
use crate::data::{Cut, Data, Done};
use crate::print::{Printer, put};
use crate::text::{Names, duration, name};

const RECORDS: Names =
    &[(1, "is_in"), (2, "is_ex"), (3, "to_in"), (4, "to_ex"), (5, "allow"), (6, "block")];

/// Messages of PIM version 1, which is carried in IGMP.
const PIM_1: Names = &[
    (0, "Query"),
    (1, "Register"),
    (2, "Register-Stop"),
    (3, "Join/Prune"),
    (4, "RP-reachable"),
    (5, "Assert"),
    (6, "Graft"),
    (7, "Graft-ACK"),
];

pub(super) fn print(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "igmp";
    if p.style.quiet {
        p.out.push_str("igmp");
        return Ok(());
    }
    let kind = data.u8(0)?;
    match kind {
        0x11 => query(p, data)?,
        0x12 => {
            put!(p, "igmp v1 report {}", data.v4(4)?);
            if data.len != 8 {
                put!(p, " [len {}]", data.len);
            }
        }
        0x16 => put!(p, "igmp v2 report {}", data.v4(4)?),
        0x22 => report(p, data)?,
        0x17 => put!(p, "igmp leave {}", data.v4(4)?),
        0x13 => put!(p, "igmp dvmrp"),
        0x14 => {
            p.protocol = "pimv1";
            put!(p, "igmp pimv1 {}", name(PIM_1, data.u8(1)?, "[type {}]"));
        }
        0x1e => trace(p, "mresp", data)?,
        0x1f => trace(p, "mtrace", data)?,
        _ => put!(p, "igmp-{kind}"),
    }
    if p.is_verbose()
        && data.len >= 4
        && let Ok(whole) = data.get(0, data.len)
        && let Some(sum) = Checksum::of(whole, 2, Sum::ZERO)
        && !sum.is_right
    {
        put!(p, " bad igmp cksum {:x}!", sum.has);
    }
    Ok(())
}

fn query(p: &mut Printer, data: Data<'_>) -> Done {
    p.out.push_str("igmp query");
    if data.len >= 12 {
        return query_3(p, data);
    }
    match data.u8(1)? {
        0 => p.out.push_str(" v1"),
        100 => p.out.push_str(" v2"),
        time => put!(p, " v2 [max resp time {time}]"),
    }
    if data.u32(4)? != 0 {
        put!(p, " [gaddr {}]", data.v4(4)?);
    }
    if data.len != 8 {
        put!(p, " [len {}]", data.len);
    }
    Ok(())
}

fn query_3(p: &mut Printer, data: Data<'_>) -> Done {
    p.out.push_str(" v3");
    if !data.len.is_multiple_of(4) {
        put!(p, " [invalid len {}]", data.len);
        return Ok(());
    }
    let code = u32::from(data.u8(1)?);
    let tenths = match code {
        0..128 => code,
        _ => (code & 15 | 16) << ((code >> 4 & 7) + 3),
    };
    if code != 100 {
        p.out.push_str(" [max resp time ");
        match tenths {
            0..600 => put!(p, "{}.{}s]", tenths / 10, tenths % 10),
            _ => put!(p, "{}]", duration(tenths / 10)),
        }
    }
    if data.u32(4)? == 0 {
        return Ok(());
    }
    put!(p, " [gaddr {}", data.v4(4)?);
    let count = usize::from(data.u16(10)?);
    if count > 0 {
        if data.len < 12 + count * 4 {
            p.out.push_str(" [invalid number of sources]");
        } else {
            sources::<4>(p, data.skip(12), count)?;
        }
    }
    p.out.push(']');
    Ok(())
}

fn report(p: &mut Printer, data: Data<'_>) -> Done {
    p.out.push_str("igmp v3 report");
    if data.len < 16 || !data.len.is_multiple_of(4) {
        put!(p, " [invalid len {}]", data.len);
        return Ok(());
    }
    group_records::<4>(p, data, " [v3-report-#{}]")
}

/// The records of a report, one for each group, with addresses of `LEN` bytes: 4 in IGMP (RFC 3376,
/// section 4.2), 16 in MLD (RFC 3810, section 5.2).
pub(super) fn group_records<const LEN: usize>(
    p: &mut Printer,
    data: Data<'_>,
    unknown: &str,
) -> Done {
    let count = data.u16(6)?;
    put!(p, ", {count} group record(s)");
    if !p.is_verbose() {
        return Ok(());
    }
    let mut rest = data.skip(8);
    for _ in 0..count {
        if rest.len < 4 + LEN {
            p.out.push_str(" [invalid number of groups]");
            return Ok(());
        }
        put!(p, " [gaddr {}", address::<LEN>(rest, 4)?);
        put!(p, " {}", name(RECORDS, rest.u8(0)?, unknown));
        let count = usize::from(rest.u16(2)?);
        rest = rest.skip(4 + LEN);
        if rest.len < count * LEN {
            put!(p, " [invalid number of sources {count}]");
            return Ok(());
        }
        sources::<LEN>(p, rest, count)?;
        rest = rest.skip(count * LEN);
        p.out.push(']');
    }
    Ok(())
}

/// Print the number of sources, or with `-vv` the sources.
pub(super) fn sources<const LEN: usize>(p: &mut Printer, data: Data<'_>, count: usize) -> Done {
    if p.style.verbose < 2 {
        put!(p, ", {count} source(s)");
        return Ok(());
    }
    p.out.push_str(" {");
    for source in 0..count {
        put!(p, " {}", address::<LEN>(data, source * LEN)?);
    }
    p.out.push_str(" }");
    Ok(())
}

fn address<const LEN: usize>(data: Data<'_>, at: usize) -> Result<String, Cut> {
    Ok(if LEN == 4 { data.v4(at)?.to_string() } else { data.v6(at)?.to_string() })
}

fn trace(p: &mut Printer, what: &str, data: Data<'_>) -> Done {
    if data.len < 24 {
        put!(p, " [invalid len {}]", data.len);
        return Ok(());
    }
    let (from, to, answer) = (data.v4(8)?, data.v4(12)?, data.v4(16)?);
    put!(p, "{what} {}: {from} to {to} reply-to {answer}", data.u24(21)?);
    if answer.is_multicast() {
        put!(p, " with-ttl {}", data.u8(20)?);
    }
    Ok(())
}
