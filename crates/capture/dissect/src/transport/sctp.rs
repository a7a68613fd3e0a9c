//! SCTP: its chunks (RFC 9260).
//!
//! Called by: `net::demux`. The protocol of data chunks is named but not dissected.

use crate::data::{Cut, Data, Done};
use crate::net::carrier::Carrier;
use crate::print::{Printer, put};
use crate::text::{Names, find, name};

const HEADER_LEN: usize = 12;

const CHUNKS: Names = &[
    (0x00, "DATA"),
    (0x01, "INIT"),
    (0x02, "INIT ACK"),
    (0x03, "SACK"),
    (0x04, "HB REQ"),
    (0x05, "HB ACK"),
    (0x06, "ABORT"),
    (0x07, "SHUTDOWN"),
    (0x08, "SHUTDOWN ACK"),
    (0x09, "OP ERR"),
    (0x0a, "COOKIE ECHO"),
    (0x0b, "COOKIE ACK"),
    (0x0c, "ECN ECHO"),
    (0x0d, "CWR"),
    (0x0e, "SHUTDOWN COMPLETE"),
    (0xc0, "FOR CUM TSN"),
    (0xc1, "REL CTRL"),
    (0xc2, "REL CTRL ACK"),
];

/// The names of the payload protocols of data chunks.
const PAYLOADS: Names = &[
    (1, "ISDN Q.921"),
    (2, "M2UA"),
    (3, "M3UA"),
    (4, "SUA"),
    (5, "M2PA"),
    (6, "V5.2"),
    (7, "H.248"),
    (8, "BICC"),
    (9, "TALI"),
    (10, "DUA"),
    (11, "ASAP"),
    (12, "ENRP"),
    (13, "H.323"),
    (14, "Q.IPC"),
    (15, "SIMCO"),
    (16, "DDPSC"),
    (17, "DDPSSC"),
    (18, "S1AP"),
    (19, "RUA"),
    (20, "HNBAP"),
    (21, "ForCES HP"),
    (22, "ForCES MP"),
    (23, "ForCES LP"),
    (24, "SBc-AP"),
    (25, "NBAP"),
    (27, "X2AP"),
];

/// The names of the ports of ForCES (RFC 5811).
const FORCES: Names = &[(6704, "ForCES HP"), (6705, "ForCES MP"), (6706, "ForCES LP")];

pub(crate) fn print(p: &mut Printer, data: Data<'_>, carrier: &Carrier) -> Done {
    p.protocol = "sctp";
    if data.len < HEADER_LEN {
        put!(p, "truncated-sctp - {} bytes missing!", HEADER_LEN - data.len);
        return Ok(());
    }
    if !data.has(0, HEADER_LEN) {
        p.cut();
        return Ok(());
    }
    let ((from, to), ports) = (carrier.ends(), (data.u16(0)?, data.u16(2)?));
    put!(p, "{from}.{} > {to}.{}: sctp", ports.0, ports.1);
    for port in [ports.0, ports.1] {
        if let Some(channel) = find(FORCES, port) {
            put!(p, "[{channel}]");
        }
    }
    let mut rest = data.skip(HEADER_LEN);
    let mut before = if p.style.verbose > 1 { "\n\t" } else { " (" };
    for number in 1_u32.. {
        if rest.len == 0 {
            break;
        }
        let Some(next) = chunk(p, rest, before, number)? else { break };
        rest = next;
        if p.style.verbose < 2 {
            before = ", (";
        }
    }
    Ok(())
}

/// Print a chunk. Returns the data after it, or `None` if no chunk can follow.
fn chunk<'a>(
    p: &mut Printer,
    rest: Data<'a>,
    before: &str,
    number: u32,
) -> Result<Option<Data<'a>>, Cut> {
    if rest.len < 4 {
        put!(p, "{before}{number}) [chunk descriptor cut off at end of packet]");
        return Ok(None);
    }
    if !rest.has(0, 4) {
        p.cut();
        return Ok(None);
    }
    let (kind, flags, len) = (rest.u8(0)?, rest.u8(1)?, usize::from(rest.u16(2)?));
    if len < 4 {
        put!(p, "{before}{number}) [Bad chunk length {len}, < size of chunk descriptor]");
        return Ok(None);
    }
    let padding = (4 - len % 4) % 4;
    if rest.len < padding {
        put!(p, "{before}{number}) [Bad chunk length {len}, > remaining data in packet]");
        return Ok(None);
    }
    if !rest.has(0, len) {
        p.cut();
        return Ok(None);
    }
    put!(p, "{before}{number}) [{}] ", name(CHUNKS, kind, "Unknown chunk type: 0x{x}"));
    let body = rest.within(len).skip(4);
    let is_good = match kind {
        0 => content(p, body, flags)?,
        1 | 2 => initiation(p, body)?,
        3 => acknowledgment(p, body)?,
        _ => true,
    };
    if !is_good {
        put!(p, "bogus chunk length {len}]");
        return Ok(None);
    }
    if padding > 0 && !rest.has(len, padding) {
        p.cut();
        return Ok(None);
    }
    Ok(Some(rest.skip(len + padding)))
}

fn content(p: &mut Printer, body: Data<'_>, flags: u8) -> Result<bool, Cut> {
    for (bit, letter) in [(4, "(U)"), (2, "(B)"), (1, "(E)")] {
        p.out.push_str(if flags & bit != 0 { letter } else { "" });
    }
    p.out.push_str(if flags & 7 != 0 { " " } else { "" });
    if body.len < 12 {
        return Ok(false);
    }
    put!(p, "[TSN: {}] [SID: {}] ", body.u32(0)?, body.u16(4)?);
    put!(p, "[SSEQ {}] ", body.u16(6)?);
    put!(p, "[PPID {}] ", name(PAYLOADS, body.u32(8)?, "0x{x}"));
    if body.len == 12 {
        return Ok(false);
    }
    if p.style.verbose > 1 {
        p.out.push_str("[Payload:");
        p.unknown(body.skip(12).bytes);
        p.out.push(']');
    }
    Ok(true)
}

fn initiation(p: &mut Printer, body: Data<'_>) -> Result<bool, Cut> {
    if body.len < 16 {
        return Ok(false);
    }
    put!(p, "[init tag: {}] [rwnd: {}] ", body.u32(0)?, body.u32(4)?);
    put!(p, "[OS: {}] [MIS: {}] ", body.u16(8)?, body.u16(10)?);
    put!(p, "[init TSN: {}] ", body.u32(12)?);
    Ok(true)
}

fn acknowledgment(p: &mut Printer, body: Data<'_>) -> Result<bool, Cut> {
    if body.len < 12 {
        return Ok(false);
    }
    let (cumulative, gaps, duplicates) = (body.u32(0)?, body.u16(8)?, body.u16(10)?);
    put!(p, "[cum ack {cumulative}] [a_rwnd {}] ", body.u32(4)?);
    put!(p, "[#gap acks {gaps}] [#dup tsns {duplicates}] ");
    let mut rest = body.skip(12);
    for gap in 1..=gaps {
        if rest.len < 4 {
            return Ok(rest.len == 0);
        }
        let at = |at| rest.u16(at).map(|offset| cumulative.wrapping_add(offset.into()));
        put!(p, "\n\t\t[gap ack block #{gap}: start = {}, end = {}] ", at(0)?, at(2)?);
        rest = rest.skip(4);
    }
    for duplicate in 1..=duplicates {
        if rest.len < 4 {
            return Ok(rest.len == 0);
        }
        put!(p, "\n\t\t[dup TSN #{duplicate}: {}] ", rest.u32(0)?);
        rest = rest.skip(4);
    }
    Ok(true)
}
