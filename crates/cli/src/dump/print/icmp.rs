//! ICMP and ICMPv6 messages, with what an error is about.
//!
//! Called by: `ip.rs`. Must not know: IP headers but those that errors quote.

use std::fmt::Write;
use std::net::IpAddr;

use wire::{icmp, icmpv6, ipv4, ipv6, nd};

use super::Printer;
use super::ip::Carried;

/// What an error quotes: to whom, and if it was UDP or TCP to which port.
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

impl Printer {
    pub(super) fn icmp(&self, out: &mut String, carried: &Carried<'_>) {
        let Carried { src, dst, bytes, len, .. } = carried;
        let _ = write!(out, "{src} > {dst}: ICMP ");
        let quote = || quoted(bytes.get(icmp::HEADER_LEN..).unwrap_or_default());
        let what = match icmp::Header::parse(bytes) {
            Ok(icmp::Header::EchoRequest { id, seq }) => {
                format!("echo request, id {id}, seq {seq}")
            }
            Ok(icmp::Header::EchoReply { id, seq }) => format!("echo reply, id {id}, seq {seq}"),
            Ok(icmp::Header::Unreachable { code }) => match quote() {
                Some(quoted) => unreachable(code, &quoted),
                None => format!("unreachable - #{code}"),
            },
            Ok(icmp::Header::FragmentationNeeded { mtu }) => {
                let to = quote().map(|q| format!("{} ", q.to)).unwrap_or_default();
                format!("{to}unreachable - need to frag (mtu {mtu})")
            }
            Ok(icmp::Header::TimeExceeded { code: 0 }) => "time exceeded in-transit".to_owned(),
            Ok(icmp::Header::TimeExceeded { .. }) => "ip reassembly time exceeded".to_owned(),
            Ok(icmp::Header::ParameterProblem { pointer, .. }) => {
                format!("parameter problem - octet {pointer}")
            }
            Ok(icmp::Header::Other { kind, .. }) => format!("type-#{kind}"),
            Err(_) if !carried.is_whole() => cut(bytes, "icmp"),
            Err(_) => "with a wrong checksum".to_owned(),
        };
        let _ = write!(out, "{what}, length {len}");
    }

    pub(super) fn icmpv6(&self, out: &mut String, carried: &Carried<'_>) {
        let Carried { src, dst, bytes, len, .. } = carried;
        let _ = write!(out, "{src} > {dst}: ");
        let (&IpAddr::V6(from), &IpAddr::V6(to)) = (src, dst) else {
            let _ = write!(out, "ICMP6, over IPv4, length {len}");
            return;
        };
        if carried.has_options {
            out.push_str("HBH ");
        }
        let parsed = icmpv6::Header::parse(bytes, from, to);
        if self.style.verbose && parsed.is_ok() {
            out.push_str("[icmp6 sum ok] ");
        }
        out.push_str("ICMP6, ");
        let quote = || quoted(bytes.get(icmpv6::HEADER_LEN..).unwrap_or_default());
        let what = match parsed {
            Ok(icmpv6::Header::EchoRequest { id, seq }) => {
                format!("echo request, id {id}, seq {seq}")
            }
            Ok(icmpv6::Header::EchoReply { id, seq }) => format!("echo reply, id {id}, seq {seq}"),
            Ok(icmpv6::Header::Unreachable { code }) => match (code, quote()) {
                (4, Some(Quoted { to, port: Some((name, port)) })) => {
                    format!("destination unreachable, unreachable port, {to} {name} port {port}")
                }
                (3, Some(q)) => format!("destination unreachable, unreachable address {}", q.to),
                (0, Some(q)) => format!("destination unreachable, unreachable route {}", q.to),
                (code, _) => format!("destination unreachable, code {code}"),
            },
            Ok(icmpv6::Header::PacketTooBig { mtu }) => format!("packet too big, mtu {mtu}"),
            Ok(icmpv6::Header::TimeExceeded { code: 0 }) => "time exceeded in-transit".to_owned(),
            Ok(icmpv6::Header::TimeExceeded { .. }) => "time exceeded in-reassembly".to_owned(),
            Ok(icmpv6::Header::ParameterProblem { pointer, .. }) => {
                format!("parameter problem, octet {pointer}")
            }
            Ok(icmpv6::Header::Other { kind, .. }) => match nd::Header::parse(bytes) {
                Ok(nd::Header { kind: nd::Kind::Solicitation, target, .. }) => {
                    format!("neighbor solicitation, who has {target}")
                }
                Ok(nd::Header { target, .. }) => {
                    format!("neighbor advertisement, tgt is {target}")
                }
                Err(_) => other_v6(kind, bytes),
            },
            Err(_) if !carried.is_whole() => cut(bytes, "icmp6"),
            Err(_) => "with a wrong checksum".to_owned(),
        };
        out.push_str(&what);
        // tcpdump's IPv6 header, which `-v` prints, has it already.
        if !self.style.verbose {
            let _ = write!(out, ", length {len}");
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
