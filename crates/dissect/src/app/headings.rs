//! Protocols over UDP of which little more than the kind of message is printed: RADIUS (RFC 2865,
//! 5176), sFlow version 5, the lawful interception header of Broadcom's chips.
//!
//! Called by: `app`.

use crate::data::{Cut, Data, Done};
use crate::print::{Printer, put};
use crate::text::{Names, name};

const RADIUS_LEN: usize = 20;

const RADIUS: Names = &[
    (1, "Access-Request"),
    (2, "Access-Accept"),
    (3, "Access-Reject"),
    (4, "Accounting-Request"),
    (5, "Accounting-Response"),
    (11, "Access-Challenge"),
    (12, "Status-Server"),
    (13, "Status-Client"),
    (40, "Disconnect-Request"),
    (41, "Disconnect-ACK"),
    (42, "Disconnect-NAK"),
    (43, "CoA-Request"),
    (44, "CoA-ACK"),
    (45, "CoA-NAK"),
    (255, "Reserved"),
];

pub(super) fn radius(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "radius";
    if !data.has(0, RADIUS_LEN) || usize::from(data.u16(2)?) < RADIUS_LEN {
        p.cut();
        return Ok(());
    }
    let (code, id, len) = (data.u8(0)?, data.u8(1)?, usize::from(data.u16(2)?).min(data.len));
    let what = name(RADIUS, code, "Unknown Command");
    if !p.is_verbose() {
        put!(p, "RADIUS, {what} ({code}), id: 0x{id:02x} length: {len}");
        return Ok(());
    }
    put!(p, "RADIUS, length: {len}\n\t{what} ({code}), id: 0x{id:02x}, Authenticator: ");
    p.hex_digits(data.get(4, 16)?);
    Ok(())
}

pub(super) fn sflow(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "sflow";
    let (version, family) = (data.u32(0)?, data.u32(4)?);
    let header_len = if family == 1 { 28 } else { 40 };
    if matches!(family, 1 | 2) && data.len < header_len {
        put!(p, "sFlowv{version} [length {} < 28]", data.len);
        p.invalid();
        return Ok(());
    }
    if !data.has(0, 28) {
        p.cut();
        return Ok(());
    }
    if version != 5 {
        put!(p, "sFlow version {version} packet not supported");
        return Ok(());
    }
    match family {
        1 => put!(p, "sFlowv5, IPv4 agent {}, agent-id {}", data.v4(8)?, data.u32(12)?),
        _ => put!(p, "sFlowv5, IPv6 agent {}, agent-id {}", data.v6(8)?, data.u32(24)?),
    }
    if p.is_verbose() {
        let at = header_len - 12;
        put!(p, ", seqnum {}, uptime {}", data.u32(at)?, data.u32(at + 4)?);
        put!(p, ", samples {}", data.u32(at + 8)?);
    }
    put!(p, ", length {}", data.len);
    Ok(())
}

const DIRECTIONS: Names = &[(1, "unused"), (2, "egress"), (3, "ingress")];
const CONTENTS: Names = &[(4, "undecided"), (5, "ipv4"), (6, "ipv6"), (7, "ethernet")];
const TAGS: Names = &[(1, "single VLAN tag"), (2, "double VLAN tag"), (3, "untagged")];

/// The word that Broadcom's chips put in front of an intercepted packet.
pub(super) fn interception(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "bcm_li";
    if data.len < 4 {
        put!(p, " (length {} < 4)", data.len);
        p.invalid();
        return Ok(());
    }
    let word = data.u32(0)?;
    p.out.push_str(if p.is_verbose() { "\n    " } else { "" });
    put!(p, "BCM-LI-SHIM: direction {}", name(DIRECTIONS, word >> 29, "unknown"));
    put!(p, ", pkt-type {}", name(CONTENTS, word >> 25 & 15, "unknown"));
    put!(p, ", pkt-subtype {}", name(TAGS, word >> 22 & 7, "unknown"));
    put!(p, ", li-id {}", word & 0x3f_ffff);
    if data.here() < data.len { Err(Cut) } else { Ok(()) }
}
