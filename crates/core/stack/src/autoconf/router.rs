//! A port solicits routers until one answers, reads their advertisements and makes routes from
//! them.
//!
//! Called by: `calls.rs` when something is due, `nd.rs` for advertisements, `neighbours.rs` for
//! neighbours that answer or fall silent. RFC 4861 section 6.3, RFC 7559, RFC 4191, RFC 8106.
//! Limits: `router_advertisements_per_second`, and those of `inet::router`.

use core::net::{IpAddr, Ipv6Addr};

use base::{Counter, DropReason, Duration, Limit};
use inet::flow::Addrs;
use inet::neighbour::{Advertisement, Key, REACHABLE, RETRANSMIT, group_mac};
use inet::router::advertisement_input;
use inet::{Ip, RouteOrigin};
use mbuf::Mbuf;
use tcp::Fate;
use wire::nd::router_solicitation;

use super::{Progress, slaac};
use crate::handles::PortId;
use crate::learned::Offer;
use crate::resolve;
use crate::stack::Stack;

/// All routers of a link, RFC 4291 section 2.7.1.
pub(crate) const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

pub(super) fn expire(stack: &mut Stack, id: PortId) {
    let now = stack.core.cx.now;
    let random = stack.autoconf.draw(&stack.core.secret);
    let Some(conf) = stack.autoconf.port(id) else { return };
    conf.routers.expire(now);
    let is_due = conf.solicit.is_some_and(|solicit| solicit.due() <= now);
    if is_due && let Some(solicit) = &mut conf.solicit {
        solicit.sent(now, random);
    }
    install(stack, id);
    if is_due && let Err(reason) = solicit(stack, id) {
        stack.core.drops.count(reason);
    }
}

/// Send a router solicitation. RFC 4861 6.3.7-a.
fn solicit(stack: &mut Stack, id: PortId) -> Fate {
    let port = stack.ports.get(id.0).ok_or(DropReason::TxNoPort)?;
    let dst = IpAddr::V6(ALL_ROUTERS);
    let Some(IpAddr::V6(src)) = inet::select::source(port.addresses.iter(), dst, dst) else {
        return Ok(());
    };
    let mut bytes = [0; 16];
    let len = router_solicitation(&mut bytes, port.mac, src, ALL_ROUTERS).unwrap_or(0);
    let mac = group_mac(dst).unwrap_or_default();
    resolve::send_nd(stack, id.0, mac, (src.into(), dst), &bytes[..len])?;
    stack.core.cx.counters.add(Counter::RouterSolicitations, 1);
    Ok(())
}

/// Process a router advertisement. `m` holds only the message, and its checksum is valid.
///
/// # Errors
/// [`DropReason::RaNotFromLink`], [`DropReason::RaIgnored`], [`DropReason::RaRateLimited`],
/// [`DropReason::IcmpMalformed`].
/// RFC 4861 6.1.2-a, 6.3.4-a.
pub(crate) fn input<A: Addrs>(stack: &mut Stack, ip: &Ip<A>, m: &Mbuf) -> Fate {
    let IpAddr::V6(from) = ip.src() else { return Err(DropReason::IcmpMalformed) };
    let ra = advertisement_input(m.as_slice(), from, ip.ttl)?;
    let id = PortId(m.in_port());
    let link = stack.ports.get(id.0).ok_or(DropReason::TxNoPort)?.limits.mtu;
    let core = &mut stack.core;
    let now = core.cx.now;
    let conf = stack.autoconf.port(id).filter(|conf| conf.progress != Progress::Duplicate);
    let conf = conf.ok_or(DropReason::RaIgnored)?;
    let is_known = conf.routers.list().iter().any(|router| router.ip == from);
    let limit = Limit::RouterAdvertisementsPerSecond;
    if !conf.heard[usize::from(is_known)].admits(limit, now, &mut core.cx.budget) {
        return Err(DropReason::RaRateLimited);
    }
    let prefixes = conf.routers.learn(from, &ra, link, now, &mut core.cx.budget);
    // RFC 7559 2-b: an answer from a router that is no default router does not end soliciting.
    if ra.lifetime_s != 0 {
        conf.solicit = None;
        conf.progress = match conf.progress {
            Progress::Soliciting => Progress::Routed,
            other => other,
        };
    }
    core.cx.counters.add(Counter::RouterAdvertisements, 1);
    core.cx.counters.add(Counter::NdIn, 1);
    set_times(stack, id);
    // RFC 4861 6.3.4-e: learn the router's link address from the option.
    if let Some(mac) = ra.link_addr().filter(|mac| !mac.is_group()) {
        resolve::learn_at(stack, (id.0, IpAddr::V6(from)), mac, Advertisement::Request);
    }
    slaac::take(stack, id, &prefixes);
    install(stack, id);
    stack.look_ahead();
    Ok(())
}

/// Set how long the neighbours of a port count as reachable (a random time between half and one and
/// a half times what routers announce), and how often they are solicited.
/// RFC 4861 6.3.4-b.
fn set_times(stack: &mut Stack, id: PortId) {
    let random = stack.autoconf.draw(&stack.core.secret);
    let Some(conf) = stack.autoconf.port(id) else { return };
    let (reachable, retransmit) = (conf.routers.reachable, conf.routers.retransmit);
    if reachable.is_none() && retransmit.is_none() {
        return;
    }
    let base = reachable.unwrap_or(REACHABLE).as_nanos();
    let reachable = Duration::from_nanos(base / 2 + random % (base + 1));
    stack.neighbours.set_times(id.0, reachable, retransmit.unwrap_or(RETRANSMIT));
}

/// Replace the routes that a port has learned by those that its routers advertise now. A route that
/// the user has set to the same destination stays.
fn install(stack: &mut Stack, id: PortId) {
    let Some(conf) = stack.autoconf.port(id) else { return };
    let (mut wished, learns) = (conf.routers.routes(id.0), conf.config.learn_routes);
    wished.retain(|route| {
        let (dest, is_network) = (route.dest, route.via.is_none());
        let origin = RouteOrigin::Advertised;
        let offer = Offer { port: id, dest, is_network, origin, is_wanted: learns };
        let among = (&stack.routes, &stack.ports);
        stack.refused_routes.admits(offer, among, &mut stack.core.cx)
    });
    let removed = stack.routes.remove(|r| {
        let own = r.origin == RouteOrigin::Advertised && r.port == id.0;
        own && !wished.iter().any(|w| w.dest == r.dest)
    });
    let renew = |changed, route| stack.routes.renew(route) | changed;
    if wished.into_iter().fold(removed > 0, renew) {
        stack.path_mtus.note_change();
    }
}

/// Note whether a neighbour is silent or answers again. While a router is silent, other routers are
/// preferred to it.
/// RFC 4861 6.3.6-a, 7.3.3-a.
pub(crate) fn set_silent(stack: &mut Stack, (port, ip): Key, is_silent: bool) {
    let (id, IpAddr::V6(router)) = (PortId(port), ip) else { return };
    let Some(conf) = stack.autoconf.port(id) else { return };
    if conf.routers.set_silent(router, is_silent) {
        install(stack, id);
        stack.look_ahead();
    }
}

/// A neighbour has announced that it is no router: forget it as one.
/// RFC 4861 7.2.5-b.
pub(crate) fn is_no_router(stack: &mut Stack, (port, ip): Key) {
    let (id, IpAddr::V6(router)) = (PortId(port), ip) else { return };
    let Some(conf) = stack.autoconf.port(id) else { return };
    if conf.routers.forget_router(router) {
        install(stack, id);
        stack.look_ahead();
    }
}
