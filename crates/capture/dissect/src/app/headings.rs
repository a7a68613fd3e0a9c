//! Protocols over UDP of which little more than the kind of message is printed: RADIUS (RFC 2865,
//! 5176), sFlow version 5, the lawful interception header of Broadcom's chips, Babel (RFC 8966).
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

/// Print the word that Broadcom's chips put in front of an intercepted packet.
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

const BABEL_HEADER_LEN: usize = 4;

/// A TLV of one byte, without a length.
const BABEL_PAD_1: u8 = 0;
const BABEL_UPDATE: u8 = 8;

/// TLVs of Babel: without `-v`, and with it.
const BABEL: [(u8, &str, &str); 17] = [
    (BABEL_PAD_1, "pad1", "Pad 1"),
    (1, "padN", "Pad"),
    (2, "ack-req", "Acknowledgment Request"),
    (3, "ack", "Acknowledgment"),
    (4, "hello", "Hello"),
    (5, "ihu", "IHU"),
    (6, "router-id", "Router Id"),
    (7, "nh", "Next Hop"),
    (BABEL_UPDATE, "update", "Update"),
    (9, "route-request", "Route Request"),
    (10, "seqno-request", "Seqno Request"),
    (11, "tspc", "TS/PC"),
    (12, "hmac", "HMAC"),
    (16, "mac", "MAC"),
    (17, "pc", "PC"),
    (18, "challenge_request", "Challenge Request"),
    (19, "challenge_reply", "Challenge Reply"),
];

/// Print the names of the TLVs in a packet, and of the TLVs in its trailer.
pub(super) fn babel(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "babel";
    p.out.push_str("babel");
    data.get(0, BABEL_HEADER_LEN)?;
    match (data.u8(0)?, data.u8(1)?) {
        (42, 2) => {}
        (42, version) => {
            put!(p, " {version} unknown version");
            return Ok(());
        }
        _ => {
            p.out.push_str(" invalid header");
            return Ok(());
        }
    }
    let len = usize::from(data.u16(2)?);
    put!(p, " 2 ({len})");
    let body = data.skip(BABEL_HEADER_LEN);
    if body.len < len {
        p.invalid();
        return Ok(());
    }
    let is_valid = babel_tlvs(p, body.within(len))?;
    if is_valid && body.len > len {
        p.out.push_str(if p.is_verbose() { "\n\t----" } else { " |" });
        babel_tlvs(p, body.skip(len))?;
    }
    Ok(())
}

/// Print the names of TLVs. Prints a message and returns false if a TLV is longer than the rest of
/// the packet.
fn babel_tlvs(p: &mut Printer, data: Data<'_>) -> Result<bool, Cut> {
    let mut rest = data;
    while rest.len > 0 {
        let kind = rest.u8(0)?;
        let len = match (kind, rest.len) {
            (BABEL_PAD_1, _) => 1,
            (_, 1) => 2,
            _ => 2 + usize::from(rest.u8(1)?),
        };
        if rest.len < len {
            p.invalid();
            return Ok(false);
        }
        rest.get(0, len)?;
        let known = BABEL.iter().find(|(known, ..)| *known == kind);
        match (p.is_verbose(), known) {
            (false, Some((_, what, _))) => put!(p, " {what}"),
            (false, None) => p.out.push_str(" unknown"),
            (true, Some((_, _, what))) => put!(p, "\n\t{what}"),
            (true, None) => put!(p, "\n\tUnknown message type {kind}"),
        }
        if kind == BABEL_UPDATE {
            if len < 12 {
                p.invalid();
                return Ok(false);
            }
            let flags = rest.u8(3)?;
            p.out.push_str(if flags & 0x80 != 0 { "/prefix" } else { "" });
            p.out.push_str(if flags & 0x40 != 0 { "/id" } else { "" });
            p.out.push_str(if flags & 0x3f != 0 { "/unknown" } else { "" });
        }
        rest = rest.skip(len);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::printed_by;

    #[test]
    fn babel_is_the_names_of_what_is_in_it() {
        let hello = [4, 6, 0, 0, 0, 1, 0, 100];
        let update = [8, 10, 1, 0xc0, 24, 0, 0, 1, 0, 1, 0, 96];
        let bytes = [&[42, 2, 0, 21][..], &hello, &update, &[0], &[16, 2, 7, 7]].concat();
        let printed = |bytes: &[u8]| printed_by(babel, 0, bytes).0;
        assert_eq!(printed(&bytes), "babel 2 (21) hello update/prefix/id pad1 | mac");
        assert_eq!(printed(&[42, 2, 0, 2, 4, 9]), "babel 2 (2) (invalid)");
    }
}
