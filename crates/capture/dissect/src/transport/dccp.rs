//! DCCP: the kind of a packet, and its acknowledgment number (RFC 4340, section 5).
//!
//! Called by: `net::demux`. Options are not printed, and the checksum, which covers as much as the
//! sender chooses, is not verified.

use super::ends;
use crate::data::{Data, Done};
use crate::net::carrier::Carrier;
use crate::print::{Printer, put};
use crate::text::{Names, name};

const PROTOCOL: u8 = 33;

/// The number of bytes of the header, with sequence numbers of 24 and of 48 bits.
const SHORT_LEN: usize = 12;
const LONG_LEN: usize = 16;

const KINDS: Names = &[
    (0, "DCCP-Request"),
    (1, "DCCP-Response"),
    (2, "DCCP-Data"),
    (3, "DCCP-Ack"),
    (4, "DCCP-DataAck"),
    (5, "DCCP-CloseReq"),
    (6, "DCCP-Close"),
    (7, "DCCP-Reset"),
    (8, "DCCP-Sync"),
    (9, "DCCP-SyncAck"),
];

const RESETS: Names = &[
    (0, "unspecified"),
    (1, "closed"),
    (2, "aborted"),
    (3, "no_connection"),
    (4, "packet_error"),
    (5, "option_error"),
    (6, "mandatory_error"),
    (7, "connection_refused"),
    (8, "bad_service_code"),
    (9, "too_busy"),
    (10, "bad_init_cookie"),
    (11, "aggression_penalty"),
];

pub(crate) fn print(p: &mut Printer, data: Data<'_>, carrier: &Carrier) -> Done {
    p.protocol = "dccp";
    if data.len < SHORT_LEN {
        too_short(p, data.len, SHORT_LEN);
        return Ok(());
    }
    let first = data.u8(8)?;
    let (kind, is_long) = (first >> 1 & 15, first & 1 != 0);
    let header_len = if is_long { LONG_LEN } else { SHORT_LEN };
    if data.len < header_len {
        too_short(p, data.len, header_len);
        return Ok(());
    }
    data.get(0, header_len)?;
    ends(p, carrier, PROTOCOL, Some((data.u16(0)?, data.u16(2)?)));
    p.out.push_str("DCCP");
    if p.style.quiet {
        put!(p, " {}", data.len.saturating_sub(usize::from(data.u8(4)?) * 4));
        return Ok(());
    }
    if p.is_verbose() {
        put!(p, " (CCVal {}, CsCov {})", data.u8(5)? >> 4, data.u8(5)? & 15);
    }
    put!(p, " {} ", name(KINDS, kind, "packet-type-{}"));
    let more = match kind {
        0 => 4,
        2 => 0,
        1 | 7 => 12,
        3..=9 => 8,
        _ => {
            p.invalid();
            return Ok(());
        }
    };
    if data.len < header_len + more {
        too_short(p, data.len, header_len + more);
        return Ok(());
    }
    match kind {
        0 => put!(p, "(service={}) ", data.u32(header_len)?),
        1 => put!(p, "(service={}) ", data.u32(header_len + 8)?),
        7 => {
            let code = data.u8(header_len + 8)?;
            put!(p, "(code={}) ", name(RESETS, code, "reset-code-{} (invalid)"));
        }
        _ => {}
    }
    if !matches!(kind, 0 | 2) {
        let ack = match is_long {
            true => data.u64(header_len)? & 0xffff_ffff_ffff,
            false => u64::from(data.u24(header_len + 1)?),
        };
        put!(p, "(ack={ack}) ");
    }
    Ok(())
}

fn too_short(p: &mut Printer, len: usize, least: usize) {
    put!(p, " [length {len} < {least}]");
    p.invalid();
}
