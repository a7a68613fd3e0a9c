//! ICMP and ICMPv6 messages, with what an error is about.
//!
//! Called by: `ip.rs`. Must not know: IP headers but those that errors quote.

use std::fmt::Write;
use std::net::IpAddr;

use wire::checksum::{Ladder, Sum};
use wire::{icmp, icmpv6, ipv4, ipv6, nd};

use super::Printer;
use super::ip::{Carried, Checksum};

/// Where the checksum lies in a message of either version.
const CHECKSUM_OFFSET: usize = 2;

/// The destination of the quoted packet, with its port if it was UDP or TCP.
struct Quoted {
    to: IpAddr,
    port: Option<(&'static str, u16)>,
}

fn quoted(bytes: &[u8]) -> Option<Quoted> {
    let (to, protocol, rest): (IpAddr, u8, _) = match bytes.first()? >> 4 {
        4 => {
            let h = ipv4::Header::parse_quoted(bytes).ok()?;
            (h.dst.into(), h.protocol, bytes.get(h.header_len..)?)
        }
        _ => {
            let h = ipv6::Header::parse_quoted(bytes).ok()?;
            (h.dst.into(), h.next_header, bytes.get(ipv6::HEADER_LEN..)?)
        }
    };
    let name = match protocol {
        ipv4::TCP => Some("tcp"),
        ipv4::UDP => Some("udp"),
        _ => None,
    };
    let port = rest.get(2..).and_then(|rest| rest.first_chunk());
    let port = name.zip(port).map(|(name, port)| (name, u16::from_be_bytes(*port)));
    Some(Quoted { to, port })
}

/// `host unreachable` and its kin, of type 3 by their codes.
fn unreachable(code: u8, quoted: &Quoted) -> String {
    let Quoted { to, port } = quoted;
    match (code, port) {
        (0, _) => format!("net {to} unreachable"),
        (1, _) => format!("host {to} unreachable"),
        (2, _) => format!("{to} protocol unreachable"),
        (3, Some((name, port))) => format!("{to} {name} port {port} unreachable"),
        (9, _) => format!("net {to} unreachable - admin prohibited"),
        (10, _) => format!("host {to} unreachable - admin prohibited"),
        (13, _) => format!("host {to} unreachable - admin prohibited filter"),
        (code, _) => format!("{to} unreachable - #{code}"),
    }
}

/// The first bytes of a message, with a checksum that fits them alone: the parser insists on one,
/// and these say what they say also where the rest is cut off, or the message's own is wrong.
fn front(bytes: &[u8], pseudo: Sum) -> Option<[u8; icmp::HEADER_LEN]> {
    let mut front: [u8; icmp::HEADER_LEN] = *bytes.first_chunk()?;
    front[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].fill(0);
    let sum = pseudo.plus(Ladder::best().sum(&front));
    front[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&sum.field());
    Some(front)
}

impl Printer {
    pub(super) fn icmp(&self, out: &mut String, carried: &Carried<'_>) {
        let what = match front(carried.bytes, Sum::ZERO).map(|front| icmp::Header::parse(&front)) {
            Some(Ok(header)) => message(header, carried.bytes),
            _ => cut(carried.bytes, "icmp"),
        };
        let _ = write!(out, "{}ICMP {what}, length {}", carried.ends(None), carried.len);
        if self.style.verbose
            && let Some(Checksum { has, ought, is_right: false }) =
                carried.checksum(CHECKSUM_OFFSET)
        {
            let _ = write!(out, " (wrong icmp cksum {has:x} (->{ought:x})!)");
        }
    }

    pub(super) fn icmpv6(&self, out: &mut String, carried: &Carried<'_>) {
        let Carried { src, dst, bytes, len, .. } = *carried;
        out.push_str(&carried.ends(None));
        let (IpAddr::V6(from), IpAddr::V6(to)) = (src, dst) else {
            let _ = write!(out, "ICMP6, over IPv4, length {len}");
            return;
        };
        if carried.has_options {
            out.push_str("HBH ");
        }
        if self.style.verbose
            && let Some(Checksum { has, ought, is_right }) = carried.checksum(CHECKSUM_OFFSET)
        {
            let _ = match is_right {
                true => write!(out, "[icmp6 sum ok] "),
                false => write!(out, "[bad icmp6 cksum 0x{has:04x} -> 0x{ought:04x}!] "),
            };
        }
        let length = Sum::of_be16(icmpv6::HEADER_LEN as u16);
        let front = front(bytes, Sum::pseudo_v6(from, to, ipv6::ICMPV6).plus(length));
        let what = match front.map(|front| icmpv6::Header::parse(&front, from, to)) {
            Some(Ok(header)) => message_v6(header, bytes),
            _ => cut(bytes, "icmp6"),
        };
        let _ = write!(out, "ICMP6, {what}");
        // tcpdump's IPv6 header, which `-v` prints, has it already.
        if !self.style.verbose {
            let _ = write!(out, ", length {len}");
        }
    }
}

/// What a message says, with the packet that an error is about.
fn message(header: icmp::Header, bytes: &[u8]) -> String {
    let quote = || quoted(bytes.get(icmp::HEADER_LEN..).unwrap_or_default());
    match header {
        icmp::Header::EchoRequest { id, seq } => format!("echo request, id {id}, seq {seq}"),
        icmp::Header::EchoReply { id, seq } => format!("echo reply, id {id}, seq {seq}"),
        icmp::Header::Unreachable { code } => match quote() {
            Some(quoted) => unreachable(code, &quoted),
            None => format!("unreachable - #{code}"),
        },
        icmp::Header::FragmentationNeeded { mtu } => {
            let to = quote().map(|q| format!("{} ", q.to)).unwrap_or_default();
            format!("{to}unreachable - need to frag (mtu {mtu})")
        }
        icmp::Header::TimeExceeded { code: 0 } => "time exceeded in-transit".to_owned(),
        icmp::Header::TimeExceeded { .. } => "ip reassembly time exceeded".to_owned(),
        icmp::Header::ParameterProblem { pointer, .. } => {
            format!("parameter problem - octet {pointer}")
        }
        icmp::Header::Other { kind, .. } => format!("type-#{kind}"),
    }
}

fn message_v6(header: icmpv6::Header, bytes: &[u8]) -> String {
    let quote = || quoted(bytes.get(icmpv6::HEADER_LEN..).unwrap_or_default());
    match header {
        icmpv6::Header::EchoRequest { id, seq } => format!("echo request, id {id}, seq {seq}"),
        icmpv6::Header::EchoReply { id, seq } => format!("echo reply, id {id}, seq {seq}"),
        icmpv6::Header::Unreachable { code } => match (code, quote()) {
            (4, Some(Quoted { to, port: Some((name, port)) })) => {
                format!("destination unreachable, unreachable port, {to} {name} port {port}")
            }
            (3, Some(q)) => format!("destination unreachable, unreachable address {}", q.to),
            (0, Some(q)) => format!("destination unreachable, unreachable route {}", q.to),
            (code, _) => format!("destination unreachable, code {code}"),
        },
        icmpv6::Header::PacketTooBig { mtu } => format!("packet too big, mtu {mtu}"),
        icmpv6::Header::TimeExceeded { code: 0 } => "time exceeded in-transit".to_owned(),
        icmpv6::Header::TimeExceeded { .. } => "time exceeded in-reassembly".to_owned(),
        icmpv6::Header::ParameterProblem { pointer, .. } => {
            format!("parameter problem, octet {pointer}")
        }
        // Without the options, which may be cut off.
        icmpv6::Header::Other { kind, .. } => {
            match nd::Header::parse(bytes.get(..nd::HEADER_LEN).unwrap_or_default()) {
                Ok(nd::Header { kind: nd::Kind::Solicitation, target, .. }) => {
                    format!("neighbor solicitation, who has {target}")
                }
                Ok(nd::Header { target, .. }) => {
                    format!("neighbor advertisement, tgt is {target}")
                }
                Err(_) => other_v6(kind, bytes),
            }
        }
    }
}

fn other_v6(kind: u8, bytes: &[u8]) -> String {
    match kind {
        130 => "multicast listener query".to_owned(),
        133 => "router solicitation".to_owned(),
        134 => "router advertisement".to_owned(),
        143 => {
            let records = bytes.get(6..8).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
            format!("multicast listener report v2, {records} group record(s)")
        }
        kind => format!("type-#{kind}"),
    }
}

/// A message that was cut off keeps its type.
fn cut(bytes: &[u8], name: &str) -> String {
    match bytes.first() {
        Some(kind) => format!("type-#{kind} [|{name}]"),
        None => format!("[|{name}]"),
    }
}
