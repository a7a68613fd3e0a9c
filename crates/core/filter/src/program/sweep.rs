//! The compiler's sweep over one field: intervals of its values, and which rules each fits.
//!
//! Called by: `matcher`, once for each field. A rule asks for operands: ranges of values, such as a
//! set's, which several rules may share. From one interval to the next the operands change that
//! begin or end there. Intervals with the same operands share a combination, and combinations that
//! fit the same rules share a class; so the cost of a long set is one step per network, and its
//! memory two classes.

use std::collections::BTreeMap;

use super::TooLarge;

/// Classes that a field may have: their numbers are 16 bits.
const CLASSES_MAX: usize = 1 << 16;
/// Combinations that the sweep may meet.
const COMBINATIONS_MAX: usize = 1 << 17;

/// What a rule asks of a field.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// Nothing: every value fits.
    All,
    /// No value fits: the rule is of the other version.
    Never,
    /// A value of one of the operands, or of none of them.
    Operands { operands: Vec<u32>, negated: bool },
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

/// Sets of operands, each stored once.
struct Combinations {
    bits: Vec<Vec<u64>>,
    known: BTreeMap<Vec<u64>, u32>,
    /// From a combination over an operand to the next combination.
    steps: BTreeMap<(u32, u32), u32>,
}

impl Combinations {
    fn new(operands: usize) -> Combinations {
        let none = vec![0; operands.div_ceil(64)];
        let known = BTreeMap::from([(none.clone(), 0)]);
        Combinations { bits: vec![none], known, steps: BTreeMap::new() }
    }

    /// The combination in which `operand` has begun or ended.
    fn step(&mut self, combination: u32, operand: u32) -> Result<u32, TooLarge> {
        if let Some(&next) = self.steps.get(&(combination, operand)) {
            return Ok(next);
        }
        let mut bits = self.bits[combination as usize].clone();
        bits[operand as usize / 64] ^= 1 << (operand % 64);
        let next = match self.known.get(&bits) {
            Some(&next) => next,
            None if self.bits.len() >= COMBINATIONS_MAX => return Err(TooLarge::Classes),
            None => {
                let next = self.bits.len() as u32;
                self.bits.push(bits.clone());
                self.known.insert(bits, next);
                next
            }
        };
        self.steps.insert((combination, operand), next);
        Ok(next)
    }

    /// The rules that a value in this combination fits.
    fn row(&self, combination: u32, wanted: &[Wanted]) -> Vec<u64> {
        let bits = &self.bits[combination as usize];
        let mut row = vec![0u64; wanted.len().div_ceil(64)];
        for (rule, wanted) in wanted.iter().enumerate() {
            let fits = match wanted {
                Wanted::All => true,
                Wanted::Never => false,
                Wanted::Operands { operands, negated } => {
                    let has =
                        |&operand: &u32| bits[operand as usize / 64] >> (operand % 64) & 1 == 1;
                    operands.iter().any(has) != *negated
                }
            };
            row[rule / 64] |= u64::from(fits) << (rule % 64);
        }
        row
    }
}

/// The classes of combinations.
struct Classes<'w> {
    wanted: &'w [Wanted],
    rows: Vec<Vec<u64>>,
    known: BTreeMap<Vec<u64>, u16>,
    of_combination: Vec<Option<u16>>,
}

impl Classes<'_> {
    fn of(&mut self, combinations: &Combinations, combination: u32) -> Result<u16, TooLarge> {
        let index = combination as usize;
        if self.of_combination.len() <= index {
            self.of_combination.resize(index + 1, None);
        }
        if let Some(class) = self.of_combination[index] {
            return Ok(class);
        }
        let row = combinations.row(combination, self.wanted);
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
        self.of_combination[index] = Some(class);
        Ok(class)
    }
}

/// The intervals of a field. `operands` are ranges in order that do not touch, both ends included;
/// `wanted` has a line for each rule; `after` is the value behind another one. `None` if no rule
/// asks anything of the field.
pub(super) fn sweep<K: Ord + Copy>(
    operands: &[&[(K, K)]],
    wanted: &[Wanted],
    lowest: K,
    after: fn(K) -> Option<K>,
) -> Result<Option<Intervals<K>>, TooLarge> {
    if wanted.iter().all(|wanted| matches!(wanted, Wanted::All)) {
        return Ok(None);
    }
    let mut changes: Vec<(K, u32)> = Vec::new();
    for (operand, ranges) in (0u32..).zip(operands) {
        for &(first, last) in *ranges {
            changes.push((first, operand));
            changes.extend(after(last).map(|behind| (behind, operand)));
        }
    }
    changes.sort_unstable();
    let mut combinations = Combinations::new(operands.len());
    let (rows, known, of_combination) = (Vec::new(), BTreeMap::new(), Vec::new());
    let mut classes = Classes { wanted, rows, known, of_combination };
    let mut begins: Vec<(K, u16)> = Vec::new();
    let (mut combination, mut at) = (0, lowest);
    for (position, operand) in changes {
        if position != at {
            push(&mut begins, at, classes.of(&combinations, combination)?);
            at = position;
        }
        combination = combinations.step(combination, operand)?;
    }
    push(&mut begins, at, classes.of(&combinations, combination)?);
    begins.shrink_to_fit();
    Ok(Some(Intervals { begins, rows: classes.rows }))
}

fn push<K>(begins: &mut Vec<(K, u16)>, at: K, class: u16) {
    if begins.last().is_none_or(|&(_, before)| before != class) {
        begins.push((at, class));
    }
}
