//! Packets as lines of text, in tcpdump's words.
//!
//! Called by: `dump.rs`, for each packet that is not written to a file. Must not know: where
//! packets come from. `ip` prints what IP carries, `tcp` segments, `flows` makes their sequence
//! numbers short, `hex` shows bytes. Names are never looked up, as with `-n` of tcpdump.
//!
//! Anything may stand in a packet: what is cut off is printed as `[|tcp]`, what is wrong as it is.

mod flows;
mod hex;
mod icmp;
mod ip;
mod tcp;

use std::fmt::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use wire::{arp, ether, vlan};
use wirespeed::LinkKind;

use super::packet::Packet;
use flows::Flows;

/// IEEE 802.1ad, the outer tag.
const SERVICE_VLAN: u16 = 0x88a8;

/// What to print of each packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    /// `-v`: fields of the IP header, and whether checksums are right.
    pub(crate) verbose: bool,
    /// `-vv`: whether those of UDP over IPv4 are right as well, as tcpdump.
    pub(crate) very_verbose: bool,
    /// `-e`: the link header.
    pub(crate) link: bool,
    /// `-X`: the packet in hex and ASCII, without its link header.
    pub(crate) hex: bool,
    /// `-S`: sequence numbers as they are.
    pub(crate) absolute: bool,
}

/// Prints packets, and remembers flows.
pub(crate) struct Printer {
    style: Style,
    zone: TimeZone,
    flows: Flows,
}

impl Printer {
    pub(crate) fn new(style: Style) -> Printer {
        Printer { style, zone: TimeZone::system(), flows: Flows::default() }
    }

    /// A packet's line, or lines, with the newline at the end.
    pub(crate) fn text(&mut self, packet: &Packet) -> String {
        let mut out = time(packet.time_ns, &self.zone);
        let network_at = self.frame(&mut out, packet);
        out.push('\n');
        if self.style.hex {
            hex::lines(&mut out, packet.bytes.get(network_at..).unwrap_or_default());
        }
        out
    }

    /// What behind the time; returns where the network header begins.
    fn frame(&mut self, out: &mut String, packet: &Packet) -> usize {
        let bytes = packet.bytes.as_slice();
        if packet.link == LinkKind::Ip {
            self.network(out, ip_type(bytes), bytes, packet, true);
            return 0;
        }
        let Ok(header) = ether::Header::parse(bytes) else {
            out.push_str("[|ether]");
            return 0;
        };
        let (mut ethertype, mut at) = (header.ethertype, ether::HEADER_LEN);
        if self.style.link {
            let _ = write!(out, "{} > {}, ", header.src, header.dst);
            let _ = write!(out, "{}, length {}: ", type_text(ethertype), packet.wire_len);
        }
        while matches!(ethertype, ether::VLAN | SERVICE_VLAN)
            && let Ok(tag) = vlan::Header::parse(&bytes[at..])
        {
            at += vlan::HEADER_LEN;
            ethertype = tag.ethertype;
            if self.style.link {
                let eligible = if tag.drop_eligible { ", DEI" } else { "" };
                let _ = write!(out, "vlan {}, p {}{eligible}, ", tag.id, tag.priority);
                let _ = write!(out, "{}, ", type_text(ethertype));
            }
        }
        if self.style.link && at > ether::HEADER_LEN {
            // Of the last type no comma follows, but a space.
            out.truncate(out.trim_end_matches([',', ' ']).len());
            out.push_str(", ");
        }
        let payload = bytes.get(at..).unwrap_or_default();
        if !self.network(out, ethertype, payload, packet, !self.style.link) {
            self.unknown(out, &header, ethertype, packet);
        }
        at
    }

    /// A network packet, its name in front if it is not to be seen otherwise; `false` if it is of
    /// no known type.
    fn network(
        &mut self,
        out: &mut String,
        ethertype: u16,
        bytes: &[u8],
        packet: &Packet,
        named: bool,
    ) -> bool {
        let name = match ethertype {
            ether::IPV4 => "IP ",
            ether::IPV6 => "IP6 ",
            ether::ARP => "ARP, ",
            _ => return false,
        };
        // A bare ARP says nothing by its numbers alone.
        if named {
            out.push_str(name);
        }
        match ethertype {
            ether::IPV4 => self.ipv4(out, bytes),
            ether::IPV6 => self.ipv6(out, bytes),
            _ => arp(out, bytes, packet, self.style.verbose),
        }
        true
    }

    fn unknown(&self, out: &mut String, header: &ether::Header, ethertype: u16, packet: &Packet) {
        if !self.style.link {
            let _ = write!(out, "{} > {}, ", header.src, header.dst);
            let _ = write!(out, "{}, length {}", type_text(ethertype), packet.wire_len);
        } else {
            out.truncate(out.trim_end_matches([':', ',', ' ']).len());
        }
    }
}

/// Hours to microseconds of the day, as the clock of this place shows it.
fn time(ns: u64, zone: &TimeZone) -> String {
    let stamp = i64::try_from(ns).ok().map(|ns| Timestamp::from_nanosecond(i128::from(ns)));
    match stamp {
        Some(Ok(stamp)) => {
            let at = stamp.to_zoned(zone.clone());
            let us = at.subsec_nanosecond() / 1_000;
            format!("{:02}:{:02}:{:02}.{us:06} ", at.hour(), at.minute(), at.second())
        }
        _ => format!("{}.{:06} ", ns / 1_000_000_000, ns % 1_000_000_000 / 1_000),
    }
}

fn ip_type(bytes: &[u8]) -> u16 {
    match bytes.first().map(|first| first >> 4) {
        Some(6) => ether::IPV6,
        _ => ether::IPV4,
    }
}

fn type_text(ethertype: u16) -> String {
    let name = match ethertype {
        0..1536 => return format!("802.3, length {ethertype}"),
        ether::IPV4 => "IPv4",
        ether::IPV6 => "IPv6",
        ether::ARP => "ARP",
        ether::VLAN => "802.1Q",
        SERVICE_VLAN => "802.1Q-QinQ",
        _ => "Unknown",
    };
    format!("ethertype {name} (0x{ethertype:04x})")
}

fn arp(out: &mut String, bytes: &[u8], packet: &Packet, verbose: bool) {
    if verbose {
        out.push_str("Ethernet (len 6), IPv4 (len 4), ");
    }
    let link = packet.bytes.len() - bytes.len();
    let len = (packet.wire_len as usize).saturating_sub(link);
    let _ = match arp::Header::parse(bytes) {
        Ok(h) if h.operation == arp::Operation::Request => {
            write!(out, "Request who-has {} tell {}, length {len}", h.target_ip, h.sender_ip)
        }
        Ok(h) => write!(out, "Reply {} is-at {}, length {len}", h.sender_ip, h.sender_mac),
        Err(_) if bytes.len() < arp::HEADER_LEN => write!(out, "[|arp]"),
        Err(_) => write!(out, "of another kind, length {len}"),
    };
}

#[cfg(test)]
mod tests;
