//! ICMPv4 redirects: a gateway names a better first hop for a destination. The destination then has
//! a route of its own for ten minutes.
//!
//! Called by: `icmp.rs` with a redirect, `neighbours.rs` when a gateway does not answer. Anybody on
//! the link can forge a redirect, so it has to come from the first hop in use, quote a packet that
//! we may just have sent there, and name a neighbour. RFC 792, RFC 1122 sections 3.2.2.2 and
//! 3.3.1.2. Limits: `redirects`, `path_changes_per_second`; drop reason: `redirect_refused`.

use core::net::{IpAddr, SocketAddr};

use base::{Cidr, Counter, DropReason, Duration, Limit, Owner, SeqNumber};
use inet::icmp::Quoted;
use inet::neighbour::Key;
use inet::{FlowKey, NextHop, Route, RouteOrigin, Selector, Sender};
use tcp::Fate;
use wire::protocol;

use crate::next_hop::is_on_link;
use crate::stack::Stack;

/// How long a redirect is followed. RFC 1122 section 3.3.1.3 leaves it open; Linux forgets such
/// routes after the same time.
const LIFE: Duration = Duration::from_secs(600);

/// Process a redirect from `from` that came by `port`: packets like the quoted one are to go by
/// `gateway`.
/// RFC 1122 3.2.2.2-c.
pub(crate) fn input(
    stack: &mut Stack,
    (port, from): Key,
    gateway: IpAddr,
    quoted: &Quoted<'_>,
) -> Fate {
    // A router chooses its routes itself (RFC 1812 section 5.2.7.2).
    if stack.forwarding.on {
        return Err(DropReason::RedirectIgnored);
    }
    let (src, dst, known) = (quoted.src, quoted.dst, sender_of(stack, quoted));
    let sender = match &known {
        Ok(Some((owner, by))) => Sender::Socket { owner, by: *by },
        _ => Sender::Program,
    };
    // The redirect applies only to the users of the gateway's route; others gain nothing from it.
    // If others have a better route in that table, which the new route would hide, the redirect is
    // refused.
    let Some(old) = stack.routes.route_for(dst, Some(src), sender).ok() else {
        return Err(DropReason::RedirectRefused);
    };
    let best = stack.routes.lookup_in(old.table, dst, Some(src), Sender::Program);
    let mut hops = [Some(old.next_hop(dst)), best].into_iter();
    let by_it = |hop: NextHop| (hop.port, hop.neighbour) == (port, from);
    let is_first_hop = hops.all(|hop| hop.is_some_and(by_it));
    if !is_first_hop || from == quoted.dst || !may_be_gateway(stack, port, gateway) {
        return Err(DropReason::RedirectRefused);
    }
    if known?.is_none() {
        return Err(DropReason::IcmpErrorNoMatch);
    }
    let core = &mut stack.core;
    if !stack.path_changes.admits(Limit::PathChangesPerSecond, core.cx.now, &mut core.cx.budget) {
        return Err(DropReason::IcmpRateLimited);
    }
    follow(stack, gateway, Route { dest: Cidr::host(dst), ..old })
}

/// Is the gateway another host on one of our networks at `port`?
/// RFC 1122 3.2.2.2-c.
fn may_be_gateway(stack: &Stack, port: u16, gateway: IpAddr) -> bool {
    is_on_link(stack, port, gateway)
        && stack.ports.get(port).is_some_and(|port| port.local.may_send(gateway))
}

/// The sender of the quoted packet, if we may have sent it recently. A segment has to belong to a
/// connection and be near the bytes in flight; a datagram or an echo request has to belong to a
/// socket.
fn sender_of(
    stack: &mut Stack,
    quoted: &Quoted<'_>,
) -> Result<Option<(Owner, Selector)>, DropReason> {
    let second_word = || quoted.second_word().ok_or(DropReason::IcmpMalformed);
    Ok(match quoted.protocol {
        protocol::TCP => {
            let (local, remote) = quoted.ports().ok_or(DropReason::IcmpMalformed)?;
            let seq = SeqNumber(second_word()?);
            let key = FlowKey::new(quoted.src, local, quoted.dst, remote);
            let handle = stack.connections.lookup(&key, &stack.core.secret);
            let pcb = handle.and_then(|handle| stack.connections.get(handle));
            // The sequence number of an ACK without data is SND.NXT.
            pcb.filter(|pcb| pcb.tcb.snd_una.le(seq) && seq.le(pcb.tcb.snd_nxt))
                .map(|pcb| (pcb.owner.clone(), pcb.by))
        }
        protocol::UDP => {
            let (local, remote) = quoted.ports().ok_or(DropReason::IcmpMalformed)?;
            let local = SocketAddr::new(quoted.src, local);
            stack.udp.sender_of(local, SocketAddr::new(quoted.dst, remote))
        }
        protocol::ICMP => stack.pings.sender((second_word()? >> 16) as u16),
        _ => None,
    })
}

/// For a while, send the packets to a host that leave by the route `old` to `gateway` instead. A
/// host route of another origin stays unchanged.
/// RFC 1122 3.2.2.2-d.
fn follow(stack: &mut Stack, gateway: IpAddr, old: Route) -> Fate {
    let (dest, port, table) = (old.dest, old.port, old.table);
    let of_redirect = |route: &Route| route.origin == RouteOrigin::Redirect;
    let known: Vec<Route> = stack.routes.at(dest, table).collect();
    if !known.iter().all(of_redirect) {
        return Err(DropReason::RedirectRefused);
    }
    let is_known = known.iter().any(|r| r.port == port);
    let held = stack.routes.count_of(RouteOrigin::Redirect);
    if !is_known && !stack.core.cx.budget.admits(Limit::Redirects, held) {
        let oldest = stack.routes.iter().filter(of_redirect).min_by_key(|r| r.expires);
        let Some(oldest) = oldest else { return Err(DropReason::RedirectRefused) };
        stack.routes.remove(|r| *r == oldest);
    }
    let route = Route::new(dest, Some(gateway), port).with_origin(RouteOrigin::Redirect);
    let Route { access, no_forward, .. } = old;
    let expires = stack.core.cx.now + LIFE;
    stack.add_route(Route { expires, table, access, no_forward, ..route });
    stack.core.cx.counters.add(Counter::Redirects, 1);
    Ok(())
}

/// Remove the redirects to a neighbour that does not answer: packets go to their earlier first hop
/// again (RFC 1122 section 3.3.1.4).
/// RFC 1122 3.3.1.4-a.
pub(crate) fn forget_gateway(stack: &mut Stack, (port, gateway): Key) {
    let is_by_it = |route: &Route| {
        route.origin == RouteOrigin::Redirect && route.port == port && route.via == Some(gateway)
    };
    if stack.routes.remove(is_by_it) > 0 {
        stack.addresses_changed();
    }
}
