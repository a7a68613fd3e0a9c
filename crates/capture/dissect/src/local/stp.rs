//! Spanning tree protocols (IEEE 802.1D, 802.1w, 802.1s, 802.1aq).
//!
//! Called by: `link::llc`.

use crate::data::{Cut, Data, Done};
use crate::print::{Printer, put};
use crate::text::{Names, bits, name};

const PROTOCOLS: Names = &[(0, "802.1d"), (2, "802.1w"), (3, "802.1s"), (4, "802.1aq")];

const KINDS: Names = &[(0x00, "Config"), (0x02, "Rapid STP"), (0x80, "Topology Change")];

const FLAGS: Names = &[
    (0x01, "Topology change"),
    (0x02, "Proposal"),
    (0x10, "Learn"),
    (0x20, "Forward"),
    (0x40, "Agreement"),
    (0x80, "Topology change ACK"),
];

const ROLES: Names = &[(0, "Unknown"), (1, "Alternate"), (2, "Root"), (3, "Designated")];

/// The number of bytes of a message up to the version 1 length, which is always 0.
const HEADER_LEN: usize = 36;

/// The number of bytes of an MSTP message without instances.
const MULTIPLE_LEN_MIN: usize = 102;

/// The number of bytes of the part for shortest path bridging.
const SHORTEST_LEN_MIN: usize = 87;

pub(crate) fn print(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "stp";
    if data.len < 4 {
        p.invalid();
        return Ok(());
    }
    if data.u16(0)? != 0 {
        put!(p, "unknown STP version, length {}", data.len);
        return Ok(());
    }
    let version = data.u8(2)?;
    put!(p, "STP {}", name(PROTOCOLS, version, "Unknown STP protocol (0x{02x})"));
    if !matches!(version, 0 | 2..=4) {
        return Ok(());
    }
    let kind = data.u8(3)?;
    put!(p, ", {}", name(KINDS, kind, "Unknown BPDU Type (0x{02x})"));
    let is_good = match (kind, version) {
        (0, _) => data.len >= HEADER_LEN - 1 && config(p, data)?,
        (2, 2) => data.len >= HEADER_LEN && config(p, data)?,
        (2, 3 | 4) => data.len >= MULTIPLE_LEN_MIN && multiple(p, data, version)?,
        _ => true,
    };
    if !is_good {
        p.invalid();
    }
    Ok(())
}

/// The text of a bridge's priority and address.
fn bridge(data: Data<'_>, at: usize) -> Result<String, Cut> {
    Ok(format!("{:04x}.{}", data.u16(at)?, data.mac(at + 2)?))
}

fn role(flags: u8) -> String {
    name(ROLES, flags >> 2 & 3, "Unknown")
}

/// Print the timers at the end of the header, in seconds.
fn times(p: &mut Printer, data: Data<'_>) -> Done {
    let seconds = |at| data.u16(at).map(|time| f64::from(time) / 256.0);
    let (age, most, hello, delay) = (seconds(27)?, seconds(29)?, seconds(31)?, seconds(33)?);
    put!(p, "\n\tmessage-age {age:.2}s, max-age {most:.2}s");
    put!(p, ", hello-time {hello:.2}s, forwarding-delay {delay:.2}s");
    Ok(())
}

fn config(p: &mut Printer, data: Data<'_>) -> Result<bool, Cut> {
    let flags = data.u8(4)?;
    put!(p, ", Flags [{}]", bits(FLAGS, flags, ", ", "none"));
    put!(p, ", bridge-id {}.{:04x}, length {}", bridge(data, 17)?, data.u16(25)?, data.len);
    if p.is_verbose() {
        times(p, data)?;
        put!(p, "\n\troot-id {}, root-pathcost {}", bridge(data, 5)?, data.u32(13)?);
        if data.u8(2)? == 2 {
            put!(p, ", port-role {}", role(flags));
        }
    }
    Ok(true)
}

fn multiple(p: &mut Printer, data: Data<'_>, version: u8) -> Result<bool, Cut> {
    if data.u8(35)? != 0 {
        return Ok(false);
    }
    let len = usize::from(data.u16(36)?) + 2;
    if data.len < HEADER_LEN + len {
        return Ok(false);
    }
    let flags = data.u8(4)?;
    put!(p, ", CIST Flags [{}], length {}", bits(FLAGS, flags, ", ", "none"), data.len);
    if p.is_verbose() {
        trees(p, data, flags, len - 2)?;
    }
    if version == 4 {
        let more = usize::from(data.u16(HEADER_LEN + len)?) + 2;
        return Ok(data.len >= HEADER_LEN + len + more && more >= SHORTEST_LEN_MIN);
    }
    Ok(true)
}

fn trees(p: &mut Printer, data: Data<'_>, flags: u8, len: usize) -> Done {
    put!(p, "\n\tport-role {}, ", role(flags));
    put!(p, "CIST root-id {}, CIST ext-pathcost {}", bridge(data, 5)?, data.u32(13)?);
    put!(p, "\n\tCIST regional-root-id {}, ", bridge(data, 17)?);
    put!(p, "CIST port-id {:04x},", data.u16(25)?);
    times(p, data)?;
    put!(p, "\n\tv3len {len}, MCID Name ");
    p.chars_padded(data.get(39, 32)?);
    put!(p, ", rev {},\n\t\tdigest ", data.u16(71)?);
    p.hex_digits(data.get(73, 16)?);
    put!(p, ", CIST int-root-pathcost {},", data.u32(89)?);
    put!(p, "\n\tCIST bridge-id {}, ", bridge(data, 93)?);
    put!(p, "CIST remaining-hops {}", data.u8(101)?);
    let mut at = MULTIPLE_LEN_MIN;
    for _ in 0..len.saturating_sub(64) / 16 {
        let flags = data.u8(at)?;
        put!(p, "\n\tMSTI {}, ", data.u16(at + 1)? & 0xfff);
        put!(p, "Flags [{}], port-role {}", bits(FLAGS, flags, ", ", "none"), role(flags));
        let (root, cost) = (bridge(data, at + 1)?, data.u32(at + 9)?);
        put!(p, "\n\t\tMSTI regional-root-id {root}, pathcost {cost}");
        let (bridge, port, hops) = (data.u8(at + 13)?, data.u8(at + 14)?, data.u8(at + 15)?);
        put!(p, "\n\t\tMSTI bridge-prio {}, port-prio {}, hops {hops}", bridge >> 4, port >> 4);
        at += 16;
    }
    Ok(())
}
