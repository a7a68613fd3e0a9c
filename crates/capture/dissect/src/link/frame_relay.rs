//! Frame relay: the Q.922 address, and the content, chosen by its network layer protocol identifier
//! (RFC 2427, LINKTYPE_FRELAY).
//!
//! Called by: `link`; `arp`, for addresses.

use super::{ethertype, llc};
use crate::data::{Cut, Data};
use crate::hex;
use crate::names::ethertype_name;
use crate::net;
use crate::print::{Printer, put};
use crate::text::{Names, bits, name};

const UI: u8 = 0x03;

const FLAGS: Names = &[
    (0x0200_0000, "C!"),
    (0x0002_0000, "DE"),
    (0x0004_0000, "BECN"),
    (0x0008_0000, "FECN"),
    (0x0000_0002, "sdlcore"),
];

/// Network layer protocol identifiers (ISO/IEC TR 9577).
pub(crate) const NLPIDS: Names = &[
    (0x08, "Q.933"),
    (0x80, "SNAP"),
    (0x81, "CLNP"),
    (0x82, "ES-IS"),
    (0x83, "IS-IS"),
    (0x8e, "IPv6"),
    (0xb0, "FRF.9"),
    (0xb1, "FRF.12"),
    (0xcc, "IPv4"),
    (0xcf, "PPP"),
];

/// A Q.922 address.
struct Address {
    dlci: u32,
    len: usize,
    flags: u32,
}

/// Read an address. `None` if it is longer than allowed.
fn address(data: Data<'_>) -> Result<Option<Address>, Cut> {
    let data = data.bounded();
    let first = data.u8(0)?;
    if first & 1 != 0 {
        return Ok(None);
    }
    let second = data.u8(1)?;
    let mut dlci = u32::from(first & 0xfc) << 2 | u32::from(second & 0xf0) >> 4;
    let mut flags = u32::from(first & 2) << 24 | u32::from(second & 0x0e) << 16;
    let mut len = 2;
    if second & 1 != 0 {
        return Ok(Some(Address { dlci, len, flags }));
    }
    let mut last = data.u8(len)?;
    len += 1;
    if last & 1 == 0 {
        dlci = dlci << 7 | u32::from(last >> 1);
        last = data.u8(len)?;
        len += 1;
    }
    if last & 1 == 0 {
        return Ok(None);
    }
    flags |= u32::from(last & 2);
    dlci = dlci << 6 | u32::from(last >> 2);
    Ok(Some(Address { dlci, len, flags }))
}

/// A Q.922 address as text.
pub(crate) fn dlci_text(data: Data<'_>) -> String {
    match address(data) {
        Ok(Some(address)) => format!("DLCI {}", address.dlci),
        Ok(None) => "<Invalid DLCI>".to_owned(),
        Err(Cut) => "<Truncated>".to_owned(),
    }
}

fn header(p: &mut Printer, len: usize, header_len: usize, address: &Address, id: u16) {
    let dlci = address.dlci;
    if p.style.quiet {
        put!(p, "Q.922, DLCI {dlci}, length {len}: ");
        return;
    }
    let flags = bits(FLAGS, address.flags, ", ", "none");
    put!(p, "Q.922, hdr-len {header_len}, DLCI {dlci}, Flags [{flags}], ");
    match id {
        0..=0xff => put!(p, "NLPID {} (0x{id:02x})", name(NLPIDS, id, "unknown")),
        _ => put!(p, "cisco-ethertype {} (0x{id:04x})", ethertype_name(id, "unknown")),
    }
    put!(p, ", length {len}: ");
}

/// Print a frame; returns the length of its header.
pub(super) fn print(p: &mut Printer, data: Data<'_>) -> Result<usize, Cut> {
    p.protocol = "fr";
    if data.here() < 4 {
        p.cut();
        return Ok(data.here());
    }
    let address = match address(data) {
        Ok(Some(address)) => address,
        Ok(None) => {
            p.out.push_str("Q.922, invalid address");
            return Ok(0);
        }
        Err(Cut) => {
            p.cut();
            return Ok(0);
        }
    };
    let at = address.len;
    if !data.has(at, 1) || data.len < at + 1 {
        p.cut();
        return Ok(0);
    }
    let control = data.u8(at)?;
    if control != UI && address.dlci != 0 {
        if data.has(at, 2) && data.len >= at + 2 {
            let kind = data.u16(at)?;
            if p.style.link {
                header(p, data.len, at, &address, kind);
            }
            if p.deeper(|p| ethertype(p, kind, data.skip(at + 2), None))? {
                return Ok(at + 2);
            }
        }
        put!(p, "UI {control:02x}! ");
    }
    behind(p, data, &address)
}

/// Print the part after the address: the control field, a pad byte, the identifier, and the
/// content.
fn behind(p: &mut Printer, data: Data<'_>, address: &Address) -> Result<usize, Cut> {
    let at = address.len;
    if !data.has(at + 1, 1) || data.len < at + 2 {
        p.cut();
        return Ok(0);
    }
    let has_pad = data.u8(at + 1)? == 0;
    match (has_pad, at) {
        (true, 3) => {}
        (true, _) => p.out.push_str("Pad! "),
        (false, 3) => p.out.push_str("No pad! "),
        (false, _) => {}
    }
    let header_len = at + 2 + usize::from(has_pad);
    if !data.has(header_len - 1, 1) || data.len < header_len {
        p.cut();
        return Ok(0);
    }
    let id = data.u8(header_len - 1)?;
    if p.style.link {
        header(p, data.len, at, address, id.into());
    }
    let rest = data.skip(header_len);
    match id {
        0xcc => net::ip(p, rest)?,
        0x8e => net::ip6(p, rest)?,
        0x81..=0x83 => crate::local::osi(p, data.skip(header_len - 1))?,
        0x80 => {
            if !p.deeper(|p| llc::snap(p, rest, None, 0))? {
                if !p.style.link {
                    header(p, data.len, header_len, address, id.into());
                }
                p.unknown(rest.bytes.get(5..).unwrap_or_default());
            }
        }
        0xcf => {
            p.deeper(|p| super::ppp(p, rest))?;
        }
        _ => {
            if !p.style.link {
                header(p, data.len, at, address, id.into());
            }
            hex::both(&mut p.out, rest.bounded().bytes);
        }
    }
    Ok(header_len)
}
