//! Next-hop resolution: joins routes and neighbours, sends solicitations, and keeps packets that
//! wait for a link address.
//!
//! Called by: `reroute.rs` for every new header template, and every file that sends single packets.
//! `arp.rs` and `nd.rs` handle received messages; `neighbours.rs` handles the packets and
//! connections that waited. A connection that never had a link address is marked as waiting and
//! makes no segments. Other packets wait in the neighbour's pending queue, complete except for the
//! link address. RFC 826, RFC 4861 section 7.2, RFC 1122 sections 2.3.2.2 and 3.3.1, RFC 3927
//! section 2.5.

use core::net::{IpAddr, SocketAddr};

use base::{Counter, DropReason, Limit, LinkKind, MacAddr, Owner};
use inet::ip_output::Fields;
use inet::neighbour::{Action, Advertisement, Found, Key, Learnt, group_mac};
use inet::{HeaderTemplate, NextHop, Sender, Vrf, nd};
use mbuf::Mbuf;
use tcp::Fate;
use wire::{arp, ether, protocol};

use crate::config::IpSettings;
use crate::connections::Pcb;
use crate::loopback::Loopback;
use crate::next_hop::{is_on_link, next_hop, next_hop_of_flow, scoped};
use crate::pace;
use crate::port::{LOOPBACK, Port};
use crate::resolving::{Egress, Note, Outcome};
use crate::stack::Stack;

/// How many connections are examined when a DELAY begins. If none of them leaves by way of the
/// neighbour, it is solicited at the end of the DELAY as if there were no connection.
const LOOKED_AT_MAX: usize = 1_024;

/// The most connections by way of one neighbour whose progress is noted.
const NOTED_MAX: usize = 32;

/// The headers for packets from `local` to `remote`, and the port that they leave by.
pub(crate) fn route(
    stack: &mut Stack,
    local: SocketAddr,
    remote: SocketAddr,
    protocol: u8,
    owner: &Owner,
    settings: IpSettings,
) -> Result<Egress, DropReason> {
    if remote.ip().is_unspecified() {
        // RFC 1122 section 3.2.1.3: no packet may be sent to such an address, which may only be a
        // source.
        return Err(DropReason::IpMartianDestination);
    }
    let sender = Sender::Socket { owner, by: settings.selector() };
    let hop = next_hop(stack, Some(local.ip()), remote, sender)?;
    by_hop(stack, hop, (local, remote), protocol, settings)
}

/// [`route`] for an ICMP error. `flow` is the hash of the flow that the error is about, with source
/// and destination exchanged; the hash chooses among equal next hops.
pub(crate) fn route_of_error(
    stack: &mut Stack,
    (local, remote): (SocketAddr, SocketAddr),
    protocol: u8,
    (flow, vrf): (u32, Vrf),
) -> Result<Egress, DropReason> {
    let hop = next_hop_of_flow(stack, local.ip(), remote, flow, Sender::Vrf(vrf))?;
    by_hop(stack, hop, (local, remote), protocol, IpSettings::default())
}

fn by_hop(
    stack: &mut Stack,
    hop: NextHop,
    (local, remote): (SocketAddr, SocketAddr),
    protocol: u8,
    settings: IpSettings,
) -> Result<Egress, DropReason> {
    if hop.port == LOOPBACK {
        if stack.loopback.is_none() {
            let epoch = stack.flow_epoch();
            stack.loopback = Some(Box::new(Loopback::make(&mut stack.ports, epoch)));
        }
    } else if local.ip().is_loopback() {
        // RFC 1122 section 3.2.1.3: a loopback address must not appear outside a host.
        return Err(DropReason::IpMartianSource);
    }
    let found = link_address(stack, hop.port, hop.neighbour, remote.ip())?;
    let port = stack.ports.get(hop.port).ok_or(DropReason::TxNoPort)?;
    if port.gone {
        return Err(DropReason::DeviceLinkDown);
    }
    let IpSettings { tos, ttl, .. } = settings;
    let fields = Fields { src: local.ip(), dst: remote.ip(), protocol, tos, ttl };
    let mac = found.unwrap_or_default();
    let template = HeaderTemplate::new(port.limits.link, port.mac, mac, &fields);
    let is_broadcast = matches!(remote.ip(), IpAddr::V4(dst) if port.local.is_broadcast(dst));
    let mtu = stack.neighbour_mtus.of_hop(&stack.ports, &hop).ok_or(DropReason::TxNoPort)?;
    let (port, is_complete) = (hop.port, found.is_some());
    Ok(Egress { port, neighbour: hop.neighbour, mtu, template, is_complete, is_broadcast })
}

/// The link address for packets to `dst` by the next hop `neighbour`; `None` while it is being
/// resolved.
pub(crate) fn link_address(
    stack: &mut Stack,
    port_id: u16,
    neighbour: IpAddr,
    dst: IpAddr,
) -> Result<Option<MacAddr>, DropReason> {
    let port = stack.ports.get(port_id).ok_or(DropReason::TxNoPort)?;
    if port.limits.link == LinkKind::Ip {
        return Ok(Some(MacAddr::default()));
    }
    // RFC 1122 3.3.6-c: a link-layer broadcast is used only for an IP broadcast address.
    if port.local.is_group(dst) {
        // A broadcast address of the network goes to the link broadcast address (RFC 1122, 3.3.6).
        return Ok(Some(group_mac(dst).unwrap_or(MacAddr::BROADCAST)));
    }
    if port.local.is_group(neighbour) {
        return Err(DropReason::IpBroadcastNextHop);
    }
    let core = &mut stack.core;
    let found = stack.neighbours.resolve((port_id, neighbour), core.cx.now, &mut core.cx.budget);
    ask(stack);
    if !stack.resolving.outcomes.is_empty() {
        // The next poll acts on the queued outcomes.
        stack.rare_timers.note(stack.core.cx.now);
    }
    match found {
        Found::Known(mac) => Ok(Some(mac)),
        Found::Pending => Ok(None),
        Found::Full => Err(DropReason::NeighbourTableFull),
    }
}

/// Send a packet, or queue it until the neighbour is resolved. A packet that cannot be queued is
/// counted as a drop.
pub(crate) fn send(stack: &mut Stack, egress: &Egress, mut packet: Mbuf) -> Fate {
    if let Err(reason) = egress.template.prepend(&mut packet) {
        stack.core.cx.pool.free(packet);
        return Err(reason);
    }
    if egress.is_complete {
        pace::put(stack, egress.port, packet);
        return Ok(());
    }
    let key = (egress.port, egress.neighbour);
    if let Err(lost) = stack.neighbours.enqueue(key, packet, &mut stack.core.cx.budget) {
        stack.core.drops.count(DropReason::NeighbourQueueFull);
        stack.core.cx.pool.free(lost);
    }
    Ok(())
}

/// Carry out the actions of the neighbour table that send a solicitation or note that a DELAY
/// begins. Outcomes are queued for `neighbours::act`: they concern senders, and the caller may be
/// one of these senders.
pub(crate) fn ask(stack: &mut Stack) {
    while let Some(action) = stack.neighbours.next_action() {
        match action {
            Action::Solicit(key, to) => solicit(stack, key, to),
            Action::Delayed(key) => note_progress(stack, key),
            Action::Resolved(key, mac, pending) => {
                stack.resolving.outcomes.push_back(Outcome::Resolved(key, mac, pending));
            }
            Action::Failed(key, pending) => {
                stack.resolving.outcomes.push_back(Outcome::Failed(key, pending));
            }
        }
    }
    // Every change that sets a deadline is followed by this call.
    stack.rare_timers.note(stack.neighbours.next_deadline());
}

/// The DELAY of `key` begins: note the progress of the connections by way of this neighbour.
#[cold]
fn note_progress(stack: &mut Stack, key: Key) {
    let looked_at = stack.connections.iter().take(LOOKED_AT_MAX);
    let there = looked_at.filter(|(_, pcb)| pcb.in_table && goes_over(stack, pcb, key));
    let noted = there.map(|(handle, pcb)| (handle, pcb.tcb.progress())).take(NOTED_MAX);
    let notes: Vec<Note> = noted.collect();
    stack.progress.note(key, notes);
}

/// Do a connection's segments leave by this neighbour?
fn goes_over(stack: &Stack, pcb: &Pcb, (port, neighbour): Key) -> bool {
    let remote = pcb.key.remote();
    // IPv4 may go by a neighbour with an IPv6 address (RFC 8950), but not the reverse.
    if pcb.port != port || remote.is_ipv6() && neighbour.is_ipv4() {
        return false;
    }
    let (src, remote) = (pcb.key.local().ip(), scoped(remote, port));
    let hop = next_hop(stack, Some(src), remote, pcb.sender());
    hop.is_ok_and(|hop| (hop.port, hop.neighbour) == (port, neighbour))
}

/// May another solicitation be sent now? One rate limit counts for all ports together
/// ([`Limit::SolicitationsPerSecond`]).
///
/// # Errors
/// [`DropReason::NeighbourRateLimited`].
pub(crate) fn may_solicit(stack: &mut Stack) -> Fate {
    let core = &mut stack.core;
    let limit = Limit::SolicitationsPerSecond;
    match stack.resolving.solicitations.admits(limit, core.cx.now, &mut core.cx.budget) {
        true => Ok(()),
        false => Err(DropReason::NeighbourRateLimited),
    }
}

/// Solicit a neighbour's link address, by multicast or at its known address.
#[cold]
fn solicit(stack: &mut Stack, (port_id, target): Key, to: Option<MacAddr>) {
    if let Err(reason) = may_solicit(stack) {
        return stack.core.drops.count(reason);
    }
    let Some(port) = stack.ports.get(port_id) else { return };
    // The address of a known neighbour may have become a broadcast address.
    if port.local.is_group(target) {
        return;
    }
    let Some(source) = port.address_towards(target) else { return };
    let mac = port.mac_of(source);
    let sent = match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            let asked = (MacAddr::default(), target);
            let bytes = nd::arp_output(arp::Operation::Request, (mac, source), asked);
            send_arp(stack, port_id, to.unwrap_or(MacAddr::BROADCAST), &bytes)
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            let group = nd::solicited_node(target);
            let dst = if to.is_some() { target } else { group };
            let to = to.or_else(|| group_mac(IpAddr::V6(group))).unwrap_or_default();
            let mut bytes = [0; wire::nd::LEN_MAX];
            let len = nd::solicitation(&mut bytes, mac, source, dst, target).unwrap_or(0);
            send_nd(stack, port_id, to, (source.into(), dst.into()), &bytes[..len])
        }
        _ => return,
    };
    match sent {
        Ok(()) => stack.core.cx.counters.add(Counter::NeighbourSolicitations, 1),
        Err(reason) => stack.core.drops.count(reason),
    }
}

/// Send a neighbour discovery message.
pub(crate) fn send_nd(
    stack: &mut Stack,
    port_id: u16,
    mac: MacAddr,
    (src, dst): (IpAddr, IpAddr),
    message: &[u8],
) -> Fate {
    let port = stack.ports.get(port_id).ok_or(DropReason::TxNoPort)?;
    let mut m = stack.core.cx.pool.copy_of(message).ok_or(DropReason::MbufExhausted)?;
    // With hop limit 255 no router forwards the message (RFC 4861 section 7.1).
    let fields = Fields { src, dst, protocol: protocol::ICMPV6, tos: 0, ttl: 255 };
    let own = port.nd_source(message);
    HeaderTemplate::new(port.limits.link, own, mac, &fields).prepend(&mut m)?;
    pace::put(stack, port_id, m);
    Ok(())
}

/// Send a neighbour discovery message to a group, or to a host whose link address is resolved first
/// if it is not known.
///
/// # Errors
/// No port, no buffer, no room among the neighbours.
pub(crate) fn send_nd_to(
    stack: &mut Stack,
    port_id: u16,
    (src, dst): (IpAddr, IpAddr),
    message: &[u8],
) -> Fate {
    if let Some(mac) = group_mac(dst) {
        return send_nd(stack, port_id, mac, (src, dst), message);
    }
    let mac = link_address(stack, port_id, dst, dst)?;
    let port = stack.ports.get(port_id).ok_or(DropReason::TxNoPort)?;
    let fields = Fields { src, dst, protocol: protocol::ICMPV6, tos: 0, ttl: 255 };
    let (link, mtu) = (port.limits.link, port.limits.mtu);
    let own = port.nd_source(message);
    let template = HeaderTemplate::new(link, own, mac.unwrap_or_default(), &fields);
    let m = stack.core.cx.pool.copy_of(message).ok_or(DropReason::MbufExhausted)?;
    let is_complete = mac.is_some();
    let egress =
        Egress { port: port_id, neighbour: dst, mtu, template, is_complete, is_broadcast: false };
    send(stack, &egress, m)
}

/// Pass an advertisement to the neighbour table, if the neighbour can be on this link at all.
pub(crate) fn learn(stack: &mut Stack, port_id: u16, heard: &nd::Heard) -> Learnt {
    let Some((ip, mac, advertisement)) = heard.news else { return Learnt::Useless };
    // A host that claims a broadcast address wants to receive all packets to it.
    if stack.ports.get(port_id).is_none_or(|port| port.local.is_group(ip)) {
        return Learnt::Useless;
    }
    // A host outside our networks may be a neighbour by one of our routes, but then we have
    // solicited it before it sends a request.
    if advertisement == Advertisement::Request && !is_on_link(stack, port_id, ip) {
        return Learnt::Useless;
    }
    let core = &mut stack.core;
    let learnt =
        stack.neighbours.learn((port_id, ip), mac, advertisement, core.cx.now, &mut core.cx.budget);
    ask(stack);
    learnt
}

/// Send an ARP packet. If its sender address is link-local, it is broadcast, so that conflicts are
/// noticed.
/// RFC 3927 2.5-a.
pub(crate) fn send_arp(stack: &mut Stack, port_id: u16, dst: MacAddr, packet: &[u8]) -> Fate {
    let port = stack.ports.get(port_id).ok_or(DropReason::TxNoPort)?;
    let header = arp::Header::parse(packet).ok();
    // Switches learn the place of a further link address from it.
    let further = header.map(|h| h.sender_mac).filter(|mac| port.macs.has(*mac));
    let src = further.unwrap_or(port.mac);
    let is_link_local = header.is_some_and(|h| h.sender_ip.is_link_local());
    let dst = if is_link_local { MacAddr::BROADCAST } else { dst };
    let mut m = stack.core.cx.pool.copy_of(packet).ok_or(DropReason::MbufExhausted)?;
    let header = m.prepend(ether::HEADER_LEN).ok_or(DropReason::IpTooBig)?;
    ether::Header { dst, src, ethertype: ether::ARP }.emit(header);
    pace::put(stack, port_id, m);
    Ok(())
}

/// Learn a link address from a message of a router: the router's own, or that of a redirect's
/// target.
pub(crate) fn learn_at(stack: &mut Stack, key: Key, mac: MacAddr, how: Advertisement) {
    let core = &mut stack.core;
    stack.neighbours.learn(key, mac, how, core.cx.now, &mut core.cx.budget);
    ask(stack);
}

impl Port {
    /// The link-level source of a neighbour discovery message of ours: the further link address
    /// that it names, so that switches learn its place, or the port's own.
    /// RFC 9568 section 7.3.
    fn nd_source(&self, message: &[u8]) -> MacAddr {
        if self.macs.is_empty() {
            return self.mac;
        }
        let named = wire::nd::Header::parse(message).ok().and_then(|header| header.link_addr);
        named.filter(|mac| self.macs.has(*mac)).unwrap_or(self.mac)
    }

    /// Our address from which to solicit `target`.
    fn address_towards(&self, target: IpAddr) -> Option<IpAddr> {
        inet::select::source(self.addresses.iter(), target, target)
    }
}
