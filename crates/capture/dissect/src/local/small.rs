//! Small link protocols: slow protocols (IEEE 802.3 annex 57A), ATA over Ethernet, and Ethernet's
//! loopback test.
//!
//! Called by: `link::ethertype`.

use crate::data::{Cut, Data, Done};
use crate::hex;
use crate::print::{Printer, put};
use crate::text::{Names, bits, name};

const SLOW: Names = &[(1, "LACP"), (2, "MARKER"), (3, "OAM")];

/// Print slow protocols, such as link aggregation.
pub(crate) fn slow(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "slow";
    let too_short = |p: &mut Printer| {
        let verbose = p.is_verbose();
        p.out.push_str(if verbose {
            "\n\t\t packet is too short"
        } else {
            " (packet is too short)"
        });
        Ok(())
    };
    if data.len < 1 {
        return too_short(p);
    }
    let kind = data.u8(0)?;
    let what = name(SLOW, kind, "unknown ({})");
    match kind {
        1 | 2 if data.len < 2 => return too_short(p),
        1 | 2 => match data.u8(1)? {
            1 => {
                put!(p, "{what}v1, length {}", data.len);
                if p.is_verbose() {
                    aggregation(p, kind, data.skip(2))?;
                }
            }
            version => put!(p, "{what} version {version} packet not supported"),
        },
        _ => {
            put!(p, "{what}, length {}", data.len);
            if kind != 3 {
                hex::only_indented(&mut p.out, "\n\t", data.bounded().bytes);
            }
        }
    }
    Ok(())
}

const AGGREGATION: Names = &[
    (0x100, "Terminator"),
    (0x101, "Actor Information"),
    (0x102, "Partner Information"),
    (0x103, "Collector Information"),
    (0x200, "Terminator"),
    (0x201, "Marker Information"),
];

const STATE: Names = &[
    (0x01, "Activity"),
    (0x02, "Timeout"),
    (0x04, "Aggregation"),
    (0x08, "Synchronization"),
    (0x10, "Collecting"),
    (0x20, "Distributing"),
    (0x40, "Default"),
    (0x80, "Expired"),
];

/// Print TLVs of LACP and of markers (IEEE 802.1AX, section 6.4.2.3 and 6.5.3.3).
fn aggregation(p: &mut Printer, protocol: u8, data: Data<'_>) -> Done {
    let mut rest = data;
    while rest.len > 0 {
        if rest.len < 2 {
            p.out.push_str("\n\t\t packet is too short");
            return Ok(());
        }
        let (kind, len) = (rest.u8(0)?, usize::from(rest.u8(1)?));
        let which = u16::from(protocol) << 8 | u16::from(kind);
        put!(p, "\n\t{} TLV (0x{kind:02x}), length {len}", name(AGGREGATION, which, "Unknown"));
        if kind == 0 {
            break;
        }
        if len < 2 {
            p.out.push_str("\n\t    ERROR: illegal length - should be >= 2");
            break;
        }
        if rest.len < len {
            p.out.push_str("\n\t\t packet is too short");
            break;
        }
        let value = Data::new(rest.get(2, len - 2)?, len - 2);
        let ought = match which {
            0x101 | 0x102 => 20,
            0x103 | 0x201 => 16,
            _ => len,
        };
        match which {
            _ if len != ought => put!(p, "\n\t    ERROR: illegal length - should be {ought}"),
            0x101 | 0x102 => {
                put!(p, "\n\t  System {}, System Priority {}", value.mac(2)?, value.u16(0)?);
                put!(p, ", Key {}, Port {}", value.u16(8)?, value.u16(12)?);
                put!(p, ", Port Priority {}", value.u16(10)?);
                put!(p, "\n\t  State Flags [{}]", bits(STATE, value.u8(14)?, ", ", "none"));
            }
            0x103 => put!(p, "\n\t  Max Delay {}", value.u16(0)?),
            0x201 => {
                put!(p, "\n\t  Request System {}, Request Port {}", value.mac(2)?, value.u16(0)?);
                put!(p, ", Request Transaction ID 0x{:08x}", value.u32(8)?);
            }
            _ if p.style.verbose == 1 => {
                hex::only_indented(&mut p.out, "\n\t  ", value.bytes);
            }
            _ => {}
        }
        if p.style.verbose > 1 {
            hex::only_indented(&mut p.out, "\n\t  ", value.bytes);
        }
        rest = rest.skip(len);
    }
    Ok(())
}

const AOE_FLAGS: Names = &[(0x08, "Response"), (0x04, "Error"), (0x02, "MBZ-1"), (0x01, "MBZ-0")];

const AOE_ERRORS: Names = &[
    (1, "Unrecognized command code"),
    (2, "Bad argument parameter"),
    (3, "Device unavailable"),
    (4, "Config string present"),
    (5, "Unsupported version"),
    (6, "Target is reserved"),
];

const AOE_COMMANDS: Names = &[
    (0, "Issue ATA Command"),
    (1, "Query Config Information"),
    (2, "MAC Mask List"),
    (3, "Reserve/Release"),
];

/// Print ATA over Ethernet. The arguments of commands are not printed.
pub(crate) fn aoe(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "aoe";
    put!(p, "AoE length {}", data.len);
    if data.len < 1 {
        p.invalid();
        return Ok(());
    }
    let first = data.u8(0)?;
    put!(p, ", Ver {}", first >> 4);
    if first >> 4 != 1 {
        return Ok(());
    }
    if data.len < 10 {
        p.invalid();
        return if data.here() < data.len { Err(Cut) } else { Ok(()) };
    }
    put!(p, ", Flags: [{}]", bits(AOE_FLAGS, first & 15, ", ", "none"));
    if !p.is_verbose() {
        return Ok(());
    }
    if first & 4 != 0 {
        put!(p, "\n\tError: {}", name(AOE_ERRORS, data.u8(1)?, "Invalid ({})"));
    }
    put!(p, "\n\tMajor: 0x{:04x}, Minor: 0x{:02x}", data.u16(2)?, data.u8(4)?);
    let command = name(AOE_COMMANDS, data.u8(5)?, "Unknown (0x{02x})");
    put!(p, ", Command: {command}, Tag: 0x{:08x}", data.u32(6)?);
    Ok(())
}

/// Print the configuration test protocol of Ethernet version 2.
pub(crate) fn loopback(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "loopback";
    p.out.push_str("Loopback");
    if data.len < 2 {
        p.invalid();
        return Ok(());
    }
    let skip = usize::from(data.u16_le(0)?);
    put!(p, ", skipCount {skip}");
    if skip % 8 != 0 {
        p.out.push_str(" (bogus)");
    }
    let rest = data.skip(2);
    if skip > rest.len {
        p.invalid();
        return if rest.here() < rest.len { Err(Cut) } else { Ok(()) };
    }
    rest.get(0, skip)?;
    let message = rest.skip(skip);
    if message.len < 2 {
        p.invalid();
        return Ok(());
    }
    let function = message.u16_le(0)?;
    let (what, len) = match function {
        1 => (", Reply", 2),
        2 => (", Forward Data", 6),
        _ => {
            put!(p, ",  invalid ({function})");
            return if message.here() < message.len { Err(Cut) } else { Ok(()) };
        }
    };
    p.out.push_str(what);
    let body = message.skip(2);
    if body.len < len {
        p.invalid();
        return Ok(());
    }
    match function {
        1 => put!(p, ", receipt number {}", body.u16_le(0)?),
        _ => put!(p, ", forwarding address {}", body.mac(0)?),
    }
    put!(p, ", data ({} octets)", body.len - len);
    body.get(0, body.len).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::printed_by;

    #[test]
    fn both_ends_of_an_aggregation_say_how_they_are() {
        let end = [0x80, 0, 2, 0, 0, 0, 0, 1, 0, 13, 0x80, 0, 0, 22, 0x3d, 0, 0, 0];
        let bytes = [&[1, 1, 1, 20][..], &end, &[3, 16, 0x80], &[0; 13], &[0, 0, 7]].concat();
        let lines = [
            "LACPv1, length 41",
            "Actor Information TLV (0x01), length 20",
            "  System 02:00:00:00:00:01, System Priority 32768, Key 13, Port 22, \
             Port Priority 32768",
            "  State Flags [Activity, Aggregation, Synchronization, Collecting, Distributing]",
            "Collector Information TLV (0x03), length 16",
            "  Max Delay 32768",
            "Terminator TLV (0x00), length 0",
        ];
        assert_eq!(printed_by(slow, 1, &bytes), (lines.join("\n\t"), Ok(())));
        let (text, _) = printed_by(slow, 1, &[1, 1, 3, 4, 5, 6]);
        assert!(text.ends_with("length 4\n\t    ERROR: illegal length - should be 16"), "{text}");
    }
}
