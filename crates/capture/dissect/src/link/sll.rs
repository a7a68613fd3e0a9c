//! Linux cooked mode, both versions, the link type of captures from `any` (LINKTYPE_LINUX_SLL,
//! SLL2).
//!
//! Called by: `link`.

use super::ether::{LENGTH_MAX, tag};
use super::{ethertype, llc};
use crate::data::{Cut, Data};
use crate::names::{ETHERTYPES, ethertype_name};
use crate::print::{Printer, put};
use crate::text::{Names, find, name};

/// Values of the type field that are not Ethertypes: IPX without LLC, and LLC.
const P_802_3: u16 = 1;
const P_802_2: u16 = 4;

const DIRECTIONS: Names = &[(0, "In"), (1, "B"), (2, "M"), (3, "P"), (4, "Out")];

pub(super) fn version_1(p: &mut Printer, data: Data<'_>) -> Result<usize, Cut> {
    const HEADER_LEN: usize = 16;
    p.protocol = "sll";
    data.get(0, HEADER_LEN)?;
    if p.style.link {
        header_1(p, data, data.len)?;
    }
    let rest = data.skip(HEADER_LEN);
    behind(p, rest, data.u16(14)?, HEADER_LEN, |p, len| header_1(p, data, len + HEADER_LEN))
}

pub(super) fn version_2(p: &mut Printer, data: Data<'_>) -> Result<usize, Cut> {
    const HEADER_LEN: usize = 20;
    p.protocol = "sll2";
    data.get(0, HEADER_LEN)?;
    // The interface's name is printed as "?": only the capturing machine knows it.
    put!(p, "{:5} {:3} ", "?", name(DIRECTIONS, data.u8(10)?, "?"));
    if p.style.link {
        header_2(p, data, data.len)?;
    }
    let rest = data.skip(HEADER_LEN);
    behind(p, rest, data.u16(0)?, HEADER_LEN, |p, len| header_2(p, data, len + HEADER_LEN))
}

fn header_1(p: &mut Printer, data: Data<'_>, len: usize) -> Result<(), Cut> {
    p.protocol = "sll";
    put!(p, "{:>3} ", name(DIRECTIONS, data.u16(0)?, "?"));
    if data.u16(4)? == 6 {
        put!(p, "{} ", data.mac(6)?);
    }
    kind_text(p, data.u16(14)?, len);
    Ok(())
}

fn header_2(p: &mut Printer, data: Data<'_>, len: usize) -> Result<(), Cut> {
    p.protocol = "sll2";
    put!(p, "ifindex {} ", data.u32(4)?);
    if data.u8(11)? == 6 {
        put!(p, "{} ", data.mac(12)?);
    }
    kind_text(p, data.u16(0)?, len);
    Ok(())
}

fn kind_text(p: &mut Printer, kind: u16, len: usize) {
    if p.style.quiet {
        return;
    }
    match kind {
        P_802_3 => p.out.push_str("802.3"),
        P_802_2 => p.out.push_str("802.2"),
        0..=LENGTH_MAX => put!(p, "ethertype Unknown (0x{kind:04x})"),
        _ => put!(p, "ethertype {} (0x{kind:04x})", ethertype_name(kind, "Unknown")),
    }
    put!(p, ", length {len}: ");
}

/// Print VLAN tags, if there are any, and the content.
fn behind(
    p: &mut Printer,
    data: Data<'_>,
    kind: u16,
    header_len: usize,
    header: impl Fn(&mut Printer, usize) -> Result<(), Cut>,
) -> Result<usize, Cut> {
    let (mut rest, mut kind, mut at) = (data, kind, header_len);
    while kind == 0x8100 {
        if rest.here() < 4 {
            p.protocol = "vlan";
            p.cut();
            return Ok(at + rest.here());
        }
        if p.style.link {
            tag(p, rest.u16(0)?);
        }
        kind = match rest.u16(2)? {
            0..=LENGTH_MAX => P_802_2,
            kind => kind,
        };
        if !p.style.quiet {
            put!(p, "ethertype {}, ", find(ETHERTYPES, kind).unwrap_or("Unknown"));
        }
        rest = rest.skip(4);
        at += 4;
    }
    match kind {
        P_802_2 => return Ok(at + llc::print(p, rest, None)?),
        0..=LENGTH_MAX => p.unknown(rest.bytes),
        _ => {
            if !p.deeper(|p| ethertype(p, kind, rest, None))? {
                if !p.style.link {
                    header(p, rest.len)?;
                }
                p.unknown(rest.bytes);
            }
        }
    }
    Ok(at)
}
