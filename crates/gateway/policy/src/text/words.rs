//! The words of a rule: destinations, ports with their protocols, sizes.
//!
//! Called by: `file`, `arguments`. Networks, ports and sets are read as the firewall reads them
//! (`filter::text::parts`).

use core::net::IpAddr;

use base::Cidr;
use filter::Set;
use filter::rules::Service;
use filter::text::parts::{self, Sets};
use wire::protocol::{ICMP, ICMPV6, TCP, UDP};

use crate::group::{GROUPS, Group, HostAddresses, transition};
use crate::name::Pattern;
use crate::rules::{Action, Target};

/// A destination.
pub(super) fn target(text: &str, sets: &mut Sets) -> Result<Target, String> {
    if let Some(name) = text.strip_prefix('@') {
        return sets.find(name).map(Target::Set);
    }
    if let Some((_, group)) = GROUPS.iter().find(|(name, _)| *name == text) {
        return Ok(Target::Group(*group));
    }
    match parts::network(text) {
        Ok(network) => return Ok(Target::Network(canonical(network))),
        Err(why) if text.contains(['/', ':']) => return Err(why),
        Err(_) => {}
    }
    let known = GROUPS.iter().map(|(name, _)| *name);
    // A rule that refuses a group by a wrong name would refuse nothing.
    if !text.contains('.')
        && let Some(near) = parts::nearest(&text.to_ascii_lowercase(), known)
    {
        return Err(format!(
            "unknown group `{text}`: did you mean `{near}`? Write `{text}.` for the name"
        ));
    }
    Pattern::parse(text).map(Target::Name)
}

/// What is wrong with a rule that does this with a destination, if anything.
pub(super) fn misfit(action: Action, target: &Target) -> Option<String> {
    if action == Action::Deny {
        return None;
    }
    let is_within = |network: &Cidr, set: Set| set.with(&[*network]) == set;
    let loopback = || Group::Loopback.set(&HostAddresses::default());
    match target {
        Target::Group(Group::Loopback) => {}
        Target::Network(network) if is_within(network, loopback()) => {}
        Target::Network(network) if is_within(network, transition()) => {
            let what = "the IPv4 address inside of such an address decides: write IPv4 networks";
            return Some(what.to_owned());
        }
        _ => return None,
    }
    Some("loopback addresses are the host's own: write `host` to let guests reach them".to_owned())
}

/// A network, as IPv4 if it is one of IPv4-mapped addresses.
fn canonical(network: Cidr) -> Cidr {
    match (network.addr.to_canonical(), network.prefix_len) {
        (IpAddr::V4(addr), length @ 96..) if network.addr.is_ipv6() => {
            Cidr::new(addr.into(), length - 96).unwrap_or(network)
        }
        _ => network,
    }
}

/// `443`, `443/udp`, `1024-2048/tcp`, `https`, `tcp`, `udp`, `echo`. A port without a protocol is
/// of TCP.
pub(super) fn services(text: &str) -> Result<Vec<Service>, String> {
    match text {
        "tcp" => return Ok(vec![Service::all(TCP)]),
        "udp" => return Ok(vec![Service::all(UDP)]),
        "echo" | "icmp" => return Ok(vec![Service::all(ICMP), Service::all(ICMPV6)]),
        _ => {}
    }
    let (ports, protocol) = match text.split_once('/') {
        None => (text, TCP),
        Some((ports, "tcp")) => (ports, TCP),
        Some((ports, "udp")) => (ports, UDP),
        Some((_, other)) => {
            return Err(format!("unknown protocol `{other}`: there are `tcp` and `udp`"));
        }
    };
    let wrong = |_| {
        format!(
            "`{text}` is no port: write a number, a range `1024-2048` or a name such as `https`, \
             each with `/udp` for UDP; or `tcp`, `udp` or `echo`"
        )
    };
    let (first, last) = parts::ports(ports).map_err(wrong)?;
    Ok(vec![Service { protocol, first, last }])
}

/// `1G`: a number of bytes, with K, M, G or T for powers of 1,024.
pub(super) fn size(text: &str) -> Option<u64> {
    let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let last = text.chars().last().map(|c| c.to_ascii_uppercase());
    let unit = units.into_iter().find(|(letter, _)| last == Some(*letter));
    let digits = if unit.is_some() { &text[..text.len() - 1] } else { text };
    let number = digits.parse::<u64>().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()));
    number?.checked_mul(1 << unit.map_or(0, |(_, bits)| bits))
}
