//! IPv4: the header (RFC 791) and its options.
//!
//! Called by: `link`, tunnels, ICMP errors. `demux` prints the payload.

use core::net::IpAddr;

use wire::checksum::Sum;

use super::carrier::{Carrier, Checksum};
use super::demux;
use crate::data::{Cut, Data, Done};
use crate::names::IP_PROTOCOLS;
use crate::print::{Printer, put};
use crate::text::{Names, bits, name};

const HEADER_LEN: usize = 20;

/// The offset of the header checksum.
const CHECKSUM_AT: usize = 10;

const FLAGS: Names = &[(0x2000, "+"), (0x4000, "DF"), (0x8000, "rsvd")];
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

const OPTIONS: Names = &[
    (0, "EOL"),
    (1, "NOP"),
    (68, "timestamp"),
    (130, "security"),
    (7, "RR"),
    (137, "SSRR"),
    (131, "LSRR"),
    (148, "RA"),
    (82, "traceroute"),
];

/// Is this a protocol with ports? Such protocols print the addresses themselves, with the ports.
pub(super) fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 33 | 132)
}

/// Print a packet of IPv4 or IPv6; its version field says which.
pub(crate) fn either(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "ipn";
    if data.len < 1 {
        put!(p, "truncated-ip {}", data.len);
        return Ok(());
    }
    match data.u8(0)? >> 4 {
        4 => print(p, data),
        6 => super::ip6(p, data),
        version => {
            put!(p, "unknown ip {version}");
            Ok(())
        }
    }
}

pub(crate) fn print(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "ip";
    match data.u8(0)? >> 4 {
        4 => {}
        version => {
            match version {
                6 => p.out.push_str("IP6, wrong link-layer encapsulation"),
                version => put!(p, "IP{version}"),
            }
            p.invalid();
            return Ok(());
        }
    }
    if !p.style.link {
        p.out.push_str("IP ");
    }
    data.get(0, HEADER_LEN)?;
    if data.len < HEADER_LEN {
        put!(p, "truncated-ip {}", data.len);
        return Ok(());
    }
    let header_len = usize::from(data.u8(0)? & 15) * 4;
    if header_len < HEADER_LEN {
        put!(p, "bad-hlen {header_len}");
        return Ok(());
    }
    let mut total = usize::from(data.u16(2)?);
    if data.len < total {
        put!(p, "truncated-ip - {} bytes missing! ", total - data.len);
    }
    if total < header_len {
        if total > 0 {
            put!(p, "bad-len {total}");
            return Ok(());
        }
        // Linux writes a total length of 0 into a super-segment that the interface cuts.
        total = data.len;
    }
    let packet = data.within(total);
    if p.is_verbose() && verbose(p, packet, header_len)?.is_none() {
        return Ok(());
    }
    payload(p, packet, header_len)
}

/// Print the fields of the header. `None` if the options were cut off; then nothing after them is
/// printed.
fn verbose(p: &mut Printer, packet: Data<'_>, header_len: usize) -> Result<Option<()>, Cut> {
    let tos = packet.u8(1)?;
    let ecn = ["", ",ECT(1)", ",ECT(0)", ",CE"][usize::from(tos & 3)];
    put!(p, "(tos 0x{tos:x}{ecn}");
    let ttl = packet.u8(8)?;
    if ttl > 0 {
        put!(p, ", ttl {ttl}");
    }
    let (offset, protocol) = (packet.u16(6)?, packet.u8(9)?);
    let flags = bits(FLAGS, offset & !OFFSET, ", ", "none");
    put!(p, ", id {}, offset {}, flags [{flags}]", packet.u16(4)?, (offset & OFFSET) * 8);
    put!(p, ", proto {} ({protocol})", name(IP_PROTOCOLS, protocol, "unknown"));
    put!(p, ", length {}", packet.u16(2)?);
    let mut is_cut = false;
    if header_len > HEADER_LEN {
        p.out.push_str(", options (");
        let options = packet.skip(HEADER_LEN);
        if options_of(p, options, header_len - HEADER_LEN)?.is_none() {
            p.out.push_str(" [truncated-option]");
            is_cut = true;
        }
        p.out.push(')');
    }
    if !p.style.trusting
        && let Ok(header) = packet.get(0, header_len)
        && let Some(sum) = Checksum::of(header, CHECKSUM_AT, Sum::ZERO)
        && !sum.is_right
    {
        put!(p, ", bad cksum {:x} (->{:x})!", sum.has, sum.ought);
    }
    p.out.push_str(")\n    ");
    if is_cut {
        put!(p, "{} > {}: ", packet.v4(12)?, packet.v4(16)?);
        p.cut();
        return Ok(None);
    }
    Ok(Some(()))
}

fn payload(p: &mut Printer, packet: Data<'_>, header_len: usize) -> Done {
    let (src, dst) = (packet.v4(12)?, packet.v4(16)?);
    let (protocol, offset) = (packet.u8(9)?, packet.u16(6)?);
    if offset & OFFSET != 0 {
        put!(p, "{src} > {dst}: ip-proto-{protocol}");
        return Ok(());
    }
    if !has_ports(protocol) {
        put!(p, "{src} > {dst}: ");
    }
    if !packet.has(0, header_len) {
        let here = packet.here();
        put!(p, " [remaining caplen({here}) < header length({header_len})]");
        return Err(Cut);
    }
    let carrier = Carrier {
        src: IpAddr::V4(src),
        dst: IpAddr::V4(dst),
        last: IpAddr::V4(last_hop(packet, header_len).unwrap_or(dst)),
        protocol,
        is_fragment: offset & MORE_FRAGMENTS != 0,
        hops: packet.u8(8)?,
    };
    p.deeper(|p| demux(p, protocol, packet.skip(header_len), &carrier))
}

/// The last address of a source route, which checksums cover (RFC 1122 section 4.2.3.8).
fn last_hop(packet: Data<'_>, header_len: usize) -> Option<core::net::Ipv4Addr> {
    let mut at = HEADER_LEN;
    while at < header_len {
        let len = match packet.u8(at).ok()? {
            0 => return None,
            1 => 1,
            _ => usize::from(packet.u8(at + 1).ok()?),
        };
        if len == 0 || at + len > header_len {
            return None;
        }
        if matches!(packet.u8(at).ok()?, 131 | 137) && len >= 7 {
            return packet.v4(at + len - 4).ok();
        }
        at += len;
    }
    None
}

/// Print options, separated by commas. `None` if an option was cut off.
fn options_of(p: &mut Printer, options: Data<'_>, len: usize) -> Result<Option<()>, Cut> {
    let mut at = 0;
    while at < len {
        if at > 0 {
            p.out.push(',');
        }
        let code = options.u8(at)?;
        p.out.push_str(&name(OPTIONS, code, "unknown {}"));
        let option_len = if code < 2 { 1 } else { usize::from(options.u8(at + 1)?) };
        if code >= 2 && option_len < 2 || option_len > len - at {
            put!(p, " [bad length {option_len}]");
            return Ok(Some(()));
        }
        let Ok(bytes) = options.get(at, option_len) else { return Ok(None) };
        let option = Data::new(bytes, option_len);
        match code {
            0 => return Ok(Some(())),
            68 => timestamps(p, option)?,
            7 | 137 | 131 => route(p, option)?,
            148 if option_len < 4 => put!(p, " [bad length {option_len}]"),
            148 if option.u16(2)? != 0 => put!(p, " value {}", option.u16(2)?),
            _ => {}
        }
        at += option_len;
    }
    Ok(Some(()))
}

fn route(p: &mut Printer, option: Data<'_>) -> Done {
    if option.len < 3 {
        put!(p, " [bad length {}]", option.len);
        return Ok(());
    }
    if (option.len + 1) & 3 != 0 {
        put!(p, " [bad length {}]", option.len);
    }
    let pointer = usize::from(option.u8(2)?).wrapping_sub(1);
    if pointer < 3 || pointer & 3 != 3 || pointer > option.len + 1 {
        put!(p, " [bad ptr {}]", option.u8(2)?);
    }
    let mut at = 3;
    while at < option.len {
        put!(p, " {}", option.v4(at)?);
        if pointer > at {
            p.out.push(',');
        }
        at += 4;
    }
    Ok(())
}

fn timestamps(p: &mut Printer, option: Data<'_>) -> Done {
    if option.len < 4 {
        put!(p, "[bad length {}]", option.len);
        return Ok(());
    }
    p.out.push_str(" TS{");
    let kind = option.u8(3)? & 15;
    let hop_len = if kind == 0 { 4 } else { 8 };
    if (option.len - 4) & (hop_len - 1) != 0 {
        put!(p, "[bad length {}]", option.len);
    }
    let pointer = usize::from(option.u8(2)?).wrapping_sub(1);
    let mut end = 0;
    if pointer < 4 || (pointer - 4) & (hop_len - 1) != 0 || pointer > option.len + 1 {
        put!(p, "[bad ptr {}]", option.u8(2)?);
    }
    match kind {
        0 => p.out.push_str("TSONLY"),
        1 => p.out.push_str("TS+ADDR"),
        3 => p.out.push_str("PRESPEC"),
        kind => {
            put!(p, "[bad ts type {kind}]");
            end = option.len;
        }
    }
    let mut before = " ";
    let mut at = if end > 0 { end } else { 4 };
    while at < option.len {
        if pointer == at {
            before = " ^ ";
        }
        option.get(at, hop_len)?;
        let who = if hop_len == 8 { option.v4(at)?.to_string() } else { String::new() };
        put!(p, "{before}{}@{who}", option.u32(at + hop_len - 4)?);
        before = " ";
        at += hop_len;
    }
    if pointer == at {
        p.out.push_str(" ^ ");
    }
    match option.u8(3)? >> 4 {
        0 => p.out.push('}'),
        missing => put!(p, " [{missing} hops not recorded]}} "),
    }
    Ok(())
}
