//! Decides where a packet goes (to ourselves, over the link that its destination names, or by a
//! route) and which address of ours is its source. Nothing is sent or changed here.
//!
//! Called by: everything that sends. RFC 1122 section 3.3.1, RFC 4007 section 6, RFC 6724, RFC 9293
//! MUST-44.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::{DropReason, Mtu};
use inet::neighbour::Key;
use inet::select::{self, is_link_scoped};
use inet::{NextHop, NoRoute, Sender, Vrf};

use crate::handles::PortId;
use crate::port::{LOOPBACK, Port};
use crate::resolving::NoSource;
use crate::stack::Stack;
use crate::vrf;

/// The next hop of a packet to `remote`: ourselves, the link that its scope identifier names, or a
/// route.
pub(crate) fn next_hop(
    stack: &Stack,
    local: Option<IpAddr>,
    remote: SocketAddr,
    sender: Sender<'_>,
) -> Result<NextHop, DropReason> {
    if is_ours(stack, remote, sender.vrf()) {
        return Ok(to_ourselves(remote));
    }
    let by_route = || {
        let hop = stack.routes.lookup(remote.ip(), local, sender).map_err(no_route)?;
        Ok(or_ourselves(stack, hop, remote, sender.vrf()))
    };
    of_scope(remote).unwrap_or_else(by_route)
}

/// [`next_hop`] of an ICMP error. If the route has several next hops, the error goes by that of the
/// flow that it is about.
pub(crate) fn next_hop_of_flow(
    stack: &Stack,
    local: IpAddr,
    remote: SocketAddr,
    flow: u32,
    sender: Sender<'_>,
) -> Result<NextHop, DropReason> {
    if is_ours(stack, remote, sender.vrf()) {
        return Ok(to_ourselves(remote));
    }
    let by_route = || {
        let hop = stack.routes.lookup_flow(remote.ip(), Some(local), flow, sender);
        Ok(or_ourselves(stack, hop.map_err(no_route)?, remote, sender.vrf()))
    };
    of_scope(remote).unwrap_or_else(by_route)
}

fn to_ourselves(remote: SocketAddr) -> NextHop {
    NextHop { port: LOOPBACK, neighbour: remote.ip(), mtu: None }
}

/// `hop`, or ourselves if a route leads from one VRF to an address of ours in another.
fn or_ourselves(stack: &Stack, hop: NextHop, remote: SocketAddr, vrf: Vrf) -> NextHop {
    if stack.ports.has_vrfs() && vrf::leaked(stack, remote.ip(), hop.port, vrf).is_some() {
        return to_ourselves(remote);
    }
    hop
}

/// The next hop on the link that a scope identifier names; `None` if there is no such identifier.
fn of_scope(remote: SocketAddr) -> Option<Result<NextHop, DropReason>> {
    if let SocketAddr::V6(to) = remote
        && to.scope_id() != 0
        && is_link_scoped(remote.ip())
    {
        let port = PortId::of_scope(to.scope_id()).ok_or(DropReason::TxNoPort);
        let hop = |port: PortId| NextHop { port: port.0, neighbour: remote.ip(), mtu: None };
        return Some(port.map(hop));
    }
    None
}

/// The drop reason of a packet without a route.
#[cold]
pub(crate) fn no_route(why: NoRoute) -> DropReason {
    match why {
        NoRoute::None => DropReason::IpNoRoute,
        NoRoute::Unreachable => DropReason::IpUnreachable,
        NoRoute::Prohibit => DropReason::IpProhibit,
        NoRoute::Blackhole => DropReason::IpBlackhole,
    }
}

/// The source address of packets to `remote` whose socket is bound to no address.
/// RFC 9293 MUST-44.
pub(crate) fn source(
    stack: &Stack,
    remote: SocketAddr,
    sender: Sender<'_>,
) -> Result<IpAddr, NoSource> {
    let vrf = sender.vrf();
    if let Some(own) = own_source(stack, remote, vrf) {
        return Ok(own);
    }
    let hop = next_hop(stack, None, remote, sender).map_err(NoSource::Unreachable)?;
    if hop.port == LOOPBACK {
        return of_vrf(stack, vrf, &hop, remote.ip()).ok_or(NoSource::NoAddress);
    }
    let port = stack.ports.get(hop.port).ok_or(NoSource::Unreachable(DropReason::TxNoPort))?;
    source_of(stack, (port, vrf), remote.ip(), hop.neighbour).ok_or(NoSource::NoAddress)
}

/// The source address of packets of a VRF to `dst` by a port and a neighbour. A packet that leaves
/// for another VRF has an address of its own VRF, where its answer belongs. IPv4 by an IPv6 next
/// hop leaves a router by ports that have no IPv4 address: then any other port's is taken, because
/// a router accepts the answer at any port. RFC 1812 section 5.2.3, RFC 8950.
pub(crate) fn source_of(
    stack: &Stack,
    (port, vrf): (&Port, Vrf),
    dst: IpAddr,
    neighbour: IpAddr,
) -> Option<IpAddr> {
    if port.vrf != vrf {
        let hop = NextHop { port: port.id.0, neighbour, mtu: None };
        return of_vrf(stack, vrf, &hop, dst);
    }
    let own = select::source(port.addresses.iter(), dst, neighbour);
    if own.is_some() || !stack.forwarding.on || dst.is_ipv6() || neighbour.is_ipv4() {
        return own;
    }
    let mut others = stack.ports.iter().filter(|other| other.vrf == vrf);
    others.find_map(|other| select::source(other.addresses.iter(), dst, neighbour))
}

/// The source address of packets of a VRF to `dst` that leave for another one.
#[cold]
fn of_vrf(stack: &Stack, vrf: Vrf, hop: &NextHop, dst: IpAddr) -> Option<IpAddr> {
    let ports = stack.ports.iter().filter(|port| port.vrf == vrf);
    let addresses = ports.flat_map(|port| &port.addresses);
    let addresses = addresses.filter(|address| !is_link_scoped(address.ip()));
    select::source(addresses, dst, hop.neighbour)
}

/// Do packets of a VRF to `remote` come back to us? A link-local address belongs to the link that
/// it names.
pub(crate) fn is_ours(stack: &Stack, remote: SocketAddr, vrf: Vrf) -> bool {
    let ip = remote.ip();
    match remote {
        SocketAddr::V6(to) if to.scope_id() != 0 && is_link_scoped(ip) => {
            let port = PortId::of_scope(to.scope_id()).and_then(|id| stack.ports.get(id.0));
            port.is_some_and(|port| port.local.is_ours(ip))
        }
        _ => stack.is_own_in(ip, vrf),
    }
}

/// The source address of packets to `remote` if they come back to us: `remote` itself, as on Linux.
fn own_source(stack: &Stack, remote: SocketAddr, vrf: Vrf) -> Option<IpAddr> {
    is_ours(stack, remote, vrf).then(|| match remote.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        ip => ip,
    })
}

/// Returns `remote`; a link-local address gets the scope identifier of its link. Flows are looked
/// up without it.
pub(crate) fn scoped(remote: SocketAddr, port: u16) -> SocketAddr {
    match remote {
        SocketAddr::V6(mut to) if is_link_scoped(remote.ip()) => {
            to.set_scope_id(PortId(port).scope_id());
            SocketAddr::V6(to)
        }
        other => other,
    }
}

/// Is `ip` on the port's link: in a network of an address of ours, in one that routers announced,
/// or link-local?
pub(crate) fn is_on_link(stack: &Stack, port_id: u16, ip: IpAddr) -> bool {
    let link_local = matches!(ip, IpAddr::V6(a) if a.is_unicast_link_local());
    let Some(port) = stack.ports.get(port_id).filter(|_| !link_local) else { return link_local };
    port.addresses.iter().any(|a| a.implies_network() && a.cidr.contains(ip))
        || stack.routes.is_on_link(port_id, ip)
}

/// The size of the largest packet from `src` to `dst` over this neighbour.
pub(crate) fn mtu_of(stack: &Stack, (port, neighbour): Key, src: IpAddr, dst: IpAddr) -> Mtu {
    let remote = SocketAddr::new(dst, 0);
    let whose = Sender::Vrf(stack.ports.vrf(port));
    let hop = next_hop(stack, Some(src), remote, whose).ok();
    let mtu = match hop.filter(|hop| (hop.port, hop.neighbour) == (port, neighbour)) {
        Some(hop) => hop.mtu,
        // The packet's sender may have another route than the program.
        None if stack.routes.has_policy() || stack.ports.has_vrfs() => {
            stack.routes.mtu_over(dst, port, neighbour)
        }
        None => None,
    };
    let hop = NextHop { port, neighbour, mtu };
    stack.neighbour_mtus.of_hop(&stack.ports, &hop).unwrap_or(Mtu::MIN_V4)
}

impl Stack {
    /// A count that grows whenever a change of neighbours, paths, routes or addresses may change
    /// how connections send.
    #[inline(always)]
    pub(crate) fn changes(&self) -> u64 {
        self.neighbours.changes() + self.path_mtus.changes()
    }

    /// A count: when it has changed, the results that a flow has looked up are out of date.
    #[inline(always)]
    pub(crate) fn flow_epoch(&self) -> u64 {
        // Both summands only grow.
        self.changes() + self.ports.epoch()
    }

    /// The port that has this address of ours.
    pub fn port_of(&self, address: IpAddr) -> Option<PortId> {
        self.ports.iter().find(|port| port.local.is_ours(address)).map(|port| port.id)
    }
}
