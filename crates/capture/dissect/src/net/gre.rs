//! Generic routing encapsulation, and PPTP's version of it (RFC 2784, 2890, 1701, 2637).
//!
//! Called by: `demux`.

use super::{ip, ip6, mpls};
use crate::data::{Cut, Data, Done};
use crate::link;
use crate::local;
use crate::names::ethertype_name;
use crate::print::{Printer, put};
use crate::text::{Names, bits};

const CHECKSUM: u16 = 0x8000;
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
const ACK: u16 = 0x0080;

const FLAGS: Names = &[
    (0x8000, "checksum present"),
    (0x4000, "routing present"),
    (0x2000, "key present"),
    (0x1000, "sequence# present"),
    (0x0800, "source routing present"),
    (0x0080, "ack present"),
];

/// A cursor over the optional fields. A read past the end returns [`Cut`].
struct Fields<'a> {
    rest: Data<'a>,
}

impl Fields<'_> {
    fn word(&mut self) -> Result<u16, Cut> {
        if self.rest.len < 2 {
            return Err(Cut);
        }
        let word = self.rest.u16(0)?;
        self.rest = self.rest.skip(2);
        Ok(word)
    }

    fn long(&mut self) -> Result<u32, Cut> {
        if self.rest.len < 4 {
            return Err(Cut);
        }
        let long = self.rest.u32(0)?;
        self.rest = self.rest.skip(4);
        Ok(long)
    }
}

pub(super) fn print(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "gre";
    let mut fields = Fields { rest: data };
    let flags = fields.word()?;
    let version = flags & 7;
    put!(p, "GREv{version}");
    if version > 1 {
        p.out.push_str(" ERROR: unknown-version");
        return Ok(());
    }
    if p.is_verbose() {
        put!(p, ", Flags [{}]", bits(FLAGS, flags, ", ", "none"));
    }
    let protocol = fields.word()?;
    match version {
        0 => version_0(p, &mut fields, flags)?,
        _ => version_1(p, &mut fields, flags)?,
    }
    if p.style.link {
        put!(p, ", proto {} (0x{protocol:04x})", ethertype_name(protocol, "unknown"));
    }
    put!(p, ", length {}", data.len);
    if version == 1 && flags & SEQUENCE == 0 {
        return Ok(());
    }
    p.out.push_str(if p.is_verbose() { "\n\t" } else { ": " });
    let rest = fields.rest;
    p.deeper(|p| content(p, version, protocol, rest))
}

fn version_0(p: &mut Printer, fields: &mut Fields<'_>, flags: u16) -> Done {
    if flags & (CHECKSUM | ROUTING) != 0 {
        let sum = fields.word()?;
        if p.is_verbose() {
            put!(p, ", sum 0x{sum:x}");
        }
        put!(p, ", off 0x{:x}", fields.word()?);
    }
    if flags & KEY != 0 {
        put!(p, ", key=0x{:x}", fields.long()?);
    }
    if flags & SEQUENCE != 0 {
        put!(p, ", seq {}", fields.long()?);
    }
    if flags & ROUTING == 0 {
        return Ok(());
    }
    loop {
        let word = fields.long()?;
        let (family, offset, len) = (word >> 16, word as usize >> 8 & 0xff, word as usize & 0xff);
        if family == 0 && len == 0 {
            return Ok(());
        }
        source_route(p, fields.rest, family, (offset, len))?;
        if fields.rest.len < len {
            return Err(Cut);
        }
        fields.rest = fields.rest.skip(len);
    }
}

/// Print a source route (RFC 1701, 1702).
fn source_route(
    p: &mut Printer,
    data: Data<'_>,
    family: u32,
    (offset, len): (usize, usize),
) -> Done {
    let (name, unit) = match family {
        0x0800 => ("ip", 4),
        0xfffe => ("asn", 2),
        _ => {
            put!(p, ", (rtaf=0x{family:x})");
            return Ok(());
        }
    };
    put!(p, ", (rtaf={name}");
    let wrong = [("badoffset=", offset), ("badlength=", len)];
    let bad = wrong.iter().find(|(_, value)| value % unit != 0);
    if let Some((what, value)) = bad {
        put!(p, ", {what}{value})");
        return Ok(());
    }
    if offset >= len {
        put!(p, ", badoff/len={offset}/{len})");
        return Ok(());
    }
    for at in (0..len).step_by(unit) {
        let here = if at == offset { "*" } else { "" };
        match unit {
            4 => put!(p, " {here}{}", data.v4(at)?),
            _ => put!(p, " {here}{:x}", data.u16(at)?),
        }
    }
    p.out.push(')');
    Ok(())
}

fn version_1(p: &mut Printer, fields: &mut Fields<'_>, flags: u16) -> Done {
    if flags & KEY != 0 {
        put!(p, ", call {}", fields.long()? & 0xffff);
    }
    if flags & SEQUENCE != 0 {
        put!(p, ", seq {}", fields.long()?);
    }
    if flags & ACK != 0 {
        put!(p, ", ack {}", fields.long()?);
    }
    if flags & SEQUENCE == 0 {
        p.out.push_str(", no-payload");
    }
    Ok(())
}

fn content(p: &mut Printer, version: u16, protocol: u16, data: Data<'_>) -> Done {
    match (version, protocol) {
        (0, 0x0800) => ip(p, data),
        (0, 0x86dd) => ip6(p, data),
        (0, 0x8847) => mpls(p, data),
        (0, 0x00fe) => local::osi(p, data),
        (0, 0x6558) => link::ethernet(p, data).map(drop),
        (1, 0x880b) => link::ppp(p, data).map(drop),
        _ => {
            put!(p, "gre-proto-0x{protocol:x}");
            Ok(())
        }
    }
}
