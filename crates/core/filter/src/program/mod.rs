//! Rules, compiled: the verdict on the first packet of a flow.
//!
//! Called by: the stack, for the first packet of each flow; it reads no counter and no state. The
//! router compiles rules off the packet's path and publishes the program whole. The plain list
//! ([`list`]) is the oracle, and explains verdicts. Limit: `FilterRules`.

pub mod always;
pub mod list;
mod matcher;
mod search;
mod sweep;

use core::fmt;

use crate::packet::Packet;
use crate::rules::{Action, Match, Nat, NatRule, Rate, Rule, Rules};
use matcher::Matcher;

pub use always::passes_always;
pub use list::{Clause, explain};

/// Rules in the form that packets are judged by.
#[derive(Debug)]
pub struct Program {
    filter: Matcher,
    verdicts: Vec<Verdict>,
    default: Verdict,
    has_stateless: bool,
    limits: Vec<Limits>,
    nat: Vec<Nat>,
    source: Nats,
    dest: Nats,
}

/// What happens to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The rule, by its place among [`Rules::filter`]; `None` is the default.
    pub rule: Option<u16>,
    /// What happens to its packets.
    pub action: Action,
    /// A state is made, which its other packets follow. False for packets that do not pass.
    pub stateful: bool,
    /// The state checks no windows, and its flow may begin in the middle.
    pub loose: bool,
    /// The packet is logged.
    pub log: bool,
    /// The rule has a rate or a number of states, which the caller checks.
    pub limited: bool,
}

impl Verdict {
    const fn default_of(action: Action) -> Verdict {
        let stateful = matches!(action, Action::Pass);
        Verdict { rule: None, action, stateful, loose: false, log: false, limited: false }
    }

    /// The verdict of rule number `number`.
    const fn of(number: u16, rule: &Rule) -> Verdict {
        Verdict {
            rule: Some(number),
            action: rule.action,
            stateful: matches!(rule.action, Action::Pass) && !rule.stateless,
            loose: rule.loose,
            log: rule.log,
            limited: rule.rate.is_some() || rule.states_per_source.is_some(),
        }
    }
}

/// What a rule bounds; the caller counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Flows that may begin in a second.
    pub rate: Option<Rate>,
    /// Flows that one source may have at a time.
    pub states_per_source: Option<u32>,
}

impl Limits {
    const fn of(rule: &Rule) -> Limits {
        Limits { rate: rule.rate, states_per_source: rule.states_per_source }
    }
}

/// Rules that no program can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooLarge {
    /// More than 4,096 rules.
    Rules,
    /// The networks of sets overlap in more than 65,536 different ways.
    Classes,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TooLarge::Rules => "more than 4,096 rules (filter_rules)",
            TooLarge::Classes => {
                "the rules divide addresses into more than 65,536 kinds: use fewer sets that \
                 overlap"
            }
        })
    }
}

impl core::error::Error for TooLarge {}

/// Rules of NAT for one direction.
#[derive(Debug)]
struct Nats {
    matcher: Matcher,
    /// Their places among [`Rules::nat`].
    rules: Vec<u16>,
}

impl Nats {
    fn compile(rules: &Rules, of: fn(&NatRule) -> Option<&Match>) -> Result<Nats, TooLarge> {
        let with_match = (0u16..).zip(&rules.nat).filter_map(|(at, rule)| Some((at, of(rule)?)));
        let (rules_of, matches): (Vec<u16>, Vec<&Match>) = with_match.unzip();
        let matcher = Matcher::compile(&matches, &rules.sets)?;
        Ok(Nats { matcher, rules: rules_of })
    }

    #[inline]
    fn first(&self, packet: &Packet) -> Option<u16> {
        let at = self.matcher.first(packet)?;
        self.rules.get(usize::from(at)).copied()
    }
}

impl Program {
    /// Compile rules. It takes time and memory; packets go on by the program before meanwhile.
    ///
    /// # Errors
    ///
    /// The rules do not fit.
    pub fn compile(rules: &Rules) -> Result<Program, TooLarge> {
        let matches: Vec<&Match> = rules.filter.iter().map(|rule| &rule.matches).collect();
        let numbered = (0u16..).zip(&rules.filter);
        let is_stateless = |rule: &Rule| rule.action == Action::Pass && rule.stateless;
        Ok(Program {
            has_stateless: rules.filter.iter().any(is_stateless),
            filter: Matcher::compile(&matches, &rules.sets)?,
            verdicts: numbered.map(|(number, rule)| Verdict::of(number, rule)).collect(),
            default: Verdict::default_of(rules.default),
            limits: rules.filter.iter().map(Limits::of).collect(),
            nat: rules.nat.iter().map(|rule| rule.nat).collect(),
            source: Nats::compile(rules, |rule| rule.source.as_ref())?,
            dest: Nats::compile(rules, |rule| rule.dest.as_ref())?,
        })
    }

    /// The verdict on the first packet of a flow, or on a packet without a state.
    #[must_use]
    #[inline]
    pub fn judge(&self, packet: &Packet) -> Verdict {
        let rule = self.filter.first(packet);
        let verdict = rule.and_then(|rule| self.verdicts.get(usize::from(rule)));
        verdict.copied().unwrap_or(self.default)
    }

    /// Does a rule pass packets without a state?
    #[must_use]
    #[inline]
    pub fn has_stateless(&self) -> bool {
        self.has_stateless
    }

    /// The limits of a rule of the filter, for verdicts that are
    /// [`limited`](Verdict::limited); none for other numbers.
    #[must_use]
    #[inline]
    pub fn limits(&self, rule: u16) -> Limits {
        self.limits.get(usize::from(rule)).copied().unwrap_or_default()
    }

    /// What a rule of NAT translates to; `Keep` for other numbers.
    #[must_use]
    #[inline]
    pub fn nat(&self, rule: u16) -> Nat {
        self.nat.get(usize::from(rule)).copied().unwrap_or(Nat::Keep)
    }

    /// The rule of NAT that translates the packet's source, by its place among [`Rules::nat`]; the
    /// packet is as [`judge`](Self::judge) sees it.
    #[must_use]
    #[inline]
    pub fn judge_source(&self, packet: &Packet) -> Option<u16> {
        self.source.first(packet)
    }

    /// The rule of NAT that translates the packet's destination. The packet is as it came; its
    /// `out_port` is [`ROUTER`](crate::ROUTER) if its destination is an address of the router, else
    /// any other number.
    #[must_use]
    #[inline]
    pub fn judge_dest(&self, packet: &Packet) -> Option<u16> {
        self.dest.first(packet)
    }
}

#[cfg(test)]
mod tests;
