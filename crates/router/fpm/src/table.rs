//! Nexthops and groups by their numbers.
//!
//! Called by: `session.rs`. A group may come before its members, and a route may name a number long
//! after the number was sent, so nothing is forgotten because nothing uses it; a sweep after a
//! reconnect forgets the numbers that were not sent again. Limits: [`Limit::Nexthops`],
//! [`Limit::AllMembers`].

use std::collections::{BTreeMap, BTreeSet};

use crate::change::{Change, Hop, Reachable};
use crate::counts::Limit;
use crate::nexthop::{Member, Nexthop};

#[derive(Debug)]
struct Row {
    what: What,
    /// The session in which it was sent last.
    session: u32,
}

#[derive(Debug)]
enum What {
    One(Reachable),
    Group(Box<[Member]>),
    /// Known, and of no use.
    Useless,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: BTreeMap<u32, Row>,
    /// The groups that name a member: member and group.
    named: BTreeSet<(u32, u32)>,
    /// Members of all groups, those that a group names twice counted twice.
    members: usize,
    /// Numbers whose next hops may have changed since the last flush.
    changed: BTreeSet<u32>,
    session: u32,
}

impl Table {
    /// A session begins: the numbers of it are told from those before.
    pub(crate) fn begin(&mut self) {
        self.session = self.session.wrapping_add(1);
    }

    /// Set what a number stands for.
    ///
    /// # Errors
    /// The limit that it would exceed; nothing has changed.
    pub(crate) fn set(&mut self, id: u32, nexthop: Nexthop) -> Result<(), Limit> {
        if !self.rows.contains_key(&id) && self.rows.len() >= Limit::Nexthops.most() {
            return Err(Limit::Nexthops);
        }
        let what = match nexthop {
            Nexthop::One(reachable) => What::One(reachable),
            Nexthop::Group(members) => {
                let others = self.members - self.members_of(id).len();
                if others + members.len() > Limit::AllMembers.most() {
                    return Err(Limit::AllMembers);
                }
                What::Group(members)
            }
            Nexthop::Encapsulated(_) | Nexthop::Limited(_) | Nexthop::Unsupported => What::Useless,
        };
        self.forget_members(id);
        if let What::Group(members) = &what {
            self.members += members.len();
            self.named.extend(members.iter().map(|member| (member.id, id)));
        }
        self.rows.insert(id, Row { what, session: self.session });
        self.note_change(id);
        Ok(())
    }

    /// A number is not in use any more.
    pub(crate) fn remove(&mut self, id: u32) {
        self.forget_members(id);
        if self.rows.remove(&id).is_some() {
            self.note_change(id);
        }
    }

    /// Remove the numbers that this session has not sent; returns how many.
    pub(crate) fn sweep(&mut self) -> usize {
        let old = self.rows.iter().filter(|(_, row)| row.session != self.session);
        let old: Vec<u32> = old.map(|(&id, _)| id).collect();
        old.iter().for_each(|&id| self.remove(id));
        old.len()
    }

    /// The number of numbers.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    fn members_of(&self, id: u32) -> &[Member] {
        match self.rows.get(&id) {
            Some(Row { what: What::Group(members), .. }) => members,
            _ => &[],
        }
    }

    fn forget_members(&mut self, id: u32) {
        if let Some(Row { what: What::Group(members), .. }) = self.rows.get(&id) {
            self.members -= members.len();
            for member in members {
                self.named.remove(&(member.id, id));
            }
        }
    }

    fn note_change(&mut self, id: u32) {
        self.changed.insert(id);
    }

    /// Give away the changes since the last call. A change of a member is one of its groups.
    pub(crate) fn flush(&mut self, out: &mut impl FnMut(Change)) {
        let mut changed = core::mem::take(&mut self.changed);
        let groups: Vec<u32> = changed
            .iter()
            .flat_map(|&id| self.named.range((id, 0)..=(id, u32::MAX)))
            .map(|&(_, group)| group)
            .collect();
        changed.extend(groups);
        for id in changed {
            out(Change::NextHops { id, to: self.reachable(id) });
        }
    }

    /// The next hops of a number; `None`: it is unknown.
    pub(crate) fn reachable(&self, id: u32) -> Option<Reachable> {
        match &self.rows.get(&id)?.what {
            What::One(reachable) => Some(reachable.clone()),
            What::Group(members) => Some(self.joined(members)),
            What::Useless => Some(Reachable::Hops(Vec::new())),
        }
    }

    /// The next hops of members that are known. A group in a group has none: the kernel refuses
    /// those, and zebra sends none.
    fn joined(&self, members: &[Member]) -> Reachable {
        let mut hops = Vec::with_capacity(members.len());
        let mut discard = None;
        for member in members {
            match self.rows.get(&member.id).map(|row| &row.what) {
                Some(What::One(Reachable::Hops(of_member))) => {
                    hops.extend(of_member.iter().map(|hop| Hop { weight: member.weight, ..*hop }));
                }
                Some(What::One(Reachable::Discard(how))) => discard = Some(*how),
                _ => {}
            }
        }
        match discard {
            Some(how) if hops.is_empty() => Reachable::Discard(how),
            _ => Reachable::Hops(hops),
        }
    }
}
