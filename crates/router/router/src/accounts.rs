//! Users and groups of this machine, by name: the process with privileges asks the system and
//! passes the answers to the other process, which can open no file.
//!
//! Called by: `Config::parse_with`, for the names in `[groups]`; `wirespeed up` passes the answers
//! on. Source: getpwnam(3), getgrnam(3).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Known accounts; by default there are none, and the system is not asked.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Accounts {
    /// Ask the system for accounts that are not known.
    #[serde(skip)]
    asks: bool,
    users: BTreeMap<String, u32>,
    groups: BTreeMap<String, u32>,
}

impl Accounts {
    /// Ask the system, and remember its answers.
    pub fn system() -> Accounts {
        Accounts { asks: true, ..Accounts::default() }
    }

    /// The number of a user; `None`: there is no such user.
    pub fn user(&mut self, name: &str) -> Option<u32> {
        let ask = |name: &str| Some(nix::unistd::User::from_name(name).ok()??.uid.as_raw());
        known(&mut self.users, self.asks, name, ask)
    }

    /// The number of a group; `None`: there is no such group.
    pub fn group(&mut self, name: &str) -> Option<u32> {
        let ask = |name: &str| Some(nix::unistd::Group::from_name(name).ok()??.gid.as_raw());
        known(&mut self.groups, self.asks, name, ask)
    }
}

fn known(
    answers: &mut BTreeMap<String, u32>,
    asks: bool,
    name: &str,
    ask: impl FnOnce(&str) -> Option<u32>,
) -> Option<u32> {
    if let Some(&number) = answers.get(name) {
        return Some(number);
    }
    let number = if asks { ask(name) } else { None }?;
    answers.insert(name.to_owned(), number);
    Some(number)
}
