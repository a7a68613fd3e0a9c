//! Handles redirects: for a while, packets to a destination go to a better first hop.
//!
//! Called by: `nd.rs`; `neighbours.rs` when a neighbour does not answer. RFC 4861 section 8.
//! Limits: `redirects`, `path_changes_per_second`; counter: `redirects`.

use core::net::IpAddr;

use base::{Cidr, Counter, DropReason, Limit};
use inet::flow::Addrs;
use inet::neighbour::{Advertisement, Key};
use inet::redirect_check::{LIFE, redirect_input};
use inet::{Ip, Route, RouteOrigin, Sender};
use mbuf::Mbuf;
use tcp::Fate;

use crate::resolve;
use crate::stack::Stack;

/// Process a redirect. `m` holds only the message, and its checksum is valid.
///
/// # Errors
/// [`DropReason::RedirectRefused`], [`DropReason::RedirectIgnored`], [`DropReason::IcmpMalformed`],
/// [`DropReason::IcmpRateLimited`].
/// RFC 4861 8.1-a, 8.1-b, 8.3-a.
pub(crate) fn input<A: Addrs>(stack: &mut Stack, ip: &Ip<A>, m: &Mbuf) -> Fate {
    let IpAddr::V6(src) = ip.src() else { return Err(DropReason::IcmpMalformed) };
    let redirect = redirect_input(m.as_slice(), src, ip.ttl)?;
    // A router ignores redirects (RFC 4861 section 8.3).
    if stack.forwarding.on {
        return Err(DropReason::RedirectIgnored);
    }
    let (target, dst) = (IpAddr::V6(redirect.target), IpAddr::V6(redirect.destination));
    let port = stack.ports.get(m.in_port()).ok_or(DropReason::TxNoPort)?;
    let is_ours = port.local.is_ours(target) || port.local.is_ours(dst);
    // The best route of those of any user. The redirect applies only to users of that route, so
    // other users gain nothing from it.
    let old = stack.routes.route_for(dst, None, Sender::Program).ok();
    let Some(old) = old else { return Err(DropReason::RedirectRefused) };
    let is_first_hop = old.port == m.in_port() && old.via.unwrap_or(dst) == ip.src();
    // A router sends a redirect to the source of the packet that it is about (RFC 4861 section
    // 4.5), never to a multicast group.
    if is_ours || !is_first_hop || ip.dst().is_multicast() {
        return Err(DropReason::RedirectRefused);
    }
    let core = &mut stack.core;
    if !stack.path_changes.admits(Limit::PathChangesPerSecond, core.cx.now, &mut core.cx.budget) {
        return Err(DropReason::IcmpRateLimited);
    }
    let via = (target != dst).then_some(target);
    let dest = Cidr { addr: dst, prefix_len: 128 };
    let route = Route {
        expires: stack.core.cx.now + LIFE,
        mtu: old.mtu,
        table: old.table,
        access: old.access,
        no_forward: old.no_forward,
        ..Route::new(dest, via, m.in_port()).with_origin(RouteOrigin::Redirect)
    };
    make_room(stack, &route);
    if !stack.routes.renew(route) {
        return Err(DropReason::RedirectRefused);
    }
    if let Some(mac) = redirect.link_addr {
        resolve::learn_at(stack, (m.in_port(), target), mac, Advertisement::Request);
    }
    stack.addresses_changed();
    stack.core.cx.counters.add(Counter::Redirects, 1);
    stack.core.cx.counters.add(Counter::NdIn, 1);
    Ok(())
}

/// Make room for `new`: at the limit, remove the redirect that expires first.
fn make_room(stack: &mut Stack, new: &Route) {
    let is_redirect = |r: &Route| r.origin == RouteOrigin::Redirect;
    if stack.routes.at(new.dest, new.table).any(|r| is_redirect(&r)) {
        return;
    }
    let used = stack.routes.count_of(RouteOrigin::Redirect);
    if !stack.core.cx.budget.admits(Limit::Redirects, used) {
        let redirects = stack.routes.iter().filter(is_redirect);
        let first = redirects.min_by_key(|r| r.expires).map(|r| (r.dest, r.port));
        stack
            .routes
            .remove(|r| r.origin == RouteOrigin::Redirect && Some((r.dest, r.port)) == first);
    }
}

/// Remove the redirects to a neighbour that does not answer: packets go to the router again.
/// RFC 4861 7.3.3-a.
pub(crate) fn forget_target(stack: &mut Stack, (port, ip): Key) {
    let removed = stack.routes.remove(|r| {
        let to = r.via.unwrap_or(r.dest.addr);
        r.origin == RouteOrigin::Redirect && r.port == port && to == ip
    });
    if removed > 0 {
        stack.addresses_changed();
    }
}
