//! The session with the partner of a router: any datagrams, authentic ones with any body among
//! them.
//! Two sessions go on beside them, and states come in order.
//!
//! Called by: the target `pair`. Copies that are read go into a firewall, which keeps its tables as
//! large as they may be and gives everything back.

use std::sync::Arc;

use arbitrary::Unstructured;
use base::{Budget, Duration, Instant, Limit};
use filter::nat::{Shards, Sockets};
use filter::states::{Cursor, Timeouts};
use filter::{Firewall, Published, text};
use statesync::{Event, Key, Session, SessionId};

const STATES: usize = 16;

/// Two sessions and a firewall behind the second one.
struct World {
    sides: [Session; 2],
    firewall: Firewall,
    budget: Budget,
    now: Instant,
    last: u64,
}

fn firewall(budget: &Budget, now: Instant) -> Option<Firewall> {
    let nat = "source out wan from 10.0.0.0/8 to 203.0.113.0/30 filtering independent";
    let source = text::Source { rules: "pass", nat, ..text::Source::default() };
    let ports = [("lan", 0), ("wan", 1)];
    let rules = text::parse(&source, &ports, &|_| Err("no files".into())).ok()?;
    let published: Arc<Published> = Published::compile(rules, Timeouts::default(), 1).ok()?;
    let mut firewall = Firewall::new(published, Shards::ALONE, [1, 2, 3, 4], budget, now);
    firewall.copy(true, budget);
    Some(firewall)
}

impl World {
    fn new() -> Option<World> {
        let now = Instant::from_nanos(1_000_000_000);
        let mut budget = Budget::default();
        budget.set(Limit::FilterStates, STATES);
        budget.set(Limit::NatMappings, STATES);
        let key = Key::new([9; 32]);
        let side = |n: u8| Session::new(&key, SessionId([n; 16]), 600, now);
        let mut world = World {
            sides: [side(1), side(2)],
            firewall: firewall(&budget, now)?,
            budget,
            now,
            last: 0,
        };
        for side in &mut world.sides {
            side.set_ports(&[(0, "lan".to_owned()), (1, "wan".to_owned())]);
        }
        (0..4).for_each(|_| world.talk());
        Some(world)
    }

    fn give(&mut self, datagram: &[u8]) {
        let World { sides, firewall, budget, now, last } = self;
        sides[1].receive(datagram, *now, |event| match event {
            Event::State(copied, version) => {
                assert!(version >= *last, "a state came before another one");
                *last = version;
                let _ = firewall.import(&copied, version, Sockets::NONE, budget, *now);
                assert!(firewall.states().len() <= STATES && firewall.mappings().len() <= STATES);
            }
            Event::Ended(tuple, version) => drop(firewall.end_copy(&tuple, version, *now)),
            Event::AllNamed(versions) => {
                firewall.sweep_copies(Cursor::default(), 64, &versions, *now);
            }
        });
    }

    /// What both have to say.
    fn talk(&mut self) {
        self.now += Duration::from_millis(60);
        while let Some(datagram) = self.sides[0].next_datagram(self.now) {
            self.give(&datagram);
        }
        while let Some(datagram) = self.sides[1].next_datagram(self.now) {
            self.sides[0].receive(&datagram, self.now, |_| {});
        }
        self.firewall.advance(&mut self.budget, self.now);
    }
}

/// A script: a byte for a kind, a byte for a length, that many bytes.
pub fn any_datagram(data: &[u8]) {
    let Some(mut world) = World::new() else { return };
    let mut u = Unstructured::new(data);
    let mut number = 100;
    while !u.is_empty() {
        let (kind, len) = (u.arbitrary::<u8>().unwrap_or(0), u.arbitrary::<u8>().unwrap_or(0));
        let bytes = u.bytes(usize::from(len).min(u.len())).unwrap_or_default();
        match kind % 8 {
            0..=3 => {
                // As the partner would seal it: with the names that both know before states.
                number += 1;
                let kind = kind % 8 + 1;
                let body = if kind == 3 { [&[0, 0, 0, 1], bytes].concat() } else { bytes.to_vec() };
                let at = if kind == 3 { world.sides[1].expected() } else { number };
                if let Some(datagram) = world.sides[0].with_body(kind, at, &body) {
                    world.give(&datagram);
                }
            }
            4 => world.give(bytes),
            _ => world.talk(),
        }
    }
    // All that was imported goes, and nothing is left behind.
    world.firewall.kill_states(Cursor::default(), 64, world.now, |_| true);
    world.now += Duration::from_secs(600);
    for _ in 0..4 {
        world.firewall.advance(&mut world.budget, world.now);
        world.now += Duration::from_secs(2);
    }
    assert_eq!((world.firewall.states().len(), world.firewall.mappings().len()), (0, 0));
}

/// Datagrams with a state each, as a firewall would copy it.
pub fn whole_states() -> Vec<u8> {
    let mut bytes = Vec::new();
    for n in 1..5 {
        // A replied flow of UDP whose source is translated.
        let mut record = vec![1, 0b10_0010, 17, 8];
        record.extend([10, 0, 0, n, 198, 51, 100, 7, 0x10, n, 1, 0xbb]);
        record.extend([198, 51, 100, 7, 203, 0, 113, 1, 1, 0xbb, 0x10, n]);
        record.extend([0, 0, 0, 1, 100, 10, 5, 4, 60, 50]);
        bytes.extend([2, record.len() as u8]);
        bytes.extend(record);
        bytes.extend([7, 0]);
    }
    bytes
}

/// The seed is what it is meant to be.
#[cfg(test)]
pub(crate) fn states_of_seed() -> usize {
    let Some(mut world) = World::new() else { return 0 };
    let seed = whole_states();
    let mut rest = &seed[..];
    while let Some((&[_, len], behind)) = rest.split_first_chunk() {
        let (body, behind) = behind.split_at(usize::from(len));
        rest = behind;
        if body.is_empty() {
            continue;
        }
        let at = world.sides[1].expected();
        let body = [&[0, 0, 0, 1], body].concat();
        let datagram = world.sides[0].with_body(3, at, &body).unwrap_or_default();
        world.give(&datagram);
    }
    world.firewall.states().len()
}
