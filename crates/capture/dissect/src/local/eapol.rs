//! EAP over LAN, and the type of an EAP packet (IEEE 802.1X, RFC 3748).
//!
//! Called by: `link::ethertype`.

use crate::data::{Data, Done};
use crate::print::{Printer, put};
use crate::text::{Names, name};

const FRAMES: Names = &[
    (0, "EAP packet"),
    (1, "EAPOL start"),
    (2, "EAPOL logoff"),
    (3, "EAPOL key"),
    (4, "Encapsulated ASF alert"),
];

const CODES: Names = &[(1, "Request"), (2, "Response"), (3, "Success"), (4, "Failure")];

const TYPES: Names = &[
    (0, "No proposed"),
    (1, "Identity"),
    (2, "Notification"),
    (3, "Nak"),
    (4, "MD5-challenge"),
    (5, "OTP"),
    (6, "GTC"),
    (13, "TLS"),
    (18, "SIM"),
    (21, "TTLS"),
    (23, "AKA"),
    (43, "FAST"),
    (254, "Expanded types"),
    (255, "Experimental"),
];

pub(crate) fn print(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "eap";
    if !data.has(0, 4) {
        p.cut();
        return Ok(());
    }
    let (version, kind, len) = (data.u8(0)?, data.u8(1)?, data.u16(2)?);
    put!(p, "{} ({kind}) v{version}, len {len}", name(FRAMES, kind, "unknown"));
    if !p.is_verbose() || kind != 0 {
        return Ok(());
    }
    if len == 0 {
        p.cut();
        return Ok(());
    }
    p.out.push_str(", ");
    packet(p, data.skip(4), usize::from(len))
}

fn packet(p: &mut Printer, data: Data<'_>, length: usize) -> Done {
    let (code, id, len) = (data.u8(0)?, data.u8(1)?, usize::from(data.u16(2)?));
    if len != length {
        p.out.push_str("EAP fragment?");
        return Ok(());
    }
    put!(p, "{} ({code}), id {id}, len {len}", name(CODES, code, "unknown"));
    if len < 4 {
        p.out.push_str(" (too short for EAP header)");
        return Ok(());
    }
    if !data.has(0, len) {
        p.cut();
        return Ok(());
    }
    if !matches!(code, 1 | 2) {
        return Ok(());
    }
    if len < 5 {
        p.out.push_str(" (too short for EAP request/response)");
        return Ok(());
    }
    let kind = data.u8(4)?;
    put!(p, "\n\t\t Type {} ({kind})", name(TYPES, kind, "unknown"));
    let text = data.get(5, len - 5)?;
    match kind {
        1 if !text.is_empty() => {
            p.out.push_str(", Identity: ");
            p.chars_padded(text);
        }
        2 if !text.is_empty() => {
            p.out.push_str(", Notification: ");
            p.chars_padded(text);
        }
        3 => {
            for (at, kind) in text.iter().enumerate() {
                let between = if at > 0 { "," } else { "" };
                put!(p, "{between} {} ({kind})", name(TYPES, *kind, "unknown"));
            }
        }
        _ => {}
    }
    Ok(())
}
