//! The compiler's sweep over one field: intervals of its values, and which rules each fits.
//!
//! Called by: `matcher`, once for each field. A rule asks for units: ranges of values, such as a
//! set's, which several rules may share. From one interval to the next the units change that begin
//! or end there. Intervals with the same units share a state, and states that fit the same rules
//! share a class; so the cost of a long set is one step per network, and its memory two classes.

use std::collections::BTreeMap;

use super::TooLarge;

/// Classes that a field may have: their numbers are 16 bits.
const CLASSES_MAX: usize = 1 << 16;
/// States that the sweep may meet.
const STATES_MAX: usize = 1 << 17;

/// What a rule asks of a field.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// Nothing: every value fits.
    All,
    /// No value fits: the rule is of the other version.
    Never,
    /// A value of one of the units, or of none of them.
    Units { units: Vec<u32>, negated: bool },
}

/// The values of a field in intervals.
#[derive(Debug)]
pub(super) struct Intervals<K> {
    /// The first value of each, and its class. The first interval begins at the lowest value;
    /// neighbours differ in class.
    pub(super) begins: Vec<(K, u16)>,
    /// For each class a bit per rule, in words of 64.
    pub(super) rows: Vec<Vec<u64>>,
}

/// Sets of units, each stored once.
struct States {
    bits: Vec<Vec<u64>>,
    known: BTreeMap<Vec<u64>, u32>,
    /// From a state over a unit to the next state.
    steps: BTreeMap<(u32, u32), u32>,
}

impl States {
    fn new(units: usize) -> States {
        let none = vec![0; units.div_ceil(64)];
        let known = BTreeMap::from([(none.clone(), 0)]);
        States { bits: vec![none], known, steps: BTreeMap::new() }
    }

    /// The state in which `unit` has begun or ended.
    fn step(&mut self, state: u32, unit: u32) -> Result<u32, TooLarge> {
        if let Some(&next) = self.steps.get(&(state, unit)) {
            return Ok(next);
        }
        let mut bits = self.bits[state as usize].clone();
        bits[unit as usize / 64] ^= 1 << (unit % 64);
        let next = match self.known.get(&bits) {
            Some(&next) => next,
            None if self.bits.len() >= STATES_MAX => return Err(TooLarge::Classes),
            None => {
                let next = self.bits.len() as u32;
                self.bits.push(bits.clone());
                self.known.insert(bits, next);
                next
            }
        };
        self.steps.insert((state, unit), next);
        Ok(next)
    }

    /// The rules that a value in this state fits.
    fn row(&self, state: u32, wanted: &[Wanted]) -> Vec<u64> {
        let bits = &self.bits[state as usize];
        let mut row = vec![0u64; wanted.len().div_ceil(64)];
        for (rule, wanted) in wanted.iter().enumerate() {
            let fits = match wanted {
                Wanted::All => true,
                Wanted::Never => false,
                Wanted::Units { units, negated } => {
                    let has = |&unit: &u32| bits[unit as usize / 64] >> (unit % 64) & 1 == 1;
                    units.iter().any(has) != *negated
                }
            };
            row[rule / 64] |= u64::from(fits) << (rule % 64);
        }
        row
    }
}

/// The classes of states.
struct Classes<'w> {
    wanted: &'w [Wanted],
    rows: Vec<Vec<u64>>,
    known: BTreeMap<Vec<u64>, u16>,
    of_state: Vec<Option<u16>>,
}

impl Classes<'_> {
    fn of(&mut self, states: &States, state: u32) -> Result<u16, TooLarge> {
        let index = state as usize;
        if self.of_state.len() <= index {
            self.of_state.resize(index + 1, None);
        }
        if let Some(class) = self.of_state[index] {
            return Ok(class);
        }
        let row = states.row(state, self.wanted);
        let class = match self.known.get(&row) {
            Some(&class) => class,
            None if self.rows.len() >= CLASSES_MAX => return Err(TooLarge::Classes),
            None => {
                let class = self.rows.len() as u16;
                self.rows.push(row.clone());
                self.known.insert(row, class);
                class
            }
        };
        self.of_state[index] = Some(class);
        Ok(class)
    }
}

/// The intervals of a field. `units` are ranges in order that do not touch, both ends included;
/// `wanted` has a line for each rule; `after` is the value behind another one. `None` if no rule
/// asks anything of the field.
pub(super) fn sweep<K: Ord + Copy>(
    units: &[&[(K, K)]],
    wanted: &[Wanted],
    lowest: K,
    after: fn(K) -> Option<K>,
) -> Result<Option<Intervals<K>>, TooLarge> {
    if wanted.iter().all(|wanted| matches!(wanted, Wanted::All)) {
        return Ok(None);
    }
    let mut changes: Vec<(K, u32)> = Vec::new();
    for (unit, ranges) in (0u32..).zip(units) {
        for &(first, last) in *ranges {
            changes.push((first, unit));
            changes.extend(after(last).map(|behind| (behind, unit)));
        }
    }
    changes.sort_unstable();
    let mut states = States::new(units.len());
    let (rows, known, of_state) = (Vec::new(), BTreeMap::new(), Vec::new());
    let mut classes = Classes { wanted, rows, known, of_state };
    let mut begins: Vec<(K, u16)> = Vec::new();
    let (mut state, mut at) = (0, lowest);
    for (position, unit) in changes {
        if position != at {
            push(&mut begins, at, classes.of(&states, state)?);
            at = position;
        }
        state = states.step(state, unit)?;
    }
    push(&mut begins, at, classes.of(&states, state)?);
    begins.shrink_to_fit();
    Ok(Some(Intervals { begins, rows: classes.rows }))
}

fn push<K>(begins: &mut Vec<(K, u16)>, at: K, class: u16) {
    if begins.last().is_none_or(|&(_, before)| before != class) {
        begins.push((at, class));
    }
}
