//! PPP with and without HDLC's address field and escapes. For control protocols only the codes are
//! printed (RFC 1661, 1662, LINKTYPE_PPP, LINKTYPE_PPP_HDLC).
//!
//! Called by: `link`, tunnels.

use super::chdlc;
use crate::data::{Cut, Data, Done};
use crate::hex;
use crate::net;
use crate::print::{Printer, put};
use crate::text::{Names, name};

/// The address and control fields of HDLC.
const ADDRESS: u8 = 0xff;
const ALL_STATIONS: u16 = 0xff03;

pub(crate) const PROTOCOLS: Names = &[
    (0x0021, "IP"),
    (0x0023, "OSI"),
    (0x0025, "NS"),
    (0x0027, "DECNET"),
    (0x0029, "APPLE"),
    (0x002b, "IPX"),
    (0x002d, "VJC IP"),
    (0x002f, "VJNC IP"),
    (0x0031, "BRPDU"),
    (0x0033, "STII"),
    (0x0035, "VINES"),
    (0x0281, "MPLS"),
    (0x0283, "MPLS"),
    (0x00fd, "Compressed"),
    (0x003d, "MLPPP"),
    (0x0057, "IP6"),
    (0x0201, "HELLO"),
    (0x0231, "LUXCOM"),
    (0x0233, "SNS"),
    (0x8021, "IPCP"),
    (0x8023, "OSICP"),
    (0x8025, "NSCP"),
    (0x8027, "DECNETCP"),
    (0x8029, "APPLECP"),
    (0x802b, "IPXCP"),
    (0x8033, "STIICP"),
    (0x8035, "VINESCP"),
    (0x8057, "IP6CP"),
    (0x8281, "MPLSCP"),
    (0xc021, "LCP"),
    (0xc023, "PAP"),
    (0xc025, "LQM"),
    (0xc223, "CHAP"),
    (0xc227, "EAP"),
    (0xc027, "SPAP"),
    (0xc123, "Old-SPAP"),
    (0xc02b, "BACP"),
    (0xc02d, "BAP"),
    (0xc03d, "MLPPP-CP"),
    (0x80fd, "CCP"),
];

const CODES: Names = &[
    (0, "Vendor-Extension"),
    (1, "Conf-Request"),
    (2, "Conf-Ack"),
    (3, "Conf-Nack"),
    (4, "Conf-Reject"),
    (5, "Term-Request"),
    (6, "Term-Ack"),
    (7, "Code-Reject"),
    (8, "Prot-Reject"),
    (9, "Echo-Request"),
    (10, "Echo-Reply"),
    (11, "Disc-Req"),
    (12, "Ident"),
    (13, "Time-Rem"),
    (14, "Reset-Req"),
    (15, "Reset-Ack"),
];

const CHAP: Names = &[(1, "Challenge"), (2, "Response"), (3, "Success"), (4, "Fail")];
const PAP: Names = &[(1, "Auth-Req"), (2, "Auth-ACK"), (3, "Auth-NACK")];

/// Print a packet of LINKTYPE_PPP.
pub(super) fn of_interface(p: &mut Printer, data: Data<'_>) -> Result<usize, Cut> {
    p.protocol = "ppp";
    if data.here() < 4 {
        p.cut();
        return Ok(data.here());
    }
    print(p, data)?;
    Ok(4)
}

pub(crate) fn print(p: &mut Printer, data: Data<'_>) -> Result<usize, Cut> {
    p.protocol = "ppp";
    if data.len < 2 {
        p.cut();
        return Ok(0);
    }
    let mut at = 0;
    match data.u16(0)? {
        0x0003 | 0x0103 => {
            if p.style.link {
                p.out.push_str(if data.u8(0)? == 0 { "In  " } else { "Out " });
            }
            at = 2;
        }
        ALL_STATIONS => at = 2,
        _ => {}
    }
    if data.len < at + 2 {
        p.cut();
        return Ok(0);
    }
    // An odd first byte is a compressed protocol field (RFC 1661 section 6.5).
    let first = data.u8(at)?;
    let (protocol, len) = if first % 2 == 1 { (first.into(), 1) } else { (data.u16(at)?, 2) };
    at += len;
    if p.style.link {
        let what = name(PROTOCOLS, protocol, "unknown");
        put!(p, "{what} (0x{protocol:04x}), length {}", data.len);
        if what == "unknown" {
            return Ok(at);
        }
        p.out.push_str(": ");
    }
    p.deeper(|p| content(p, protocol, data, at))?;
    Ok(at)
}

/// Print the content of `protocol`, from `at` on.
fn content(p: &mut Printer, protocol: u16, data: Data<'_>, at: usize) -> Done {
    let rest = data.skip(at);
    match protocol {
        // The first byte was a flag, so the rest has escapes.
        0x7e00..=0x7eff => {
            let from = data.skip(at.saturating_sub(1));
            escaped(p, Data::new(from.bytes, rest.len))
        }
        0xc021 | 0x8021 | 0x8023 | 0x8281 | 0x8057 | 0x80fd | 0xc02b => control(p, protocol, rest),
        0x003d => multilink(p, rest),
        0xc223 => authentication(p, rest, ("CHAP", CHAP)),
        0xc023 => authentication(p, rest, ("PAP", PAP)),
        0x0021 | 0x0800 | 0x002f => net::ip(p, rest),
        0x0057 | 0x86dd => net::ip6(p, rest),
        0x0023 => crate::local::osi(p, rest),
        0x0281 | 0x0283 => net::mpls(p, rest),
        0x00fd => {
            p.out.push_str("compressed PPP data");
            Ok(())
        }
        _ => {
            put!(p, "{} ", name(PROTOCOLS, protocol, "unknown PPP protocol (0x{04x})"));
            hex::only_indented(&mut p.out, "\n\t", rest.bounded().bytes);
            Ok(())
        }
    }
}

/// Print a packet of a control protocol; its options are not printed.
fn control(p: &mut Printer, protocol: u16, data: Data<'_>) -> Done {
    let what = name(PROTOCOLS, protocol, "unknown ctrl-proto (0x{04x})");
    put!(p, "{what}, ");
    if data.len < 4 || !data.has(0, 2) {
        put!(p, "[|{what}]");
        return Ok(());
    }
    let (code, id) = (data.u8(0)?, data.u8(1)?);
    let code_name = name(CODES, code, "Unknown Opcode");
    put!(p, "{code_name} (0x{code:02x}), id {id}, length {}", data.len + 2);
    Ok(())
}

fn multilink(p: &mut Printer, data: Data<'_>) -> Done {
    if data.len < 2 || !data.has(0, 2) {
        p.out.push_str("[|mlppp]");
        return Ok(());
    }
    let word = data.u16(0)?;
    let flags = match word >> 14 {
        0 => "none",
        1 => "end",
        2 => "begin",
        _ => "begin, end",
    };
    let seq = word & 0x0fff;
    put!(p, "seq 0x{seq:03x}, Flags [{flags}], length {}", data.len);
    Ok(())
}

/// Print a packet of CHAP or PAP (RFC 1994, 1334).
fn authentication(p: &mut Printer, data: Data<'_>, (what, codes): (&str, Names)) -> Done {
    if data.here() < 1 {
        put!(p, "[|{}]", what.to_lowercase());
        return Ok(());
    }
    if data.here() < 4 {
        put!(p, "[|{}]", what.to_lowercase());
        return Ok(());
    }
    let (code, id) = (data.u8(0)?, data.u8(1)?);
    put!(p, "{what}, {} (0x{code:02x}), id {id}", name(codes, code, "unknown"));
    let code_len = usize::from(data.u16(2)?);
    let body = data.within(code_len.min(data.len)).skip(4);
    let text = |p: &mut Printer, at: usize, label: &str| -> Result<usize, Cut> {
        let len = usize::from(body.u8(at)?);
        put!(p, ", {label} ");
        p.chars_of(body, at + 1, len)?;
        Ok(at + 1 + len)
    };
    match (what, code) {
        ("CHAP", 1 | 2) => {
            let len = usize::from(body.u8(0)?);
            p.out.push_str(", Value ");
            p.hex_digits(body.within(1 + len).skip(1).bytes);
            p.out.push_str(", Name ");
            p.chars(body.skip(1 + len).bytes);
        }
        ("CHAP", 3 | 4) => {
            p.out.push_str(", Msg ");
            p.chars(body.bytes);
        }
        ("PAP", 1) => {
            let at = text(p, 0, "Peer")?;
            text(p, at, "Name")?;
        }
        ("PAP", 2 | 3) => {
            text(p, 0, "Msg")?;
        }
        _ => {}
    }
    Ok(())
}

/// Print content that has escapes (RFC 1662 section 4.2).
fn escaped(p: &mut Printer, data: Data<'_>) -> Done {
    let mut plain = Vec::with_capacity(data.here());
    let mut bytes = data.bytes.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            0x7d => match bytes.next() {
                Some(&next) => plain.push(next ^ 0x20),
                None => break,
            },
            byte => plain.push(byte),
        }
    }
    let data = Data::new(&plain, plain.len());
    let Ok(first) = data.u8(0) else { return Ok(()) };
    match first {
        0x21 => return net::ip(p, data.skip(1)),
        0x57 => return net::ip6(p, data.skip(1)),
        _ => {}
    }
    let Ok(second) = data.u16(0) else {
        p.cut();
        return Ok(());
    };
    let (protocol, at) = match second {
        ALL_STATIONS if data.len < 4 => {
            p.cut();
            return Ok(());
        }
        ALL_STATIONS => (data.u16(2)?, 4),
        protocol => (protocol, 2),
    };
    if protocol & 0xff00 == 0x7e00 {
        put!(p, "(protocol 0x{protocol:04x} invalid)");
        return Ok(());
    }
    p.deeper(|p| content(p, protocol, data, at))
}

/// Print a packet of LINKTYPE_PPP_HDLC, in PPP's framing or in Cisco's.
pub(super) fn serial(p: &mut Printer, data: Data<'_>) -> Result<usize, Cut> {
    p.protocol = "ppp_hdlc";
    let is_cisco = matches!(data.u8(0), Ok(0x0f | 0x8f));
    if data.here() < 2 || !is_cisco && data.here() < 4 {
        p.cut();
        return Ok(data.here());
    }
    if is_cisco {
        return chdlc::print(p, data);
    }
    let has_address = data.u8(0)? == ADDRESS;
    if p.style.link {
        put!(p, "{:02x} {:02x} {} ", data.u8(0)?, data.u8(1)?, data.len);
    }
    let protocol = data.u16(2)?;
    if has_address {
        put!(p, "{}: ", name(PROTOCOLS, protocol, "unknown PPP protocol (0x{04x})"));
    }
    content(p, protocol, data, 4)?;
    Ok(4)
}
