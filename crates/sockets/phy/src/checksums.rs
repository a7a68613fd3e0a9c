//! Checksums that a device of smoltcp leaves to itself, by its `ChecksumCapabilities`. Called by
//! `from_phy.rs` and `as_phy.rs`. Frames come from other hosts: none causes a panic, and what is
//! malformed stays as it is, because the stack names the reason when it drops it. RFC 791, RFC 768,
//! RFC 9293 section 3.1, RFC 4443 section 2.3.

use base::LinkKind;
use smoltcp::phy::ChecksumCapabilities;
use wire::checksum::{Ladder, Sum, sum_short};
use wire::{ipv4, ipv6, protocol, tcp, udp, vlan};

/// The offset of the checksum in messages of ICMP and ICMPv6.
const ICMP_CHECKSUM: usize = 2;

/// The packet in a frame.
struct Packet {
    ip_at: usize,
    /// The length of the IPv4 header; 0 for IPv6.
    v4_header_len: usize,
    protocol: u8,
    /// Where the transport header begins, and where the packet ends; the same for a fragment.
    at: usize,
    end: usize,
    /// The sum of the pseudo-header, length included; of nothing for ICMP.
    pseudo: Sum,
}

impl Packet {
    fn find(frame: &[u8], link: LinkKind) -> Option<Packet> {
        let ip_at = vlan::ip_at(frame, link)?;
        let bytes = frame.get(ip_at..)?;
        if bytes.first()? >> 4 == 4 {
            let ip = ipv4::Header::parse_quoted(bytes).ok()?;
            let at = ip_at + ip.header_len;
            let whole = ip_at + usize::from(ip.total_len);
            let end = if ip.is_fragment() { at } else { whole };
            let pseudo = match ip.protocol {
                protocol::ICMP => Sum::ZERO,
                other => Sum::pseudo_v4(ip.src, ip.dst, other).plus(length(at, end)?),
            };
            let v4_header_len = ip.header_len;
            frame.get(at..end)?;
            Some(Packet { ip_at, v4_header_len, protocol: ip.protocol, at, end, pseudo })
        } else {
            let ip = ipv6::Header::parse(bytes).ok()?;
            let at = ip_at + ipv6::HEADER_LEN;
            let end = at + usize::from(ip.payload_len);
            let pseudo = Sum::pseudo_v6(ip.src, ip.dst, ip.next_header).plus(length(at, end)?);
            frame.get(at..end)?;
            Some(Packet { ip_at, v4_header_len: 0, protocol: ip.next_header, at, end, pseudo })
        }
    }

    /// The offset of the transport's checksum in the frame, if it has one.
    fn field_at(&self) -> Option<usize> {
        let offset = match self.protocol {
            protocol::TCP => tcp::CHECKSUM_OFFSET,
            protocol::UDP => udp::CHECKSUM_OFFSET,
            protocol::ICMP | protocol::ICMPV6 => ICMP_CHECKSUM,
            _ => return None,
        };
        (self.at + offset + 2 <= self.end).then_some(self.at + offset)
    }

    fn fill_transport(&self, frame: &mut [u8]) -> Option<()> {
        let field_at = self.field_at()?;
        frame.get_mut(field_at..field_at + 2)?.fill(0);
        let sum = self.pseudo.plus(Ladder::best().sum(frame.get(self.at..self.end)?));
        let field =
            if self.protocol == protocol::UDP { udp::checksum_field(sum) } else { sum.field() };
        frame.get_mut(field_at..field_at + 2)?.copy_from_slice(&field);
        Some(())
    }

    fn fill_ip(&self, frame: &mut [u8]) -> Option<()> {
        let header = frame.get_mut(self.ip_at..self.ip_at + self.v4_header_len)?;
        put_field(header, [0, 0])?;
        let field = sum_short(header).field();
        put_field(header, field)
    }
}

fn length(at: usize, end: usize) -> Option<Sum> {
    Some(Sum::of_be16(u16::try_from(end.checked_sub(at)?).ok()?))
}

fn put_field(header: &mut [u8], field: [u8; 2]) -> Option<()> {
    let at = ipv4::CHECKSUM_OFFSET;
    header.get_mut(at..at + 2)?.copy_from_slice(&field);
    Some(())
}

/// Does the stack of such a device verify and compute everything?
pub(crate) fn all_in_software(caps: &ChecksumCapabilities) -> bool {
    [&caps.ipv4, &caps.udp, &caps.tcp, &caps.icmpv4, &caps.icmpv6]
        .iter()
        .all(|checksum| checksum.rx() && checksum.tx())
}

/// A received frame: fill in what the device says not to verify, except for the transport's
/// checksum of TCP and UDP. Returns whether that one need not be verified.
pub(crate) fn received(frame: &mut [u8], link: LinkKind, caps: &ChecksumCapabilities) -> bool {
    let Some(packet) = Packet::find(frame, link) else { return false };
    if packet.v4_header_len > 0 && !caps.ipv4.rx() {
        packet.fill_ip(frame);
    }
    match packet.protocol {
        protocol::TCP => !caps.tcp.rx(),
        protocol::UDP if caps.udp.rx() => false,
        protocol::UDP => {
            // Over IPv6 a zero field is not "no checksum" (RFC 8200 section 8.1).
            packet.v4_header_len > 0 || packet.fill_transport(frame).is_some()
        }
        protocol::ICMP if !caps.icmpv4.rx() => packet.fill_transport(frame).is_some(),
        protocol::ICMPV6 if !caps.icmpv6.rx() => packet.fill_transport(frame).is_some(),
        _ => false,
    }
}

/// A received frame: fill in everything that the device says not to verify.
pub(crate) fn completed(frame: &mut [u8], link: LinkKind, caps: &ChecksumCapabilities) {
    if received(frame, link, caps) {
        fill(frame, link);
    }
}

/// A frame that leaves: zero the fields that the device computes, as smoltcp does; some hardware
/// adds the field to its sum.
pub(crate) fn sent(frame: &mut [u8], link: LinkKind, caps: &ChecksumCapabilities) {
    let Some(packet) = Packet::find(frame, link) else { return };
    if packet.v4_header_len > 0 && !caps.ipv4.tx() {
        let header = frame.get_mut(packet.ip_at..).unwrap_or_default();
        put_field(header, [0, 0]);
    }
    let computes = match packet.protocol {
        protocol::TCP => !caps.tcp.tx(),
        protocol::UDP => !caps.udp.tx(),
        protocol::ICMP => !caps.icmpv4.tx(),
        protocol::ICMPV6 => !caps.icmpv6.tx(),
        _ => false,
    };
    if computes
        && let Some(at) = packet.field_at()
        && let Some(field) = frame.get_mut(at..at + 2)
    {
        field.fill(0);
    }
}

/// A frame whose transport checksum our device has verified: the field itself may be unfinished,
/// and smoltcp verifies it.
pub(crate) fn fill(frame: &mut [u8], link: LinkKind) {
    if let Some(packet) = Packet::find(frame, link)
        && matches!(packet.protocol, protocol::TCP | protocol::UDP)
    {
        packet.fill_transport(frame);
    }
}
