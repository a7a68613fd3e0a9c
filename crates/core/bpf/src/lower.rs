//! Lowers validated instructions to steps for the interpreter: a load and the comparison after it
//! become one step, and all comparisons become range checks.
//!
//! Called by: `program.rs`. Step n begins at instruction n, also if a pair covers n. So a jump to
//! the second instruction of a pair finds that instruction as a step of its own, and jump targets
//! need no analysis.

use crate::insn::{Condition, Insn, Op, Operand, Size};

/// One step of the interpreter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Two instructions: a load, and a comparison with a constant.
    Pair(Pair),
    /// One instruction.
    One(One),
}

/// A load, and a comparison with a constant: A becomes the value in the packet at `offset`, or at X
/// + `offset`; execution then jumps unless A is in a range.
///
/// A load of any size reads four bytes, if there are as many. A is the upper bits of the four
/// bytes, and the range applies to all of them. So there is one kind of step, without a branch on
/// the size. If A is in the range, execution falls through, which is the common case on the path to
/// a match: the interpreter then knows the next step without reading it from here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) size: Size,
    /// The number of bits below A in the four bytes.
    pub(crate) shift: u8,
    /// The step to go to if A is outside the range.
    pub(crate) jump: u16,
    pub(crate) offset: u32,
    /// All ones if X is added to the offset, else 0.
    pub(crate) x_mask: u32,
    /// The range: A is in it if the four bytes & `mask` are in `first` to `first + span`, modulo
    /// 2^32.
    pub(crate) mask: u32,
    pub(crate) first: u32,
    pub(crate) span: u32,
}

/// A single instruction, with jump targets as step numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct One {
    pub(crate) op: Op,
    /// The target of a jump; for a conditional jump, the target if the condition holds.
    pub(crate) jump: u16,
    /// The target if the condition does not hold.
    pub(crate) otherwise: u16,
    pub(crate) k: u32,
}

const _: () = assert!(size_of::<Step>() <= 28);

/// Lower validated instructions to steps; `ops` are the operations of the instructions.
pub(crate) fn lower(insns: &[Insn], ops: &[Op]) -> Box<[Step]> {
    let step = |at: usize| {
        pair(at, insns, ops).map(Step::Pair).unwrap_or_else(|| {
            // A program has at most 4,096 instructions. A return has no target; 0 stands there and
            // is unused.
            let to = insns[at].followers(ops[at], at).map(|to| to.unwrap_or(0) as u16);
            Step::One(One { op: ops[at], jump: to[0], otherwise: to[1], k: insns[at].k })
        })
    };
    (0..insns.len()).map(step).collect()
}

/// The pair that begins at instruction `at`, if this and the next instruction form one.
fn pair(at: usize, insns: &[Insn], ops: &[Op]) -> Option<Pair> {
    let Some(&Op::Jump(condition, Operand::K)) = ops.get(at + 1) else { return None };
    let (size, x_mask) = match ops[at] {
        Op::LdAbs(size) => (size, 0),
        Op::LdInd(size) => (size, u32::MAX),
        _ => return None,
    };
    let (offset, insn) = (insns[at].k, insns[at + 1]);
    let (goes_on_if_it_holds, jump) = way(at + 1, insn)?;
    let shift = 32 - 8 * size.bytes();
    let (k, all) = (insn.k << shift, u32::MAX << shift);
    // A constant that exceeds the load's size cannot be shifted into the four bytes.
    let is_reached = condition == Condition::Set || k >> shift == insn.k;
    let (mask, first, span) = match condition {
        _ if !is_reached => return None,
        Condition::Eq => (all, k, 0),
        Condition::Ge => (all, k, u32::MAX - k),
        Condition::Gt => (all, k.checked_add(1)?, u32::MAX - 1 - k),
        // A bit in common: the four bytes & the constant are at least 1.
        Condition::Set => (k, 1, u32::MAX - 1),
    };
    let (first, span) = if goes_on_if_it_holds {
        (first, span)
    } else {
        // The complement of the range. If the range is everything, the complement is empty, and
        // there is no pair.
        (first.wrapping_add(span).wrapping_add(1), (u32::MAX - 1).checked_sub(span)?)
    };
    Some(Pair { size, shift: shift as u8, jump, offset, x_mask, mask, first, span })
}

/// Whether a conditional jump falls through if its condition holds (else if it does not hold), and
/// the target in the other case. `None` if it falls through in neither case.
fn way(at: usize, insn: Insn) -> Option<(bool, u16)> {
    // A program has at most 4,096 instructions.
    let to = |skip: u8| (at + 1 + usize::from(skip)) as u16;
    match (insn.jt, insn.jf) {
        (0, jf) => Some((true, to(jf))),
        (jt, 0) => Some((false, to(jt))),
        _ => None,
    }
}
