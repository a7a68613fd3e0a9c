//! Cisco's protocols between neighbours: CDP (discovery), DTP (trunks) and UDLD.
//!
//! Called by: `link`. Without `-v` little more than the device's name is printed.

use crate::data::{Cut, Data, Done};
use crate::hex;
use crate::print::{Printer, put};
use crate::text::{Names, bits, name};

/// How a field of CDP is printed under `-v`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum As {
    Text,
    Lines,
    Addresses,
    Prefixes,
    Capabilities,
    Number,
    Duplex,
    Voice,
    Milliwatts,
    Mtu,
    Byte,
    Location,
    /// Only the field's name is printed.
    Nothing,
}

const ANY: usize = usize::MAX;

/// The fields of CDP: type, name, how the value is printed, and its least and most bytes.
#[rustfmt::skip]
const CDP_FIELDS: [(u16, &str, As, usize, usize); 21] = [
    (0x01, "Device-ID", As::Text, 0, ANY),
    (0x02, "Address", As::Addresses, 0, ANY),
    (0x03, "Port-ID", As::Text, 0, ANY),
    (0x04, "Capability", As::Capabilities, 4, 4),
    (0x05, "Version String", As::Lines, 0, ANY),
    (0x06, "Platform", As::Text, 0, ANY),
    (0x07, "Prefixes", As::Prefixes, 0, ANY),
    (0x08, "Protocol-Hello option", As::Nothing, 0, ANY),
    (0x09, "VTP Management Domain", As::Text, 0, ANY),
    (0x0a, "Native VLAN ID", As::Number, 2, 2),
    (0x0b, "Duplex", As::Duplex, 1, 1),
    (0x0e, "ATA-186 VoIP VLAN assignment", As::Voice, 3, 3),
    (0x0f, "ATA-186 VoIP VLAN request", As::Voice, 2, 3),
    (0x10, "power consumption", As::Milliwatts, 1, 3),
    (0x11, "MTU", As::Mtu, 4, 4),
    (0x12, "AVVID trust bitmap", As::Byte, 1, 1),
    (0x13, "AVVID untrusted ports CoS", As::Byte, 1, 1),
    (0x14, "System Name", As::Text, 0, ANY),
    (0x15, "System Object ID (not decoded)", As::Nothing, 0, ANY),
    (0x16, "Management Addresses", As::Addresses, 4, ANY),
    (0x17, "Physical Location", As::Location, 1, ANY),
];

const CDP_CAPABILITIES: Names = &[
    (0x01, "Router"),
    (0x02, "Transparent Bridge"),
    (0x04, "Source Route Bridge"),
    (0x08, "L2 Switch"),
    (0x10, "L3 capable"),
    (0x20, "IGMP snooping"),
    (0x40, "L1 capable"),
];

/// Print CDP.
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
                0..4 if p.is_verbose() => {
                    let plural = if len == 1 { "" } else { "s" };
                    put!(p, "\n\t{} (0x{kind:02x})", cdp_name(kind));
                    put!(p, ", TLV length: {len} byte{plural} (too short)");
                }
                0..4 => put!(p, ", {} TLV length {len} too short", cdp_name(kind)),
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

fn cdp_name(kind: u16) -> &'static str {
    let known = CDP_FIELDS.iter().find(|(known, ..)| *known == kind);
    known.map_or("unknown field type", |(_, what, ..)| what)
}

/// Print a field of CDP: with `-v` by its name and type; without it the device's name as text, and
/// other fields in hex, as tcpdump does.
fn cdp_field(p: &mut Printer, kind: u16, value: Data<'_>, len: usize) -> Done {
    if p.is_verbose() {
        let plural = if len == 1 { "" } else { "s" };
        put!(p, "\n\t{} (0x{kind:02x}), value length: {len} byte{plural}: ", cdp_name(kind));
    }
    let known = CDP_FIELDS.iter().find(|(known, ..)| *known == kind);
    match known {
        Some((.., least, most)) if !(*least..=*most).contains(&len) => {
            p.out.push_str(" (malformed TLV)");
        }
        Some((_, _, shape, ..)) if p.is_verbose() => {
            return cdp_value(p, *shape, value.within(len));
        }
        Some((1, ..)) => {
            p.out.push_str(", Device-ID ");
            return cdp_value(p, As::Text, value.within(len));
        }
        _ => {}
    }
    hex::only_indented(&mut p.out, "\n\t  ", value.get(0, len)?);
    Ok(())
}

fn cdp_value(p: &mut Printer, shape: As, value: Data<'_>) -> Done {
    let len = value.len;
    match shape {
        As::Text => {
            p.out.push('\'');
            p.chars_of(value, 0, len)?;
            p.out.push('\'');
        }
        As::Lines => {
            for line in value.get(0, len)?.split(|byte| *byte == b'\n') {
                p.out.push_str("\n\t  ");
                p.chars(line);
            }
        }
        As::Addresses => cdp_addresses(p, value)?,
        As::Prefixes if !len.is_multiple_of(5) => put!(p, " [length {len} is not a multiple of 5]"),
        As::Prefixes => {
            put!(p, " IPv4 Prefixes ({}):", len / 5);
            for at in (0..len).step_by(5) {
                put!(p, " {}/{}", value.v4(at)?, value.u8(at + 4)?);
            }
        }
        As::Capabilities => {
            let set = value.u32(0)?;
            put!(p, "(0x{set:08x}): {}", bits(CDP_CAPABILITIES, set, ", ", "none"));
        }
        As::Number => put!(p, "{}", value.u16(0)?),
        As::Duplex => p.out.push_str(if value.u8(0)? != 0 { "full" } else { "half" }),
        As::Voice if len == 2 => put!(p, "unknown 0x{:04x}", value.u16(0)?),
        As::Voice => put!(p, "app {}, vlan {}", value.u8(0)?, value.u16(1)?),
        As::Milliwatts => {
            let power = value.get(0, len)?.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
            put!(p, "{:.2}W", f64::from(power) / 1_000.0);
        }
        As::Mtu => put!(p, "{} bytes", value.u32(0)?),
        As::Byte => put!(p, "0x{:02x}", value.u8(0)?),
        As::Location => {
            put!(p, "0x{:02x}", value.u8(0)?);
            if len > 1 {
                p.out.push('/');
                p.chars_of(value, 1, len - 1)?;
            }
        }
        As::Nothing => {
            value.get(0, len)?;
        }
    }
    Ok(())
}

/// Print addresses, each of which follows its protocol: IPv4 has its NLPID, IPv6 has LLC and SNAP.
fn cdp_addresses(p: &mut Printer, value: Data<'_>) -> Done {
    const IPV4: [u8; 3] = [1, 1, 0xcc];
    const IPV6: [u8; 10] = [2, 8, 0xaa, 0xaa, 3, 0, 0, 0, 0x86, 0xdd];
    if value.len < 4 {
        p.out.push_str(" (not enough space for num)");
        return Ok(());
    }
    let mut rest = value.skip(4);
    for left in (1..=value.u32(0)?).rev() {
        if rest.len < 2 {
            p.out.push_str(" (not enough space for PT+PL)");
            return Ok(());
        }
        let protocol_len = usize::from(rest.u8(1)?);
        if rest.len < protocol_len + 4 {
            p.out.push_str(" (not enough space for P+AL)");
            return Ok(());
        }
        let (protocol, len) = (rest.get(0, 2 + protocol_len)?, rest.u16(2 + protocol_len)?);
        rest = rest.skip(protocol_len + 4);
        let is_too_long = rest.len < usize::from(len);
        match (protocol, len) {
            (known, 4) if known == IPV4 && !is_too_long => put!(p, "IPv4 ({left}) {}", rest.v4(0)?),
            (known, 16) if known == IPV6 && !is_too_long => {
                put!(p, "IPv6 ({left}) {}", rest.v6(0)?);
            }
            _ => {
                put!(p, "pt=0x{:02x}, pl={protocol_len}, pb=", protocol[0]);
                protocol[2..].iter().for_each(|byte| put!(p, " {byte:02x}"));
                put!(p, ", al={len}, a=");
                if !is_too_long {
                    rest.get(0, len.into())?.iter().for_each(|byte| put!(p, " {byte:02x}"));
                }
            }
        }
        if is_too_long {
            p.out.push_str(" (not enough space for A)");
            return Ok(());
        }
        rest = rest.skip(len.into());
        p.out.push_str(if left > 1 { " " } else { "" });
    }
    if rest.len > 0 {
        put!(p, " ({} bytes of stray data)", rest.len);
    }
    Ok(())
}

/// Print DTP, which negotiates trunks.
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

/// Print UDLD, which detects unidirectional links.
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

/// Print one of Cisco's protocols over SNAP. False if it is unknown.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::printed_by;

    #[test]
    fn fields_of_cdp_are_named_and_each_printed_as_what_it_is() {
        let bytes = [
            &[2, 180, 0, 0, 0, 1, 0, 6, b'S', b'1'][..],
            &[0, 2, 0, 17, 0, 0, 0, 1, 1, 1, 0xcc, 0, 4, 192, 0, 2, 1],
            &[0, 5, 0, 7, b'a', b'\n', b'b', 0, 4, 0, 8, 0, 0, 0, 0x28],
            &[0, 11, 0, 5, 1, 0, 10, 0, 6, 0, 7, 0, 26, 0, 6, 0xab, 0xcd],
        ]
        .concat();
        let lines = [
            "CDPv2, ttl: 180s, checksum: 0x0000 (unverified), length 59",
            "Device-ID (0x01), value length: 2 bytes: 'S1'",
            "Address (0x02), value length: 13 bytes: IPv4 (1) 192.0.2.1",
            "Version String (0x05), value length: 3 bytes: \n\t  a\n\t  b",
            "Capability (0x04), value length: 4 bytes: (0x00000028): L2 Switch, IGMP snooping",
            "Duplex (0x0b), value length: 1 byte: full",
            "Native VLAN ID (0x0a), value length: 2 bytes: 7",
            "unknown field type (0x1a), value length: 2 bytes: \n\t  0x0000:  abcd",
        ];
        assert_eq!(printed_by(cdp, 1, &bytes), (lines.join("\n\t"), Ok(())));
    }

    #[test]
    fn addresses_end_where_the_field_does() {
        // The count is four billion addresses, but there is room for only one.
        let bytes = [255, 255, 255, 255, 1, 1, 0xcc, 0, 4, 192, 0, 2, 1];
        let said = "IPv4 (4294967295) 192.0.2.1  (not enough space for PT+PL)";
        assert_eq!(printed_by(cdp_addresses, 0, &bytes), (said.to_owned(), Ok(())));
    }
}
