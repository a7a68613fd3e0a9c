//! Groups of users, rules, and who may open sockets in the router: read and checked.
//!
//! Called by: `read.rs` for the drafts, `check.rs` with them. Members of a group are written as in
//! sudoers(5): a user's name, `%GROUP` for all users of a group of this machine, `%100` for one
//! with that number; a number alone is a user's. Limits: [`GROUPS_MAX`], `rules`.
//! docs/decisions/0080, 0084.

use std::collections::{BTreeMap, BTreeSet};

use base::{Cidr, IpVersion};
use stack::route::{self, Action, MAIN_PRIORITY, MAIN_TABLE};
use toml::de::DeValue;

use super::check::{has_no_host_bits, is_first, known};
use super::place::{At, Log};
use super::read::{many, one, owned};
use super::section::{self, Section, unknown};
use super::{Config, Prefix, prefix};
use crate::accounts::Accounts;

/// The most groups of a configuration.
pub const GROUPS_MAX: usize = 1_024;
/// Names of groups are words of a command line.
const NAME_MAX: usize = 32;
/// The longest path of a socket (unix(7)).
const PATH_MAX: usize = 107;

/// Who is in a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// These users.
    pub uids: BTreeSet<u32>,
    /// Users of these groups of the machine.
    pub gids: BTreeSet<u32>,
}

/// The users that a route is for, by names of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum For {
    /// Members of one of them, and nobody else.
    Include(BTreeSet<String>),
    /// All but members of one of them.
    Exclude(BTreeSet<String>),
}

/// A rule; what is `None` selects every packet.
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
    /// What becomes of what is selected.
    pub action: Action,
}

/// The control socket for other users than root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Its path.
    pub socket: String,
    /// Members of these groups may open sockets.
    pub groups: BTreeSet<String>,
}

pub(super) struct GroupDraft {
    name: At<String>,
    uids: Vec<u32>,
    /// Names of users, and of groups behind a `%`.
    names: Vec<At<String>>,
}

#[derive(Default)]
pub(super) struct UsersDraft {
    include: Option<Vec<At<String>>>,
    exclude: Option<Vec<At<String>>>,
    at: usize,
}

pub(super) struct RuleDraft {
    at: usize,
    priority: At<u32>,
    from: Option<At<Cidr>>,
    to: Option<At<Cidr>>,
    in_port: Option<At<String>>,
    mark: Option<(u32, u32)>,
    group: Option<At<String>>,
    not: bool,
    action: Action,
}

pub(super) struct ControlDraft {
    socket: At<String>,
    groups: Vec<At<String>>,
}

/// `[groups]`: its keys are names.
pub(super) fn groups(all: &Section<'_>, log: &mut Log<'_>) -> Vec<GroupDraft> {
    let Some(value) = all.get("groups") else { return Vec::new() };
    let at = value.span().start;
    let DeValue::Table(table) = value.get_ref() else {
        let is = value.get_ref().type_str();
        log.note(at, format!("groups is {is}: write a section [groups]"));
        return Vec::new();
    };
    let section = Section::of_names(table, at, "[groups]");
    let mut drafts = Vec::new();
    for (key, value) in section.entries() {
        let name = owned(key);
        let DeValue::Array(members) = value.get_ref() else {
            let what = format!("the group is {}: write a list", value.get_ref().type_str());
            log.note(value.span().start, format!("{what}, as {} = [\"alice\", 1001]", name.value));
            continue;
        };
        let mut draft = GroupDraft { name, uids: Vec::new(), names: Vec::new() };
        for member in members.iter() {
            let at = member.span().start;
            match member.get_ref() {
                DeValue::Integer(_) => {
                    let range = (0, u32::MAX as usize - 1);
                    let uid = section::number(member, "a user's number", range, log);
                    draft.uids.extend(uid.map(|uid| uid.value as u32));
                }
                DeValue::String(text) => draft.names.push(At { value: text.to_string(), at }),
                other => {
                    let what = "write a user as \"alice\" or 1001, a group's users as \"%wheel\"";
                    log.note(at, format!("a member is {}: {what}", other.type_str()));
                }
            }
        }
        drafts.push(draft);
    }
    drafts
}

/// `include` and `exclude` of a route.
pub(super) fn users(section: &Section<'_>, log: &mut Log<'_>) -> UsersDraft {
    let mut list = |key: &str| {
        let there = section.get(key)?;
        let names = section.texts(key, log).into_iter().map(owned).collect();
        Some((there.span().start, names))
    };
    let (include, exclude) = (list("include"), list("exclude"));
    let at = exclude.as_ref().or(include.as_ref()).map_or(section.at, |(at, _)| *at);
    let (include, exclude) = (include.map(|(_, names)| names), exclude.map(|(_, names)| names));
    UsersDraft { include, exclude, at }
}

/// The table of a route or a rule.
pub(super) fn table(section: &Section<'_>, log: &mut Log<'_>) -> Option<At<u32>> {
    let value = section.get("table")?;
    if value.get_ref().as_str() == Some("main") {
        return Some(At { value: MAIN_TABLE, at: value.span().start });
    }
    let table = section.number("table", (1, u32::MAX as usize), log)?;
    Some(At { value: table.value as u32, at: table.at })
}

/// `[[rule]]`.
pub(super) fn rules(all: &Section<'_>, log: &mut Log<'_>) -> Vec<RuleDraft> {
    const RULE: &[&str] =
        &["priority", "from", "to", "in_port", "mark", "group", "not", "table", "action"];
    let sections = many(all, "rule", "[[rule]]", RULE, log);
    sections.iter().filter_map(|section| rule(section, log)).collect()
}

fn rule(section: &Section<'_>, log: &mut Log<'_>) -> Option<RuleDraft> {
    section.needed("priority", "100", log);
    let action = action(section, log);
    let mark = match section.get("mark").map(|value| (value, value.get_ref().as_str())) {
        None => None,
        Some((_, None)) => {
            let mark = section.number("mark", (0, u32::MAX as usize), log)?;
            Some((mark.value as u32, u32::MAX))
        }
        Some((value, Some(text))) => {
            let mark = masked(text);
            if mark.is_none() {
                let what = "write a number, or VALUE/MASK as \"0x10/0xff\"";
                log.note(value.span().start, format!("mark cannot be '{text}': {what}"));
            }
            mark
        }
    };
    let priority = section.number("priority", (0, u32::MAX as usize), log)?;
    Some(RuleDraft {
        at: section.at,
        priority: At { value: priority.value as u32, at: priority.at },
        from: section.parsed("from", "192.0.2.0/24", log),
        to: section.parsed("to", "198.51.100.0/24", log),
        in_port: section.text("in_port", log).map(owned),
        mark,
        group: section.text("group", log).map(owned),
        not: section.flag("not", log).unwrap_or(false),
        action: action?,
    })
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

/// The actions other than a table.
const ACTIONS: [(&str, Action); 3] = [
    ("unreachable", Action::Unreachable),
    ("prohibit", Action::Prohibit),
    ("blackhole", Action::Blackhole),
];

fn action(section: &Section<'_>, log: &mut Log<'_>) -> Option<Action> {
    match (section.get("table"), section.get("action")) {
        (Some(_), None) => table(section, log).map(|table| Action::Table(table.value)),
        (None, Some(_)) => {
            let At { value, at } = section.text("action", log)?;
            let names = ACTIONS.map(|(name, _)| name);
            let found = ACTIONS.iter().find(|(name, _)| *name == value);
            if found.is_none() {
                log.note(at, unknown("action", value, &names));
            }
            found.map(|(_, action)| *action)
        }
        (Some(_), Some(action)) => {
            let what = "a rule has a table or an action: remove one of them";
            log.note(action.span().start, what);
            None
        }
        (None, None) => {
            let what = "the rule does nothing: add table = 10, or action = \"prohibit\"";
            log.note(section.at, what);
            None
        }
    }
}

/// `[control]`.
pub(super) fn control(all: &Section<'_>, log: &mut Log<'_>) -> Option<ControlDraft> {
    let section = one(all, "control", "[control]", &["socket", "groups"], log)?;
    section.needed("socket", "\"/run/wirespeed.sock\"", log);
    section.needed("groups", "[\"staff\"]", log);
    let groups = section.texts("groups", log).into_iter().map(owned).collect();
    Some(ControlDraft { socket: owned(section.text("socket", log)?), groups })
}

/// The members, by number.
pub(super) fn check_groups(
    drafts: Vec<GroupDraft>,
    accounts: &mut Accounts,
    log: &mut Log<'_>,
) -> BTreeMap<String, Members> {
    let mut groups = BTreeMap::new();
    for GroupDraft { name, uids, names } in drafts {
        let is_char = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_word = !name.value.is_empty() && name.value.chars().all(is_char);
        // A number would be taken for one.
        if !is_word || name.value.len() > NAME_MAX || name.value.parse::<u64>().is_ok() {
            let what = "a group's name has 1 to 32 letters, digits, '-', '_' and '.', and is no \
                        number";
            log.note(name.at, format!("'{}' cannot be the name: {what}", name.value));
        }
        let mut members = Members { uids: uids.into_iter().collect(), ..Members::default() };
        for At { value, at } in names {
            match value.strip_prefix('%') {
                Some(group) => match group.parse().ok().or_else(|| accounts.group(group)) {
                    Some(gid) => drop(members.gids.insert(gid)),
                    None => {
                        let what = "give one of /etc/group, or a number as \"%100\"";
                        log.note(at, format!("this machine has no group '{group}': {what}"));
                    }
                },
                None => match accounts.user(&value) {
                    Some(uid) => drop(members.uids.insert(uid)),
                    None => {
                        let what = "give one of /etc/passwd, or a number without quotes";
                        log.note(at, format!("this machine has no user '{value}': {what}"));
                    }
                },
            }
        }
        if groups.len() == GROUPS_MAX {
            log.note(name.at, format!("there are more than {GROUPS_MAX} groups: remove some"));
        }
        groups.insert(name.value, members);
    }
    groups
}

/// A group that has to be there.
fn group(name: &At<String>, config: &Config, log: &mut Log<'_>) -> Option<String> {
    if config.groups.contains_key(&name.value) {
        return Some(name.value.clone());
    }
    let names: Vec<&str> = config.groups.keys().map(String::as_str).collect();
    let what = match names.as_slice() {
        [] => format!("there is no group '{}': add it under [groups]", name.value),
        names => unknown("group", &name.value, names),
    };
    log.note(name.at, what);
    None
}

/// The users that a route is for.
pub(super) fn check_users(draft: &UsersDraft, config: &Config, log: &mut Log<'_>) -> Option<For> {
    let mut checked = |names: &[At<String>]| -> BTreeSet<String> {
        let found = names.iter().filter_map(|name| group(name, config, log)).collect();
        if names.len() > route::GROUPS_MAX {
            let what = format!("a route names {} groups at most", route::GROUPS_MAX);
            log.note(draft.at, format!("{what}: make one of several under [groups]"));
        }
        found
    };
    match (&draft.include, &draft.exclude) {
        (None, None) => None,
        (Some(names), None) => Some(For::Include(checked(names))),
        (None, Some(names)) => Some(For::Exclude(checked(names))),
        (Some(_), Some(_)) => {
            log.note(draft.at, "a route includes groups or excludes some: remove one of the lists");
            None
        }
    }
}

pub(super) fn check_rules(drafts: &[RuleDraft], config: &mut Config, log: &mut Log<'_>) {
    let mut seen = BTreeMap::new();
    for draft in drafts {
        let priority = draft.priority.value;
        for net in draft.from.iter().chain(&draft.to) {
            has_no_host_bits(net, log);
        }
        if let (Some(from), Some(to)) = (&draft.from, &draft.to)
            && IpVersion::of(&from.value.addr) != IpVersion::of(&to.value.addr)
        {
            log.note(to.at, "from and to are of different versions of IP: write two rules");
        }
        if priority == MAIN_PRIORITY {
            let what = format!("{MAIN_PRIORITY} is the main table's: give another priority");
            log.note(draft.priority.at, what);
        }
        if draft.group.is_some() && draft.in_port.is_some() {
            let what = "a packet that is forwarded is of no user: remove group or in_port";
            log.note(draft.at, what);
        }
        let what = format!("the rule with priority {priority}");
        let in_port = draft.in_port.as_ref().and_then(|name| known(name, config, log));
        let rule = Rule {
            from: draft.from.as_ref().map(|net| prefix(net.value)),
            to: draft.to.as_ref().map(|net| prefix(net.value)),
            in_port: in_port.map(str::to_owned),
            mark: draft.mark,
            group: draft.group.as_ref().and_then(|name| group(name, config, log)),
            not: draft.not,
            action: draft.action,
        };
        if is_first(&mut seen, priority, draft.priority.at, &what, log) {
            config.rules.insert(priority, rule);
        }
    }
}

pub(super) fn check_control(draft: ControlDraft, config: &Config, log: &mut Log<'_>) -> Control {
    let At { value: socket, at } = draft.socket;
    if !socket.starts_with('/') || socket.len() > PATH_MAX {
        let what = "give a path from / on, of 107 bytes at most, as \"/run/wirespeed.sock\"";
        log.note(at, format!("socket cannot be '{socket}': {what}"));
    }
    let groups = draft.groups.iter().filter_map(|name| group(name, config, log)).collect();
    Control { socket, groups }
}
