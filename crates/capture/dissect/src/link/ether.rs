//! Ethernet frames, VLAN tags, and 802.3 frames (IEEE 802.3, 802.1Q, 802.1ad).
//!
//! Called by: `link`, and tunnels that carry frames.

use super::llc;
use crate::data::{Cut, Data, Mac};
use crate::names::ethertype_name;
use crate::print::{Printer, put};

const HEADER_LEN: usize = 14;

/// The largest value of the type field that means a length.
pub(super) const LENGTH_MAX: u16 = 1500;

/// The Ethertype of a jumbo frame that contains LLC (Alteon).
const JUMBO: u16 = 0x8870;

/// Ethertypes of VLAN tags.
const TAGS: [u16; 4] = [0x8100, 0x9100, 0x9200, 0x88a8];

pub(crate) fn print(p: &mut Printer, data: Data<'_>) -> Result<usize, Cut> {
    p.protocol = "ether";
    if data.len < data.here() {
        put!(p, "[length {} < caplen {}]", data.len, data.here());
        p.invalid();
        return Ok(data.len);
    }
    if data.here() < HEADER_LEN {
        p.cut();
        return Ok(data.here());
    }
    let (dst, src) = (data.mac(0)?, data.mac(6)?);
    if p.style.link {
        put!(p, "{src} > {dst}, ");
    }
    behind_addresses(p, data, (src, dst))
}

/// Print the frame after its addresses: from the type field on, which VLAN tags may precede.
fn behind_addresses(
    p: &mut Printer,
    data: Data<'_>,
    (src, dst): (Mac<'_>, Mac<'_>),
) -> Result<usize, Cut> {
    let (mut kind, mut at, mut has_length) = (data.u16(12)?, HEADER_LEN, false);
    while TAGS.contains(&kind) {
        let rest = data.skip(at);
        if rest.here() < 4 || rest.len < 4 {
            p.protocol = "vlan";
            p.cut();
            return Ok(at + rest.here().min(rest.len));
        }
        if p.style.link {
            kind_text(p, kind);
            match has_length {
                true => p.out.push_str(", "),
                false => put!(p, ", length {}: ", data.len),
            }
            has_length = true;
            tag(p, rest.u16(0)?);
        }
        kind = rest.u16(2)?;
        at += 4;
    }
    let rest = data.skip(at);
    if kind <= LENGTH_MAX {
        let rest = rest.within(usize::from(kind).min(rest.len));
        if p.style.link {
            p.out.push_str("802.3");
            if !has_length {
                put!(p, ", length {}: ", rest.len);
            }
        }
        return Ok(at + llc::print(p, rest, Some((src, dst)))?);
    }
    if kind == JUMBO {
        return Ok(at + llc::print(p, rest, Some((src, dst)))?);
    }
    if p.style.link {
        kind_text(p, kind);
        match has_length {
            true => p.out.push_str(", "),
            false => put!(p, ", length {}: ", data.len),
        }
    }
    if !p.deeper(|p| super::ethertype(p, kind, rest, Some((src, dst))))? {
        if !p.style.link {
            put!(p, "{src} > {dst}, ");
            kind_text(p, kind);
            put!(p, ", length {}: ", data.len);
        }
        p.unknown(rest.bytes);
    }
    Ok(at)
}

fn kind_text(p: &mut Printer, kind: u16) {
    match p.style.quiet {
        false => put!(p, "ethertype {} (0x{kind:04x})", ethertype_name(kind, "Unknown")),
        true => p.out.push_str(&ethertype_name(kind, "Unknown Ethertype (0x{04x})")),
    }
}

/// Print a VLAN tag (IEEE 802.1Q).
pub(super) fn tag(p: &mut Printer, tag: u16) {
    let eligible = if tag & 0x1000 != 0 { ", DEI" } else { "" };
    put!(p, "vlan {}, p {}{eligible}, ", tag & 0xfff, tag >> 13);
}
