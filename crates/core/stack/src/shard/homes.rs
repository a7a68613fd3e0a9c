//! The home of a frame while rules are set: the shard that has the state of the frame's flow and
//! the flow's NAT mapping.
//!
//! Called by: `forward/ingress.rs` for each frame that a shard of a router with rules receives;
//! `forward/plain/elsewhere.rs`, when the firewall names another home. Without rules of NAT the
//! home is the one by the flow's hash (`steering.rs`). Frames for the host go where they go without
//! rules, in a second step if need be. docs/decisions/0135.

use core::net::IpAddr;
use std::sync::Arc;

use base::LinkKind;
use device::Burst;
use filter::states::{Key, Kind, parse, plain_v4, plain_v6};
use filter::{Homes, Tuple};
use inet::Address;
use mbuf::Mbuf;
use wire::{ether, protocol};

use super::steering::{Home, Steering};
use crate::stack::Stack;

/// A constant that makes the key differ from other values derived from the secret.
const PURPOSE: u64 = 135;

/// Takes the place of the port that a frame came by: another shard has handed the frame over for
/// good, so it is judged here.
const FOR_GOOD: u16 = u16::MAX;
/// Takes the place of the port: another shard has directed the fragment to this shard.
const DIRECTED: u16 = u16::MAX - 1;

/// How a frame came to this shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The frame came by the device, or by the ring of another queue.
    First,
    /// The shard that its addresses select has directed the frame to this shard.
    Directed,
    /// The frame is judged here, whatever hashes say.
    Last,
}

/// How a received frame came to this shard.
pub(crate) fn step(m: &Mbuf) -> Step {
    match m.in_port() {
        FOR_GOOD => Step::Last,
        DIRECTED => Step::Directed,
        _ => Step::First,
    }
}

/// Mark a frame so that the shard that gets it judges it.
pub(super) fn mark_for_good(m: &mut Mbuf) {
    m.set_in_port(FOR_GOOD);
}

/// Returns the homes of packets by the rules and addresses of this stack, which is the first of
/// several shards. The previous homes are returned if nothing has changed.
pub(super) fn made(stack: &Stack) -> Option<Arc<Homes>> {
    let count = stack.steering().count();
    let firewall = stack.filter().filter(|_| count > 1)?;
    let of_port = |port: &crate::port::Port| {
        let id = port.id.0;
        let usable = port.addresses.iter().filter(|a| a.is_usable()).map(|a: &Address| a.cidr);
        usable.map(move |cidr| (id, cidr)).collect::<Vec<_>>()
    };
    let mut own: Vec<_> = stack.ports.iter().flat_map(of_port).collect();
    own.retain(|(_, cidr)| !matches!(cidr.addr, IpAddr::V6(a) if a.is_unicast_link_local()));
    if let Some(homes) = firewall.homes().filter(|homes| homes.is_of(firewall.published(), &own)) {
        return Some(Arc::clone(homes));
    }
    let key = stack.derived_secret(PURPOSE);
    Homes::new(firewall.published(), own, count, key).map(Arc::new)
}

/// Hand over the frames of a burst, from index `from` on, that belong to other shards. Each is
/// marked as having come by port `port_id`. Returns how many were handed over.
pub(crate) fn steer(stack: &mut Stack, port_id: u16, frames: &mut Burst, from: usize) -> usize {
    let Some(port) = stack.ports.get(port_id) else { return 0 };
    let (Some(outbox), link) = (port.outbox.as_ref(), port.limits.link) else { return 0 };
    let homes = stack.firewall.as_ref().and_then(|firewall| firewall.homes());
    let (homes, steering) = (homes.map(|homes| &**homes), outbox.steering());
    let count = frames.len();
    for m in frames.iter_mut().skip(from) {
        m.set_in_port(port_id);
    }
    let home = |frame: &[u8]| match homes {
        Some(homes) => of_frame(homes, steering, link, port_id, frame),
        None => steering.home(link, frame),
    };
    outbox.steer_by(&mut stack.core.cx.pool, frames, from, home);
    count - frames.len()
}

/// The home of a frame that came by port `port_id`.
pub(super) fn home(stack: &Stack, port_id: u16, frame: &[u8]) -> Home {
    let Some(port) = stack.ports.get(port_id) else { return Home::Shard(stack.shard_index()) };
    let (steering, link) = (stack.steering(), port.limits.link);
    match stack.firewall.as_ref().and_then(|firewall| firewall.homes()) {
        Some(homes) => of_frame(homes, &steering, link, port_id, frame),
        None => steering.home(link, frame),
    }
}

/// The home of a frame while rules of NAT are set.
fn of_frame(
    homes: &Homes,
    steering: &Steering,
    link: LinkKind,
    port_id: u16,
    frame: &[u8],
) -> Home {
    let packet = match link {
        LinkKind::Ip => Some(frame),
        LinkKind::Ethernet => to_one(frame),
    };
    let found = packet.filter(|packet| !is_to_group(packet)).and_then(|packet| {
        let (tuple, icmp) = flow(packet)?;
        let is_for_link = match (tuple.protocol, icmp) {
            // Packets from these ports, the answers, belong to flows like others.
            (protocol::UDP, _) => is_dhcp(&tuple.dst_port),
            (protocol::ICMP, Some((5, _))) => true,
            (protocol::ICMPV6, Some((kind, _))) => matches!(kind, 130..=137 | 143),
            _ => false,
        };
        if is_for_link { None } else { homes.of(&tuple, port_id, icmp) }
    });
    found.map_or_else(|| steering.home(link, frame), Home::Shard)
}

/// The flow of a packet in the packet's direction, and the type and code of an ICMP message; `None`
/// for a fragment. An ICMP error belongs to the flow that it quotes, in the opposite direction.
#[inline]
fn flow(packet: &[u8]) -> Option<(Tuple, Option<(u8, u8)>)> {
    if let Some(key) = plain_v4(packet) {
        return Some((Key::V4(key).tuple(), None));
    }
    if let Some(key) = plain_v6(packet) {
        return Some((Key::V6(key).tuple(), None));
    }
    let parsed = parse(packet).ok().filter(|parsed| parsed.piece.is_none())?;
    let key = match parsed.kind {
        Kind::Error { .. } => parsed.key.reversed(),
        _ => parsed.key,
    };
    Some((key.tuple(), parsed.icmp))
}

/// Returns the IP packet of a frame to a unicast MAC address.
fn to_one(frame: &[u8]) -> Option<&[u8]> {
    let header = frame.first_chunk::<{ ether::HEADER_LEN }>()?;
    let packet = frame.get(ether::HEADER_LEN..)?;
    let is_ip = |ethertype| matches!(ethertype, ether::IPV4 | ether::IPV6);
    match u16::from_be_bytes([header[12], header[13]]) {
        _ if header[0] & 1 != 0 => None,
        ethertype if is_ip(ethertype) => Some(packet),
        // The frame has a priority tag.
        ether::VLAN | ether::SERVICE_VLAN => {
            let ethertype = packet.get(2..4)?;
            let is_plain = is_ip(u16::from_be_bytes([ethertype[0], ethertype[1]]));
            packet.get(4..).filter(|_| is_plain)
        }
        _ => None,
    }
}

pub(crate) fn is_to_group(packet: &[u8]) -> bool {
    match packet.first().map(|first| first >> 4) {
        Some(6) => packet.get(24) == Some(&0xff),
        _ => packet.get(16).is_some_and(|first| first >> 4 == 0xe),
    }
}

/// Ports of DHCP and DHCPv6.
fn is_dhcp(port: &u16) -> bool {
    matches!(port, 67 | 68 | 546 | 547)
}

/// Hand a frame that came by `port_id` to another shard, which judges it, or keeps the fragments of
/// its datagram together.
#[cold]
pub(crate) fn hand(stack: &mut Stack, port_id: u16, mut m: Mbuf, to: usize, is_directed: bool) {
    m.set_in_port(if is_directed { DIRECTED } else { FOR_GOOD });
    let pool = &mut stack.core.cx.pool;
    match stack.ports.get(port_id).and_then(|port| port.outbox.as_ref()) {
        Some(outbox) => outbox.send(to, m, pool),
        // Without the port there is no ring: the frame is dropped like the port's others.
        None => pool.free(m),
    }
}

/// The shard that should get a frame for the host itself, if it is another one.
pub(crate) fn of_host(stack: &Stack, port_id: u16, frame: &[u8]) -> Option<usize> {
    let outbox = stack.ports.get(port_id)?.outbox.as_ref()?;
    match outbox.home(frame) {
        Home::Shard(to) if to != stack.shard_index() => Some(to),
        _ => None,
    }
}
