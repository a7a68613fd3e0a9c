//! Decides whether a packet is for this host: by the packet's addresses, the addresses of the port
//! that it came by, and the groups that sockets have joined. Also checks frames to broadcast and
//! multicast MAC addresses before any other file reads them.
//!
//! Called by: `rx.rs` and the protocols. A packet that came to a broadcast or multicast MAC address
//! is never forwarded or answered with an ICMP error, and causes no ARP request. RFC 1122 sections
//! 3.2.1.3, 3.2.2 and 3.3.6. Limits: `other_broadcasters`, and one [`Event`] a minute. Counter:
//! `broadcasts_other_form`.

use core::net::{IpAddr, Ipv4Addr};

use base::{Counter, DropReason};
use inet::Ip;
use inet::flow::Addrs;
use inet::ip_input::is_martian_source;
use mbuf::Mbuf;
use tcp::Fate;
use wire::{ether, protocol};

use crate::handles::{Event, PortId, UdpHandle};
use crate::local::{BroadcastForm, OtherBroadcaster};
use crate::port::Port;
use crate::stack::Stack;

/// Is a packet addressed to this host, and is its source an address that a host can have?
/// RFC 9293 MUST-63.
/// RFC 1122 3.2.1.3-a, 3.2.1.3-b.
pub(crate) fn for_us<A: Addrs>(stack: &Stack, ip: &Ip<A>, m: &Mbuf) -> Fate {
    match stack.ports.get(m.in_port()) {
        Some(port) if !port.local.may_send(ip.src()) => Err(DropReason::IpMartianSource),
        Some(port) if port.local.is_ours(ip.dst()) => Ok(()),
        _ if is_anycast(stack, ip.dst(), m) => Ok(()),
        _ => Err(DropReason::IpNotForUs),
    }
}

/// Is `dst`, the destination of a packet, a subnet-router anycast address of the port that the
/// packet came by? `false` on a host that is no router.
/// RFC 4291 2.6.1-a.
#[cold]
pub(crate) fn is_anycast(stack: &Stack, dst: IpAddr, m: &Mbuf) -> bool {
    let is_of = |port: &Port| port.local.is_anycast(dst);
    stack.forwarding.on && stack.ports.get(m.in_port()).is_some_and(is_of)
}

/// Like [`for_us`], but also accepts packets to a multicast group that the port receives, or to all
/// hosts on a link: RFC 1122 section 4.1.3.6.
pub(crate) fn for_us_or_group<A: Addrs>(stack: &Stack, ip: &Ip<A>, m: &Mbuf) -> Fate {
    let port = stack.ports.get(m.in_port()).ok_or(DropReason::IpNotForUs)?;
    if port.local.is_ours(ip.dst()) {
        return if port.local.may_send(ip.src()) {
            Ok(())
        } else {
            Err(DropReason::IpMartianSource)
        };
    }
    // RFC 1112 7.2-b, 7.2-d: a packet to a group is accepted if the group was joined on the port,
    // and dropped otherwise.
    match port.local.is_group(ip.dst()) {
        // An answer to a broadcast address would go to all hosts.
        true if is_martian_source(ip.src())
            || port.local.is_group(ip.src())
            || port.local.is_any_broadcast(ip.src()) =>
        {
            Err(DropReason::IpMartianSource)
        }
        true if ip.dst().is_multicast() && !stack.groups.are_received(port, ip.dst()) => {
            Err(DropReason::GroupNotJoined)
        }
        true => Ok(()),
        false => for_us(stack, ip, m),
    }
}

/// Returns the socket that waits, on a port without an address, for the answer of a DHCP server,
/// which the server sends to the address that it offers. `udp` is the payload of the IP packet. RFC
/// 2131 section 4.1.
#[cold]
pub(crate) fn offer<A: Addrs>(
    stack: &Stack,
    ip: &Ip<A>,
    in_port: u16,
    udp: &[u8],
) -> Option<UdpHandle> {
    let port = stack.ports.get(in_port)?;
    let handle = port.offers?;
    let &[_, _, a, b, ..] = udp else { return None };
    let sender = stack.udp.sender(handle)?;
    let is_it = ip.protocol == protocol::UDP
        && ip.src().is_ipv4()
        && sender.port == u16::from_be_bytes([a, b])
        && port.local.may_send(ip.src());
    is_it.then_some(handle)
}

/// Are the source and the destination of a packet addresses that a host can have, ours or not?
pub(crate) fn for_any_host<A: Addrs>(stack: &Stack, ip: &Ip<A>, m: &Mbuf) -> Fate {
    match stack.ports.get(m.in_port()) {
        Some(port) if !port.local.may_send(ip.src()) => Err(DropReason::IpMartianSource),
        Some(port) if port.local.is_group(ip.dst()) => Err(DropReason::TcpGroupAddress),
        _ => Ok(()),
    }
}

/// Check the destination of a packet in a frame to a broadcast or multicast MAC address: it must be
/// a broadcast address or a multicast group. A unicast destination means that the sender uses a
/// broadcast address that is none here. Forwarding or answering such packets feeds a storm.
pub(crate) fn check_group<A: Addrs>(stack: &mut Stack, ip: &Ip<A>, m: &Mbuf) -> Fate {
    let dst = ip.dst();
    if dst.is_multicast() {
        return Ok(());
    }
    let port = stack.ports.get(m.in_port()).ok_or(DropReason::TxNoPort)?;
    let IpAddr::V4(dst) = dst else { return Err(DropReason::IpLinkBroadcast) };
    let is_broadcast = port.local.is_broadcast(dst);
    if let Some(form) = port.local.other_form(dst) {
        note(stack, ip.src(), dst, form, m);
    }
    if is_broadcast || is_offer(stack, ip, m) { Ok(()) } else { Err(DropReason::IpLinkBroadcast) }
}

/// Does a port without an address wait for this packet?
fn is_offer<A: Addrs>(stack: &Stack, ip: &Ip<A>, m: &Mbuf) -> bool {
    let link = stack.ports.get(m.in_port()).map_or(0, |port| port.limits.link.header_len());
    let udp = m.as_slice().get(link + ip.transport_at as usize..).unwrap_or_default();
    offer(stack, ip, m.in_port(), udp).is_some()
}

/// Drop packets that nobody here accepts before their checksum is computed: a storm consists of
/// such frames.
pub(crate) fn drop_unwanted<A: Addrs>(stack: &Stack, ip: &Ip<A>, m: &Mbuf, at: usize) -> Fate {
    match ip.protocol {
        // RFC 9293 MUST-57.
        protocol::TCP => Err(DropReason::TcpGroupAddress),
        protocol::UDP => {
            let ports = m.as_slice().get(at + ip.transport_at as usize..).unwrap_or_default();
            let &[_, _, a, b, ..] = ports else { return Err(DropReason::UdpShort) };
            let port = u16::from_be_bytes([a, b]);
            let has_socket = stack.udp.has_port(port) || stack.groups.has_port(port);
            if has_socket { Ok(()) } else { Err(DropReason::UdpNoSocket) }
        }
        _ => Ok(()),
    }
}

/// Count a packet to another form of broadcast address, and remember its sender.
#[cold]
fn note(stack: &mut Stack, source: IpAddr, destination: Ipv4Addr, form: BroadcastForm, m: &Mbuf) {
    let (Some(port), Ok(header)) =
        (stack.ports.get(m.in_port()), ether::Header::parse(m.as_slice()))
    else {
        return;
    };
    let IpAddr::V4(source) = source else { return };
    let core = &mut stack.core;
    core.cx.counters.add(Counter::BroadcastsOtherForm, 1);
    // If the source is no host's address, it does not show which host is configured differently.
    if is_martian_source(source.into()) || header.src.is_group() {
        return;
    }
    let ours = port.addresses.iter().find_map(|a| match a.ip() {
        IpAddr::V4(addr) => port.local.broadcast(addr),
        IpAddr::V6(_) => None,
    });
    let (port, mac, count, last_at) = (port.id, header.src, 1, core.cx.now);
    let row = OtherBroadcaster { port, mac, source, destination, ours, form, count, last_at };
    if stack.other_broadcasters.note(row, &mut core.cx.budget) {
        stack.ready.push_back(Event::OtherBroadcast(port));
    }
}

impl Stack {
    /// Is `addr` an IPv4 broadcast address: 255.255.255.255, or that of a network of any port?
    pub(crate) fn is_broadcast_to(&self, addr: IpAddr) -> bool {
        matches!(addr, IpAddr::V4(addr) if addr.is_broadcast() || self.is_broadcast(addr))
    }

    /// Is `addr` the broadcast address of a network of any port?
    pub(crate) fn is_broadcast(&self, addr: Ipv4Addr) -> bool {
        self.ports.iter().any(|port| port.local.is_broadcast(addr))
    }

    /// Set the address that broadcasts in the network of `addr`, an IPv4 address of a port, are
    /// sent to. Instead of the address whose host part is all ones, `to` may be the form with zeros
    /// of 4.2BSD, the broadcast address of a larger network around it, or 255.255.255.255. The
    /// setting lasts until the port's addresses change. Datagrams to either form are received in
    /// any case (RFC 1122 section 3.3.6).
    ///
    /// `false`, with nothing changed, if `addr` is no address of the port, or `to` cannot be the
    /// broadcast address of its network.
    pub fn set_broadcast(&mut self, port: PortId, addr: Ipv4Addr, to: Ipv4Addr) -> bool {
        let port = self.ports.get_mut(port.0);
        let is_set = port.is_some_and(|port| port.local.set_broadcast(addr, to));
        self.ports.share_broadcasts();
        self.path_mtus.note_change();
        is_set
    }

    /// The broadcast address of the network of `addr`, an IPv4 address of a port. `None` if `addr`
    /// is no such address, or if its network has only one or two addresses.
    pub fn broadcast(&self, port: PortId, addr: Ipv4Addr) -> Option<Ipv4Addr> {
        self.ports.get(port.0)?.local.broadcast(addr)
    }

    /// Neighbours whose broadcast address is not that of their port; the one known for the longest
    /// time is first. Each prints as one line. [`Event::OtherBroadcast`] reports new ones, at most
    /// once a minute.
    pub fn other_broadcasters(&self) -> &[OtherBroadcaster] {
        self.other_broadcasters.rows()
    }
}
