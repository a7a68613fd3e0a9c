//! The plain list: rules one by one, and for each the first clause that a packet does not fit.
//!
//! Called by: tests, as the oracle of the compiled program; `wirespeed filter explain`. It shares
//! no code with the compiler beyond the rules themselves.

use core::fmt;

use base::IpVersion;

use crate::packet::Packet;
use crate::rules::{Match, Rules, Service};
use crate::sets::Set;

/// The clause of a rule that a packet does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    /// The port that it came by.
    In,
    /// The port that it leaves by.
    Out,
    /// The rule is about the other version of IP.
    Version,
    /// The protocol.
    Protocol,
    /// Its destination port, or its ICMP type.
    Service,
    /// Its source.
    From,
    /// Its source port.
    FromPort,
    /// Its destination.
    To,
    /// Its TCP flags.
    Flags,
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Clause::In => "it came by another port",
            Clause::Out => "it leaves by another port",
            Clause::Version => "the rule is about the other version of IP",
            Clause::Protocol => "it has another protocol",
            Clause::Service => "it has another destination port or ICMP type",
            Clause::From => "its source is none of those",
            Clause::FromPort => "it has another source port",
            Clause::To => "its destination is none of those",
            Clause::Flags => "it has other TCP flags",
        })
    }
}

/// The first clause that a packet does not fit, in the order of rules; `None` if it matches.
#[must_use]
pub fn mismatch(matches: &Match, sets: &[Set], packet: &Packet) -> Option<Clause> {
    let tuple = &packet.tuple;
    let number = Service::number(packet);
    let services = &matches.services;
    let has_protocol = services.iter().any(|service| service.protocol == tuple.protocol);
    let from_ports = &matches.from_ports;
    let fits = [
        (Clause::In, matches.in_ports.contains(packet.in_port)),
        (Clause::Out, matches.out_ports.contains(packet.out_port)),
        (Clause::Version, matches.version.is_none_or(|only| only == IpVersion::of(&tuple.src))),
        (Clause::Protocol, services.is_empty() || has_protocol),
        (
            Clause::Service,
            services.is_empty() || services.iter().any(|service| service.contains(number)),
        ),
        (Clause::From, matches.from.contains(tuple.src, sets)),
        (
            Clause::FromPort,
            from_ports.is_empty()
                || from_ports.iter().any(|&(a, b)| (a..=b).contains(&tuple.src_port)),
        ),
        (Clause::To, matches.to.contains(tuple.dst, sets)),
        (Clause::Flags, matches.flags.is_none_or(|flags| flags.contains(packet.tcp_flags))),
    ];
    fits.into_iter().find(|&(_, fits)| !fits).map(|(clause, _)| clause)
}

/// The first rule of the filter that a packet matches.
#[must_use]
pub fn judge(rules: &Rules, packet: &Packet) -> Option<u16> {
    let is_match = |matches: &Match| mismatch(matches, &rules.sets, packet).is_none();
    let at = rules.filter.iter().position(|rule| is_match(&rule.matches))?;
    u16::try_from(at).ok()
}

/// The first rule of NAT for the packet's source.
#[must_use]
pub fn judge_source(rules: &Rules, packet: &Packet) -> Option<u16> {
    let is_match = |matches: &Match| mismatch(matches, &rules.sets, packet).is_none();
    let at = rules.nat.iter().position(|rule| rule.source.as_ref().is_some_and(is_match))?;
    u16::try_from(at).ok()
}

/// The first rule of NAT for the packet's destination.
#[must_use]
pub fn judge_dest(rules: &Rules, packet: &Packet) -> Option<u16> {
    let is_match = |matches: &Match| mismatch(matches, &rules.sets, packet).is_none();
    let at = rules.nat.iter().position(|rule| rule.dest.as_ref().is_some_and(is_match))?;
    u16::try_from(at).ok()
}

/// For each rule up to the one that decides: its place among [`Rules::filter`], and why it does not
/// match. The last one matches, if it has no clause; if all have one, the default decides.
#[must_use]
pub fn explain(rules: &Rules, packet: &Packet) -> Vec<(usize, Option<Clause>)> {
    let mut steps = Vec::new();
    for (number, rule) in rules.filter.iter().enumerate() {
        let clause = mismatch(&rule.matches, &rules.sets, packet);
        steps.push((number, clause));
        if clause.is_none() {
            break;
        }
    }
    steps
}
