//! `[groups]`, and `[control]`, which names the groups whose users may open sockets in the router.
//! Members of a group are written as in sudoers(5): a user's name, `%GROUP` for all users of a
//! group of this machine, `%100` for the group with that number; a number alone is that of a user.
//!
//! Called by: `config.rs`, and the files whose keys name groups. Limits: [`GROUPS_MAX`].
//! docs/decisions/0084-users-of-a-router.md.

use std::collections::BTreeMap;

use control::Members;
use toml::de::DeValue;

use super::file::{At, Log, Section, Value};
use super::process::Control;
use super::setting::Change;
use crate::applied::ports::State;
use crate::machine::Machine;

/// The most groups of a configuration.
pub const GROUPS_MAX: usize = 1_024;
/// Names of groups are words of a command line.
const NAME_MAX: usize = 32;
/// The longest path of a socket (unix(7)).
const PATH_MAX: usize = 107;

/// Groups by name.
pub(super) type Groups = BTreeMap<String, Members>;

/// `[groups]`: its keys are names.
pub(super) fn read(file: &Section<'_>, machine: &mut Machine) -> Groups {
    let mut groups = Groups::new();
    let Some(section) = file.one("groups", "[groups]") else { return groups };
    let log = section.log;
    for (At { value: name, at }, value) in section.entries() {
        let is_char = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_word = !name.is_empty() && name.chars().all(is_char);
        // A name that is a number would be taken for a user's number.
        if !is_word || name.len() > NAME_MAX || name.parse::<u64>().is_ok() {
            let what = "a group's name has 1 to 32 letters, digits, '-', '_' and '.', and is no \
                        number";
            log.note(at, format!("'{name}' cannot be the name: {what}"));
        }
        let DeValue::Array(all) = value.get_ref() else {
            let what = format!("the group is {}: write a list", value.get_ref().type_str());
            log.note(value.span().start, format!("{what}, as {name} = [\"alice\", 1001]"));
            continue;
        };
        let mut members = Members::default();
        all.iter().for_each(|one| member(&mut members, one, machine, log));
        if groups.len() == GROUPS_MAX {
            log.note(at, format!("there are more than {GROUPS_MAX} groups: remove some"));
        }
        groups.insert(name.to_owned(), members);
    }
    groups
}

fn member(members: &mut Members, one: &Value<'_>, machine: &mut Machine, log: &Log<'_>) {
    let at = one.span().start;
    match one.get_ref() {
        DeValue::Integer(_) => {
            members.uids.extend(log.number::<u32>(
                one,
                "a user's number",
                0..=u32::MAX as usize - 1,
            ));
        }
        DeValue::String(name) => match name.strip_prefix('%') {
            Some(group) => match group.parse().ok().or_else(|| machine.group(group)) {
                Some(gid) => drop(members.gids.insert(gid)),
                None => {
                    let what = "give one of /etc/group, or a number as \"%100\"";
                    log.note(at, format!("this machine has no group '{group}': {what}"));
                }
            },
            None => match machine.user(name) {
                Some(uid) => drop(members.uids.insert(uid)),
                None => {
                    let what = "give one of /etc/passwd, or a number without quotes";
                    log.note(at, format!("this machine has no user '{name}': {what}"));
                }
            },
        },
        other => {
            let what = "write a user as \"alice\" or 1001, a group's users as \"%wheel\"";
            log.note(at, format!("a member is {}: {what}", other.type_str()));
        }
    }
}

/// A group that has to be there.
pub(super) fn named(name: At<&str>, groups: &Groups, log: &Log<'_>) -> Option<String> {
    let At { value: name, at } = name;
    if groups.contains_key(name) {
        return Some(name.to_owned());
    }
    if groups.is_empty() {
        log.note(at, format!("there is no group '{name}': add it under [groups]"));
    } else {
        let names: Vec<&str> = groups.keys().map(String::as_str).collect();
        log.unknown(at, "group", name, &names);
    }
    None
}

/// The socket of `[control]`, whose other keys are for mirrors.
pub(super) fn control(section: &Section<'_>, groups: &Groups) -> Option<Control> {
    let is_needed = section.has("socket") || section.has("groups") || !section.has("mirrors");
    if is_needed {
        section.needed("socket", "\"/run/wirespeed.sock\"");
        section.needed("groups", "[\"staff\"]");
    }
    let names = section.texts("groups").into_iter();
    let groups = names.filter_map(|name| named(name, groups, section.log)).collect();
    let socket = section.text("socket")?.to_owned();
    if !socket.starts_with('/') || socket.len() > PATH_MAX {
        let what = "give a path from / on, of 107 bytes at most, as \"/run/wirespeed.sock\"";
        section.note("socket", format!("socket cannot be '{socket}': {what}"));
    }
    Some(Control { socket, groups })
}

/// The words of the log for a group.
pub(crate) fn words(name: &str, now: Option<&Members>) -> String {
    match now {
        Some(Members { uids, gids }) => {
            format!("group {name}: users {}, groups of the machine {}", uids.len(), gids.len())
        }
        None => format!("group {name}: removed"),
    }
}

/// Set the members of a group.
pub(crate) fn carry_out(name: &str, change: &Change<Members>, state: &mut State) {
    match &change.now {
        Some(members) => state.users.set(name, members),
        None => state.users.remove(name),
    }
}
