//! Sends the datagrams of sockets to groups: chooses the port and the source address, and delivers
//! copies to sockets of this host.
//!
//! Called by: `udp/send.rs`. RFC 1112 section 6, RFC 3678, RFC 4291 section 2.7.

use core::net::{IpAddr, SocketAddr};

use base::{Counter, DropReason, Switch};
use inet::ip_output::{Fields, HeaderTemplate};
use inet::neighbour::group_mac;
use inet::{Sender, group};
use wire::protocol;

use super::{MulticastOptions, input};
use crate::frag;
use crate::handles::{PortId, UdpHandle};
use crate::next_hop::next_hop;
use crate::pace;
use crate::resolving::Egress;
use crate::socket::udp::{Datagram, UdpError};
use crate::stack::Stack;

/// The port that a datagram leaves by: the one that the socket's option names, or its scope
/// identifier, its bound address or the route, in this order; or the only port.
/// RFC 1112 6.1-c.
pub(super) fn egress_port(
    stack: &Stack,
    options: MulticastOptions,
    bound: Option<IpAddr>,
    remote: SocketAddr,
    sender: Sender<'_>,
) -> Result<PortId, DropReason> {
    let scope = match remote {
        SocketAddr::V6(to) => PortId::of_scope(to.scope_id()),
        SocketAddr::V4(_) => None,
    };
    if let Some(named) = options.port.or(scope) {
        return Ok(named);
    }
    if let Some(port) = bound.and_then(|ip| stack.port_of(ip)) {
        return Ok(port);
    }
    // No route tells on which of several links a group of link scope is meant.
    let is_v6_link = remote.is_ipv6() && group::is_link_scoped(remote.ip());
    if !is_v6_link && let Ok(hop) = next_hop(stack, None, remote, sender) {
        return Ok(PortId(hop.port));
    }
    let mut ports = stack.ports.iter().map(|port| port.id);
    match (ports.next(), ports.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(DropReason::IpNoRoute),
    }
}

/// Send a datagram to a group, from `local` if it is given.
///
/// # Errors
/// Those of [`Stack::udp_send`].
pub(crate) fn send(
    stack: &mut Stack,
    handle: UdpHandle,
    local: Option<IpAddr>,
    remote: SocketAddr,
    payload: &[u8],
) -> Result<(), UdpError> {
    let sender = stack.udp.sender(handle).ok_or(UdpError::Closed)?;
    let options = stack.groups.options(handle);
    let is_source = |ip: &IpAddr| !ip.is_multicast() && !stack.is_broadcast_to(*ip);
    let bound = local.or(sender.ip.filter(is_source));
    let is_ours = |ip| sender.transparent || stack.has_address_in(ip, sender.by.vrf);
    if bound.is_some_and(|ip| !is_ours(ip)) {
        return Err(UdpError::NoAddress);
    }
    let whose = Sender::Socket { owner: &sender.owner, by: sender.by };
    let id = egress_port(stack, options, bound, remote, whose).map_err(UdpError::Unsendable)?;
    let no_port = UdpError::Unsendable(DropReason::TxNoPort);
    let port = stack.ports.get_mut(id.0).ok_or(no_port)?;
    let source = match bound {
        Some(ip) => Some(ip).filter(|ip| ip.is_ipv4() == remote.is_ipv4()),
        None => inet::select::source(port.addresses.iter(), remote.ip(), remote.ip()),
    };
    let from = SocketAddr::new(source.ok_or(UdpError::NoAddress)?, sender.port);
    let (src, dst) = (from.ip(), remote.ip());
    if wire::udp::HEADER_LEN + payload.len() > frag::output::transport_max(dst) {
        return Err(UdpError::Unsendable(DropReason::IpTooBig));
    }
    // With a TTL of 0, or to a group of host scope, the datagram stays in this host.
    let leaves = options.hops > 0 && !is_host_scoped(dst);
    if leaves {
        if port.gone {
            return Err(UdpError::Unsendable(DropReason::DeviceLinkDown));
        }
        let mac = group_mac(dst).unwrap_or_default();
        let (tos, ttl) = (sender.tos, options.hops);
        let fields = Fields { src, dst, protocol: protocol::UDP, tos, ttl };
        let template = HeaderTemplate::new(port.limits.link, port.mac, mac, &fields);
        let most = port.limits.mtu;
        let (is_complete, is_broadcast) = (true, false);
        let egress =
            Egress { port: id.0, neighbour: dst, mtu: most, template, is_complete, is_broadcast };
        pace::check_room(stack, id.0, dst)?;
        let cx = &stack.core.cx;
        let summing = !sender.without_checksum && cx.switches.on(Switch::ChecksumTx);
        let ladder = summing.then_some(cx.ladder);
        let (ports, flow) = ((from.port(), remote.port()), inet::udp::flow_sum(from, remote));
        frag::output::send_udp(stack, &egress, (ports, flow, ladder), payload, most)
            .map_err(UdpError::Unsendable)?;
    }
    stack.core.cx.counters.add(Counter::UdpOut, 1);
    // RFC 1112 6.1-b: joined sockets of this host get a copy, unless the sender has turned that
    // off.
    if options.loops && (stack.groups.is_joined(id.0, dst) || group::is_all_nodes(dst)) {
        loop_back(stack, (from, remote), id, payload);
    }
    Ok(())
}

/// Deliver a copy to the sockets of this host. A copy that is not delivered is no error of the
/// sender.
fn loop_back(stack: &mut Stack, ends: (SocketAddr, SocketAddr), port: PortId, payload: &[u8]) {
    let copied = match stack.core.cx.pool.copy_of(payload) {
        Some(payload) => {
            let datagram = Datagram { from: ends.0, to: ends.1, payload };
            input::deliver(stack, port.0, datagram, false)
        }
        None => Err(DropReason::MbufExhausted),
    };
    match copied {
        Ok(()) => stack.core.cx.counters.add(Counter::GroupLooped, 1),
        // No socket here has that UDP port. This is not counted as a drop: the datagram was sent to
        // a group, not to us.
        Err(DropReason::UdpNoSocket) => {}
        Err(reason) => stack.core.drops.count(reason),
    }
}

fn is_host_scoped(group: IpAddr) -> bool {
    matches!(group, IpAddr::V6(a) if a.segments()[0] & 0xf <= 1)
}
