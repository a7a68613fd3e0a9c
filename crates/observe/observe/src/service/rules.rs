//! The rules of policy routing: rows, and changes.
//!
//! Called by: `answer.rs` for rows, `change.rs` for changes, on the thread that owns the stack.
//! Groups are given by name if the configuration names them, else by number. Limit: `rules`.

use base::Cidr;
use control::Users;
use stack::route::{Action, MAIN_PRIORITY, Rule, RuleError};
use stack::{PortId, Stack};

use control::protocol::{Refusal, Rule as Row, RuleSpec, Verb};

/// A group's name.
pub(super) fn group(number: u32, users: &Users) -> String {
    users.name(number).map_or_else(|| number.to_string(), str::to_owned)
}

/// All rules in the order of their evaluation, without the rule of the main table.
pub(super) fn rows(stack: &Stack, users: &Users) -> Vec<Row> {
    stack.rules().iter().map(|rule| row(stack, users, rule)).collect()
}

/// The row of one rule.
pub(super) fn row(stack: &Stack, users: &Users, rule: &Rule) -> Row {
    let (table, action) = match rule.action {
        Action::Table(table) => (Some(table), None),
        Action::Unreachable => (None, Some("unreachable")),
        Action::Prohibit => (None, Some("prohibit")),
        Action::Blackhole => (None, Some("blackhole")),
    };
    Row {
        priority: rule.priority,
        from: rule.from,
        to: rule.to,
        in_port: rule.in_port,
        in_dev: rule.in_port.map(|port| stack.port_name(PortId(port))),
        mark: rule.mark.map(|(value, _)| value),
        mask: rule.mark.map(|(_, mask)| mask),
        group: rule.group.map(|number| group(number, users)),
        not: rule.not,
        table,
        action: action.map(str::to_owned),
    }
}

/// Carry a change out.
pub(super) fn change(
    stack: &mut Stack,
    users: &Users,
    verb: Verb,
    spec: &RuleSpec,
) -> Result<(), (Refusal, String)> {
    match verb {
        Verb::Add => add(stack, users, spec),
        Verb::Del => delete(stack, users, spec),
        Verb::Replace | Verb::Change => {
            let why = "Operation not supported: delete the rule, and add another";
            Err((Refusal::Wrong, why.to_owned()))
        }
    }
}

fn wrong<T>(why: String) -> Result<T, (Refusal, String)> {
    Err((Refusal::Wrong, why))
}

fn net(text: &str) -> Result<Cidr, (Refusal, String)> {
    let net: Cidr = text.parse().or_else(|why| wrong(format!("Invalid argument: {why}")))?;
    Ok(net.network())
}

/// The number of a group. If the configuration has no groups, the name is itself a number.
pub(super) fn number(name: &str, users: &Users) -> Result<u32, (Refusal, String)> {
    let mut names = users.names().peekable();
    let has_names = names.peek().is_some();
    let number = users.number(name).or_else(|| name.parse().ok().filter(|_| !has_names));
    number.map_or_else(
        || {
            let names: Vec<&str> = names.collect();
            wrong(format!("Invalid argument: there is no group '{name}' of {}", names.join(", ")))
        },
        Ok,
    )
}

/// The rule without its priority.
fn rule(stack: &Stack, users: &Users, spec: &RuleSpec) -> Result<Rule, (Refusal, String)> {
    let action = match (spec.action.as_deref(), spec.table) {
        (None, table) => Action::Table(table.unwrap_or(stack::route::MAIN_TABLE)),
        (Some("unreachable"), _) => Action::Unreachable,
        (Some("prohibit"), _) => Action::Prohibit,
        (Some("blackhole"), _) => Action::Blackhole,
        (Some(other), _) => {
            let what = "give unreachable, prohibit or blackhole";
            return wrong(format!("Invalid argument: there is no action '{other}': {what}"));
        }
    };
    let rule = Rule {
        from: spec.from.as_deref().map(net).transpose()?,
        to: spec.to.as_deref().map(net).transpose()?,
        in_port: spec.in_port,
        mark: spec.mark,
        group: spec.group.as_deref().map(|name| number(name, users)).transpose()?,
        not: spec.not,
        ..Rule::new(spec.priority.unwrap_or(0), action)
    };
    let versions: Vec<bool> =
        rule.from.iter().chain(&rule.to).map(|net| net.addr.is_ipv4()).collect();
    if versions.contains(&true) && versions.contains(&false) {
        return wrong("Invalid argument: from and to are of the same version of IP".to_owned());
    }
    if action == Action::Table(0) {
        return wrong("Invalid argument: table 0 does not exist; give one from 1 on".to_owned());
    }
    if rule.in_port.is_some_and(|port| stack.device(PortId(port)).is_none()) {
        let why = "Cannot find device: the port does not exist any more; see `wirespeed ip link`";
        return Err((Refusal::Missing, why.to_owned()));
    }
    Ok(rule)
}

fn add(stack: &mut Stack, users: &Users, spec: &RuleSpec) -> Result<(), (Refusal, String)> {
    let first = stack.rules().first().map_or(MAIN_PRIORITY, |rule| rule.priority);
    // As on Linux, the rule goes before the others.
    let chosen = first.min(MAIN_PRIORITY).saturating_sub(1);
    let priority = spec.priority.unwrap_or(chosen);
    if priority == MAIN_PRIORITY {
        return wrong(format!("Invalid argument: priority {MAIN_PRIORITY} is the main table's"));
    }
    let rule = Rule { priority, ..rule(stack, users, spec)? };
    stack.add_rule(rule).map_err(|why| match why {
        RuleError::Exists => (Refusal::Exists, format!("File exists: {why}")),
        RuleError::LimitReached => (Refusal::Full, format!("No buffer space available: {why}")),
    })
}

/// Delete the first rule that has all given fields.
fn delete(stack: &mut Stack, users: &Users, spec: &RuleSpec) -> Result<(), (Refusal, String)> {
    let wanted = rule(stack, users, spec)?;
    let has_action = spec.action.is_some() || spec.table.is_some();
    let is_it = |rule: &&Rule| {
        spec.priority.is_none_or(|priority| rule.priority == priority)
            && (wanted.from.is_none() || rule.from == wanted.from)
            && (wanted.to.is_none() || rule.to == wanted.to)
            && (wanted.in_port.is_none() || rule.in_port == wanted.in_port)
            && (wanted.mark.is_none() || rule.mark == wanted.mark)
            && (wanted.group.is_none() || rule.group == wanted.group)
            && (!wanted.not || rule.not)
            && (!has_action || rule.action == wanted.action)
    };
    let Some(found) = stack.rules().iter().find(is_it).copied() else {
        let why = "No such file or directory: there is no such rule; see `wirespeed ip rule`";
        return Err((Refusal::Missing, why.to_owned()));
    };
    stack.remove_rule(&found);
    Ok(())
}
