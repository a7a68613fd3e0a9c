//! ARP and neighbour discovery messages. The input functions return a request to answer, an
//! advertisement of a neighbour's address, or neither; the output functions write the messages that
//! we send.
//!
//! Called by: `stack/resolve.rs`. RFC 826 (its reception algorithm), RFC 4861 sections 7.1.1,
//! 7.1.2, 7.2.3 and 7.2.5, RFC 4862 section 5.4.3 for solicitations from `::`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::{DropReason, MacAddr};
use wire::nd::{Header, Kind};
use wire::{arp, icmpv6};

use crate::neighbour::Advertisement;

/// What a received message contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// A neighbour, its link address, and the kind of advertisement.
    pub news: Option<(IpAddr, MacAddr, Advertisement)>,
    /// The address of ours that is solicited.
    pub asked: Option<IpAddr>,
    /// The destination of the reply; `None` means all nodes.
    pub answer_to: Option<IpAddr>,
    /// Another station uses this address of ours.
    pub conflict: bool,
}

/// Check an ARP packet. `mac` is our MAC address; `is_ours` tests whether an address is ours on the
/// port.
///
/// # Errors
/// [`DropReason::ArpMalformed`], [`DropReason::ArpNotForUs`].
pub fn arp_input(
    packet: &[u8],
    mac: MacAddr,
    is_ours: impl Fn(IpAddr) -> bool,
) -> Result<Heard, DropReason> {
    let header = arp::Header::parse(packet)?;
    let (sender, target) = (IpAddr::V4(header.sender_ip), IpAddr::V4(header.target_ip));
    let probe = header.sender_ip == Ipv4Addr::UNSPECIFIED;
    let nonsense = header.sender_mac.is_group() || header.sender_mac == MacAddr::default();
    if nonsense || (!probe && crate::ip_input::is_martian_source(sender)) {
        return Err(DropReason::ArpMalformed);
    }
    if header.sender_mac == mac {
        // The packet is our own, looped back.
        return Err(DropReason::ArpNotForUs);
    }
    let conflict = !probe && is_ours(sender);
    let to_us = is_ours(target);
    let advertisement = match header.operation {
        arp::Operation::Request if to_us => Advertisement::Request,
        arp::Operation::Reply if to_us => Advertisement::Reply { solicited: true, overrides: true },
        _ => Advertisement::Unsolicited,
    };
    let asks = header.operation == arp::Operation::Request && to_us;
    if !asks
        && !conflict
        && advertisement == Advertisement::Unsolicited
        && header.sender_ip != header.target_ip
    {
        // RFC 826 updates the sender's entry from this packet as well. We do not: any station could
        // change our entries.
        return Err(DropReason::ArpNotForUs);
    }
    Ok(Heard {
        news: (!probe && !conflict).then_some((sender, header.sender_mac, advertisement)),
        asked: asks.then_some(target),
        answer_to: Some(sender),
        conflict,
    })
}

/// Write an ARP packet: a request for `target`, or a reply to `target` that the MAC address of
/// `sender` is `mac`.
pub fn arp_output(
    operation: arp::Operation,
    (mac, sender): (MacAddr, Ipv4Addr),
    (target_mac, target): (MacAddr, Ipv4Addr),
) -> [u8; arp::HEADER_LEN] {
    let mut bytes = [0; arp::HEADER_LEN];
    arp::Header { operation, sender_mac: mac, sender_ip: sender, target_mac, target_ip: target }
        .emit(&mut bytes);
    bytes
}

/// Check a solicitation or an advertisement whose ICMPv6 checksum is correct.
///
/// # Errors
/// [`DropReason::IcmpMalformed`] for messages that RFC 4861 sections 7.1.1 and 7.1.2 discard,
/// [`DropReason::NdNotForUs`] for solicitations of addresses that are not ours.
/// RFC 4861 7.1-a.
pub fn nd_input(
    message: &[u8],
    (src, dst, hop_limit): (Ipv6Addr, Ipv6Addr, u8),
    is_ours: impl Fn(IpAddr) -> bool,
) -> Result<Heard, DropReason> {
    let header = Header::parse(message)?;
    // A hop limit of 255 proves that no router forwarded the message (RFC 4861 section 7.1).
    if hop_limit != 255 || header.link_addr.is_some_and(MacAddr::is_group) {
        return Err(DropReason::IcmpMalformed);
    }
    let target = IpAddr::V6(header.target);
    let none = Heard { news: None, asked: None, answer_to: None, conflict: false };
    match header.kind {
        Kind::Solicitation => {
            let probe = src.is_unspecified();
            let wrong = probe && (header.link_addr.is_some() || !is_solicited_node(dst));
            if wrong || src.is_multicast() {
                return Err(DropReason::IcmpMalformed);
            }
            if !is_ours(target) {
                return Err(DropReason::NdNotForUs);
            }
            let news = header.link_addr.map(|mac| (IpAddr::V6(src), mac, Advertisement::Request));
            let answer_to = (!probe).then_some(IpAddr::V6(src));
            let news = news.filter(|&(ip, ..)| !is_ours(ip));
            Ok(Heard { news, asked: Some(target), answer_to, ..none })
        }
        Kind::Advertisement { solicited, overrides, .. } => {
            if solicited && dst.is_multicast() {
                return Err(DropReason::IcmpMalformed);
            }
            if is_ours(target) {
                return Ok(Heard { conflict: true, ..none });
            }
            let advertisement = Advertisement::Reply { solicited, overrides };
            Ok(Heard { news: header.link_addr.map(|mac| (target, mac, advertisement)), ..none })
        }
    }
}

/// Write a solicitation for `target` to `buf`; returns its length in bytes.
pub fn solicitation(
    buf: &mut [u8],
    mac: MacAddr,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    target: Ipv6Addr,
) -> Option<usize> {
    Header { kind: Kind::Solicitation, target, link_addr: Some(mac) }.emit(buf, src, dst)
}

/// Write an advertisement of `target`, an address of ours at `mac`, to `buf`; returns its length in
/// bytes. `router`: we forward packets. Hosts give up a default router that says it is none (RFC
/// 4861 section 7.2.5).
pub fn advertisement(
    buf: &mut [u8],
    (mac, router): (MacAddr, bool),
    dst: Ipv6Addr,
    target: Ipv6Addr,
) -> Option<usize> {
    let solicited = !dst.is_multicast();
    let kind = Kind::Advertisement { router, solicited, overrides: true };
    Header { kind, target, link_addr: Some(mac) }.emit(buf, target, dst)
}

/// [`advertisement`] of an anycast address, from `src`. Other routers may have the address too, and
/// no advertisement of it overrides another (RFC 4861 section 7.2.7).
pub fn anycast_advertisement(
    buf: &mut [u8],
    mac: MacAddr,
    (src, dst): (Ipv6Addr, Ipv6Addr),
    target: Ipv6Addr,
) -> Option<usize> {
    let solicited = !dst.is_multicast();
    let kind = Kind::Advertisement { router: true, solicited, overrides: false };
    Header { kind, target, link_addr: Some(mac) }.emit(buf, src, dst)
}

/// The solicited-node multicast address, RFC 4291 section 2.7.1.
pub fn solicited_node(ip: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = ip.octets();
    let low = u16::from_be_bytes([b, c]);
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), low)
}

fn is_solicited_node(ip: Ipv6Addr) -> bool {
    ip == solicited_node(ip)
}

/// The all-nodes address, to which the reply to a probe from `::` goes.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Is this ICMPv6 message one that [`nd_input`] processes?
pub fn is_nd(header: &icmpv6::Header) -> bool {
    let (ns, na) = (wire::nd::SOLICITATION, wire::nd::ADVERTISEMENT);
    matches!(*header, icmpv6::Header::Other { kind, code: 0, .. } if kind == ns || kind == na)
}
