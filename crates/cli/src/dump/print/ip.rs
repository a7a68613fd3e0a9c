//! IPv4 and IPv6 headers, and what they carry, as far as it is not TCP or ICMP.
//!
//! Called by: `print.rs`. Must not know: link headers.

use std::fmt::Write;
use std::net::IpAddr;

use wire::checksum::{Ladder, Sum};
use wire::{ipv4, ipv6, udp};

use super::Printer;

/// A packet of either version, header and what it carries apart.
#[derive(Clone, Copy)]
pub(super) struct Carried<'a> {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) protocol: u8,
    /// Behind hop-by-hop options.
    pub(super) has_options: bool,
    /// The first part of a datagram, whose checksum covers more than is here.
    pub(super) is_fragment: bool,
    /// The addresses were printed before, in front of a fragment header.
    pub(super) is_addressed: bool,
    /// What is here of the payload.
    pub(super) bytes: &'a [u8],
    /// Bytes that the payload had.
    pub(super) len: usize,
}

/// A checksum field, judged.
pub(super) struct Checksum {
    pub(super) has: u16,
    pub(super) ought: u16,
    /// By the sum of everything, to which the two zeros of one's complement are one.
    pub(super) is_right: bool,
}

impl Carried<'_> {
    /// Its checksum field, which is at `at`; `None` where not all that it covers is here.
    pub(super) fn checksum(&self, at: usize) -> Option<Checksum> {
        if self.is_fragment {
            return None;
        }
        let bytes = self.bytes.get(..self.len)?;
        let has = u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?);
        let length = Sum::of_be16(u16::try_from(self.len).ok()?);
        let pseudo = match (self.src, self.dst) {
            // RFC 792: of the message alone.
            _ if self.protocol == ipv4::ICMP => Sum::ZERO,
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                Sum::pseudo_v4(src, dst, self.protocol).plus(length)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                Sum::pseudo_v6(src, dst, self.protocol).plus(length)
            }
            _ => return None,
        };
        let sum = pseudo.plus(Ladder::best().sum(bytes));
        let ought = u16::from_be_bytes(sum.minus(Sum::of_be16(has)).field());
        Some(Checksum { has, ought, is_right: sum.is_whole() })
    }

    /// Source and destination: addresses, unless they were printed before, and ports, if any.
    pub(super) fn ends(&self, ports: Option<(u16, u16)>) -> String {
        let Carried { src, dst, .. } = self;
        match (ports, self.is_addressed) {
            (Some((from, to)), false) => format!("{src}.{from} > {dst}.{to}: "),
            (Some((from, to)), true) => format!("{from} > {to}: "),
            (None, false) => format!("{src} > {dst}: "),
            (None, true) => String::new(),
        }
    }
}

fn protocol_name(protocol: u8) -> &'static str {
    match protocol {
        ipv4::ICMP => "ICMP",
        ipv4::IGMP => "IGMP",
        ipv4::TCP => "TCP",
        ipv4::UDP => "UDP",
        ipv6::HOP_BY_HOP => "Options",
        ipv6::ROUTING => "Routing",
        ipv6::FRAGMENT => "Fragment",
        ipv6::ICMPV6 => "ICMPv6",
        ipv6::NO_NEXT => "no next header",
        ipv6::DESTINATION_OPTIONS => "Options",
        _ => "unknown",
    }
}

impl Printer {
    pub(super) fn ipv4(&mut self, out: &mut String, packet: &[u8]) {
        let Ok(h) = ipv4::Header::parse_quoted(packet) else {
            return out.push_str(if packet.len() < ipv4::HEADER_LEN {
                "[|ip]"
            } else {
                "bad header"
            });
        };
        if self.style.verbose {
            let flags = match (h.dont_fragment, h.more_fragments) {
                (false, false) => "none",
                (true, false) => "DF",
                (false, true) => "+",
                (true, true) => "+, DF",
            };
            let name = protocol_name(h.protocol);
            let ecn = ["", ",ECT(1)", ",ECT(0)", ",CE"][usize::from(h.tos & 3)];
            let _ = write!(
                out,
                "(tos 0x{:x}{ecn}, ttl {}, id {}, offset {}, flags [{flags}], proto {name} ({}), \
                 length {}",
                h.tos, h.ttl, h.id, h.fragment_offset, h.protocol, h.total_len
            );
            if !Ladder::best().sum(&packet[..h.header_len]).is_whole() {
                out.push_str(", bad cksum!");
            }
            out.push_str(")\n    ");
        }
        let len = usize::from(h.total_len).saturating_sub(h.header_len);
        let bytes = &packet[h.header_len..];
        let bytes = &bytes[..bytes.len().min(len)];
        if h.fragment_offset > 0 {
            let _ = write!(out, "{} > {}: ip-proto-{}", h.src, h.dst, h.protocol);
            return;
        }
        let carried = Carried {
            src: h.src.into(),
            dst: h.dst.into(),
            protocol: h.protocol,
            has_options: false,
            is_fragment: h.more_fragments,
            is_addressed: false,
            bytes,
            len,
        };
        self.carried(out, &carried);
    }

    pub(super) fn ipv6(&mut self, out: &mut String, packet: &[u8]) {
        let Ok(h) = ipv6::Header::parse_quoted(packet) else {
            return out.push_str(if packet.len() < ipv6::HEADER_LEN {
                "[|ip6]"
            } else {
                "bad header"
            });
        };
        if self.style.verbose {
            out.push('(');
            if h.traffic_class != 0 {
                let _ = write!(out, "class 0x{:02x}, ", h.traffic_class);
            }
            if h.flow_label != 0 {
                let _ = write!(out, "flowlabel 0x{:05x}, ", h.flow_label);
            }
            let name = protocol_name(h.next_header);
            let _ = write!(
                out,
                "hlim {}, next-header {name} ({}) payload length: {}) ",
                h.hop_limit, h.next_header, h.payload_len
            );
        }
        let len = usize::from(h.payload_len);
        let payload = &packet[ipv6::HEADER_LEN..];
        let payload = &payload[..payload.len().min(len)];
        let (protocol, at) =
            ipv6::upper_layer(payload, h.next_header).unwrap_or((h.next_header, 0));
        let carried = Carried {
            src: h.src.into(),
            dst: h.dst.into(),
            protocol,
            has_options: h.next_header == ipv6::HOP_BY_HOP,
            is_fragment: false,
            is_addressed: false,
            bytes: &payload[at.min(payload.len())..],
            len: len.saturating_sub(at),
        };
        match protocol {
            ipv6::FRAGMENT => self.fragment(out, &carried),
            _ => self.carried(out, &carried),
        }
    }

    /// An IPv6 fragment, by the fragment header that `whole` begins with: where it belongs, and
    /// what the first one carries.
    fn fragment(&mut self, out: &mut String, whole: &Carried<'_>) {
        out.push_str(&whole.ends(None));
        if whole.has_options {
            out.push_str("HBH ");
        }
        let Ok(header) = ipv6::Fragment::parse(whole.bytes) else {
            return out.push_str("[|frag6]");
        };
        out.push_str("frag (");
        if self.style.verbose {
            let _ = write!(out, "0x{:08x}:", header.id);
        }
        let len = whole.len.saturating_sub(ipv6::Fragment::LEN);
        let _ = write!(out, "{}|{len})", header.fragment_offset);
        if header.fragment_offset > 0 {
            return;
        }
        out.push(' ');
        let first = Carried {
            protocol: header.next_header,
            has_options: false,
            is_fragment: true,
            is_addressed: true,
            bytes: whole.bytes.get(ipv6::Fragment::LEN..).unwrap_or_default(),
            len,
            ..*whole
        };
        self.carried(out, &first);
    }

    fn carried(&mut self, out: &mut String, carried: &Carried<'_>) {
        match carried.protocol {
            ipv4::TCP => self.tcp(out, carried),
            ipv4::UDP => self.udp(out, carried),
            ipv4::ICMP => self.icmp(out, carried),
            ipv6::ICMPV6 => self.icmpv6(out, carried),
            other => {
                let _ = write!(out, "{}ip-proto-{other} {}", carried.ends(None), carried.len);
            }
        }
    }

    fn udp(&self, out: &mut String, carried: &Carried<'_>) {
        let Some(b) = carried.bytes.first_chunk::<{ udp::HEADER_LEN }>() else {
            let _ = write!(out, "{}[|udp]", carried.ends(None));
            return;
        };
        let word = |at: usize| u16::from_be_bytes([b[at], b[at + 1]]);
        out.push_str(&carried.ends(Some((word(0), word(2)))));
        if self.style.very_verbose || self.style.verbose && carried.src.is_ipv6() {
            match (word(udp::CHECKSUM_OFFSET), carried.checksum(udp::CHECKSUM_OFFSET)) {
                (0, _) if !carried.is_fragment => out.push_str("[no cksum] "),
                (_, None) => {}
                (_, Some(Checksum { is_right: true, .. })) => out.push_str("[udp sum ok] "),
                (_, Some(Checksum { has, ought, .. })) => {
                    let _ = write!(out, "[bad udp cksum 0x{has:04x} -> 0x{ought:04x}!] ");
                }
            }
        }
        let length = usize::from(word(4)).saturating_sub(udp::HEADER_LEN);
        let _ = write!(out, "UDP, length {length}");
    }
}
