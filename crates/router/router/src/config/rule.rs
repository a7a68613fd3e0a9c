//! `[[rule]]`: its keys, the errors in them, the words of the log, and how a rule takes effect.
//!
//! Called by: `config.rs`, and `plan.rs` when a rule changes; [`masked`] by `wirespeed ip rule`.
//! docs/decisions/0080-policy-routing.md.

use core::fmt;
use std::collections::BTreeMap;

use base::IpVersion;
use stack::route::{self, Action, MAIN_PRIORITY, RuleError};

use super::file::{At, Once, Section};
use super::group::{self, Groups};
use super::port::{self, Port};
use super::route::table;
use super::setting::{Change, Prefix, Stacks, cidr, first, prefix};
use crate::applied::ports::State;

/// A rule; a field that is `None` selects every packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Packets from here.
    pub from: Option<Prefix>,
    /// Packets to here.
    pub to: Option<Prefix>,
    /// Forwarded packets that came by this port.
    pub in_port: Option<String>,
    /// Packets with this mark, in the bits of the second.
    pub mark: Option<(u32, u32)>,
    /// Packets of users in this group.
    pub group: Option<String>,
    /// All the others instead.
    pub not: bool,
    /// What happens to the selected packets.
    pub action: Action,
}

/// The actions other than a table.
const ACTIONS: [(&str, Action); 3] = [
    ("unreachable", Action::Unreachable),
    ("prohibit", Action::Prohibit),
    ("blackhole", Action::Blackhole),
];

/// `[[rule]]`, by priority.
pub(super) fn read(
    file: &Section<'_>,
    ports: &BTreeMap<String, Port>,
    groups: &Groups,
) -> BTreeMap<u32, Rule> {
    let (mut rules, mut once) = (BTreeMap::new(), Once::default());
    for section in file.many("rule", "[[rule]]") {
        section.needed("priority", "100");
        let priority = section.number("priority", 0..=u32::MAX as usize);
        let (Some(rule), Some(priority)) = (rule(&section, ports, groups), priority) else {
            continue;
        };
        if priority == MAIN_PRIORITY {
            let what = format!("{MAIN_PRIORITY} is the main table's: give another priority");
            section.note("priority", what);
        }
        let what = format!("the rule with priority {priority}");
        if once.is_first(priority, section.at("priority"), &what, section.log) {
            rules.insert(priority, rule);
        }
    }
    rules
}

fn rule(section: &Section<'_>, ports: &BTreeMap<String, Port>, groups: &Groups) -> Option<Rule> {
    let from = section.network("from", "192.0.2.0/24");
    let to = section.network("to", "198.51.100.0/24");
    if let (Some(from), Some(to)) = (from, to)
        && IpVersion::of(&from.addr) != IpVersion::of(&to.addr)
    {
        section.note("to", "from and to are of different versions of IP: write two rules");
    }
    if section.has("group") && section.has("in_port") {
        let what = "a packet that is forwarded is of no user: remove group or in_port";
        section.log.note(section.at, what);
    }
    let group = section.text("group").map(|value| At { value, at: section.at("group") });
    let rule = Rule {
        from: from.map(prefix),
        to: to.map(prefix),
        in_port: port::named(section, "in_port", ports),
        mark: mark(section),
        group: group.and_then(|name| group::named(name, groups, section.log)),
        not: section.flag("not").unwrap_or(false),
        action: Action::Prohibit,
    };
    action(section).map(|action| Rule { action, ..rule })
}

fn mark(section: &Section<'_>) -> Option<(u32, u32)> {
    let Some(text) = section.get("mark")?.get_ref().as_str() else {
        return section.number("mark", 0..=u32::MAX as usize).map(|mark| (mark, u32::MAX));
    };
    let mark = masked(text);
    if mark.is_none() {
        let what = "write a number, or VALUE/MASK as \"0x10/0xff\"";
        section.note("mark", format!("mark cannot be '{text}': {what}"));
    }
    mark
}

/// Numbers of a mark and its mask, each decimal or, behind 0x, hexadecimal; without a mask all bits
/// count.
pub fn masked(text: &str) -> Option<(u32, u32)> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    match text.split_once('/') {
        Some((value, mask)) => Some((number(value)?, number(mask)?)),
        None => Some((number(text)?, u32::MAX)),
    }
}

fn action(section: &Section<'_>) -> Option<Action> {
    let (table, action) = (table(section), section.word("action", &ACTIONS));
    match (section.has("table"), section.has("action")) {
        (true, false) => return table.map(Action::Table),
        (false, true) => return action,
        (true, true) => {
            section.note("action", "a rule has a table or an action: remove one of them");
        }
        (false, false) => {
            let what = "the rule does nothing: add table = 10, or action = \"prohibit\"";
            section.log.note(section.at, what);
        }
    }
    None
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.not {
            f.write_str("not ")?;
        }
        match self.from {
            Some(from) => write!(f, "from {}", cidr(from))?,
            None => f.write_str("from all")?,
        }
        self.to.map_or(Ok(()), |to| write!(f, " to {}", cidr(to)))?;
        let mark = |(value, mask): (u32, u32)| write!(f, " mark {value:#x}/{mask:#x}");
        self.mark.map_or(Ok(()), mark)?;
        self.in_port.as_ref().map_or(Ok(()), |port| write!(f, " in_port {port}"))?;
        self.group.as_ref().map_or(Ok(()), |group| write!(f, " group {group}"))?;
        match self.action {
            Action::Table(table) => write!(f, " table {table}"),
            Action::Unreachable => f.write_str(" unreachable"),
            Action::Prohibit => f.write_str(" prohibit"),
            Action::Blackhole => f.write_str(" blackhole"),
        }
    }
}

/// The words of the log for a rule.
pub(crate) fn words(priority: u32, now: Option<&Rule>) -> String {
    match now {
        Some(rule) => format!("rule {priority}: {rule}"),
        None => format!("rule {priority}: removed"),
    }
}

/// Set or remove a rule in the first shard, whose rules all shards use.
pub(crate) fn carry_out(
    priority: u32,
    change: &Change<Rule>,
    state: &State,
    stacks: Stacks<'_, '_>,
) -> Result<(), String> {
    let stack = first(stacks);
    if let Some(was) = &change.was {
        stack.remove_rule(&of_stack(priority, was, state)?);
    }
    let Some(now) = &change.now else { return Ok(()) };
    match stack.add_rule(of_stack(priority, now, state)?) {
        // `Exists`: somebody added it by the control socket.
        Ok(()) | Err(RuleError::Exists) => Ok(()),
        Err(why) => Err(why.to_string()),
    }
}

fn of_stack(priority: u32, rule: &Rule, state: &State) -> Result<route::Rule, String> {
    let in_port = rule.in_port.as_ref().map(|name| Ok::<_, String>(state.port(name)?.id.0));
    Ok(route::Rule {
        from: rule.from.map(cidr),
        to: rule.to.map(cidr),
        in_port: in_port.transpose()?,
        mark: rule.mark,
        group: rule.group.as_ref().map(|name| state.group(name)).transpose()?,
        not: rule.not,
        ..route::Rule::new(priority, rule.action)
    })
}
