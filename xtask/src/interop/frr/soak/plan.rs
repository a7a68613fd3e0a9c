//! What happens, in which order, and whether the hosts reach each other after it.
//!
//! Called by: `soak.rs`. A seed determines all of it. Events are dealt like cards, so that all
//! kinds come in each few minutes.

use std::fmt;

use crate::interop::soaking::Random;

pub(super) const ROUTERS: [&str; 4] = ["spine1", "spine2", "leaf1", "leaf2"];
/// The cables between routers come first in the plan of the fabric: two of each spine.
pub(super) const CABLES: [&str; 4] =
    ["spine1-leaf1", "spine1-leaf2", "spine2-leaf1", "spine2-leaf2"];
/// Cables that are cut at a time.
const CUTS_MAX: usize = 2;

/// A thing that happens to both networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A cable loses its carrier.
    Cut(usize),
    /// A cable loses all frames.
    Silence(usize),
    /// A cable is whole again, which had lost its carrier, or else all frames.
    Repair { cable: usize, had_carrier: bool },
    /// bgpd is killed and comes back.
    Bgpd(usize),
    /// zebra is killed, and comes back with bgpd.
    Zebra(usize),
    /// The process with our stack is killed.
    Worker(usize),
    /// All processes of a router are killed.
    Router(usize),
    /// The router reads its file again, with a route more or with one less.
    Reload { router: usize, has_more: bool },
    /// bgpd announces a further network, or withdraws it.
    Announce { router: usize, is_withdrawn: bool },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cable = |n: usize| CABLES.get(n).copied().unwrap_or("?");
        let at = |n: usize| ROUTERS.get(n).copied().unwrap_or("?");
        match *self {
            Event::Cut(n) => write!(f, "{} loses its carrier", cable(n)),
            Event::Silence(n) => write!(f, "{} loses all frames", cable(n)),
            Event::Repair { cable: n, .. } => write!(f, "{} is whole again", cable(n)),
            Event::Bgpd(n) => write!(f, "bgpd of {} is killed", at(n)),
            Event::Zebra(n) => write!(f, "zebra of {} is killed", at(n)),
            Event::Worker(n) => write!(f, "the worker of {} is killed", at(n)),
            Event::Router(n) => write!(f, "all of {} is killed", at(n)),
            Event::Reload { router, .. } => write!(f, "{} reads its file again", at(router)),
            Event::Announce { router, is_withdrawn: false } => {
                write!(f, "{} announces a network", at(router))
            }
            Event::Announce { router, .. } => write!(f, "{} withdraws a network", at(router)),
        }
    }
}

/// A kind of event.
#[derive(Clone, Copy)]
enum Card {
    Carrier,
    Silence,
    Bgpd,
    Zebra,
    Worker,
    Router,
    Reload,
    Announce,
}

const DECK: [Card; 14] = [
    Card::Carrier,
    Card::Carrier,
    Card::Carrier,
    Card::Silence,
    Card::Silence,
    Card::Silence,
    Card::Bgpd,
    Card::Zebra,
    Card::Worker,
    Card::Router,
    Card::Reload,
    Card::Reload,
    Card::Announce,
    Card::Announce,
];

/// The state of the networks.
#[derive(Default)]
pub(super) struct Plan {
    deck: Vec<Card>,
    /// Cables that are cut, and whether they have a carrier.
    cuts: Vec<(usize, bool)>,
    has_more: [bool; 4],
    announces: [bool; 4],
}

impl Plan {
    /// The next event.
    pub(super) fn next(&mut self, random: &mut Random) -> Event {
        if self.deck.is_empty() {
            self.deck.extend(DECK);
        }
        let card = self.deck.swap_remove(random.below(self.deck.len() as u64) as usize);
        let n = random.below(4) as usize;
        match card {
            Card::Carrier => self.cable(n, false),
            Card::Silence => self.cable(n, true),
            Card::Bgpd => Event::Bgpd(n),
            Card::Zebra => Event::Zebra(n),
            Card::Worker => Event::Worker(n),
            Card::Router => {
                // What was said to bgpd is not in its file.
                self.announces[n] = false;
                Event::Router(n)
            }
            Card::Reload => {
                self.has_more[n] = !self.has_more[n];
                Event::Reload { router: n, has_more: self.has_more[n] }
            }
            Card::Announce => {
                let is_withdrawn = self.announces[n];
                self.announces[n] = !is_withdrawn;
                Event::Announce { router: n, is_withdrawn }
            }
        }
    }

    fn cable(&mut self, n: usize, has_carrier: bool) -> Event {
        let at = self.cuts.iter().position(|(cable, _)| *cable == n);
        match at.or((self.cuts.len() >= CUTS_MAX).then_some(0)) {
            Some(at) => self.repaired(at),
            None => {
                self.cuts.push((n, has_carrier));
                if has_carrier { Event::Silence(n) } else { Event::Cut(n) }
            }
        }
    }

    fn repaired(&mut self, at: usize) -> Event {
        let (cable, had_carrier) = self.cuts.remove(at);
        Event::Repair { cable, had_carrier }
    }

    /// The repair of a cable, while one is cut.
    pub(super) fn repair(&mut self) -> Option<Event> {
        (!self.cuts.is_empty()).then(|| self.repaired(0))
    }

    /// A daemon that was killed has its file alone.
    pub(super) fn forget(&mut self, router: usize) {
        self.announces[router] = false;
    }

    /// Does a router announce a network of its own?
    pub(super) fn announces(&self, router: usize) -> bool {
        self.announces[router]
    }

    pub(super) fn is_whole(&self, n: usize) -> bool {
        self.cuts.iter().all(|(cable, _)| *cable != n)
    }

    /// Is there a path between the hosts?
    pub(super) fn leads(&self) -> bool {
        self.is_whole(0) && self.is_whole(1) || self.is_whole(2) && self.is_whole(3)
    }

    /// These cables have no carrier.
    #[cfg(test)]
    pub(super) fn of_cuts(cables: &[usize]) -> Plan {
        let cuts = cables.iter().map(|cable| (*cable, false)).collect();
        Plan { cuts, ..Plan::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_all_and_each_kind_comes() {
        let events = |seed| {
            let (mut plan, mut random) = (Plan::default(), Random::new(seed));
            let all: Vec<Event> = (0..DECK.len()).map(|_| plan.next(&mut random)).collect();
            all
        };
        assert_eq!(events(7), events(7));
        assert_ne!(events(7), events(8));
        for seed in 0..20 {
            let all = events(seed);
            let has = |is: fn(&Event) -> bool| all.iter().any(is);
            assert!(has(|e| matches!(e, Event::Zebra(_))), "{all:?}");
            assert!(has(|e| matches!(e, Event::Worker(_))), "{all:?}");
            assert!(has(|e| matches!(e, Event::Cut(_) | Event::Silence(_))), "{all:?}");
        }
    }

    #[test]
    fn hosts_reach_each_other_by_either_spine() {
        let cut = Plan::of_cuts;
        assert!(cut(&[]).leads() && cut(&[0]).leads() && cut(&[2, 3]).leads());
        assert!(!cut(&[0, 3]).leads() && !cut(&[1, 2]).leads());
        let mut plan = cut(&[0, 3]);
        assert_eq!(plan.repair(), Some(Event::Repair { cable: 0, had_carrier: false }));
        assert!(plan.leads() && plan.repair().is_some() && plan.repair().is_none());
    }
}
