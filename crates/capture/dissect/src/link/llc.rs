//! Logical link control (IEEE 802.2), and SNAP, which identifies protocols by organisation.
//!
//! Called by: link layers whose frames have no type.

use super::{ethernet, ethertype};
use crate::data::{Cut, Data, Ends};
use crate::names::{BRIDGED_PIDS, CISCO_PIDS, ETHERTYPES, OUIS, SAPS};
use crate::net;
use crate::print::{Printer, put};
use crate::text::{Names, find, name};

const SNAP: u8 = 0xaa;
const STP: u8 = 0x42;
const IP: u8 = 0x06;
const OSI: u8 = 0xfe;
const UI: u16 = 0x03;
const XID: u16 = 0xaf;

const COMMANDS: Names = &[
    (0x03, "ui"),
    (0xe3, "test"),
    (0xaf, "xid"),
    (0x63, "ua"),
    (0x43, "disc"),
    (0x0f, "dm"),
    (0x6f, "sabme"),
    (0x87, "frmr"),
];

const FLAGS: Names = &[
    (0x00, "Command"),
    (0x01, "Response"),
    (0x10, "Poll"),
    (0x11, "Final"),
    (0x100, "Poll"),
    (0x101, "Final"),
];

const SUPERVISORY: Names = &[(0, "Receiver Ready"), (1, "Receiver not Ready"), (2, "Reject")];

/// Print LLC and its content. Returns the length of the header.
pub(super) fn print(p: &mut Printer, data: Data<'_>, ends: Ends<'_>) -> Result<usize, Cut> {
    p.protocol = "llc";
    let is_short = |count| data.here() < count || data.len < count;
    let is_unnumbered = data.u8(2).is_ok_and(|control| control & 3 == 3);
    if is_short(3) || !is_unnumbered && is_short(4) {
        p.cut();
        p.unknown(data.bytes);
        return Ok(data.here().min(data.len));
    }
    let (dsap, ssap) = (data.u8(0)?, data.u8(1)?);
    let (control, len) =
        if is_unnumbered { (u16::from(data.u8(2)?), 3) } else { (data.u16_le(2)?, 4) };
    if (dsap, ssap) == (0xff, 0xff) {
        if p.style.link {
            p.out.push_str("IPX 802.3: ");
        }
        p.unknown(data.bytes);
        return Ok(0);
    }
    if p.style.link {
        header(p, (dsap, ssap), control, is_unnumbered);
    }
    let (to, from) = (dsap & !1, ssap & !1);
    let rest = data.skip(len);
    if control == UI && to == from {
        match to {
            SNAP => {
                if !p.deeper(|p| snap(p, rest, ends, 2))? {
                    p.unknown(data.bytes);
                }
                return Ok(len + 5);
            }
            STP => {
                crate::local::stp(p, rest)?;
                return Ok(len);
            }
            OSI => {
                crate::local::osi(p, rest)?;
                return Ok(len);
            }
            IP => {
                net::ip(p, rest)?;
                return Ok(len);
            }
            _ => {}
        }
    }
    if !p.style.link {
        addresses(p, (to, from), ends);
    }
    if unknown(p, rest, ssap, control, len, is_unnumbered)? {
        // The hex dump begins with the LLC header, because the protocol is unknown.
        p.unknown(data.bytes);
    }
    Ok(len)
}

fn header(p: &mut Printer, (dsap, ssap): (u8, u8), control: u16, is_unnumbered: bool) {
    let sap = |sap: u8| name(SAPS, sap, "Unknown");
    let (to, from) = (dsap & !1, ssap & !1);
    let group = if dsap & 1 != 0 { "Group" } else { "Individual" };
    let side = if ssap & 1 != 0 { "Response" } else { "Command" };
    put!(p, "LLC, dsap {} (0x{to:02x}) {group}, ssap {} (0x{from:02x}) {side}", sap(to), sap(from));
    match is_unnumbered {
        true => put!(p, ", ctrl 0x{control:02x}: "),
        false => put!(p, ", ctrl 0x{control:04x}: "),
    }
}

fn addresses(p: &mut Printer, (to, from): (u8, u8), ends: Ends<'_>) {
    let (dst, src) =
        (name(SAPS, to, "Unknown DSAP 0x{02x}"), name(SAPS, from, "Unknown SSAP 0x{02x}"));
    match ends {
        None if to == from => put!(p, "{dst} "),
        Some((a, b)) if to == from => put!(p, "{a} > {b} {dst} "),
        None => put!(p, "{src} > {dst} "),
        Some((a, b)) => put!(p, "{a} {src} > {b} {dst} "),
    }
}

/// Print the control field of an unknown protocol; true if the content should be shown in hex.
fn unknown(
    p: &mut Printer,
    rest: Data<'_>,
    ssap: u8,
    control: u16,
    header_len: usize,
    is_unnumbered: bool,
) -> Result<bool, Cut> {
    let length = rest.len + header_len;
    let flags = |poll: u16| name(FLAGS, u16::from(ssap & 1) | control & poll, "?");
    if is_unnumbered {
        let command = control & 0xef;
        put!(p, "Unnumbered, {}", name(COMMANDS, command, "{02x}"));
        put!(p, ", Flags [{}], length {length}", flags(0x10));
        if command != XID {
            return Ok(true);
        }
        if rest.len == 0 {
            return Ok(false);
        }
        if rest.here() < 1 {
            p.cut();
            return Ok(false);
        }
        if rest.u8(0)? == 0x81 {
            if rest.here() < 3 || rest.len < 3 {
                p.cut();
                p.unknown(rest.bytes);
            } else {
                put!(p, ": {:02x} {:02x}", rest.u8(1)?, rest.u8(2)?);
            }
            return Ok(false);
        }
        return Ok(true);
    }
    let received = control >> 9;
    if control & 1 == 1 {
        let what = name(SUPERVISORY, control >> 2 & 3, "?");
        put!(p, "Supervisory, {what}, rcv seq {received}");
        put!(p, ", Flags [{}], length {length}", flags(0x100));
        return Ok(false);
    }
    put!(p, "Information, send seq {}, rcv seq {received}", control >> 1 & 0x7f);
    put!(p, ", Flags [{}], length {length}", flags(0x100));
    Ok(true)
}

/// Print SNAP and its content. False for an unknown protocol, of which only the name is printed.
/// `pad` bytes precede bridged frames.
pub(crate) fn snap(
    p: &mut Printer,
    data: Data<'_>,
    ends: Ends<'_>,
    pad: usize,
) -> Result<bool, Cut> {
    p.protocol = "snap";
    if data.here() < 5 || data.len < 5 {
        p.cut();
        return Ok(true);
    }
    let (oui, pid) = (data.u24(0)?, data.u16(3)?);
    let rest = data.skip(5);
    let what = find(names_of(oui), pid).unwrap_or("Unknown");
    let organisation = name(OUIS, oui, "Unknown");
    if p.style.link {
        let kind = if oui == 0 { "ethertype" } else { "pid" };
        put!(
            p,
            "oui {organisation} (0x{oui:06x}), {kind} {what} (0x{pid:04x}), length {}: ",
            rest.len
        );
    }
    let is_known = match (oui, pid) {
        (0x000000 | 0x0000f8, _) | (0x080007, 0x809b) => ethertype(p, pid, rest, ends)?,
        (0x00000c, _) => crate::local::cisco(p, pid, rest)?,
        (0x0080c2, 0x0001 | 0x0007) => {
            rest.get(0, pad)?;
            ethernet(p, rest.skip(pad))?;
            true
        }
        (0x0080c2, 0x000e) => {
            crate::local::stp(p, rest)?;
            true
        }
        _ => false,
    };
    if is_known || p.style.link {
        return Ok(is_known);
    }
    if let Some((src, dst)) = ends {
        put!(p, "{src} > {dst} ");
    }
    match oui {
        0 => put!(p, "SNAP, ethertype {what} (0x{pid:04x}), length {}: ", rest.len),
        _ => {
            put!(p, "SNAP, oui {organisation} (0x{oui:06x}), ");
            put!(p, "pid {what} (0x{pid:04x}), length {}: ", rest.len);
        }
    }
    Ok(false)
}

/// The names of the protocols of an organisation.
fn names_of(oui: u32) -> Names {
    match oui {
        0x000000 | 0x0000f8 | 0x080007 => ETHERTYPES,
        0x00000c => CISCO_PIDS,
        0x0080c2 => BRIDGED_PIDS,
        _ => &[],
    }
}
