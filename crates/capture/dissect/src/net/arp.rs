//! ARP, RARP and inverse ARP, with hardware addresses of any length, and over ATM (RFC 826, 903,
//! 2390, 2225).
//!
//! Called by: `link`.

use crate::data::{Cut, Data, Done, Mac};
use crate::names::ethertype_name;
use crate::print::{Printer, put};
use crate::text::{Names, name};

const OPERATIONS: Names = &[
    (1, "Request"),
    (2, "Reply"),
    (3, "Reverse Request"),
    (4, "Reverse Reply"),
    (8, "Inverse Request"),
    (9, "Inverse Reply"),
    (10, "NACK Reply"),
];

const HARDWARE: Names = &[
    (1, "Ethernet"),
    (6, "TokenRing"),
    (7, "ArcNet"),
    (15, "FrameRelay"),
    (23, "Strip"),
    (24, "IEEE 1394"),
    (19, "ATM"),
    (32, "InfiniBand"),
];

const ATM: u16 = 19;
const FRAME_RELAY: u16 = 15;
const IPV4: u16 = 0x0800;
/// The protocol type of trailer encapsulation, whose addresses are IPv4 addresses too (RFC 893).
const TRAIL: u16 = 0x1000;

/// A protocol address as text, if it is an IPv4 address.
fn protocol_address(data: Data<'_>, at: usize, (protocol, len): (u16, u8)) -> Result<String, Cut> {
    Ok(match (protocol, len) {
        (IPV4 | TRAIL, 4) => data.v4(at)?.to_string(),
        (IPV4 | TRAIL, _) => "<wrong len>".to_owned(),
        _ => "<wrong proto type>".to_owned(),
    })
}

/// A hardware address as text; in frame relay it is printed as a DLCI.
fn hardware_address(data: Data<'_>, at: usize, len: u8, kind: u16) -> Result<String, Cut> {
    let bytes = data.get(at, usize::from(len))?;
    if kind == FRAME_RELAY && len > 0 {
        return Ok(crate::link::dlci_text(Data::new(bytes, bytes.len())));
    }
    Ok(Mac(bytes).to_string())
}

pub(crate) fn print(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "arp";
    data.get(0, 8)?;
    let (kind, protocol, operation) = (data.u16(0)?, data.u16(2)?, data.u16(6)?);
    if kind == ATM {
        return atm(p, data);
    }
    let (hardware_len, protocol_len) = (data.u8(4)?, data.u8(5)?);
    let (hl, pl) = (usize::from(hardware_len), usize::from(protocol_len));
    let [sha, spa, tha, tpa] = [8, 8 + hl, 8 + hl + pl, 8 + 2 * hl + pl];
    data.get(tpa, pl)?;
    if !p.style.link {
        p.out.push_str("ARP, ");
    }
    let is_known = matches!(protocol, IPV4 | TRAIL) && protocol_len == 4 && hardware_len != 0;
    if !is_known || p.is_verbose() {
        let kind = name(HARDWARE, kind, "Unknown Hardware ({})");
        let protocol = ethertype_name(protocol, "Unknown Protocol (0x{04x})");
        put!(p, "{kind} (len {hardware_len}), {protocol} (len {protocol_len})");
        if !p.is_verbose() {
            put!(p, ", length {}", data.len);
            return Ok(());
        }
        p.out.push_str(", ");
    }
    put!(p, "{} ", name(OPERATIONS, operation, "Unknown ({})"));
    let ip = |at| protocol_address(data, at, (protocol, protocol_len));
    let link = |at| hardware_address(data, at, hardware_len, kind);
    match operation {
        1 => {
            put!(p, "who-has {}", ip(tpa)?);
            if data.get(tha, hl)?.iter().any(|byte| *byte != 0) {
                put!(p, " ({})", link(tha)?);
            }
            put!(p, " tell {}", ip(spa)?);
        }
        2 => put!(p, "{} is-at {}", ip(spa)?, link(sha)?),
        3 | 8 => put!(p, "who-is {} tell {}", link(tha)?, link(sha)?),
        4 => put!(p, "{} at {}", link(tha)?, ip(tpa)?),
        9 => put!(p, "{} at {}", link(sha)?, ip(spa)?),
        _ => {
            p.unknown(data.bytes);
            return Ok(());
        }
    }
    put!(p, ", length {}", data.len);
    Ok(())
}

/// Print ARP over ATM, in which addresses and subaddresses each have their own length.
fn atm(p: &mut Printer, data: Data<'_>) -> Done {
    data.get(0, 12)?;
    let (kind, protocol, operation) = (data.u16(0)?, data.u16(2)?, data.u16(6)?);
    let len = |at: usize| data.u8(at).map(|len| usize::from(len & 0x3f));
    let (sha_len, ssa_len, spa_len) = (len(4)?, len(5)?, usize::from(data.u8(8)?));
    let (tha_len, tsa_len, tpa_len) = (len(9)?, len(10)?, usize::from(data.u8(11)?));
    let (sha, ssa) = (12, 12 + sha_len);
    let spa = ssa + ssa_len;
    let (tha, tsa) = (spa + spa_len, spa + spa_len + tha_len);
    let tpa = tsa + tsa_len;
    data.get(tpa, tpa_len)?;
    if !p.style.link {
        p.out.push_str("ARP, ");
    }
    let is_known = matches!(protocol, IPV4 | TRAIL) && spa_len == 4 && tpa_len == 4;
    if !is_known || p.is_verbose() {
        let kind = name(HARDWARE, kind, "Unknown Hardware ({})");
        let protocol = ethertype_name(protocol, "Unknown Protocol (0x{04x})");
        put!(p, "{kind}, {protocol} (len {spa_len}/{tpa_len})");
        if !p.is_verbose() {
            put!(p, ", length {}", data.len);
            return Ok(());
        }
        p.out.push_str(", ");
    }
    let ip = |at, len: usize, wrong: &str| -> Result<String, Cut> {
        Ok(match (protocol, len) {
            (IPV4 | TRAIL, 4) => data.v4(at)?.to_string(),
            (IPV4 | TRAIL, _) => wrong.to_owned(),
            _ => "<wrong proto type>".to_owned(),
        })
    };
    let link = |at, len, sub, sub_len| -> Result<String, Cut> {
        if len == 0 {
            return Ok("<No address>".to_owned());
        }
        let (whole, part) = (data.hardware(at, len)?, data.hardware(sub, sub_len)?);
        Ok(if sub_len > 0 { format!("{whole},{part}") } else { whole.to_string() })
    };
    put!(p, "{} ", name(OPERATIONS, operation, "Unknown ({})"));
    match operation {
        1 => {
            put!(p, "who-has {}", ip(tpa, tpa_len, "<wrong tplen>")?);
            if tha_len != 0 {
                put!(p, " ({})", link(tha, tha_len, tsa, tsa_len)?);
            }
            put!(p, " tell {}", ip(spa, spa_len, "<wrong splen>")?);
        }
        2 => {
            let from = ip(spa, spa_len, "<wrong splen>")?;
            put!(p, "{from} is-at {}", link(sha, sha_len, ssa, ssa_len)?);
        }
        8 => {
            let (to, from) = (link(tha, tha_len, tsa, tsa_len)?, link(sha, sha_len, ssa, ssa_len)?);
            put!(p, "who-is {to} tell {from}");
        }
        9 => {
            let from = link(sha, sha_len, ssa, ssa_len)?;
            put!(p, "{from}at {}", ip(spa, spa_len, "<wrong splen>")?);
        }
        10 => put!(p, "for {}", ip(spa, spa_len, "<wrong splen>")?),
        _ => {
            p.unknown(data.bytes);
            return Ok(());
        }
    }
    put!(p, ", length {}", data.len);
    Ok(())
}
