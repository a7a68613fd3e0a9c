//! The members of each group of `[groups]`, and the number by which the stack knows a group.
//!
//! Called by: the router when groups change; `observe`, which makes owners of sockets.
//! A group that is removed and added again has another number, so that sockets opened before are
//! not in it. docs/decisions/0084.

use std::collections::{BTreeMap, BTreeSet};

use base::Owner;

/// The members of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Users that are members, by user ID.
    pub uids: BTreeSet<u32>,
    /// Members by group: all users of these groups of the machine.
    pub gids: BTreeSet<u32>,
}

/// All groups, by name.
#[derive(Clone, Debug, Default)]
pub struct Users {
    groups: BTreeMap<String, (u32, Members)>,
    /// The number that was given last.
    last: u32,
}

impl Users {
    /// Add a group, or give it other members.
    pub fn set(&mut self, name: &str, members: &Members) {
        if let Some((_, old)) = self.groups.get_mut(name) {
            old.clone_from(members);
            return;
        }
        self.last += 1;
        self.groups.insert(name.to_owned(), (self.last, members.clone()));
    }

    /// Remove a group.
    pub fn remove(&mut self, name: &str) {
        self.groups.remove(name);
    }

    /// The number of a group.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.groups.get(name).map(|(number, _)| *number)
    }

    /// The name of a group.
    pub fn name(&self, number: u32) -> Option<&str> {
        let found = self.groups.iter().find(|(_, (of, _))| *of == number);
        found.map(|(name, _)| name.as_str())
    }

    /// The names of all groups.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.groups.keys().map(String::as_str)
    }

    /// The owner of sockets for a user of this machine: the groups of the machine are replaced by
    /// those of the configuration.
    pub fn owner(&self, peer: &Owner) -> Owner {
        let is_in = |members: &Members| {
            members.uids.contains(&peer.uid) || peer.groups.iter().any(|g| members.gids.contains(g))
        };
        let of = self.groups.values().filter(|(_, members)| is_in(members));
        Owner { uid: peer.uid, groups: of.map(|(number, _)| *number).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(uid: u32, groups: &[u32]) -> Owner {
        Owner { uid, groups: groups.into() }
    }

    #[test]
    fn members_are_users_and_users_of_groups() {
        let mut users = Users::default();
        let staff = Members { uids: [1000].into(), gids: [10].into() };
        users.set("staff", &staff);
        users.set("guests", &Members { uids: [1001].into(), ..Members::default() });
        let (staff_number, guests) = (users.number("staff"), users.number("guests"));
        let groups = |owner: Owner| owner.groups.to_vec();
        assert_eq!(groups(users.owner(&peer(1000, &[100]))), [staff_number.expect("it is there")]);
        assert_eq!(groups(users.owner(&peer(1002, &[100, 10]))).len(), 1);
        // The numbers of the machine's groups have no meaning here.
        let numbers: Vec<u32> = staff_number.into_iter().chain(guests).collect();
        assert!(groups(users.owner(&peer(1003, &numbers))).is_empty());
        assert_eq!(users.name(guests.expect("it is there")), Some("guests"));
    }

    #[test]
    fn a_group_that_comes_again_is_another_one() {
        let mut users = Users::default();
        users.set("staff", &Members::default());
        let first = users.number("staff");
        users.set("staff", &Members { uids: [7].into(), ..Members::default() });
        assert_eq!(users.number("staff"), first, "it stays while its members change");
        users.remove("staff");
        users.set("staff", &Members::default());
        assert_ne!(users.number("staff"), first);
    }
}
