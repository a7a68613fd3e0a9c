//! Checks the offer of a server, and makes a lease of it or says why it is of no use.
//!
//! Called by: `client.rs`, for each offer and acknowledgment. Any host on the link can forge the
//! values here. An address, mask or time that no host could use makes the whole message useless; a
//! wrong value of another option makes the option absent. If a lease is extended, values that the
//! answer does not repeat stay as they were. RFC 2132, RFC 3442.

use core::net::{IpAddr, Ipv4Addr};

use base::{Budget, Cidr, Duration, Limit};

use super::message::{Received, code};
use super::{Config, Lease, Refusal, Route};
use crate::names::{self, Compression};

/// The lease time that means for ever (RFC 2131 section 3.3).
const INFINITE: u32 = u32::MAX;
/// Shorter leases are refused, and so is a T1 before that: each renewal costs two messages.
const SECONDS_MIN: u32 = 10;
const RENEW_SECONDS_MIN: u32 = 5;
/// Bytes that every host must accept (RFC 791); a smaller MTU would be an attack on throughput.
const MTU_MIN: u16 = 576;

/// The lease that a message offers; `extended` is the present lease, if the message may extend it.
///
/// # Errors
/// What is wrong with the message.
pub(super) fn read(
    message: &Received<'_>,
    config: &Config,
    extended: Option<&Lease>,
    budget: &mut Budget,
) -> Result<Lease, Refusal> {
    let options = &message.options;
    let address = message.yiaddr;
    // RFC 2131 table 3: offers and acknowledgments have these two.
    let server = server(message)?;
    let seconds = u32::from_be_bytes(options.needed(code::LEASE_TIME)?);
    if seconds < SECONDS_MIN {
        return Err(Refusal::LeaseTime(seconds));
    }
    let extended = extended.filter(|lease| lease.address == address);
    let prefix_len = prefix_len(message, extended)?;
    if !is_host(address) || address.is_link_local() || is_edge(address, prefix_len) {
        return Err(Refusal::Address(address));
    }
    let (renew, rebind) = times(seconds, options.seconds(code::T1), options.seconds(code::T2));
    let mtu = options.array(code::MTU).map(u16::from_be_bytes);
    let mut dns_servers = options.addresses(code::DNS_SERVER);
    dns_servers.retain(|&server| is_host(server));
    let routes = routes(message, address, config.learn_routes);
    let routes = or_as_before(routes, extended.map(|lease| &lease.routes));
    let dns_servers = or_as_before(dns_servers, extended.map(|lease| &lease.dns_servers));
    let search = or_as_before(search(message, budget), extended.map(|lease| &lease.search));
    Ok(Lease {
        address,
        prefix_len,
        server,
        routes: limited(routes, budget),
        dns_servers: limited(dns_servers, budget),
        search,
        mtu: mtu
            .filter(|mtu| (MTU_MIN..=config.mtu_max).contains(mtu))
            .or_else(|| extended.and_then(|lease| lease.mtu)),
        valid: (seconds != INFINITE).then(|| Duration::from_secs(u64::from(seconds))),
        renew: Duration::from_secs(u64::from(renew)),
        rebind: Duration::from_secs(u64::from(rebind)),
    })
}

/// The server's address, from its option.
pub(super) fn server(message: &Received<'_>) -> Result<Ipv4Addr, Refusal> {
    let server = Ipv4Addr::from(message.options.needed::<4>(code::SERVER_ID)?);
    if is_host(server) { Ok(server) } else { Err(Refusal::Server(server)) }
}

/// The list of the answer, or, if that is empty, the list that the lease had before.
fn or_as_before<T: Clone>(list: Vec<T>, before: Option<&Vec<T>>) -> Vec<T> {
    match before {
        Some(before) if list.is_empty() => before.clone(),
        _ => list,
    }
}

/// T1 and T2 in seconds.
fn times(lease: u32, t1: Option<u32>, t2: Option<u32>) -> (u32, u32) {
    if lease == INFINITE {
        return (INFINITE, INFINITE);
    }
    // RFC 2131 4.4.5-b, 4.4.5-c: 0.5 and 0.875 of the lease, unless the server says otherwise and
    // its times are in order: T1 is before T2, T2 is before the end.
    let (half, late) = (lease / 2, lease - lease / 8);
    let t2 = t2.filter(|&t2| t2 < lease && t2 > RENEW_SECONDS_MIN).unwrap_or(late);
    let t1 = t1.filter(|&t1| t1 < t2 && t1 >= RENEW_SECONDS_MIN).unwrap_or(half.min(t2 - 1));
    (t1, t2)
}

/// The prefix length of the mask; without a mask, that of the extended lease, or of the address's
/// class (RFC 950 section 2).
fn prefix_len(message: &Received<'_>, extended: Option<&Lease>) -> Result<u8, Refusal> {
    let value = match (message.options.needed::<4>(code::SUBNET_MASK), extended) {
        (Err(Refusal::Missing(_)), Some(lease)) => return Ok(lease.prefix_len),
        (Err(Refusal::Missing(_)), None) => {
            return Ok(match message.yiaddr.octets()[0] {
                0..=127 => 8,
                128..=191 => 16,
                _ => 24,
            });
        }
        (value, _) => value?,
    };
    let mask = u32::from_be_bytes(value);
    let is_contiguous = mask.leading_ones() + mask.trailing_zeros() == 32;
    match mask != 0 && is_contiguous {
        true => Ok(mask.leading_ones() as u8),
        false => Err(Refusal::Mask(value.into())),
    }
}

/// Could a host have this address (RFC 6890)? 240.0.0.0/4 is unicast.
pub(super) fn is_host(address: Ipv4Addr) -> bool {
    let is_no_host = address.is_multicast() || address.is_broadcast() || address.is_loopback();
    address.octets()[0] != 0 && !is_no_host
}

/// Is this the first or last address of a subnet whose first and last address no host has: the
/// network's own and its broadcast address?
fn is_edge(address: Ipv4Addr, prefix_len: u8) -> bool {
    let hosts = u32::MAX.checked_shr(u32::from(prefix_len)).unwrap_or(0);
    let host = address.to_bits() & hosts;
    prefix_len < 31 && (host == 0 || host == hosts)
}

/// The routes of option 121, if it was asked for; if it is absent or malformed, default routes by
/// the routers.
fn routes(message: &Received<'_>, own: Ipv4Addr, learns: bool) -> Vec<Route> {
    // RFC 3442 1-a: with classless routes, the router option is ignored.
    let classless = message.options.value(code::CLASSLESS_ROUTES).filter(|_| learns);
    if let Some(routes) = classless.and_then(|value| classless_routes(&value)) {
        return routes;
    }
    let routers = message.options.addresses(code::ROUTER).into_iter();
    let usable = routers.filter(|&router| is_host(router) && router != own);
    usable.filter_map(|router| route(Ipv4Addr::UNSPECIFIED, 0, router)).collect()
}

/// RFC 3442: a prefix length, as many bytes of the network as it needs, a router.
fn classless_routes(mut value: &[u8]) -> Option<Vec<Route>> {
    let mut routes = Vec::new();
    while let [prefix_len, rest @ ..] = value {
        let needed = usize::from(prefix_len.div_ceil(8));
        let mut network = [0; 4];
        network.get_mut(..needed)?.copy_from_slice(rest.get(..needed)?);
        let (router, rest) = rest.get(needed..)?.split_first_chunk::<4>()?;
        routes.extend(route(network.into(), *prefix_len, (*router).into()));
        value = rest;
    }
    (!routes.is_empty()).then_some(routes)
}

/// RFC 3442 1-b: bits of the network beyond the prefix are cleared; router 0.0.0.0 is the link.
fn route(network: Ipv4Addr, prefix_len: u8, router: Ipv4Addr) -> Option<Route> {
    let destination = Cidr::new(IpAddr::V4(network), prefix_len)?.network();
    let gateway = Some(router).filter(|router| !router.is_unspecified());
    let is_usable = gateway.is_none_or(is_host);
    is_usable.then_some(Route { destination, gateway })
}

fn search(message: &Received<'_>, budget: &mut Budget) -> Vec<String> {
    let most = budget.of(Limit::DhcpListEntries);
    let list = message.options.value(code::DOMAIN_SEARCH);
    // One more than the limit, so that `limited` counts a list that is too long.
    let names =
        list.and_then(|list| names::read_list(&list, Compression::Allowed, most.saturating_add(1)));
    if let Some(names) = names.filter(|names| !names.is_empty()) {
        return limited(names, budget);
    }
    let domain = message.options.value(code::DOMAIN_NAME);
    domain.and_then(|name| names::from_text(&name)).into_iter().collect()
}

/// The first entries of a list, up to the limit.
fn limited<T>(mut list: Vec<T>, budget: &mut Budget) -> Vec<T> {
    let most = budget.of(Limit::DhcpListEntries);
    if list.len() > most {
        budget.admits(Limit::DhcpListEntries, list.len());
        list.truncate(most);
    }
    list
}
