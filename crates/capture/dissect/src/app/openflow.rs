//! OpenFlow: prints the header of each message in a segment, with the message names of versions 1.0
//! and 1.3.
//!
//! Called by: `app`. The content of messages is not printed.

use crate::data::{Cut, Data, Done};
use crate::print::{Printer, put};
use crate::text::{Names, find, name};

const HEADER_LEN: usize = 8;

const VERSIONS: Names = &[(1, "1.0"), (2, "1.1"), (3, "1.2"), (4, "1.3"), (5, "1.4"), (6, "1.5")];

const MESSAGES_10: Names = &[
    (0, "HELLO"),
    (1, "ERROR"),
    (2, "ECHO_REQUEST"),
    (3, "ECHO_REPLY"),
    (4, "VENDOR"),
    (5, "FEATURES_REQUEST"),
    (6, "FEATURES_REPLY"),
    (7, "GET_CONFIG_REQUEST"),
    (8, "GET_CONFIG_REPLY"),
    (9, "SET_CONFIG"),
    (10, "PACKET_IN"),
    (11, "FLOW_REMOVED"),
    (12, "PORT_STATUS"),
    (13, "PACKET_OUT"),
    (14, "FLOW_MOD"),
    (15, "PORT_MOD"),
    (16, "STATS_REQUEST"),
    (17, "STATS_REPLY"),
    (18, "BARRIER_REQUEST"),
    (19, "BARRIER_REPLY"),
    (20, "QUEUE_GET_CONFIG_REQUEST"),
    (21, "QUEUE_GET_CONFIG_REPLY"),
];

const MESSAGES_13: Names = &[
    (0, "HELLO"),
    (1, "ERROR"),
    (2, "ECHO_REQUEST"),
    (3, "ECHO_REPLY"),
    (4, "EXPERIMENTER"),
    (5, "FEATURES_REQUEST"),
    (6, "FEATURES_REPLY"),
    (7, "GET_CONFIG_REQUEST"),
    (8, "GET_CONFIG_REPLY"),
    (9, "SET_CONFIG"),
    (10, "PACKET_IN"),
    (11, "FLOW_REMOVED"),
    (12, "PORT_STATUS"),
    (13, "PACKET_OUT"),
    (14, "FLOW_MOD"),
    (15, "GROUP_MOD"),
    (16, "PORT_MOD"),
    (17, "TABLE_MOD"),
    (18, "MULTIPART_REQUEST"),
    (19, "MULTIPART_REPLY"),
    (20, "BARRIER_REQUEST"),
    (21, "BARRIER_REPLY"),
    (22, "QUEUE_GET_CONFIG_REQUEST"),
    (23, "QUEUE_GET_CONFIG_REPLY"),
    (24, "ROLE_REQUEST"),
    (25, "ROLE_REPLY"),
    (26, "GET_ASYNC_REQUEST"),
    (27, "GET_ASYNC_REPLY"),
    (28, "SET_ASYNC"),
    (29, "METER_MOD"),
];

pub(super) fn print(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "openflow";
    p.out.push_str(": OpenFlow");
    let mut rest = data;
    while rest.len > 0 {
        let version = rest.u8(0)?;
        put!(p, "\n\tversion {}", name(VERSIONS, version, "unknown (0x{02x})"));
        let Some(length) = header(p, rest, version)? else { return Ok(()) };
        if length < HEADER_LEN {
            p.invalid();
            return if rest.here() < rest.len { Err(Cut) } else { Ok(()) };
        }
        // The rest of the message is in another segment. Segments are not joined, so it is not
        // printed.
        if length > rest.len {
            rest.get(0, length)?;
            break;
        }
        rest.get(0, length)?;
        rest = rest.skip(length);
    }
    Ok(())
}

/// Print type, length and transaction ID. `None` if the segment ends within them.
fn header(p: &mut Printer, data: Data<'_>, version: u8) -> Result<Option<usize>, Cut> {
    let ends = |p: &mut Printer| {
        p.out.push_str(" (end of TCP payload)");
        if data.here() < data.len { Err(Cut) } else { Ok(None) }
    };
    if data.len < 2 {
        return ends(p);
    }
    let kind = data.u8(1)?;
    let messages = match version {
        1 => MESSAGES_10,
        4 => MESSAGES_13,
        _ => &[],
    };
    match find(messages, kind) {
        Some(what) => put!(p, ", type {what}"),
        None => put!(p, ", type unknown (0x{kind:02x})"),
    }
    if data.len < 4 {
        return ends(p);
    }
    let length = usize::from(data.u16(2)?);
    let short = if length < HEADER_LEN { " (too short!)" } else { "" };
    put!(p, ", length {length}{short}");
    if data.len < 8 {
        return ends(p);
    }
    put!(p, ", xid 0x{:08x}", data.u32(4)?);
    Ok(Some(length))
}
