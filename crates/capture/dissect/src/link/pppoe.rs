//! PPP over Ethernet (RFC 2516): discovery with its tags, and sessions.
//!
//! Called by: `link`, and for its Ethertypes.

use super::ppp::print as ppp;
use crate::data::{Cut, Data};
use crate::print::{Printer, put};
use crate::text::{Names, name};

const HEADER_LEN: usize = 6;

/// Maximum number of characters of a tag that are printed.
const TAG_CHARS_MAX: usize = 79;

const CODES: Names =
    &[(0x09, "PADI"), (0x07, "PADO"), (0x19, "PADR"), (0x65, "PADS"), (0xa7, "PADT"), (0, "")];

const TAGS: Names = &[
    (0x0000, "EOL"),
    (0x0101, "Service-Name"),
    (0x0102, "AC-Name"),
    (0x0103, "Host-Uniq"),
    (0x0104, "AC-Cookie"),
    (0x0105, "Vendor-Specific"),
    (0x0110, "Relay-Session-ID"),
    (0x0120, "PPP-Max-Payload"),
    (0x0201, "Service-Name-Error"),
    (0x0202, "AC-System-Error"),
    (0x0203, "Generic-Error"),
];

pub(super) fn print(p: &mut Printer, data: Data<'_>) -> Result<usize, Cut> {
    p.protocol = "pppoe";
    if data.len < HEADER_LEN {
        put!(p, " (length {} < {HEADER_LEN})", data.len);
        p.invalid();
        return Ok(0);
    }
    data.get(0, HEADER_LEN)?;
    let (version, kind, code) = (data.u8(0)? >> 4, data.u8(0)? & 15, data.u8(1)?);
    let (session, mut length) = (data.u16(2)?, usize::from(data.u16(4)?));
    if version != 1 {
        put!(p, " [ver {version}]");
    }
    if kind != 1 {
        put!(p, " [type {kind}]");
    }
    put!(p, "PPPoE {}", name(CODES, code, "PAD-{x}"));
    if code == 0x09 && length > 1484 - HEADER_LEN {
        put!(p, " [len {length}!]");
    }
    let payload = data.skip(HEADER_LEN);
    if length > payload.len {
        put!(p, " [len {length} > {}!]", payload.len);
        length = payload.len;
    }
    if session != 0 {
        put!(p, " [ses 0x{session:x}]");
    }
    if code == 0 {
        p.out.push(' ');
        let inner = Data::new(payload.bytes, length);
        return Ok(HEADER_LEN + p.deeper(|p| ppp(p, inner))?);
    }
    let mut at = 0;
    while at < length {
        let (kind, len) = (payload.u16(at)?, usize::from(payload.u16(at + 2)?));
        let what = name(TAGS, kind, "TAG-0x{x}");
        if len == 0 {
            put!(p, " [{what}]");
        } else {
            tag(p, &what, payload.get(at + 4, len)?);
        }
        at += 4 + len;
        if kind == 0 {
            break;
        }
    }
    Ok(HEADER_LEN)
}

/// Print a tag: as text if more than half of it is text, else in hex.
fn tag(p: &mut Printer, what: &str, value: &[u8]) {
    let shown = &value[..value.len().min(TAG_CHARS_MAX)];
    let is_text = |byte: &u8| (b' '..=b'~').contains(byte);
    let letters = shown.iter().filter(|byte| is_text(byte)).count();
    if letters > shown.len() - letters {
        let char_of = |byte: &u8| if is_text(byte) { char::from(*byte) } else { '.' };
        let text: String = shown.iter().map(char_of).collect();
        put!(p, " [{what} \"{text}\"]");
        return;
    }
    put!(p, " [{what} 0x");
    for byte in value {
        put!(p, "{byte:02X}");
    }
    p.out.push(']');
}
