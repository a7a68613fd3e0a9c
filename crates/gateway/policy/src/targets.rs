//! Targets: hosts that HTTPS and SVCB records name for the services of other names (RFC 9460
//! section 2.5). A client asks for a target as for the end of an alias, but in a question of its
//! own.
//!
//! Called by: `resolving`. A target may be asked if a name may that leads to it, and its addresses
//! are pinned for this name, too. Limits: [`TARGETS_MAX`] targets, the one that ends first makes
//! room; [`NAMES_MAX`] names of each.

use std::collections::HashMap;

use base::{Duration, Instant};
use host::dns::DomainName;

use crate::pins::{LEAST, MOST, NAMES_MAX};

/// Targets that are remembered.
const TARGETS_MAX: usize = 1_024;

/// All targets, each with the names that lead to it.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    by_name: HashMap<DomainName, Vec<(DomainName, Instant)>>,
}

impl Targets {
    /// The names that lead to this one, the last one first.
    pub(crate) fn leading_to(
        &self,
        name: &DomainName,
        now: Instant,
    ) -> impl Iterator<Item = &DomainName> {
        let known = self.by_name.get(name).into_iter().flatten();
        known.filter(move |(_, until)| *until > now).map(|(name, _)| name)
    }

    /// An answer says that `name` leads to `target`.
    pub(crate) fn add(
        &mut self,
        target: &DomainName,
        name: &DomainName,
        ttl: Duration,
        now: Instant,
    ) {
        if target == name {
            return;
        }
        if !self.by_name.contains_key(target) && self.by_name.len() >= TARGETS_MAX {
            self.make_room();
        }
        let mut until = now + ttl.max(LEAST).min(MOST);
        let names = self.by_name.entry(target.clone()).or_default();
        if let Some(before) = names.iter().position(|(known, _)| known == name) {
            // An answer does not shorten the life of an earlier one.
            until = names.remove(before).1.max(until);
        }
        names.insert(0, (name.clone(), until));
        names.truncate(NAMES_MAX);
    }

    fn make_room(&mut self) {
        let last = |names: &[(DomainName, Instant)]| names.iter().map(|(_, until)| *until).max();
        let first = self.by_name.iter().min_by_key(|(_, names)| last(names));
        if let Some(first) = first.map(|(target, _)| target.clone()) {
            self.by_name.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> DomainName {
        DomainName::parse(text).expect("a name")
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn leading(targets: &Targets, to: &str, now: u64) -> Vec<String> {
        targets.leading_to(&name(to), at(now)).map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_leads_to_its_target_for_a_minute_at_least() {
        let mut targets = Targets::default();
        let second = Duration::from_secs(1);
        targets.add(&name("cdn.test"), &name("a.test"), second, at(10));
        targets.add(&name("cdn.test"), &name("b.test"), second, at(20));
        targets.add(&name("a.test"), &name("a.test"), second, at(20));
        assert_eq!(leading(&targets, "cdn.test", 69), ["b.test", "a.test"]);
        assert_eq!(leading(&targets, "cdn.test", 70), ["b.test"]);
        assert_eq!(leading(&targets, "a.test", 20), [""; 0]);
    }

    #[test]
    fn targets_and_their_names_have_limits() {
        let mut targets = Targets::default();
        let hour = Duration::from_secs(3_600);
        for number in 0..20 {
            targets.add(&name("cdn.test"), &name(&format!("n{number}.test")), hour, at(0));
        }
        assert_eq!(leading(&targets, "cdn.test", 1).len(), NAMES_MAX);
        for number in 0..2_000 {
            let target = name(&format!("t{number}.test"));
            targets.add(&target, &name("a.test"), hour, at(1 + number));
        }
        assert_eq!(targets.by_name.len(), TARGETS_MAX);
        assert_eq!(leading(&targets, "cdn.test", 1), [""; 0], "it ends first");
        assert_eq!(leading(&targets, "t1999.test", 1), ["a.test"]);
    }
}
