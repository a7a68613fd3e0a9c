//! Pins: which names the guest's resolver has given for an address, and until when.
//!
//! Called by: `resolving`, which adds them; `fence`, which asks. An address has up to
//! [`NAMES_MAX`] names; the one that ends first makes room. Limit: `gateway_pins`; the address that
//! was pinned longest ago and that no flow uses makes room.

use core::net::IpAddr;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use base::{Budget, Duration, Instant, Limit};
use host::dns::DomainName;

/// Names of an address.
pub const NAMES_MAX: usize = 8;
/// The least time that a pin holds: programs use an answer a little longer than they may.
pub(crate) const LEAST: Duration = Duration::from_secs(60);
/// The most.
pub(crate) const MOST: Duration = Duration::from_secs(86_400);

/// A name with the rules that name it.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) name: DomainName,
    pub(crate) rules: Arc<[u16]>,
}

#[derive(Debug)]
struct Named {
    known: Arc<Known>,
    until: Instant,
}

#[derive(Debug)]
struct Pin {
    /// The last one first.
    names: Vec<Named>,
    /// Flows that a name has allowed and that are not over.
    uses: u32,
    since: Instant,
}

/// All pins.
#[derive(Debug, Default)]
pub struct Pins {
    by_address: HashMap<IpAddr, Pin>,
    /// Those that no flow uses, by age.
    idle: BTreeSet<(Instant, IpAddr)>,
}

impl Pins {
    /// Addresses with pins.
    pub fn len(&self) -> usize {
        self.by_address.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    /// The names of an address, the last one first.
    pub fn names(&self, address: IpAddr, now: Instant) -> impl Iterator<Item = &DomainName> {
        self.known(address, now).map(|known| &known.name)
    }

    pub(crate) fn known(&self, address: IpAddr, now: Instant) -> impl Iterator<Item = &Known> {
        let pin = self.by_address.get(&address);
        pin.into_iter().flat_map(move |pin| {
            let holds = move |named: &&Named| pin.uses > 0 || named.until > now;
            pin.names.iter().filter(holds).map(|named| &*named.known)
        })
    }

    /// An answer has this address for these names; the last of them is the one that was asked.
    pub(crate) fn add(
        &mut self,
        address: IpAddr,
        names: &[Arc<Known>],
        ttl: Duration,
        now: Instant,
        budget: &mut Budget,
    ) {
        if !self.by_address.contains_key(&address) && !self.has_room(budget) {
            return;
        }
        let new = || Pin { names: Vec::new(), uses: 0, since: now };
        let pin = self.by_address.entry(address).or_insert_with(new);
        let until = now + ttl.max(LEAST).min(MOST);
        for known in names {
            let before = pin.names.iter().position(|named| named.known.name == known.name);
            // An answer does not shorten the life of an earlier one.
            let until = before.map_or(until, |at| pin.names.remove(at).until.max(until));
            if pin.names.len() == NAMES_MAX {
                let first = pin.names.iter().enumerate().min_by_key(|(_, named)| named.until);
                let first = first.map_or(0, |(at, _)| at);
                pin.names.remove(first);
            }
            pin.names.insert(0, Named { known: known.clone(), until });
        }
        if pin.uses == 0 {
            self.idle.remove(&(pin.since, address));
            self.idle.insert((now, address));
        }
        pin.since = now;
    }

    fn has_room(&mut self, budget: &mut Budget) -> bool {
        if budget.admits(Limit::GatewayPins, self.by_address.len()) {
            return true;
        }
        let Some((_, oldest)) = self.idle.pop_first() else { return false };
        self.by_address.remove(&oldest);
        true
    }

    /// A flow begins to use the pin of an address; `false` if there is none.
    pub(crate) fn hold(&mut self, address: IpAddr) -> bool {
        let Some(pin) = self.by_address.get_mut(&address) else { return false };
        if pin.uses == 0 {
            self.idle.remove(&(pin.since, address));
        }
        pin.uses = pin.uses.saturating_add(1);
        true
    }

    /// A flow that used the pin is over.
    pub(crate) fn release(&mut self, address: IpAddr) {
        let Some(pin) = self.by_address.get_mut(&address) else { return };
        if pin.uses == 1 {
            self.idle.insert((pin.since, address));
        }
        pin.uses = pin.uses.saturating_sub(1);
    }

    /// The rules have changed.
    pub(crate) fn renumber(&mut self, rules_of: impl Fn(&DomainName) -> Arc<[u16]>) {
        for pin in self.by_address.values_mut() {
            for named in &mut pin.names {
                let name = named.known.name.clone();
                named.known = Arc::new(Known { rules: rules_of(&name), name });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str) -> Arc<Known> {
        let name = DomainName::parse(name).expect("a name");
        Arc::new(Known { name, rules: [].into() })
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn names(pins: &Pins, number: u8, now: u64) -> Vec<String> {
        pins.names(IpAddr::from([192, 0, 2, number]), at(now)).map(ToString::to_string).collect()
    }

    #[test]
    fn a_pin_holds_a_minute_at_least_and_while_a_flow_uses_it() {
        let (mut pins, mut budget) = (Pins::default(), Budget::default());
        let address = IpAddr::from([192, 0, 2, 1]);
        pins.add(address, &[known("a.test"), known("b.test")], secs(5), at(10), &mut budget);
        assert_eq!(names(&pins, 1, 69), ["b.test", "a.test"]);
        assert_eq!(names(&pins, 1, 70), [""; 0]);
        pins.hold(address);
        assert_eq!(names(&pins, 1, 7_000), ["b.test", "a.test"]);
        pins.release(address);
        assert_eq!(names(&pins, 1, 7_000), [""; 0]);
        pins.add(address, &[known("a.test")], secs(1 << 30), at(100), &mut budget);
        pins.add(address, &[known("a.test")], secs(1), at(101), &mut budget);
        assert_eq!(names(&pins, 1, 86_499), ["a.test"]);
        assert_eq!(names(&pins, 1, 86_500), [""; 0]);
    }

    #[test]
    fn the_oldest_without_a_flow_makes_room() {
        let (mut pins, mut budget) = (Pins::default(), Budget::default());
        budget.set(Limit::GatewayPins, 3);
        for number in 1..=3 {
            let address = IpAddr::from([192, 0, 2, number]);
            pins.add(address, &[known("a.test")], secs(600), at(u64::from(number)), &mut budget);
        }
        pins.hold(IpAddr::from([192, 0, 2, 1]));
        let fourth = IpAddr::from([192, 0, 2, 4]);
        pins.add(fourth, &[known("a.test")], secs(600), at(9), &mut budget);
        let left: Vec<u8> = (1..=4).filter(|&n| !names(&pins, n, 10).is_empty()).collect();
        assert_eq!((left, pins.len()), (vec![1, 3, 4], 3));
        for number in [3, 4] {
            pins.hold(IpAddr::from([192, 0, 2, number]));
        }
        pins.add(IpAddr::from([192, 0, 2, 5]), &[known("a.test")], secs(600), at(9), &mut budget);
        assert_eq!((names(&pins, 5, 10).len(), pins.len()), (0, 3));
    }

    #[test]
    fn an_address_has_eight_names() {
        let (mut pins, mut budget) = (Pins::default(), Budget::default());
        let address = IpAddr::from([192, 0, 2, 1]);
        for number in 0..20_u64 {
            let ttl = secs(1_000 + (number * 7) % 20);
            pins.add(address, &[known(&format!("n{number}.test"))], ttl, at(0), &mut budget);
        }
        assert_eq!(names(&pins, 1, 1).len(), NAMES_MAX);
        assert!(names(&pins, 1, 1).contains(&"n19.test".to_owned()), "the last one is there");
    }
}
