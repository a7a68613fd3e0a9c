//! Any operations, against a map of all candidates from which everything is computed anew.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::{Best, Dest, Next, Offer, Origin, Rib};

#[derive(Clone, Debug)]
enum Step {
    Set(usize, usize, Next<u32>, u32),
    Remove(usize, usize),
    Id(usize, u32, Option<u32>),
    Begin(usize),
    Sweep(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let next = prop_oneof![(0..4u32).prop_map(Next::Id), (0..4u32).prop_map(Next::These)];
    let origin = 1..6usize;
    prop_oneof![
        6 => (origin.clone(), 0..8usize, next, 0..3u32)
            .prop_map(|(origin, dest, next, metric)| Step::Set(origin, dest, next, metric)),
        3 => (origin.clone(), 0..8usize).prop_map(|(origin, dest)| Step::Remove(origin, dest)),
        3 => (origin.clone(), 0..4u32, proptest::option::of(0..4u32))
            .prop_map(|(origin, id, to)| Step::Id(origin, id, to)),
        1 => origin.clone().prop_map(Step::Begin),
        1 => origin.prop_map(Step::Sweep),
    ]
}

fn dest(number: usize) -> Dest {
    let prefixes = ["10.0.0.0/8", "10.0.0.0/16", "::/0", "2001:db8::/32"];
    let prefix = prefixes[number % 4].parse().expect("a prefix");
    Dest { table: if number < 4 { 254 } else { 100 }, prefix }
}

type Row = (Next<u32>, u32, usize);

/// All candidates, without any sharing.
#[derive(Default)]
struct Plain {
    rows: BTreeMap<(usize, Origin), Row>,
    ids: BTreeMap<(Origin, u32), u32>,
    sessions: BTreeMap<Origin, usize>,
    /// Tables named since the last session of an origin began.
    named: BTreeMap<Origin, Vec<u32>>,
}

impl Plain {
    fn best(&self, number: usize) -> Option<u32> {
        let of_dest = self.rows.iter().filter(|((n, _), _)| *n == number);
        let usable = of_dest.filter_map(|((_, origin), (next, metric, _))| {
            let content = match next {
                Next::Id(id) => *self.ids.get(&(*origin, *id))?,
                Next::These(content) => *content,
            };
            Some(((origin.distance(), *metric, *origin), content))
        });
        usable.min_by_key(|(rank, _)| *rank).map(|(_, content)| content)
    }

    fn session(&self, origin: Origin) -> usize {
        self.sessions.get(&origin).copied().unwrap_or(0)
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Set(origin, number, next, metric) => {
                let origin = Origin::ALL[origin];
                let session = self.session(origin);
                self.rows.insert((number, origin), (next, metric, session));
                self.named.entry(origin).or_default().push(dest(number).table);
            }
            Step::Remove(origin, number) => {
                let origin = Origin::ALL[origin];
                self.rows.remove(&(number, origin));
                self.named.entry(origin).or_default().push(dest(number).table);
            }
            Step::Id(origin, id, Some(to)) => drop(self.ids.insert((Origin::ALL[origin], id), to)),
            Step::Id(origin, id, None) => drop(self.ids.remove(&(Origin::ALL[origin], id))),
            Step::Begin(origin) => {
                *self.sessions.entry(Origin::ALL[origin]).or_default() += 1;
                self.named.insert(Origin::ALL[origin], vec![254]);
            }
            Step::Sweep(origin) => {
                let origin = Origin::ALL[origin];
                let (session, named) = (self.session(origin), self.named.get(&origin));
                let named = named.cloned().unwrap_or_default();
                self.rows.retain(|(number, of), (_, _, sent)| {
                    *of != origin || *sent == session || !named.contains(&dest(*number).table)
                });
            }
        }
    }
}

proptest! {
    #[test]
    fn any_steps_leave_what_a_plain_map_says(steps in proptest::collection::vec(step(), 0..80)) {
        let (mut rib, mut plain) = (Rib::new(1_000), Plain::default());
        let mut fib: BTreeMap<(u32, String), u32> = BTreeMap::new();
        for step in steps {
            let out = &mut |dest: Dest, to: Option<Best<'_, u32>>| {
                let key = (dest.table, dest.prefix.to_string());
                match to {
                    Some(best) => drop(fib.insert(key, *best.next)),
                    None => drop(fib.remove(&key)),
                }
            };
            match step.clone() {
                Step::Set(origin, number, next, metric) => {
                    let offer = Offer { next, metric, protocol: 4, at_s: 0 };
                    let set = rib.set(Origin::ALL[origin], dest(number), offer, out);
                    prop_assert!(set.is_ok());
                }
                Step::Remove(origin, number) => {
                    rib.remove(Origin::ALL[origin], dest(number), out);
                }
                Step::Id(origin, id, to) => drop(rib.set_id(Origin::ALL[origin], id, to)),
                Step::Begin(origin) => rib.begin(Origin::ALL[origin]),
                Step::Sweep(origin) => while rib.sweep(Origin::ALL[origin], 3, out).is_none() {},
            }
            while !rib.refresh(2, out) {}
            plain.take(step);
            for number in 0..8 {
                let (dest, best) = (dest(number), plain.best(number));
                let key = (dest.table, dest.prefix.to_string());
                prop_assert_eq!(rib.best(dest).copied(), best, "{:?}", dest);
                prop_assert_eq!(fib.get(&key).copied(), best, "{:?}", dest);
            }
            prop_assert_eq!(rib.len(), plain.rows.len());
        }
    }
}
