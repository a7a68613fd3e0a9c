//! ICMPv6 messages (RFC 4443), and protocols that consist of them: neighbour discovery (RFC 4861),
//! multicast listener discovery (RFC 2710, 3810), mobility (RFC 6275), RPL (RFC 6550).
//!
//! Called by: `demux`. `nd` prints options, `mld` multicast groups.

use super::carrier::Carrier;
use super::{mld, nd, node_info, rpl};
use crate::data::{Cut, Data, Done};
use crate::hex;
use crate::print::{Printer, put};
use crate::text::{Names, bits, name};

const CHECKSUM_AT: usize = 2;

/// The offset of the packet that an error quotes.
const QUOTE_AT: usize = 8;

const KINDS: Names = &[
    (1, "destination unreachable"),
    (2, "packet too big"),
    (3, "time exceeded in-transit"),
    (4, "parameter problem"),
    (128, "echo request"),
    (129, "echo reply"),
    (130, "multicast listener query"),
    (131, "multicast listener report"),
    (132, "multicast listener done"),
    (133, "router solicitation"),
    (134, "router advertisement"),
    (135, "neighbor solicitation"),
    (136, "neighbor advertisement"),
    (137, "redirect"),
    (138, "router renumbering"),
    (141, "inverse neighbor solicitation"),
    (142, "inverse neighbor advertisement"),
    (143, "multicast listener report v2"),
    (144, "ha discovery request"),
    (145, "ha discovery reply"),
    (146, "mobile router solicitation"),
    (147, "mobile router advertisement"),
    (139, "who-are-you request"),
    (140, "who-are-you reply"),
    (201, "mtrace message"),
    (200, "mtrace response"),
    (155, "RPL"),
];

const UNREACHABLE: Names = &[
    (0, "unreachable route"),
    (1, " unreachable prohibited"),
    (2, "beyond scope"),
    (3, "unreachable address"),
    (4, "unreachable port"),
];

const PROBLEMS: Names = &[
    (0, ", erroneous - octet "),
    (1, ", next header - octet "),
    (2, ", option - octet "),
    (3, ", incomplete header chain - octet "),
];

const ROUTER_FLAGS: Names =
    &[(0x80, "managed"), (0x40, "other stateful"), (0x20, "home agent"), (0x02, "ipv6 only")];

const NEIGHBOUR_FLAGS: Names =
    &[(0x8000_0000, "router"), (0x4000_0000, "solicited"), (0x2000_0000, "override")];

pub(super) fn print(p: &mut Printer, data: Data<'_>, carrier: &Carrier) -> Done {
    p.protocol = "icmp6";
    if data.len == 0 {
        p.out.push_str("ICMP6, length 0");
        p.invalid();
        return Ok(());
    }
    if p.is_verbose() && !carrier.is_fragment {
        checksum(p, data, carrier);
    }
    let kind = data.u8(0)?;
    put!(p, "ICMP6, {}", name(KINDS, kind, "unknown icmp6 type ({})"));
    if p.is_verbose() && matches!(kind, 133..=137 | 145 | 147) {
        put!(p, ", length {}", data.len);
    }
    let code = data.u8(1)?;
    let is_whole = match kind {
        1 => unreachable(p, data, code)?,
        2..=4 => error(p, data, kind, code)?,
        128 | 129 => {
            put!(p, ", id {}, seq {}", data.u16(4)?, data.u16(6)?);
            true
        }
        130 if data.len != 24 && data.len >= 28 => {
            p.out.push_str(" v2");
            mld::query(p, data)?;
            true
        }
        130 if data.len != 24 => {
            put!(p, " unknown-version (len {}) ", data.len);
            true
        }
        130..=132 => {
            mld::group(p, data)?;
            true
        }
        133..=137 => neighbour(p, data, kind)?,
        138 => {
            node_info::renumbering(p, data)?;
            true
        }
        139 | 140 => {
            node_info::print(p, data)?;
            true
        }
        141 | 142 => true,
        143 => {
            mld::report(p, data)?;
            true
        }
        144..=147 => mobility(p, data, kind)?,
        155 => {
            rpl::print(p, data, code)?;
            true
        }
        _ => {
            put!(p, ", length {}", data.len);
            if p.style.verbose <= 1 {
                hex::only_indented(&mut p.out, "\n\t", data.bounded().bytes);
            }
            false
        }
    };
    if is_whole && !p.is_verbose() {
        put!(p, ", length {}", data.len);
    }
    Ok(())
}

fn checksum(p: &mut Printer, data: Data<'_>, carrier: &Carrier) {
    if let Some(sum) = carrier.checksum(58, data, CHECKSUM_AT) {
        match sum.is_right {
            true => p.out.push_str("[icmp6 sum ok] "),
            false => put!(p, "[bad icmp6 cksum 0x{:04x} -> 0x{:04x}!] ", sum.has, sum.ought),
        }
    }
}

fn unreachable(p: &mut Printer, data: Data<'_>, code: u8) -> Result<bool, Cut> {
    put!(p, ", {}", name(UNREACHABLE, code, "unknown unreach code ({})"));
    let dst = data.v6(QUOTE_AT + 24);
    match code {
        0 | 1 | 3 => put!(p, " {}", dst?),
        2 => put!(p, " {}, source address {}", dst?, data.v6(QUOTE_AT + 8)?),
        4 => {
            let Some((protocol, port)) = quoted_port(data.skip(QUOTE_AT)) else {
                p.cut();
                return Ok(false);
            };
            match protocol {
                6 => put!(p, ", {} tcp port {port}", dst?),
                _ => put!(p, ", {} udp port {port}", dst?),
            }
        }
        _ if p.style.verbose <= 1 => {
            hex::only_indented(&mut p.out, "\n\t", data.bounded().bytes);
            return Ok(false);
        }
        _ => {}
    }
    Ok(true)
}

/// The protocol and the destination port of the packet that an error quotes.
fn quoted_port(packet: Data<'_>) -> Option<(u8, u16)> {
    let (mut next, mut at) = (packet.u8(6).ok()?, 40);
    while at < packet.here() {
        let len = match next {
            6 | 17 => return packet.u16(at + 2).ok().map(|port| (next, port)),
            0 | 43 | 60 => (usize::from(packet.u8(at + 1).ok()?) + 1) * 8,
            44 if packet.u16(at + 2).ok()? & 0xfff8 == 0 => 8,
            51 => (usize::from(packet.u8(at + 1).ok()?) + 2) * 4,
            _ => return None,
        };
        next = packet.u8(at).ok()?;
        at += len;
    }
    None
}

fn error(p: &mut Printer, data: Data<'_>, kind: u8, code: u8) -> Result<bool, Cut> {
    match (kind, code) {
        (2, _) => put!(p, ", mtu {}", data.u32(4)?),
        (3, 0) => put!(p, " for {}", data.v6(QUOTE_AT + 24)?),
        (3, 1) => p.out.push_str(" (reassembly)"),
        (3, code) => put!(p, ", unknown code ({code})"),
        _ if !data.has(QUOTE_AT + 24, 16) => {
            p.cut();
            return Ok(false);
        }
        (_, 0..=3) => put!(p, "{}{}", name(PROBLEMS, code, ""), data.u32(4)?),
        (_, code) => put!(p, ", code-#{code}"),
    }
    Ok(true)
}

/// Print neighbour discovery; `-v` prints options.
fn neighbour(p: &mut Printer, data: Data<'_>, kind: u8) -> Result<bool, Cut> {
    let header_len = match kind {
        133 => 8,
        134 => 16,
        137 => 40,
        _ => 24,
    };
    match kind {
        134 if p.is_verbose() => {
            let flags = data.u8(5)?;
            put!(
                p,
                "\n\thop limit {}, Flags [{}]",
                data.u8(4)?,
                bits(ROUTER_FLAGS, flags, ", ", "none")
            );
            put!(p, ", pref {}, router lifetime {}s", nd::preference(flags), data.u16(6)?);
            put!(p, ", reachable time {}ms, retrans timer {}ms", data.u32(8)?, data.u32(12)?);
        }
        135 => put!(p, ", who has {}", data.v6(8)?),
        136 => {
            put!(p, ", tgt is {}", data.v6(8)?);
            if p.is_verbose() {
                let flags = bits(NEIGHBOUR_FLAGS, data.u32(4)?, ", ", "none");
                put!(p, ", Flags [{flags}]");
            }
        }
        137 => put!(p, ", {} to {}", data.v6(24)?, data.v6(8)?),
        _ => {}
    }
    let is_cut = p.is_verbose() && nd::options(p, data.skip(header_len))?.is_none();
    if is_cut {
        p.cut();
    }
    Ok(!is_cut)
}

/// Print messages about home agents, and about the prefixes of a home network.
fn mobility(p: &mut Printer, data: Data<'_>, kind: u8) -> Result<bool, Cut> {
    match kind {
        144 | 146 => put!(p, ", id 0x{:04x}", data.u16(4)?),
        _ if !p.is_verbose() => {}
        145 => {
            put!(p, ", id 0x{:04x}", data.u16(4)?);
            let mut at = 8;
            while at < data.len {
                put!(p, ", {}", data.v6(at)?);
                at += 16;
            }
        }
        _ => {
            put!(p, ", id 0x{:04x}", data.u16(4)?);
            let flags = data.u16(6)?;
            p.out.push_str(["", " O", " M", " MO"][usize::from(flags >> 14)]);
            if nd::options(p, data.skip(8))?.is_none() {
                p.cut();
                return Ok(false);
            }
        }
    }
    Ok(true)
}
