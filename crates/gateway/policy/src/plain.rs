//! The plain list: rules one by one, without tables.
//!
//! Called by: tests and fuzzing, as the oracle of the compiled rules. It shares no code with them
//! beyond the groups.

use core::net::IpAddr;

use host::dns::DomainName;

use crate::compiled::Destination;
use crate::group::{Group, HostAddresses, inner};
use crate::rules::{Action, Rule, Rules, Target};

/// The first rule that matches a destination whose address has these names.
pub fn first(
    rules: &Rules,
    host: &HostAddresses,
    to: &Destination,
    names: &[DomainName],
) -> Option<u16> {
    let service = to.service();
    let is_match = |rule: &Rule| {
        rule.has_service(service)
            && rule.targets.iter().any(|target| matches(rules, host, rule, target, to, names))
    };
    rules.rules.iter().position(is_match).and_then(|at| u16::try_from(at).ok())
}

fn matches(
    rules: &Rules,
    host: &HostAddresses,
    rule: &Rule,
    target: &Target,
    to: &Destination,
    names: &[DomainName],
) -> bool {
    let inside = inner(to.address).map(IpAddr::V4);
    let is_loopback = |address: IpAddr| Group::Loopback.set(host).contains(address);
    let denies = rule.action == Action::Deny;
    if let Target::Name(pattern) = target {
        let is_free = !is_loopback(to.address) && !inside.is_some_and(is_loopback);
        return (denies || is_free) && names.iter().any(|name| pattern.matches(name));
    }
    let has = |address: IpAddr| match target {
        Target::Network(network) => network.contains(address),
        Target::Set(set) => rules.sets[*set].contains(address),
        Target::Group(group) => group.set(host).contains(address),
        Target::Name(_) => false,
    };
    if denies {
        return has(to.address) || inside.is_some_and(has);
    }
    if *target == Target::Group(Group::Host) {
        return has(to.address) || inside.is_some_and(has);
    }
    // An IPv4 address inside decides.
    let address = inside.unwrap_or(to.address);
    has(address) && !is_loopback(address)
}
