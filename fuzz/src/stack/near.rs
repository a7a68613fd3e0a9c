//! Messages of a stranger on the link to a port that configures itself: neighbour discovery, router
//! advertisements, redirects, ARP, IGMP and MLD, with the hop limit, source and checksum that get
//! them past the first checks. No list grows above its limit.
//!
//! Called by: the target `autoconf`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use arbitrary::{Result, Unstructured};
use base::{Duration, Instant, Limit, LinkKind, MacAddr};
use inet::group::Message;
use stack::{AutoConfig, pair};
use wire::arp::{self, Operation};
use wire::checksum::Sum;
use wire::{ether, icmpv6, protocol};

use super::script::{self, short_bytes};
use super::{Bench, Said};
use crate::craft;

/// The port that configures itself.
const WIRE: usize = 0;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Neighbour discovery and MLD, those that do something several times.
const KINDS: [u8; 12] = [133, 134, 134, 134, 135, 135, 136, 136, 137, 137, 130, 131];
/// Options of neighbour discovery (RFC 4861, 4191, 8106, 7527).
const OPTIONS: [u8; 9] = [1, 2, 3, 4, 5, 14, 24, 25, 31];

/// A port without addresses of IPv6 that asks routers for some, one of IPv4 that finds its own, and
/// a socket that has joined groups.
pub(super) fn bench() -> Bench {
    let mut bench = Bench::new(true);
    let port = bench.wires[WIRE].id;
    bench.stack.autoconfigure(port, AutoConfig::default()).expect("Ethernet");
    bench.stack.add_link_local_v4(port).expect("Ethernet");
    for group in [IpAddr::from([239, 1, 2, 3]), IpAddr::V6(group_v6())] {
        bench.stack.udp_join(bench.udp, port, group).expect("there is room");
    }
    bench
}

fn group_v6() -> Ipv6Addr {
    Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, 0x123)
}

pub(super) fn step(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    match u.arbitrary::<u8>()? {
        0..=119 => neighbour_discovery(bench, u)?,
        120..=151 => arp(bench, u)?,
        152..=175 => group_message(bench, u)?,
        176..=183 => redirect_v4(bench, u)?,
        184..=215 => {
            let most = bench.now + Duration::from_secs(3_600);
            bench.now = bench.now.max(bench.stack.next_deadline().min(most));
        }
        216..=231 => bench.now += Duration::from_millis(u.arbitrary::<u16>()?.into()),
        232..=247 => send(bench, u)?,
        _ => script::step(bench, u)?,
    }
    check(bench);
    Ok(())
}

/// Check that every list is within its limit.
fn check(bench: &Bench) {
    let (stack, port) = (&bench.stack, bench.wires[WIRE].id);
    let of = |limit| stack.budget().of(limit);
    let status = stack.autoconf(port);
    let routers = status.map_or(0, |status| status.routers.len());
    let advertised = stack.routes_page(0, 1_000).rows;
    let (routers_max, redirects_max) = (of(Limit::Routers), of(Limit::Redirects));
    // Routes of addresses on two ports, of this script's routers, and learnt ones.
    let connected = stack.addresses_page(0, 1_000).rows.len();
    let routes_max =
        connected + routers_max + redirects_max + of(Limit::Prefixes) + of(Limit::AdvertisedRoutes);
    for (limit, used, most) in [
        ("addresses", stack.addresses(port).len(), of(Limit::Addresses)),
        ("routers", routers, routers_max),
        ("name servers", stack.dns_servers(port).len(), of(Limit::NameServers)),
        ("search domains", stack.dns_search(port).len(), of(Limit::SearchDomains)),
        ("neighbours", stack.neighbours_page(0, 1_000).rows.len(), of(Limit::Neighbours)),
        ("groups", stack.groups_page(0, 1_000).rows.len(), 2 * of(Limit::GroupsPerPort)),
        ("routes", advertised.len(), routes_max),
    ] {
        assert!(used <= most, "{used} {limit}, {most} may");
    }
}

/// An address of ours, one that is being checked included.
fn ours(bench: &Bench, u: &mut Unstructured<'_>) -> Result<Ipv6Addr> {
    let all = bench.stack.addresses(bench.wires[WIRE].id).iter();
    let all: Vec<Ipv6Addr> = all
        .filter_map(|address| match address.ip() {
            IpAddr::V6(ip) => Some(ip),
            IpAddr::V4(_) => None,
        })
        .collect();
    if all.is_empty() {
        return Ok(Ipv6Addr::LOCALHOST);
    }
    Ok(*u.choose(&all)?)
}

/// An address of a neighbour, a router, a network that is advertised, or any.
fn any_v6(u: &mut Unstructured<'_>) -> Result<Ipv6Addr> {
    let number = u16::from(u.arbitrary::<u8>()?);
    Ok(match number & 7 {
        0..=2 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number >> 3),
        3 => Ipv6Addr::UNSPECIFIED,
        4 | 5 => Ipv6Addr::new(0x2001, 0xdb8, number >> 3, 0, 0, 0, 0, number),
        6 => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, number >> 3),
        _ => Ipv6Addr::from(u.arbitrary::<[u8; 16]>()?),
    })
}

/// An option whose length is right, mostly, and whose fields may mean something.
fn option(bench: &Bench, u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let kind = if u.ratio(15, 16)? { *u.choose(&OPTIONS)? } else { u.arbitrary()? };
    let mut value = short_bytes(u, 60)?;
    let address = any_v6(u)?.octets();
    match kind {
        3 => {
            value.resize(30, 0);
            value[0] = if u.ratio(7, 8)? { 64 } else { value[0] };
            value[14..].copy_from_slice(&address);
        }
        24 => {
            value.resize(14, 0);
            value[6..].copy_from_slice(&address[..8]);
        }
        25 => {
            value.resize(22, 0);
            value[6..].copy_from_slice(&address);
        }
        4 => {
            value = vec![0; 6];
            let quoted = bench.said.last().map(|said| said.sent.packet.as_slice());
            value.extend(quoted.unwrap_or_default().iter().take(200));
        }
        _ => {}
    }
    value.resize((value.len() + 2).next_multiple_of(8) - 2, 0);
    let units = (value.len() + 2) / 8;
    let units = if u.ratio(31, 32)? { units as u8 } else { u.arbitrary()? };
    Ok([&[kind, units][..], &value].concat())
}

fn neighbour_discovery(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let kind = *u.choose(&KINDS)?;
    let src = any_v6(u)?;
    let dst = match u.arbitrary::<u8>()? & 3 {
        0 => ours(bench, u)?,
        1 => inet::nd::solicited_node(ours(bench, u)?),
        _ => ALL_NODES,
    };
    let mut message = vec![kind, 0, 0, 0];
    match kind {
        134 => message.extend(u.arbitrary::<[u8; 12]>()?),
        _ => message.extend(u.arbitrary::<[u8; 4]>()?),
    }
    if matches!(kind, 130 | 131 | 135..=137) {
        let target = if u.arbitrary()? { ours(bench, u)? } else { any_v6(u)? };
        message.extend(target.octets());
    }
    if kind == 137 {
        let to = bench.said.last().map(|said| said.sent.dst);
        let to = match to {
            Some(IpAddr::V6(to)) if u.arbitrary()? => to,
            _ => any_v6(u)?,
        };
        message.extend(to.octets());
    }
    if kind < 133 {
        message.extend(short_bytes(u, 40)?);
        return say_group(bench, Message { dst: dst.into(), bytes: message }, src.into());
    }
    for _ in 0..u.int_in_range(0..=4)? {
        message.extend(option(bench, u)?);
    }
    let mut packet = craft::packet(src.into(), dst.into(), protocol::ICMPV6, &message);
    packet[7] = if u.ratio(15, 16)? { 255 } else { u.arbitrary()? };
    inject(bench, dst.into(), &packet);
    Ok(())
}

/// A packet in a frame to the link address of its destination.
fn inject(bench: &mut Bench, dst: IpAddr, packet: &[u8]) {
    let to = inet::neighbour::group_mac(dst).unwrap_or(pair::mac(1));
    let frame = craft::frame(LinkKind::Ethernet, to, pair::mac(2), packet);
    bench.inject(WIRE, &frame);
}

fn arp(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let ips: Vec<Ipv4Addr> = bench
        .stack
        .addresses(bench.wires[WIRE].id)
        .iter()
        .filter_map(|address| match address.ip() {
            IpAddr::V4(ip) => Some(ip),
            IpAddr::V6(_) => None,
        })
        .chain([Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, Ipv4Addr::new(192, 0, 2, 9)])
        .collect();
    let [sender_mac, target_mac] = [MacAddr([2, 0, 0, 0, 0, u.arbitrary()?]), pair::mac(1)];
    let header = arp::Header {
        operation: if u.arbitrary()? { Operation::Request } else { Operation::Reply },
        sender_mac,
        sender_ip: *u.choose(&ips)?,
        target_mac,
        target_ip: *u.choose(&ips)?,
    };
    let mut frame = vec![0; ether::HEADER_LEN + arp::HEADER_LEN];
    let dst = if u.arbitrary()? { MacAddr([0xff; 6]) } else { pair::mac(1) };
    ether::Header { dst, src: sender_mac, ethertype: ether::ARP }.emit(&mut frame);
    header.emit(&mut frame[ether::HEADER_LEN..]);
    bench.inject(WIRE, &frame);
    Ok(())
}

/// A query or a report of IGMP; those of MLD are made with neighbour discovery.
fn group_message(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let kind = *u.choose(&[0x11, 0x11, 0x16, 0x12, 0x17, 0x22])?;
    let mut bytes = vec![kind, u.arbitrary()?, 0, 0];
    bytes.extend(if u.arbitrary()? { [239, 1, 2, 3] } else { [0; 4] });
    bytes.extend(short_bytes(u, 40)?);
    craft::fix_checksum(&mut bytes, 2, Sum::ZERO);
    let dst = IpAddr::from([224, 0, 0, 1]);
    say_group(bench, Message { dst, bytes }, IpAddr::from([192, 0, 2, 2]))
}

/// Send a message with the TTL and the option that such messages have.
fn say_group(bench: &mut Bench, mut message: Message, src: IpAddr) -> Result<()> {
    if let (IpAddr::V6(src), IpAddr::V6(dst)) = (src, message.dst) {
        let pseudo = Sum::pseudo_v6(src, dst, protocol::ICMPV6);
        let pseudo = pseudo.plus(Sum::of_be16(message.bytes.len() as u16));
        craft::fix_checksum(&mut message.bytes, 2, pseudo);
        debug_assert!(icmpv6::Header::parse(&message.bytes, src, dst).is_ok());
    }
    let frame = inet::group::packet(LinkKind::Ethernet, pair::mac(2), src, &message);
    if let Some(frame) = frame {
        bench.inject(WIRE, &frame);
    }
    Ok(())
}

/// A redirect about a packet of the stack's, from its gateway or from anybody.
fn redirect_v4(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let Some(Said { wire: WIRE, sent }) = bench.said.last().cloned() else { return Ok(()) };
    if sent.src.is_ipv6() {
        return Ok(());
    }
    let host = |n: u8| Ipv4Addr::new(192, 0, 2, n);
    let from = host(if u.arbitrary()? { 2 } else { u.arbitrary()? });
    let mut message = vec![5, u.arbitrary::<u8>()? & 3, 0, 0];
    message.extend(host(u.arbitrary()?).octets());
    message.extend(sent.packet.iter().take(u.arbitrary::<u8>()?.into()));
    let packet = craft::packet(from.into(), sent.src, protocol::ICMP, &message);
    inject(bench, sent.src, &packet);
    Ok(())
}

/// A datagram to somebody who has to be found first, and membership of groups.
fn send(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let to = match u.arbitrary::<u8>()? & 3 {
        0 => IpAddr::V4(Ipv4Addr::new(203, 0, 113, u.arbitrary()?)),
        1 => IpAddr::V4(Ipv4Addr::new(192, 0, 2, u.arbitrary()?)),
        _ => IpAddr::V6(any_v6(u)?),
    };
    let (port, now) = (bench.wires[WIRE].id, bench.now);
    let group = IpAddr::V6(group_v6());
    match u.arbitrary::<u8>()? & 7 {
        0 => drop(bench.stack.udp_leave(bench.udp, port, group)),
        1 => drop(bench.stack.udp_join(bench.udp, port, group)),
        2 => {
            bench.stack.stop_autoconf(port);
            bench.stack.autoconfigure(port, AutoConfig::default()).expect("Ethernet");
        }
        _ => drop(bench.stack.udp_send(bench.udp, SocketAddr::new(to, 9), b"x", now)),
    }
    Ok(())
}

/// A script in which a router gives the port an address and redirects it.
pub(crate) fn whole_configuration() -> Vec<u8> {
    const DEADLINE: u8 = 184;
    // The link-local address is checked, then routers are asked.
    let mut script = vec![DEADLINE; 6];
    // An advertisement (kind 1 of the list) of fe80::1 to all nodes: hop limit and lifetime, then
    // one option, a prefix of 64 bits with flags L and A.
    script.extend([0, 1, 8, 2]);
    script.extend([64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
    script.push(1);
    script.extend([0, 2, 30, 0, 64, 0xc0]);
    script.extend([0, 0, 255, 255, 0, 0, 255, 255]);
    script.extend([0; 20]);
    script.extend([4, 0, 0, 0]);
    script.extend([DEADLINE; 8]);
    script
}

/// Is an address of a router's prefix in use?
#[cfg(test)]
pub(super) fn is_configured(bench: &Bench) -> bool {
    let all = bench.stack.addresses(bench.wires[WIRE].id).iter();
    all.filter(|a| a.is_usable()).any(|a| a.origin == stack::Origin::Stable)
}

/// A moment after which nothing of a configuration is due soon.
pub(super) fn end(bench: &mut Bench) {
    let port = bench.wires[WIRE].id;
    bench.stack.stop_autoconf(port);
    bench.stack.remove_link_local_v4(port);
    debug_assert!(bench.stack.autoconf(port).is_none() && bench.now < Instant::NEVER);
}
