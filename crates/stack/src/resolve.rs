//! Next-hop resolution: joins routes and neighbours, sends solicitations, and keeps what waits for
//! a link address. `arp.rs` and `nd.rs` have what is received.
//!
//! Called by: `tx.rs` for every new header template, `rx.rs` for what arrives, `Stack::poll` when a
//! neighbour is due. A connection that never had a link address waits, marked, its segments
//! unmade; other packets are in the neighbour's pending queue, finished but for six bytes.
//! RFC 826, RFC 4861 section 7.2, RFC 1122 sections 2.3.2.2 and 3.3.1.

use std::collections::BTreeMap;

use core::net::{IpAddr, SocketAddr};

use base::{Counter, DropReason, IpVersion, Limit, LinkKind, MacAddr, Mss, Mtu, PerSecond};
use inet::ip_output::Fields;
use inet::neighbour::{Action, Advertisement, Found, Key, Learnt, group_mac};
use inet::select::is_link_scoped;
use inet::{HeaderTemplate, NextHop, Sender, nd};
use mbuf::Mbuf;
use tcp::Fate;
use wire::{arp, ether, protocol};

use crate::connections::Pcb;
use crate::port::Port;
use crate::socket::passive;
use crate::{
    IpSettings, PortId, Stack, TcpHandle, addresses, autoconf, forward, frag, icmp, loopback, mtu,
    progress, redirect, reroute, tx,
};

/// Waiting connections, and the rate limits of solicitations and advertisements.
#[derive(Default)]
pub(crate) struct Resolving {
    waiting: BTreeMap<Key, Vec<TcpHandle>>,
    solicitations: PerSecond,
    advertisements: PerSecond,
    /// Neighbours that fail now did not answer; at other times their entries were evicted.
    is_expiring: bool,
}

/// How packets of one kind leave: by which port, to which neighbour, under which headers.
#[derive(Clone)]
pub(crate) struct Egress {
    pub(crate) port: u16,
    pub(crate) neighbour: IpAddr,
    /// The largest packet that port, route and neighbour take; the path may take less.
    pub(crate) mtu: Mtu,
    pub(crate) template: HeaderTemplate,
    /// The template has the neighbour's link address; else packets go to the pending queue.
    pub(crate) is_complete: bool,
    /// The destination is an IPv4 broadcast address.
    pub(crate) is_broadcast: bool,
}

/// The headers for packets from `local` to `remote`, and the port they leave by.
pub(crate) fn route(
    stack: &mut Stack,
    local: SocketAddr,
    remote: SocketAddr,
    protocol: u8,
    owner: &base::Owner,
    settings: IpSettings,
) -> Result<Egress, DropReason> {
    if remote.ip().is_unspecified() {
        // RFC 1122 section 3.2.1.3: it must not be sent, except as a source.
        return Err(DropReason::IpMartianDestination);
    }
    let sender = Sender::Socket { owner, mark: settings.mark };
    let hop = addresses::next_hop(stack, Some(local.ip()), remote, sender)?;
    by_hop(stack, hop, (local, remote), protocol, settings)
}

/// [`route`] of an ICMP error about a packet whose flow, turned round, has this hash.
pub(crate) fn route_of_error(
    stack: &mut Stack,
    (local, remote): (SocketAddr, SocketAddr),
    protocol: u8,
    flow: u32,
) -> Result<Egress, DropReason> {
    let hop = addresses::next_hop_of_flow(stack, local.ip(), remote, flow, Sender::Program)?;
    by_hop(stack, hop, (local, remote), protocol, IpSettings::default())
}

fn by_hop(
    stack: &mut Stack,
    hop: NextHop,
    (local, remote): (SocketAddr, SocketAddr),
    protocol: u8,
    settings: IpSettings,
) -> Result<Egress, DropReason> {
    if hop.port == loopback::PORT {
        loopback::ensure(stack);
    } else if local.ip().is_loopback() {
        // RFC 1122 section 3.2.1.3: outside a host it must not appear.
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
    let mtu = mtu::of_hop(stack, &hop).ok_or(DropReason::TxNoPort)?;
    let (port, is_complete) = (hop.port, found.is_some());
    Ok(Egress { port, neighbour: hop.neighbour, mtu, template, is_complete, is_broadcast })
}

/// The link address for packets to `dst` by next hop `neighbour`; `None` while it is resolved.
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
    // RFC 1122 3.3.6-c.
    if port.local.is_group(dst) {
        // A broadcast address of the network goes to the link broadcast address (RFC 1122, 3.3.6).
        return Ok(Some(group_mac(dst).unwrap_or(MacAddr::BROADCAST)));
    }
    if port.local.is_group(neighbour) {
        return Err(DropReason::IpBroadcastNextHop);
    }
    let core = &mut stack.core;
    let found = stack.neighbours.resolve((port_id, neighbour), core.cx.now, &mut core.cx.budget);
    act(stack);
    match found {
        Found::Known(mac) => Ok(Some(mac)),
        Found::Pending => Ok(None),
        Found::Full => Err(DropReason::NeighbourTableFull),
    }
}

/// Send a packet, or queue it until the neighbour is resolved; one that cannot be queued is counted
/// as a drop.
pub(crate) fn send(stack: &mut Stack, egress: &Egress, mut packet: Mbuf) -> Fate {
    if let Err(reason) = egress.template.prepend(&mut packet) {
        stack.core.cx.pool.free(packet);
        return Err(reason);
    }
    if egress.is_complete {
        tx::put(stack, egress.port, packet);
        return Ok(());
    }
    let key = (egress.port, egress.neighbour);
    if let Err(lost) = stack.neighbours.enqueue(key, packet, &mut stack.core.cx.budget) {
        stack.core.drops.count(DropReason::NeighbourQueueFull);
        stack.core.cx.pool.free(lost);
    }
    Ok(())
}

/// A connection whose template may be out of date is about to send: find its neighbour again.
/// `false` if it has to wait, because it never had a link address.
#[cold]
#[inline(never)]
pub(crate) fn refresh(stack: &mut Stack, handle: TcpHandle) -> bool {
    let Some(pcb) = stack.connections.get(handle) else { return false };
    if !pcb.is_resolved && pcb.tcb.state == tcp::State::Closed {
        // It never sent anything: there is nothing to send now either.
        return false;
    }
    let (local, remote, owner, port) =
        (pcb.key.local(), pcb.key.remote(), pcb.owner.clone(), pcb.port);
    let (tos, ttl) = pcb.template.tos_ttl();
    let ip = IpSettings { tos, ttl, mark: pcb.mark, ..IpSettings::default() };
    // Read before the solicitation: an answer that it draws counts as a change.
    let changes = stack.changes();
    let egress = route(stack, local, scoped(remote, port), wire::protocol::TCP, &owner, ip);
    let has_policy = stack.routes.has_policy();
    let is_usable = egress.as_ref().is_ok_and(|egress| {
        let is_loop = |port| port == loopback::PORT;
        egress.port == port
            || !is_loop(egress.port)
                && !is_loop(port)
                && reroute::is_possible(stack, local.ip(), port, egress.port)
    });
    if let Ok(egress) = &egress
        && is_usable
        && egress.port != port
    {
        reroute::go(stack, handle, egress.port);
        stack.core.cx.counters.add(Counter::TcpRerouted, 1);
    }
    let Some(pcb) = stack.connections.get_mut(handle) else { return false };
    match egress {
        Ok(egress) if is_usable => {
            let mss = Mss::for_mtu(egress.mtu, IpVersion::of(&remote.ip()));
            if tcp::path::link_carries(&mut pcb.tcb, mss, stack.core.cx.now) {
                stack.core.cx.counters.add(Counter::PathMtuLowered, 1);
            }
            if egress.is_complete {
                pcb.template = egress.template;
                pcb.is_resolved = true;
            } else {
                // The address that it has may be of a gateway that its owner may use no longer.
                pcb.is_resolved &= !has_policy;
                if !core::mem::replace(&mut pcb.waiting, true) {
                    wait(stack, (egress.port, egress.neighbour), handle);
                }
            }
        }
        // It stays where it is; nothing leaves by the old route if another is not for its owner.
        Ok(_) => pcb.is_resolved = !has_policy,
        Err(_) => pcb.is_resolved &= !has_policy,
    }
    let Some(pcb) = stack.connections.get_mut(handle) else { return false };
    // One that had a link address goes on with it: if it is wrong, TCP's own timers find out.
    pcb.seen = if pcb.is_resolved { changes } else { Pcb::NEVER_SEEN };
    pcb.is_resolved
}

/// A link-local address with the link that it is on; flows are looked up without it.
pub(crate) fn scoped(remote: SocketAddr, port: u16) -> SocketAddr {
    match remote {
        SocketAddr::V6(mut to) if is_link_scoped(remote.ip()) => {
            to.set_scope_id(PortId(port).scope_id());
            SocketAddr::V6(to)
        }
        other => other,
    }
}

fn wait(stack: &mut Stack, key: Key, handle: TcpHandle) {
    let connections = &stack.connections;
    let list = stack.resolving.waiting.entry(key).or_default();
    // Handles of connections that ended while they waited are still in the list.
    if list.len() > 2 * connections.len() + 16 {
        list.retain(|&handle| connections.get(handle).is_some());
    }
    list.push(handle);
}

/// Handle expired timers of neighbours.
#[cold]
pub(crate) fn expire(stack: &mut Stack) {
    let Stack { neighbours, progress, connections, .. } = stack;
    neighbours.expire(stack.core.cx.now, |key| progress.is_made(key, connections));
    stack.resolving.is_expiring = true;
    act(stack);
    stack.resolving.is_expiring = false;
}

/// Carry out the actions of the neighbour table.
pub(crate) fn act(stack: &mut Stack) {
    while let Some(action) = stack.neighbours.next_action() {
        match action {
            Action::Solicit(key, to) => solicit(stack, key, to),
            Action::Resolved(key, mac, pending) => {
                autoconf::router::set_silent(stack, key, false);
                for mut frame in pending {
                    if let Some(dst) = frame.as_mut_slice().and_then(|b| b.get_mut(..6)) {
                        dst.copy_from_slice(&mac.0);
                    }
                    frag::output::put(stack, key, frame);
                }
                for handle in stack.resolving.waiting.remove(&key).unwrap_or_default() {
                    if let Some(pcb) = stack.connections.get_mut(handle) {
                        pcb.waiting = false;
                        stack.connections.mark_dirty(handle);
                    }
                }
            }
            Action::Delayed(key) => progress::begin(stack, key),
            Action::Failed(key, pending) => failed(stack, key, pending),
        }
    }
    // Whatever set a deadline has its actions carried out next.
    stack.rare_timers.note(stack.neighbours.next_deadline());
}

/// `key` does not answer: drop its pending queue, and report it to the senders and to connections.
#[cold]
fn failed(stack: &mut Stack, key: Key, pending: std::collections::VecDeque<Mbuf>) {
    stack.core.cx.counters.add(Counter::NeighbourFailures, 1);
    redirect::forget_gateway(stack, key);
    stack.progress.forget(key);
    for frame in pending {
        stack.core.drops.count(DropReason::IpNoNeighbour);
        icmp::host_unreachable(
            stack,
            frame.as_slice().get(ether::HEADER_LEN..).unwrap_or_default(),
        );
        forward::unreachable(stack, &frame);
        stack.core.cx.pool.free(frame);
    }
    for handle in stack.resolving.waiting.remove(&key).unwrap_or_default() {
        let Some(pcb) = stack.connections.get_mut(handle) else { continue };
        pcb.waiting = false;
        let embryonic = pcb.tcb.is_embryonic();
        tcp::path::host_unreachable(&mut pcb.tcb);
        if embryonic {
            passive::handshake_progress(stack, handle);
        }
        stack.connections.mark_dirty(handle);
    }
    if stack.resolving.is_expiring {
        autoconf::redirect::forget_target(stack, key);
        autoconf::router::set_silent(stack, key, true);
    }
}

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
    // A known neighbour whose address has become a broadcast address since.
    if port.local.is_group(target) {
        return;
    }
    let Some(source) = port.address_towards(target) else { return };
    let mac = port.mac;
    let sent = match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            let asked = (MacAddr::default(), target);
            let bytes = nd::arp_output(arp::Operation::Request, (mac, source), asked);
            crate::arp::send(stack, port_id, to.unwrap_or(MacAddr::BROADCAST), &bytes)
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
    // Hop limit 255: no router lets that through (RFC 4861 section 7.1).
    let fields = Fields { src, dst, protocol: protocol::ICMPV6, tos: 0, ttl: 255 };
    HeaderTemplate::new(port.limits.link, port.mac, mac, &fields).prepend(&mut m)?;
    tx::put(stack, port_id, m);
    Ok(())
}

pub(crate) fn may_answer(stack: &mut Stack) -> Fate {
    let core = &mut stack.core;
    let limit = Limit::AdvertisementsPerSecond;
    match stack.resolving.advertisements.admits(limit, core.cx.now, &mut core.cx.budget) {
        true => Ok(()),
        false => Err(DropReason::NeighbourRateLimited),
    }
}

/// Give what was heard to the table, if the neighbour can be on this link at all.
pub(crate) fn learn(stack: &mut Stack, port_id: u16, heard: &nd::Heard) -> Learnt {
    let Some((ip, mac, advertisement)) = heard.news else { return Learnt::Useless };
    // Who says that he has a broadcast address wants all packets to it for himself.
    if stack.ports.get(port_id).is_none_or(|port| port.local.is_group(ip)) {
        return Learnt::Useless;
    }
    // Who is on none of our networks may be a neighbour by a route of ours: then we asked first.
    if advertisement == Advertisement::Request && !is_on_link(stack, port_id, ip) {
        return Learnt::Useless;
    }
    let core = &mut stack.core;
    let learnt =
        stack.neighbours.learn((port_id, ip), mac, advertisement, core.cx.now, &mut core.cx.budget);
    act(stack);
    learnt
}

/// The name of an advertisement's end that was not used; `useless` if nobody had asked.
pub(crate) fn not_learnt(learnt: Learnt, useless: DropReason) -> DropReason {
    if learnt == Learnt::TooOften { DropReason::NeighbourMovesTooOften } else { useless }
}

/// Is it on a network of the port, by an address of ours or by what routers say, or a link-local
/// address, which always is?
pub(crate) fn is_on_link(stack: &Stack, port_id: u16, ip: IpAddr) -> bool {
    let link_local = matches!(ip, IpAddr::V6(a) if a.is_unicast_link_local());
    let Some(port) = stack.ports.get(port_id).filter(|_| !link_local) else { return link_local };
    port.addresses.iter().any(|a| a.implies_network() && a.cidr.contains(ip))
        || stack.routes.is_on_link(port_id, ip)
}

impl Port {
    /// Our address to ask for `target` from.
    fn address_towards(&self, target: IpAddr) -> Option<IpAddr> {
        inet::select::source(self.addresses.iter(), target, target)
    }
}
