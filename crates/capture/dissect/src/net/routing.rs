//! Routing protocols over IP, with the names and lengths of their messages: OSPF (RFC 2328, 5340),
//! PIM (RFC 7761), EIGRP (RFC 7868), and RSVP (RFC 2205).
//!
//! Called by: `demux`. The content of messages is not printed, even with `-v`.

use crate::data::{Data, Done};
use crate::print::{Printer, put};
use crate::text::{Names, find, name};

const OSPF: Names = &[
    (1, "Hello"),
    (2, "Database Description"),
    (3, "LS-Request"),
    (4, "LS-Update"),
    (5, "LS-Ack"),
];

/// The authentication type that means MD5, and the number of bytes of the digest after the packet.
const OSPF_MD5: u16 = 2;
const OSPF_MD5_LEN: usize = 16;

const PIM: Names = &[
    (0, "Hello"),
    (1, "Register"),
    (2, "Register Stop"),
    (3, "Join / Prune"),
    (4, "Bootstrap"),
    (5, "Assert"),
    (6, "Graft"),
    (7, "Graft Acknowledgement"),
    (8, "Candidate RP Advertisement"),
    (9, "Prune Refresh"),
    (10, "DF Election"),
    (11, "ECMP Redirect"),
];

const EIGRP: Names =
    &[(1, "Update"), (3, "Query"), (4, "Reply"), (5, "Hello"), (6, "IPX SAP"), (7, "Probe")];

const RSVP: Names = &[
    (1, "Path"),
    (2, "Resv"),
    (3, "PathErr"),
    (4, "ResvErr"),
    (5, "PathTear"),
    (6, "ResvTear"),
    (7, "ResvConf"),
    (12, "Bundle"),
    (13, "Acknowledgement"),
    (14, "Hello (Old)"),
    (15, "Refresh"),
    (20, "Hello"),
];

pub(super) fn ospf(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "ospf2";
    let is_signed = data.u16(14)? == OSPF_MD5;
    // As in tcpdump, the length of a packet that is shorter than the digest wraps around.
    let len = if is_signed { data.len.wrapping_sub(OSPF_MD5_LEN) as u32 } else { data.len as u32 };
    let what = name(OSPF, data.u8(1)?, "unknown LS-type {}");
    put!(p, "OSPFv{}, {what}, length {len}", data.u8(0)?);
    if !p.is_verbose() || find(OSPF, data.u8(1)?).is_none() {
        return Ok(());
    }
    put!(p, "\n\tRouter-ID {}", data.v4(4)?);
    match data.u32(8)? {
        0 => p.out.push_str(", Backbone Area"),
        _ => put!(p, ", Area {}", data.v4(8)?),
    }
    let kind = data.u16(14)?;
    let kinds: Names = &[(0, "none"), (1, "simple"), (2, "MD5")];
    put!(p, ", Authentication Type: {} ({kind})", name(kinds, kind, "unknown"));
    Ok(())
}

pub(super) fn ospf_6(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "ospf3";
    let what = name(OSPF, data.u8(1)?, "unknown packet type ({})");
    put!(p, "OSPFv{}, {what}, length {}", data.u8(0)?, data.len);
    if !p.is_verbose() || find(OSPF, data.u8(1)?).is_none() {
        return Ok(());
    }
    let len = usize::from(data.u16(2)?);
    if len > data.len {
        put!(p, " [len {len}]");
        return Ok(());
    }
    put!(p, "\n\tRouter-ID {}", data.v4(4)?);
    match data.u32(8)? {
        0 => p.out.push_str(", Backbone Area"),
        _ => put!(p, ", Area {}", data.v4(8)?),
    }
    if data.u8(14)? != 0 {
        put!(p, ", Instance {}", data.u8(14)?);
    }
    Ok(())
}

pub(super) fn pim(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "pim";
    let first = data.u8(0)?;
    let (version, what) = (first >> 4, name(PIM, first & 15, "Unknown Type"));
    match version {
        2 if p.is_verbose() => put!(p, "PIMv2, length {}\n\t{what}", data.len),
        2 => put!(p, "PIMv2, {what}, length {}", data.len),
        _ => put!(p, "PIMv{version}, length {}", data.len),
    }
    Ok(())
}

pub(super) fn eigrp(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "eigrp";
    if !data.has(0, 20) {
        p.cut();
        return Ok(());
    }
    let (version, code) = (data.u8(0)?, data.u8(1)?);
    if version != 2 {
        put!(p, "EIGRP version {version} packet not supported");
        return Ok(());
    }
    if p.style.verbose == 0 {
        put!(p, "EIGRP {}, length: {}", name(EIGRP, code, "unknown ({})"), data.len);
        return Ok(());
    }
    let what = name(EIGRP, code, "unknown, type: {}");
    let flags: Names =
        &[(1, "Init"), (2, "Conditionally Received"), (4, "Restart"), (8, "End-of-Table")];
    let flags = crate::text::bits(flags, data.u32(4)?, ", ", "none");
    put!(p, "\n\tEIGRP v{version}, opcode: {what} ({code}), chksum: 0x{:04x}", data.u16(2)?);
    put!(p, ", Flags: [{flags}]\n\tseq: 0x{:08x}, ack: 0x{:08x}", data.u32(8)?, data.u32(12)?);
    put!(p, ", VRID: {}, AS: {}", data.u16(16)?, data.u16(18)?);
    put!(p, ", length: {}", data.len.saturating_sub(20));
    Ok(())
}

pub(super) fn rsvp(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "rsvp";
    if !data.has(0, 8) {
        p.cut();
        return Ok(());
    }
    let (version, kind) = (data.u8(0)? >> 4, data.u8(1)?);
    if version != 1 {
        put!(p, "RSVP version {version} packet not supported");
        return Ok(());
    }
    put!(p, "RSVPv1 {} Message, length: {}", name(RSVP, kind, "unknown ({})"), data.len);
    Ok(())
}
