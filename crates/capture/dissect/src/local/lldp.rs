//! LLDP (IEEE 802.1AB): a device describes itself to the device at the other end of the cable.
//!
//! Called by: `link`. Without `-v` the length and the system's name are printed. `-v` prints the
//! basic TLVs and those of IEEE 802.1, 802.3 and IANA, and the names of other organizations.

use super::bridging;
use crate::data::{Cut, Data, Done};
use crate::hex;
use crate::names::OUIS;
use crate::print::{Printer, put};
use crate::text::{Names, bits, name};

const TLVS: Names = &[
    (0, "End"),
    (1, "Chassis ID"),
    (2, "Port ID"),
    (3, "Time to Live"),
    (4, "Port Description"),
    (5, "System Name"),
    (6, "System Description"),
    (7, "System Capabilities"),
    (8, "Management Address"),
    (127, "Organization specific"),
];

/// How an identifier of the sender is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum As {
    Mac,
    Address,
    Text,
}

const CHASSIS: &[(u8, &str, As)] = &[
    (1, "Chassis component", As::Text),
    (2, "Interface alias", As::Text),
    (3, "Port component", As::Text),
    (4, "MAC address", As::Mac),
    (5, "Network address", As::Address),
    (6, "Interface name", As::Text),
    (7, "Local", As::Text),
];

const PORTS: &[(u8, &str, As)] = &[
    (1, "Interface alias", As::Text),
    (2, "Port component", As::Text),
    (3, "MAC address", As::Mac),
    (4, "Network Address", As::Address),
    (5, "Interface Name", As::Text),
    (6, "Agent circuit ID", As::Text),
    (7, "Local", As::Text),
];

const CAPABILITIES: Names = &[
    (0x01, "Other"),
    (0x02, "Repeater"),
    (0x04, "Bridge"),
    (0x08, "WLAN AP"),
    (0x10, "Router"),
    (0x20, "Telephone"),
    (0x40, "Docsis"),
    (0x80, "Station Only"),
];

pub(crate) fn lldp(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "lldp";
    put!(p, "LLDP, length {}", data.len);
    let mut rest = data;
    while rest.len >= 2 {
        let word = rest.u16(0)?;
        let (kind, len) = (word >> 9, usize::from(word & 0x1ff));
        rest = rest.skip(2);
        if p.is_verbose() {
            put!(p, "\n\t{} TLV ({kind}), length {len}", name(TLVS, kind, "Unknown"));
        }
        if kind == 0 || len == 0 {
            break;
        }
        if rest.len < len {
            return Err(Cut);
        }
        rest.get(0, len)?;
        let value = rest.within(len);
        match (p.is_verbose(), kind) {
            (false, 5) => {
                p.out.push_str(": ");
                p.chars_padded(value.bytes);
            }
            (false, _) => {}
            (true, _) => {
                let is_known = tlv(p, kind, value)?;
                if !is_known || p.style.verbose > 1 {
                    hex::only_indented(&mut p.out, "\n\t  ", value.bytes);
                }
            }
        }
        rest = rest.skip(len);
    }
    Ok(())
}

/// Print a TLV. False if the TLV has to be shown in hex.
fn tlv(p: &mut Printer, kind: u16, value: Data<'_>) -> Result<bool, Cut> {
    match kind {
        1 => return sender(p, CHASSIS, value),
        2 => return sender(p, PORTS, value),
        3 => put!(p, ": TTL {}s", value.u16(0)?),
        4 | 5 => {
            p.out.push_str(": ");
            p.chars_padded(value.bytes);
        }
        6 => {
            p.out.push_str("\n\t  ");
            p.chars_padded(value.bytes);
        }
        7 => {
            for (at, what) in [(0, "System "), (2, "Enabled")] {
                let set = value.u16(at)?;
                let text = bits(CAPABILITIES, set, ", ", "none");
                put!(p, "\n\t  {what} Capabilities [{text}] (0x{set:04x})");
            }
        }
        8 => management(p, value)?,
        127 => return organization(p, value),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Print the sender, or the port that it sends from. False if it has to be shown in hex.
fn sender(p: &mut Printer, kinds: &[(u8, &str, As)], value: Data<'_>) -> Result<bool, Cut> {
    if value.len < 2 {
        return Err(Cut);
    }
    let kind = value.u8(0)?;
    let known = kinds.iter().find(|(known, ..)| *known == kind);
    put!(p, "\n\t  Subtype {} ({kind}): ", known.map_or("Unknown", |(_, what, _)| what));
    match known.map(|(.., shape)| *shape) {
        Some(As::Mac) => put!(p, "{}", value.mac(1)?),
        Some(As::Address) => address(p, value.skip(1))?,
        Some(As::Text) => p.chars_padded(&value.bytes[1..]),
        None => return Ok(false),
    }
    Ok(true)
}

/// Print an address family and the address (RFC 3232).
fn address(p: &mut Printer, value: Data<'_>) -> Done {
    match value.u8(0)? {
        1 => put!(p, "AFI IPv4 (1): {}", value.v4(1)?),
        2 => put!(p, "AFI IPv6 (2): {}", value.v6(1)?),
        6 => put!(p, "AFI 802 (6): {}", value.mac(1)?),
        family => put!(p, "AFI Unknown ({family}), no AF printer !"),
    }
    Ok(())
}

/// Print the address at which the sender is managed.
fn management(p: &mut Printer, value: Data<'_>) -> Done {
    const NUMBERINGS: Names = &[(2, "Interface Index"), (3, "System Port Number")];
    let len = usize::from(value.u8(0)?);
    value.get(1, len)?;
    let mut text = Printer::default();
    address(&mut text, value.skip(1).within(len))?;
    put!(p, "\n\t  Management Address length {len}, {}", text.out);
    let rest = value.skip(1 + len);
    rest.get(0, 5)?;
    let kind = rest.u8(0)?;
    let what = name(NUMBERINGS, kind, "Unknown");
    put!(p, "\n\t  {what} Interface Numbering ({kind}): {}", rest.u32(1)?);
    let object = rest.skip(5);
    if object.len > 0 {
        let len = usize::from(object.u8(0)?);
        let bytes = object.get(1, len)?;
        if len > 0 {
            put!(p, "\n\t  OID length {len}");
            p.chars_padded(bytes);
        }
    }
    Ok(())
}

const OF_802_1: Names = &[
    (1, "Port VLAN Id"),
    (2, "Port and Protocol VLAN ID"),
    (3, "VLAN name"),
    (4, "Protocol Identity"),
    (7, "Link aggregation"),
    (8, "Congestion Notification"),
    (9, "ETS Configuration"),
    (10, "ETS Recommendation"),
    (11, "Priority Flow Control Configuration"),
    (12, "Application Priority"),
    (13, "EVB"),
    (14, "CDCP"),
];

const OF_802_3: Names = &[
    (1, "MAC/PHY configuration/status"),
    (2, "Power via MDI"),
    (3, "Link aggregation"),
    (4, "Max frame size"),
];

/// The two bits of a TLV about a feature: whether it is supported, and whether it is enabled.
const SUPPORTED_ENABLED: Names = &[(1, "supported"), (2, "enabled")];

/// Print a TLV of an organization. False if it has to be shown in hex.
fn organization(p: &mut Printer, value: Data<'_>) -> Result<bool, Cut> {
    let oui = value.u24(0)?;
    put!(p, ": OUI {} (0x{oui:06x})", name(OUIS, oui, "Unknown"));
    let is_known = match oui {
        0x00_80c2 | 0x00_120f | 0x00_005e => value.len >= 4,
        _ => return Ok(false),
    };
    if !is_known {
        return Ok(true);
    }
    let kind = value.u8(3)?;
    let names = match oui {
        0x00_80c2 => OF_802_1,
        0x00_120f => OF_802_3,
        _ => &[(1, "MUD-URL")],
    };
    put!(p, "\n\t  {} Subtype ({kind})", name(names, kind, "unknown"));
    let body = value.skip(4);
    // If the TLV is too short, only its name is printed.
    let _ = match oui {
        0x00_80c2 => of_802_1(p, kind, body),
        0x00_120f => of_802_3(p, kind, body),
        _ => mud(p, kind, body),
    };
    let printed: &[u8] = match oui {
        0x00_80c2 => &[1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14],
        0x00_120f => &[1, 2, 3, 4],
        _ => &[1],
    };
    Ok(printed.contains(&kind))
}

fn of_802_1(p: &mut Printer, kind: u8, body: Data<'_>) -> Done {
    match kind {
        1 => put!(p, "\n\t    port vlan id (PVID): {}", body.u16(0)?),
        2 => {
            const FLAGS: Names = &[(2, "supported"), (4, "enabled")];
            let (flags, id) = (body.u8(0)?, body.u16(1)?);
            let text = bits(FLAGS, flags, ", ", "none");
            put!(p, "\n\t    port and protocol vlan id (PPVID): {id}");
            put!(p, ", flags [{text}] (0x{flags:02x})");
        }
        3 => {
            put!(p, "\n\t    vlan id (VID): {}", body.u16(0)?);
            let text = body.get(3, usize::from(body.u8(2)?))?;
            p.out.push_str("\n\t    vlan name: ");
            p.chars_padded(text);
        }
        4 => {
            let text = body.get(1, usize::from(body.u8(0)?))?;
            p.out.push_str("\n\t    protocol identity: ");
            p.chars_padded(text);
        }
        7 => aggregation(p, body)?,
        _ => bridging::print(p, kind, body)?,
    }
    Ok(())
}

fn of_802_3(p: &mut Printer, kind: u8, body: Data<'_>) -> Done {
    const MDI: Names = &[(1, "PSE"), (2, "supported"), (4, "enabled"), (8, "can be controlled")];
    const PAIRS: Names = &[(1, "signal"), (2, "spare")];
    const CLASSES: Names =
        &[(1, "class0"), (2, "class1"), (3, "class2"), (4, "class3"), (5, "class4")];
    match kind {
        1 => {
            let (flags, able, mau) = (body.u8(0)?, body.u16(1)?, body.u16(3)?);
            let text = bits(SUPPORTED_ENABLED, flags, ", ", "none");
            put!(p, "\n\t    autonegotiation [{text}] (0x{flags:02x})");
            let text = bits(PMD, able, ", ", "unknown");
            put!(p, "\n\t    PMD autoneg capability [{text}] (0x{able:04x})");
            let mau_text = MAU.get(usize::from(mau)).unwrap_or(&"unknown");
            put!(p, "\n\t    MAU type {mau_text} (0x{mau:04x})");
        }
        2 => {
            let (flags, pairs, class) = (body.u8(0)?, body.u8(1)?, body.u8(2)?);
            put!(p, "\n\t    MDI power support [{}]", bits(MDI, flags, ", ", "none"));
            put!(p, ", power pair {}", name(PAIRS, pairs, "unknown"));
            put!(p, ", power class {}", name(CLASSES, class, "unknown"));
        }
        3 => aggregation(p, body)?,
        4 => put!(p, "\n\t    MTU size {}", body.u16(0)?),
        _ => {}
    }
    Ok(())
}

fn aggregation(p: &mut Printer, body: Data<'_>) -> Done {
    let (flags, port) = (body.u8(0)?, body.u32(1)?);
    let text = bits(SUPPORTED_ENABLED, flags, ", ", "none");
    put!(p, "\n\t    aggregation status [{text}], aggregation port ID {port}");
    Ok(())
}

/// Print the URL at which the manufacturer describes the device's needs (RFC 8520, section 11).
fn mud(p: &mut Printer, kind: u8, body: Data<'_>) -> Done {
    if kind == 1 {
        p.out.push_str("\n\t  MUD-URL=");
        p.chars(body.bytes);
    }
    Ok(())
}

/// The capabilities that a port can negotiate (RFC 4836, `ifMauAutoNegCapAdvertisedBits`).
const PMD: Names = &[
    (0x4000, "10BASE-T hdx"),
    (0x2000, "10BASE-T fdx"),
    (0x1000, "100BASE-T4"),
    (0x0800, "100BASE-TX hdx"),
    (0x0400, "100BASE-TX fdx"),
    (0x0200, "100BASE-T2 hdx"),
    (0x0100, "100BASE-T2 fdx"),
    (0x0080, "Pause for fdx links"),
    (0x0040, "Asym PAUSE for fdx"),
    (0x0020, "Sym PAUSE for fdx"),
    (0x0010, "Asym and Sym PAUSE for fdx"),
    (0x0008, "1000BASE-{X LX SX CX} hdx"),
    (0x0004, "1000BASE-{X LX SX CX} fdx"),
    (0x0002, "1000BASE-T hdx"),
    (0x0001, "1000BASE-T fdx"),
];

/// Kinds of transceivers in the order of their numbers (RFC 4836, `dot3MauType`).
#[rustfmt::skip]
const MAU: [&str; 41] = [
    "Unknown", "AUI", "10BASE_5", "FOIRL", "10BASE2", "10BASET duplex mode unknown", "10BASEFP",
    "10BASEFB", "10BASEFL duplex mode unknown", "10BROAD36", "10BASET hdx", "10BASET fdx",
    "10BASEFL hdx", "10BASEFL fdx", "100BASET4", "100BASETX hdx", "100BASETX fdx", "100BASEFX hdx",
    "100BASEFX fdx", "100BASET2 hdx", "100BASET2 fdx", "1000BASEX hdx", "1000BASEX fdx",
    "1000BASELX hdx", "1000BASELX fdx", "1000BASESX hdx", "1000BASESX fdx", "1000BASECX hdx",
    "1000BASECX fdx", "1000BASET hdx", "1000BASET fdx", "10GBASEX", "10GBASELX4", "10GBASER",
    "10GBASEER", "10GBASELR", "10GBASESR", "10GBASEW", "10GBASEEW", "10GBASELW", "10GBASESW",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::printed_by;

    fn printed(verbose: u8, bytes: &[u8]) -> (String, Done) {
        printed_by(lldp, verbose, bytes)
    }

    #[test]
    fn a_switch_says_what_and_where_it_is() {
        let bytes = [
            &[2, 7, 4, 2, 0, 0, 0, 0, 1, 4, 5, 5, b'e', b't', b'h', b'0', 6, 2, 0, 120][..],
            &[10, 2, b's', b'w', 14, 4, 0, 0x14, 0, 4],
            &[16, 12, 5, 1, 192, 0, 2, 1, 2, 0, 0, 0, 7, 0],
            &[254, 6, 0, 0x80, 0xc2, 1, 0, 9, 254, 9, 0, 0x12, 0x0f, 1, 3, 0x40, 1, 0, 30, 0, 0],
        ]
        .concat();
        let lines = [
            "\tChassis ID TLV (1), length 7",
            "\t  Subtype MAC address (4): 02:00:00:00:00:01",
            "\tPort ID TLV (2), length 5",
            "\t  Subtype Interface Name (5): eth0",
            "\tTime to Live TLV (3), length 2: TTL 120s",
            "\tSystem Name TLV (5), length 2: sw",
            "\tSystem Capabilities TLV (7), length 4",
            "\t  System  Capabilities [Bridge, Router] (0x0014)",
            "\t  Enabled Capabilities [Bridge] (0x0004)",
            "\tManagement Address TLV (8), length 12",
            "\t  Management Address length 5, AFI IPv4 (1): 192.0.2.1",
            "\t  Interface Index Interface Numbering (2): 7",
            "\tOrganization specific TLV (127), length 6: OUI Ethernet bridged (0x0080c2)",
            "\t  Port VLAN Id Subtype (1)",
            "\t    port vlan id (PVID): 9",
            "\tOrganization specific TLV (127), length 9: OUI IEEE 802.3 Private (0x00120f)",
            "\t  MAC/PHY configuration/status Subtype (1)",
            "\t    autonegotiation [supported, enabled] (0x03)",
            "\t    PMD autoneg capability [10BASE-T hdx, 1000BASE-T fdx] (0x4001)",
            "\t    MAU type 1000BASET fdx (0x001e)",
            "\tEnd TLV (0), length 0",
        ];
        let expected = format!("LLDP, length {}\n{}", bytes.len(), lines.join("\n"));
        assert_eq!(printed(1, &bytes), (expected, Ok(())));
        assert_eq!(printed(0, &bytes).0, format!("LLDP, length {}: sw", bytes.len()));
    }

    #[test]
    fn what_is_unknown_is_hex_and_what_is_too_short_is_cut() {
        let (text, done) = printed(1, &[18, 2, 0xab, 0xcd]);
        assert!(text.ends_with("Unknown TLV (9), length 2\n\t  0x0000:  abcd"), "{text}");
        assert_eq!(done, Ok(()));
        assert_eq!(printed(1, &[2, 9, 4, 2, 0]).1, Err(Cut));
        assert_eq!(printed(1, &[2, 3, 4, 2, 0]).1, Err(Cut));
    }
}
