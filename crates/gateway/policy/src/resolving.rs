//! Names: which may be asked, and which addresses an answer gives them.
//!
//! Called by: the forwarder of names, as its policy. A name that no rule could allow is not asked
//! upstream, because a question tells its server something. Answers pin their addresses.

use core::net::IpAddr;
use std::sync::Arc;

use host::dns::{Answered, Asked, DomainName, Policy, Verdict, address_of_pointer};

use crate::fence::Fence;
use crate::group::inner;
use crate::pins::{Known, NAMES_MAX};
use crate::rules::{Action, Sni, Target};

impl Fence {
    /// The rule that decides whether a name is asked upstream, and whether it is: `None` is the
    /// default.
    pub fn decide_name(&self, name: &DomainName) -> (bool, Option<u16>) {
        let named = self.compiled.of_name(name);
        let mut numbers: Vec<u16> = named.iter().chain(&self.compiled.open).copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let Some(rule) = self.rule(number) else { continue };
            match rule.action {
                Action::Allow | Action::Ask => return (true, Some(number)),
                Action::Deny if rule.is_about_all() => return (false, Some(number)),
                // Other ports of the name may be allowed.
                Action::Deny => {}
            }
        }
        (self.rules.default != Action::Deny, None)
    }

    /// May the name of an address be asked? If the address has a pin, or a rule is about it.
    fn may_ask_name_of(&self, address: IpAddr) -> bool {
        let has_pin = self.pins.names(address, self.now).next().is_some();
        has_pin || self.rules.default != Action::Deny || self.names_address(address)
    }

    /// Does a rule allow this address by itself, at any port?
    fn names_address(&self, address: IpAddr) -> bool {
        let inside = inner(address).map(IpAddr::V4);
        let has = |target: &Target, address: IpAddr| match target {
            Target::Name(_) => false,
            Target::Network(network) => network.contains(address),
            Target::Set(set) => self.rules.sets.get(*set).is_some_and(|set| set.contains(address)),
            Target::Group(group) => group.set(&self.host).contains(address),
        };
        for rule in &self.rules.rules {
            let is_about = |address: IpAddr| rule.targets.iter().any(|target| has(target, address));
            let decides = match rule.action {
                Action::Deny => {
                    rule.is_about_all() && (is_about(address) || inside.is_some_and(is_about))
                }
                Action::Allow | Action::Ask => is_about(inside.unwrap_or(address)),
            };
            if decides {
                return rule.action != Action::Deny;
            }
        }
        false
    }

    /// May an answer give this address for a name?
    fn may_be_named(&self, address: IpAddr) -> bool {
        let is_public = |address: IpAddr| !self.compiled.not_public.contains(address);
        let address = address.to_canonical();
        let is_plain = match inner(address) {
            Some(inside) => is_public(inside.into()),
            None => is_public(address),
        };
        is_plain || self.names_address(address)
    }

    /// Does a name lead to this one that may be asked?
    fn is_target(&self, name: &DomainName) -> bool {
        self.targets.leading_to(name, self.now).any(|leading| self.decide_name(leading).0)
    }

    fn pin(&mut self, answer: &Answered<'_>) {
        let asked = answer.asked.name;
        // A guest asks for a target because of these names.
        let before: Vec<DomainName> = self.targets.leading_to(asked, self.now).cloned().collect();
        for target in answer.targets {
            for name in before.iter().rev().chain([asked]) {
                self.targets.add(&target.name, name, target.ttl, self.now);
            }
        }
        let named = before.iter().chain([asked]).chain(answer.aliases).take(NAMES_MAX);
        let known = |name: &DomainName| {
            Arc::new(Known { name: name.clone(), rules: self.compiled.of_name(name) })
        };
        let mut names: Vec<Arc<Known>> = named.map(known).collect();
        names.reverse();
        for learned in answer.addresses {
            let address = learned.address.to_canonical();
            self.pins.add(address, &names, learned.ttl, self.now, &mut self.budget);
        }
    }
}

impl Policy for Fence {
    fn question(&mut self, asked: &Asked<'_>) -> Verdict {
        if !self.rules.dns.only_allowed {
            return Verdict::Pass;
        }
        let (may, rule) = match address_of_pointer(asked.name) {
            Some(address) => (self.may_ask_name_of(address), None),
            None => self.decide_name(asked.name),
        };
        if may || rule.is_none() && self.is_target(asked.name) {
            return Verdict::Pass;
        }
        self.counts.names_refused += 1;
        self.write_name(asked.name, rule, "no rule could allow it: not asked".to_owned());
        Verdict::Refuse
    }

    fn answer(&mut self, answer: &Answered<'_>) -> Verdict {
        // The hosts table is the operator's.
        if self.rules.dns.refuses_rebinding && !answer.asked.is_local {
            let wrong = answer.addresses.iter().find(|one| !self.may_be_named(one.address));
            if let Some(wrong) = wrong {
                let why = format!("the answer has {}, which no rule allows", wrong.address);
                self.counts.answers_refused += 1;
                self.write_name(answer.asked.name, None, why);
                return Verdict::Refuse;
            }
        }
        self.pin(answer);
        Verdict::Pass
    }

    fn keeps_ech(&mut self, asked: &Asked<'_>) -> bool {
        let leading = self.targets.leading_to(asked.name, self.now);
        let named = leading.chain([asked.name]).map(|name| self.compiled.of_name(name));
        let numbers: Vec<u16> = named.flat_map(|of_name| of_name.to_vec()).collect();
        let rules = numbers.into_iter().filter_map(|number| self.rule(number));
        let mut allowing = rules.filter(|rule| rule.action != Action::Deny);
        // A name that no rule names may still share an address with one that a rule denies.
        self.compiled.denies_names.is_empty() && allowing.all(|rule| rule.sni == Sni::Ignore)
    }
}
