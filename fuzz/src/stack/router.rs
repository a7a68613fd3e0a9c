//! A stack that forwards: any packets between two networks. Every packet that leaves by the other
//! port may be there, and nothing is kept.
//!
//! Called by: the target `forward`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arbitrary::{Result, Unstructured};
use base::{Cidr, LinkKind, Mtu};
use stack::Address;
use wire::{ipv4, ipv6, protocol};

use super::Bench;
use super::script::{self, short_bytes};
use crate::craft;

/// The second network's MTU, the least that IPv6 allows: packets of the first are cut, or are too
/// big.
const MTU: usize = 1_280;

fn network_v6(host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, host)
}

pub(super) fn bench() -> Bench {
    let mut bench = Bench::with_second_mtu(false, Mtu::new(MTU).expect("an MTU"));
    let address = Cidr { addr: network_v6(1).into(), prefix_len: 64 };
    let second = bench.wires[1].id;
    bench.stack.add_address(second, Address::fixed(address)).expect("there is room");
    bench.stack.set_forwarding(true);
    bench.forwards = true;
    bench
}

pub(super) fn step(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    match u.arbitrary::<u8>()? {
        0..=159 => cross(bench, u),
        160 => {
            let on = u.arbitrary()?;
            bench.stack.set_directed_broadcasts(on);
            Ok(())
        }
        _ => script::step(bench, u),
    }
}

/// A host of a network, its broadcast address, or anybody.
fn host(wire: usize, is_v4: bool, u: &mut Unstructured<'_>) -> Result<IpAddr> {
    let number: u8 = u.arbitrary()?;
    if u.ratio(1, 16)? {
        return Ok(if is_v4 {
            Ipv4Addr::from(u.arbitrary::<[u8; 4]>()?).into()
        } else {
            Ipv6Addr::from(u.arbitrary::<[u8; 16]>()?).into()
        });
    }
    Ok(match (wire, is_v4) {
        (0, true) => Ipv4Addr::new(192, 0, 2, number).into(),
        (0, false) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number.into()).into(),
        (_, true) => Ipv4Addr::new(198, 51, 100, number).into(),
        (_, false) => network_v6(number.into()).into(),
    })
}

/// A packet from one network to the other.
fn cross(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let (wire, is_v4) = (usize::from(u.arbitrary::<bool>()?), u.arbitrary()?);
    let (src, dst) = (host(wire, is_v4, u)?, host(1 - wire, is_v4, u)?);
    let protocol = *u.choose(&[
        protocol::TCP,
        protocol::UDP,
        protocol::ICMP,
        protocol::ICMPV6,
        0,
        43,
        44,
        60,
    ])?;
    let mut body = short_bytes(u, 100)?;
    // A large one is cut, or too big.
    body.resize(body.len() + usize::from(u.arbitrary::<u8>()? & 7) * 200, 0x33);
    let mut packet = craft::packet(src, dst, protocol, &body);
    let hops = *u.choose(&[64, 64, 255, 2, 1, 0])?;
    if is_v4 {
        packet[8] = hops;
        let fragment = *u.choose(&[0x40, 0x40, 0, 0x20, 0x80, 0x60])?;
        packet[6] = fragment;
        packet[7] = u.arbitrary()?;
        options(&mut packet, u)?;
    } else {
        packet[7] = hops;
    }
    if u.ratio(1, 8)? {
        let place = usize::from(u.arbitrary::<u16>()?) % packet.len();
        packet[place] ^= u.arbitrary::<u8>()?;
    }
    craft::fix_ipv4_checksum(&mut packet);
    bench.inject_packet(wire, &packet);
    Ok(())
}

/// Options between the IPv4 header and what it carries.
fn options(packet: &mut Vec<u8>, u: &mut Unstructured<'_>) -> Result<()> {
    let words = usize::from(u.arbitrary::<u8>()? & 15);
    if words > 10 || !u.ratio(1, 2)? {
        return Ok(());
    }
    let mut bytes = u.bytes((4 * words).min(u.len()))?.to_vec();
    bytes.resize(4 * words, 0);
    packet.splice(ipv4::HEADER_LEN..ipv4::HEADER_LEN, bytes);
    packet[0] = 0x45 + words as u8;
    let len = packet.len() as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    Ok(())
}

/// Check a packet that a router puts on a link for somebody else.
///
/// # Panics
/// If it is no packet, is past its time, has addresses that never leave a host, or is too large.
pub(super) fn check_forwarded(frame: &[u8], link: LinkKind, wire: usize) {
    let packet = &frame[link.header_len()..];
    let (src, dst, hops) = if packet[0] >> 4 == 4 {
        let ip = ipv4::Header::parse(packet).expect("an IPv4 packet");
        assert_eq!(usize::from(ip.total_len), packet.len(), "its length is what it says");
        (IpAddr::V4(ip.src), IpAddr::V4(ip.dst), ip.ttl)
    } else {
        let ip = ipv6::Header::parse(packet).expect("an IPv6 packet");
        assert_eq!(ipv6::HEADER_LEN + usize::from(ip.payload_len), packet.len());
        (IpAddr::V6(ip.src), IpAddr::V6(ip.dst), ip.hop_limit)
    };
    assert!(hops > 0, "a packet without hops left");
    let never = |ip: IpAddr| ip.is_loopback() || ip.is_multicast() || ip.is_unspecified();
    assert!(!never(src) && !never(dst), "{src} to {dst}");
    let most = if wire == 0 { Mtu::ETHERNET.bytes() } else { MTU };
    assert!(packet.len() <= most, "{} bytes of {most}", packet.len());
}

/// A script in which a packet crosses in both directions.
pub(crate) fn whole_crossing() -> Vec<u8> {
    let mut script = Vec::new();
    for (wire, is_v4) in [(0, 1), (1, 1), (0, 0), (1, 0)] {
        // Source and destination, UDP, 8 bytes, none more, 64 hops.
        script.extend([0, wire, is_v4, 9, 1, 9, 1, 1, 8, 0]);
        script.extend([0x11; 8]);
        script.extend([0, 0]);
        if is_v4 == 1 {
            // Don't fragment, no options.
            script.extend([0, 0, 15]);
        }
        script.push(1);
    }
    script
}

/// Packets that have crossed.
#[cfg(test)]
pub(super) fn crossed(bench: &Bench) -> u64 {
    bench.stack.counters().of(base::Counter::Forwarded)
}
