//! RIP, both versions; `-v` prints the routes (RFC 1058, 2453, 4822).
//!
//! Called by: `app`.

use crate::data::{Data, Done};
use crate::hex;
use crate::print::{Printer, put};
use crate::text::{Names, name};

const COMMANDS: Names = &[
    (1, "Request"),
    (2, "Response"),
    (3, "Trace on"),
    (4, "Trace off"),
    (6, "Triggered Request"),
    (7, "Triggered Response"),
    (8, "Triggered Acknowledgement"),
    (9, "Update Request"),
    (10, "Update Response"),
    (11, "Update Acknowledge"),
];

const HEADER_LEN: usize = 4;
const ENTRY_LEN: usize = 20;

/// The address family of IPv4, and the value that stands for authentication data in place of an
/// address.
const IPV4: u16 = 2;
const AUTHENTICATION: u16 = 0xffff;

pub(super) fn print(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "rip";
    p.out.push_str(if p.is_verbose() { "\n\tRIP" } else { "RIP" });
    if data.len < HEADER_LEN {
        put!(p, " [packet length {} < {HEADER_LEN}]", data.len);
        p.invalid();
        return Ok(());
    }
    let (command, version) = (data.u8(0)?, data.u8(1)?);
    put!(p, "v{version}");
    if !matches!(version, 1 | 2) {
        p.out.push_str(" [version != 1 && version != 2]");
        p.invalid();
        return Ok(());
    }
    put!(p, ", {}, length: {}", name(COMMANDS, command, "unknown command ({})"), data.len);
    data.get(0, HEADER_LEN)?;
    let mut rest = data.skip(HEADER_LEN).bounded();
    if !p.is_verbose() || !matches!(command, 1 | 2) {
        return Ok(());
    }
    let or_less = if version == 2 { " or less" } else { "" };
    put!(p, ", routes: {}{or_less}", rest.len / ENTRY_LEN);
    while rest.len > 0 {
        let len = match version {
            1 => entry_1(p, rest)?,
            _ => entry_2(p, rest)?,
        };
        if len == 0 {
            p.invalid();
            break;
        }
        rest = rest.skip(len);
    }
    Ok(())
}

fn entry_1(p: &mut Printer, data: Data<'_>) -> Result<usize, crate::data::Cut> {
    if data.len < ENTRY_LEN {
        put!(p, " [remaining data length {} < {ENTRY_LEN}]", data.len);
        return Ok(0);
    }
    let entry = data.get(0, ENTRY_LEN)?;
    let family = data.u16(0)?;
    let are_zero = data.u16(2)? == 0 && data.u64(8)? == 0;
    match family {
        0 | IPV4 if !are_zero => hex::only_indented(&mut p.out, "\n\t  ", entry),
        0 => put!(p, "\n\t  AFI 0, {}, metric: {}", data.v4(4)?, data.u32(16)?),
        IPV4 => put!(p, "\n\t  {}, metric: {}", data.v4(4)?, data.u32(16)?),
        _ => {
            put!(p, "\n\t AFI Unknown ({family}), ");
            hex::only_indented(&mut p.out, "\n\t  ", &entry[4..]);
        }
    }
    Ok(ENTRY_LEN)
}

fn entry_2(p: &mut Printer, data: Data<'_>) -> Result<usize, crate::data::Cut> {
    let family = data.u16(0)?;
    if family == AUTHENTICATION {
        return authentication(p, data);
    }
    if data.len < ENTRY_LEN {
        put!(p, " [remaining data length {} < {ENTRY_LEN}]", data.len);
        return Ok(0);
    }
    if !matches!(family, 0 | IPV4) {
        put!(p, "\n\t  AFI Unknown ({family})");
        hex::only_indented(&mut p.out, "\n\t  ", data.get(4, ENTRY_LEN - 4)?);
        return Ok(ENTRY_LEN);
    }
    let mask = data.u32(8)?;
    let bits = mask.leading_ones();
    // A mask whose bits have gaps is -1, as in tcpdump.
    let bits = if mask.count_ones() == bits { bits as i32 } else { -1 };
    let family = name(&[(2, "IPv4")], family, "{}");
    put!(p, "\n\t  AFI {family}, {:>15}/{bits:<2}", data.v4(4)?.to_string());
    put!(p, ", tag 0x{:04x}, metric: {}, next-hop: ", data.u16(2)?, data.u32(16)?);
    match data.u32(12)? {
        0 => p.out.push_str("self"),
        _ => put!(p, "{}", data.v4(12)?),
    }
    Ok(ENTRY_LEN)
}

fn authentication(p: &mut Printer, data: Data<'_>) -> Result<usize, crate::data::Cut> {
    match data.u16(2)? {
        2 => {
            p.out.push_str("\n\t  Simple Text Authentication data: ");
            p.chars_padded(data.get(4, 16)?);
        }
        3 => {
            put!(p, "\n\t  Auth header: Packet Len {}", data.u16(4)?);
            put!(p, ", Key-ID {}, Auth Data Len {}", data.u8(6)?, data.u8(7)?);
            put!(p, ", SeqNo {}, MBZ {}, MBZ {}", data.u32(8)?, data.u32(12)?, data.u32(16)?);
        }
        kind => {
            match kind {
                1 => p.out.push_str("\n\t  Auth trailer:"),
                _ => put!(p, "\n\t  Unknown ({kind}) Authentication data:"),
            }
            // Authentication data is the rest of the packet.
            hex::only_indented(&mut p.out, "\n\t  ", data.skip(4).bytes);
            return Ok(data.len);
        }
    }
    Ok(ENTRY_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::printed_by;

    fn printed(verbose: u8, bytes: &[u8]) -> String {
        let (text, done) = printed_by(print, verbose, bytes);
        assert_eq!(done, Ok(()));
        text
    }

    #[test]
    fn routes_are_printed_one_a_line() {
        let route = [0, 2, 0, 5, 192, 0, 2, 0, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 3];
        let password = [&[0xff, 0xff, 0, 2][..], b"secret", &[0; 10]].concat();
        let bytes = [&[2, 2, 0, 0][..], &password, &route].concat();
        assert_eq!(printed(0, &bytes), "RIPv2, Response, length: 44");
        let lines = [
            "\n\tRIPv2, Response, length: 44, routes: 2 or less",
            "\n\t  Simple Text Authentication data: secret",
            "\n\t  AFI IPv4,       192.0.2.0/24, tag 0x0005, metric: 3, next-hop: self",
        ];
        assert_eq!(printed(1, &bytes), lines.concat());
        let text =
            printed(1, &[&[1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &[0; 11], &[16]].concat());
        assert!(text.ends_with(", routes: 1\n\t  AFI 0, 0.0.0.0, metric: 16"), "{text}");
        assert!(printed(1, &bytes[..30]).ends_with("[remaining data length 6 < 20] (invalid)"));
        assert!(
            printed(0, &[1, 3, 0, 0]).ends_with("RIPv3 [version != 1 && version != 2] (invalid)")
        );
    }
}
