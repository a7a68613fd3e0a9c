//! Discovery protocols: LLDP (IEEE 802.1AB), and Cisco's CDP, DTP and UDLD.
//!
//! Called by: `link`. Without `-v` little more than the device's name is printed.

use crate::data::{Cut, Data, Done};
use crate::hex;
use crate::print::{Printer, put};
use crate::text::{Names, bits, name};

const LLDP_FIELDS: Names = &[
    (0, "End"),
    (1, "Chassis ID"),
    (2, "Port ID"),
    (3, "Time to Live"),
    (4, "Port Description"),
    (5, "System Name"),
    (6, "System Description"),
    (7, "System Capabilities"),
    (8, "Management Address"),
    (127, "Organization specific"),
];

pub(crate) fn lldp(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "lldp";
    put!(p, "LLDP, length {}", data.len);
    let mut rest = data;
    while rest.len >= 2 {
        if !rest.has(0, 2) {
            p.cut();
            return Ok(());
        }
        let word = rest.u16(0)?;
        let (kind, len) = (word >> 9, usize::from(word & 0x1ff));
        rest = rest.skip(2);
        if p.is_verbose() {
            put!(p, "\n\t{} TLV ({kind}), length {len}", name(LLDP_FIELDS, kind, "Unknown"));
        }
        if kind == 0 || len == 0 {
            break;
        }
        if !rest.has(0, len) || rest.len < len {
            p.cut();
            return Ok(());
        }
        if kind == 5 {
            p.out.push_str(": ");
            p.chars_padded(rest.get(0, len)?);
        }
        rest = rest.skip(len);
    }
    Ok(())
}

/// CDP fields with a bounded length, by type: minimum and maximum bytes.
const CDP_LENGTHS: [(u16, usize, usize); 10] = [
    (0x04, 4, 4),
    (0x0a, 2, 2),
    (0x0b, 1, 1),
    (0x0e, 3, 3),
    (0x0f, 2, 3),
    (0x10, 1, 3),
    (0x11, 4, 4),
    (0x12, 1, 1),
    (0x13, 1, 1),
    (0x16, 4, usize::MAX),
];

/// CDP.
fn cdp(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "cdp";
    if data.len < 4 {
        put!(p, " (packet length {} < 4)", data.len);
        p.invalid();
        return Ok(());
    }
    put!(p, "CDPv{}, ttl: {}s", data.u8(0)?, data.u8(1)?);
    let checksum = data.u16(2)?;
    if p.is_verbose() {
        put!(p, ", checksum: 0x{checksum:04x} (unverified), length {}", data.len);
    }
    let mut rest = data.skip(4);
    while rest.len > 0 {
        if rest.len < 4 {
            put!(p, " (remaining packet length {} < 4)", rest.len);
            p.invalid();
            return Ok(());
        }
        let (kind, len) = (rest.u16(0)?, usize::from(rest.u16(2)?));
        if len < 4 || len > rest.len {
            match len {
                0..4 => put!(p, ", field 0x{kind:02x} TLV length {len} too short"),
                _ => put!(p, " (TLV length {len} > {})", rest.len),
            }
            p.invalid();
            return Ok(());
        }
        cdp_field(p, kind, rest.skip(4), len - 4)?;
        rest = rest.skip(len);
    }
    if !p.is_verbose() {
        put!(p, ", length {}", data.len);
    }
    Ok(())
}

/// The device's name as text; other fields in hex, as in tcpdump.
fn cdp_field(p: &mut Printer, kind: u16, value: Data<'_>, len: usize) -> Done {
    if p.is_verbose() {
        let plural = if len == 1 { "" } else { "s" };
        put!(p, "\n\tfield 0x{kind:02x}, value length: {len} byte{plural}: ");
    }
    let bounds = CDP_LENGTHS.iter().find(|(known, ..)| *known == kind);
    if bounds.is_some_and(|(_, least, most)| !(*least..=*most).contains(&len)) {
        p.out.push_str(" (malformed TLV)");
    } else if kind == 1 {
        p.out.push_str(if p.is_verbose() { "'" } else { ", Device-ID '" });
        p.chars_of(value, 0, len)?;
        p.out.push('\'');
        return Ok(());
    }
    hex::only_indented(&mut p.out, "\n\t  ", value.get(0, len)?);
    Ok(())
}

/// DTP, which negotiates trunks.
fn dtp(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "dtp";
    if data.len < 1 {
        p.out.push_str("[zero packet length]");
        p.invalid();
        return Ok(());
    }
    put!(p, "DTPv{}, length {}", data.u8(0)?, data.len);
    Ok(())
}

const UDLD_CODES: Names =
    &[(0, "Reserved"), (1, "Probe message"), (2, "Echo message"), (3, "Flush message")];

const UDLD_FLAGS: Names = &[
    (0x01, "RT"),
    (0x02, "RSY"),
    (0x04, "MBZ-2"),
    (0x08, "MBZ-3"),
    (0x10, "MBZ-4"),
    (0x20, "MBZ-5"),
    (0x40, "MBZ-6"),
    (0x80, "MBZ-7"),
];

/// UDLD, which detects unidirectional links.
fn udld(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "udld";
    if data.len < 4 {
        p.invalid();
        return Ok(());
    }
    let (first, flags) = (data.u8(0)?, data.u8(1)?);
    let code = first & 0x1f;
    put!(p, "UDLDv{}, Code {} ({code:x})", first >> 5, name(UDLD_CODES, code, "Reserved"));
    let text = bits(UDLD_FLAGS, flags, ", ", "none");
    put!(p, ", Flags [{text}] (0x{flags:02x}), length {}", data.len);
    if data.here() < data.len { Err(Cut) } else { Ok(()) }
}

/// Cisco's protocols over SNAP; false for an unknown one.
pub(crate) fn cisco(p: &mut Printer, pid: u16, data: Data<'_>) -> Result<bool, Cut> {
    match pid {
        0x2000 => cdp(p, data)?,
        0x2004 => dtp(p, data)?,
        0x0111 => udld(p, data)?,
        0x010b | 0x010c => super::stp(p, data)?,
        _ => return Ok(false),
    }
    Ok(true)
}
