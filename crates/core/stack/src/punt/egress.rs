//! What programs send by a port's mirror: the packet leaves by the port, or by the route of its
//! destination, and our neighbours resolve its next hop.
//!
//! Called by: programs. Nothing of the frame's link header is believed but its EtherType. Hop
//! limits stay, because the packet is the router's own. Its flow gets a state of the filter, so
//! that answers pass. RFC 791 section 3.2, RFC 1122 section 3.3.6, RFC 4861. Counter: `mirror_out`;
//! the drops are those of [`MirrorError::reason`].

use core::fmt;
use core::net::IpAddr;

use base::{Counter, DropReason, Instant, LinkKind, MacAddr, Mtu};
use inet::forward::Piece;
use inet::group::is_link_scoped;
use inet::ip_input::{ipv4_any, ipv6_any};
use inet::route::{flow_v4, flow_v6};
use inet::{NextHop, Sender};
use mbuf::Mbuf;
use tcp::Fate;
use wire::{arp, ether, icmpv6, ipv4, ipv6, mld, nd, protocol};

use crate::handles::PortId;
use crate::next_hop::{is_on_link, no_route};
use crate::port::LOOPBACK;
use crate::stack::Stack;
use crate::{forward, macs, neighbours, pace, resolve};

/// Why a frame that a program wrote to a mirror does not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorError {
    /// There is no such port.
    NoPort,
    /// It is no whole IP packet.
    Malformed,
    /// It carries neither IPv4 nor IPv6.
    NotIp,
    /// Its source is no address of ours, or not of this port where that counts.
    Source,
    /// No packet leaves for its destination.
    Destination,
    /// It is a message of neighbour discovery other than a router advertisement.
    NeighbourDiscovery,
    /// It is larger than its path carries, and must not be fragmented.
    TooBig,
    /// There is no route, neighbour, buffer or link: the drop that was counted.
    Unsendable(DropReason),
}

impl MirrorError {
    /// The drop that was counted.
    #[must_use]
    pub const fn reason(self) -> DropReason {
        match self {
            MirrorError::NoPort => DropReason::TxNoPort,
            MirrorError::Malformed => DropReason::MirrorMalformed,
            MirrorError::NotIp => DropReason::MirrorNotIp,
            MirrorError::Source => DropReason::MirrorSource,
            MirrorError::Destination => DropReason::MirrorDestination,
            MirrorError::NeighbourDiscovery => DropReason::MirrorNeighbourDiscovery,
            MirrorError::TooBig => DropReason::MirrorTooBig,
            MirrorError::Unsendable(reason) => reason,
        }
    }
}

impl fmt::Display for MirrorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = self.reason();
        write!(f, "{}: {}. {}", reason.name(), reason.meaning(), reason.advice())
    }
}

impl core::error::Error for MirrorError {}

impl From<DropReason> for MirrorError {
    fn from(reason: DropReason) -> MirrorError {
        MirrorError::Unsendable(reason)
    }
}

impl Stack {
    /// Send a frame that a program wrote to the mirror of a port: an Ethernet header and an IP
    /// packet; of a port without link addresses the packet alone. Of the link header only the
    /// EtherType counts, the source if it is a further link address of the port, so that switches
    /// learn its place, and the destination of what a server of DHCP sends to a client, which does
    /// not answer for its address yet. The packet leaves with its hop limit as it is.
    ///
    /// Its source has to be an address of the port, or, if its destination is one host beyond the
    /// link, of any port of ours. Messages of IGMP and MLD may have none. Packets to groups and to
    /// broadcast addresses leave by this port, and so do those to hosts on its link; others leave
    /// by the route of their destination. Neighbours are resolved here, so neighbour discovery is
    /// refused, except for router advertisements. An announcement of an address of the port, by ARP
    /// or neighbour discovery, has the stack announce it. A packet that is larger than its path
    /// leaves in fragments, if it may be fragmented.
    ///
    /// # Errors
    /// Why it does not leave. It was counted as the drop [`MirrorError::reason`].
    pub fn send_by_mirror(
        &mut self,
        now: Instant,
        port: PortId,
        frame: &[u8],
    ) -> Result<(), MirrorError> {
        self.core.set_now(now);
        let sent = send(self, port.0, frame);
        neighbours::act(self);
        match sent {
            Ok(()) => self.core.cx.counters.add(Counter::MirrorOut, 1),
            Err(why) => self.core.drops.count(why.reason()),
        }
        sent
    }
}

/// A packet by a mirror.
struct Seen {
    src: IpAddr,
    dst: IpAddr,
    /// Bytes; any behind them are padding.
    len: usize,
    /// Type of an ICMPv6 message.
    icmp: Option<u8>,
    protocol: u8,
    /// IPv4 without don't-fragment.
    may_fragment: bool,
}

/// How a packet leaves.
struct Egress {
    port: u16,
    neighbour: IpAddr,
    src_mac: MacAddr,
    /// `None` while it is resolved.
    dst_mac: Option<MacAddr>,
}

fn send(stack: &mut Stack, port_id: u16, frame: &[u8]) -> Result<(), MirrorError> {
    let port = stack.ports.get(port_id).filter(|_| port_id != LOOPBACK);
    let port = port.ok_or(MirrorError::NoPort)?;
    if port.gone {
        return Err(DropReason::DeviceLinkDown.into());
    }
    if port.limits.link == LinkKind::Ethernet
        && let Some(ip) = announced(stack, port_id, frame)
    {
        return Ok(macs::announce(stack, port_id, ip)?);
    }
    let port = stack.ports.get(port_id).ok_or(MirrorError::NoPort)?;
    let (mut src_mac, mut client) = (port.mac, None);
    let packet = match port.limits.link {
        LinkKind::Ip => frame,
        LinkKind::Ethernet => {
            let header = ether::Header::parse(frame).map_err(|_| MirrorError::Malformed)?;
            if port.macs.has(header.src) {
                src_mac = header.src;
            }
            let packet = frame.get(ether::HEADER_LEN..).unwrap_or_default();
            if !header.dst.is_group() && header.dst != port.mac && is_for_dhcp_client(packet) {
                client = Some(header.dst);
            }
            let version = packet.first().map(|first| first >> 4);
            match (header.ethertype, version) {
                (ether::IPV4, Some(4)) | (ether::IPV6, Some(6)) => packet,
                (ether::IPV4 | ether::IPV6, _) => return Err(MirrorError::Malformed),
                _ => return Err(MirrorError::NotIp),
            }
        }
    };
    let seen = examine(packet)?;
    check(stack, port_id, &seen)?;
    let (hop, mtu) = route(stack, port_id, &seen)?;
    if seen.len > mtu.bytes() && !seen.may_fragment {
        return Err(MirrorError::TooBig);
    }
    if hop.port != port_id {
        src_mac = stack.ports.get(hop.port).ok_or(DropReason::TxNoPort)?.mac;
    }
    // A client of DHCP does not answer for the address that it is to get.
    let client = client.filter(|_| hop.port == port_id && hop.neighbour == seen.dst);
    let dst_mac = match client {
        None => resolve::link_address(stack, hop.port, hop.neighbour, seen.dst)?,
        client => client,
    };
    let egress = Egress { port: hop.port, neighbour: hop.neighbour, src_mac, dst_mac };
    let packet = packet.get(..seen.len).unwrap_or_default();
    let mut m = stack.core.cx.pool.copy_of(packet).ok_or(DropReason::MbufExhausted)?;
    if !is_group(stack, port_id, seen.dst) {
        forward::leaves(stack, &mut m, hop.port)?;
    }
    if m.len() <= mtu.bytes() {
        return Ok(put(stack, m, &egress)?);
    }
    Ok(fragments(stack, &m, &egress, mtu)?)
}

/// The address of the port that a frame announces to all: a gratuitous ARP, or an unsolicited
/// neighbour advertisement. The stack announces it in place of the program, with the link address
/// that it answers with. RFC 9568 sections 6.4.2 and 8.2.
fn announced(stack: &Stack, port_id: u16, frame: &[u8]) -> Option<IpAddr> {
    let port = stack.ports.get(port_id)?;
    let header = ether::Header::parse(frame).ok()?;
    let packet = frame.get(ether::HEADER_LEN..)?;
    let ip = match header.ethertype {
        ether::ARP => {
            let arp = arp::Header::parse(packet).ok()?;
            (arp.sender_ip == arp.target_ip).then_some(IpAddr::V4(arp.sender_ip))
        }
        ether::IPV6 => {
            let (ip, part) = ipv6_any(packet).ok()?;
            let is_whole = part.is_none() && ip.protocol == protocol::ICMPV6;
            let message = packet.get(ip.transport_at as usize..).filter(|_| is_whole)?;
            let header = nd::Header::parse(message).ok()?;
            let is_to_all = ip.dst() == IpAddr::V6(inet::nd::ALL_NODES);
            let is_it = matches!(header.kind, nd::Kind::Advertisement { solicited: false, .. });
            (is_it && is_to_all && !stack.is_follower()).then_some(IpAddr::V6(header.target))
        }
        _ => None,
    };
    ip.filter(|ip| port.local.is_ours(*ip))
}

/// Does a server of DHCP speak to a client (RFC 2131 section 4.1)?
fn is_for_dhcp_client(packet: &[u8]) -> bool {
    const PORTS: [u8; 4] = [0, 67, 0, 68];
    let header_len = packet.first().map_or(0, |first| usize::from(first & 0xf) * 4);
    let is_udp = packet.get(9) == Some(&protocol::UDP) && packet[0] >> 4 == 4;
    is_udp && packet.get(header_len..header_len + 4) == Some(&PORTS)
}

/// Look at a packet's headers.
fn examine(packet: &[u8]) -> Result<Seen, MirrorError> {
    if packet.first().is_some_and(|first| first >> 4 == 6) {
        let (ip, part) = ipv6_any(packet).map_err(|_| MirrorError::Malformed)?;
        let len = (ip.transport_at + ip.transport_len) as usize;
        let is_begun = part.is_none_or(|part| part.begin == 0);
        let message = packet.get(ip.transport_at as usize..len).filter(|_| is_begun);
        let is_icmp = ip.protocol == protocol::ICMPV6;
        let icmp = message.filter(|_| is_icmp).and_then(|m| m.first().copied());
        let (src, dst, protocol) = (ip.src(), ip.dst(), ip.protocol);
        return Ok(Seen { src, dst, len, icmp, protocol, may_fragment: false });
    }
    let (ip, _) = ipv4_any(packet).map_err(|_| MirrorError::Malformed)?;
    let len = (ip.transport_at + ip.transport_len) as usize;
    let fragment_word = packet.get(6..8).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    let may_fragment = fragment_word & ipv4::DONT_FRAGMENT == 0;
    let (src, dst, protocol) = (ip.src(), ip.dst(), ip.protocol);
    Ok(Seen { src, dst, len, icmp: None, protocol, may_fragment })
}

/// May a packet leave, by its addresses?
fn check(stack: &Stack, port_id: u16, seen: &Seen) -> Result<(), MirrorError> {
    let Seen { src, dst, icmp, .. } = *seen;
    let port = stack.ports.get(port_id).ok_or(MirrorError::NoPort)?;
    let is_solicited = |kind: &u8| icmpv6::is_neighbour_discovery(*kind);
    if icmp.filter(is_solicited).is_some_and(|kind| kind != nd::ROUTER_ADVERTISEMENT) {
        return Err(MirrorError::NeighbourDiscovery);
    }
    let is_group = port.local.is_group(dst);
    let is_near = is_group || is_link_local(dst) || is_link_local(src);
    let is_membership = seen.protocol == protocol::IGMP || icmp.is_some_and(mld::is_mld);
    let is_from_us = port.local.is_ours(src)
        || !is_near && stack.has_address(src)
        || src.is_unspecified() && is_membership && is_group;
    if !is_from_us {
        return Err(MirrorError::Source);
    }
    let is_host_scoped = matches!(dst, IpAddr::V6(dst) if dst.octets()[..2] == [0xff, 0x01])
        || matches!(dst, IpAddr::V6(dst) if dst.octets()[..2] == [0xff, 0x11]);
    let is_of_another = !is_group && stack.is_broadcast_to(dst);
    if dst.is_unspecified() || stack.is_own(dst) || is_host_scoped || is_of_another {
        return Err(MirrorError::Destination);
    }
    Ok(())
}

fn is_link_local(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => addr.is_link_local(),
        IpAddr::V6(addr) => addr.is_unicast_link_local(),
    }
}

/// Is `dst` a group, or a broadcast address on the port's link?
fn is_group(stack: &Stack, port_id: u16, dst: IpAddr) -> bool {
    stack.ports.get(port_id).is_some_and(|port| port.local.is_group(dst))
}

/// The next hop of a packet, and the size of the largest packet that goes there.
fn route(stack: &Stack, port_id: u16, seen: &Seen) -> Result<(NextHop, Mtu), DropReason> {
    let Seen { src, dst, .. } = *seen;
    let is_here = is_group(stack, port_id, dst) || is_link_local(dst) || is_link_scoped(dst);
    let hop = match is_here || is_on_link(stack, port_id, dst) {
        true => NextHop { port: port_id, neighbour: dst, mtu: None },
        false => {
            let flow = match (src, dst) {
                (IpAddr::V4(src), IpAddr::V4(dst)) => flow_v4(src, dst),
                (IpAddr::V6(src), IpAddr::V6(dst)) => flow_v6(src, dst),
                _ => 0,
            };
            let found = stack.routes.lookup_flow(dst, Some(src), flow, Sender::Program);
            found.map_err(no_route)?
        }
    };
    let port = stack.ports.get(hop.port).ok_or(DropReason::TxNoPort)?;
    if port.gone {
        return Err(DropReason::DeviceLinkDown);
    }
    let mtu = match is_here {
        true => port.limits.mtu,
        false => stack.neighbour_mtus.of_hop(&stack.ports, &hop).ok_or(DropReason::TxNoPort)?,
    };
    Ok((hop, mtu))
}

/// Send a packet in fragments.
fn fragments(stack: &mut Stack, m: &Mbuf, egress: &Egress, mtu: Mtu) -> Fate {
    let (mut begin, mut count) = (0, 0);
    while let Some(piece) = Piece::at(m.as_slice(), begin, mtu) {
        let len = piece.header().len() + piece.data.len();
        let mut part = stack.core.cx.pool.alloc(len).ok_or(DropReason::MbufExhausted)?;
        part.append(piece.header());
        part.append(piece.data);
        begin += piece.data.len();
        count += 1;
        put(stack, part, egress)?;
    }
    stack.core.cx.counters.add(Counter::DatagramsFragmented, 1);
    stack.core.cx.counters.add(Counter::FragmentsOut, count);
    Ok(())
}

/// Send a packet to its next hop, or queue it until the neighbour is resolved.
fn put(stack: &mut Stack, mut m: Mbuf, egress: &Egress) -> Fate {
    let port = stack.ports.get(egress.port).ok_or(DropReason::TxNoPort)?;
    if port.limits.link == LinkKind::Ethernet {
        let is_v6 = m.len() >= ipv6::HEADER_LEN && m.as_slice()[0] >> 4 == 6;
        let ethertype = if is_v6 { ether::IPV6 } else { ether::IPV4 };
        let header = m.prepend(ether::HEADER_LEN).ok_or(DropReason::IpTooBig)?;
        let dst = egress.dst_mac.unwrap_or_default();
        ether::Header { dst, src: egress.src_mac, ethertype }.emit(header);
    }
    if egress.dst_mac.is_some() {
        pace::put(stack, egress.port, m);
        return Ok(());
    }
    let key = (egress.port, egress.neighbour);
    if let Err(lost) = stack.neighbours.enqueue(key, m, &mut stack.core.cx.budget) {
        stack.core.drops.count(DropReason::NeighbourQueueFull);
        stack.core.cx.pool.free(lost);
    }
    Ok(())
}
