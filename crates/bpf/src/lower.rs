//! Checked instructions as the interpreter wants them: a load and the comparison behind it are one
//! step, and all comparisons are one kind.
//!
//! Called by: `program.rs`. Step n begins where instruction n does, so that a jump into the middle
//! of a pair finds the second half still there, and jump targets need no analysis.

use crate::insn::{Condition, Insn, Op, Operand, Size};

/// What the interpreter does at once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Two instructions: a load, and a comparison with a constant.
    Pair(Pair),
    /// One instruction.
    One(One),
}

/// A load, and a comparison with a constant: A = packet at `offset`, or at X + `offset`; then a
/// jump unless A is in a range.
///
/// Whatever the size of the load, four bytes are taken where there are as many, and the range is
/// one of what they make: A is their upper end. So there is one kind of step, and nothing to
/// choose. The way to a match is mostly without jumps: the next step is the next one, whose place
/// the interpreter knows without reading it from here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) size: Size,
    /// Bits of the four bytes below A.
    pub(crate) shift: u8,
    /// The step to go to from outside the range.
    pub(crate) jump: u16,
    pub(crate) offset: u32,
    /// All ones if X is added to the offset, else 0.
    pub(crate) x_mask: u32,
    /// The range: the four bytes & mask are `first` to `first + span`, on the circle of 2^32.
    pub(crate) mask: u32,
    pub(crate) first: u32,
    pub(crate) span: u32,
}

/// An instruction with its targets made wide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct One {
    pub(crate) op: Op,
    /// The step that a jump leads to; if it is conditional, where it holds.
    pub(crate) jump: u16,
    /// Where it does not hold.
    pub(crate) otherwise: u16,
    pub(crate) k: u32,
}

const _: () = assert!(size_of::<Step>() <= 28);

/// Steps of instructions that were checked; `ops` says what each does.
pub(crate) fn lower(insns: &[Insn], ops: &[Op]) -> Box<[Step]> {
    let step = |at: usize| {
        pair(at, insns, ops).map(Step::Pair).unwrap_or_else(|| {
            // A program has 4096 instructions at most; what returns goes nowhere.
            let to = insns[at].followers(ops[at], at).map(|to| to.unwrap_or(0) as u16);
            Step::One(One { op: ops[at], jump: to[0], otherwise: to[1], k: insns[at].k })
        })
    };
    (0..insns.len()).map(step).collect()
}

/// The pair that begins at an instruction, if there is one.
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
    // A constant that no A reaches has no place among four bytes.
    let is_reached = condition == Condition::Set || k >> shift == insn.k;
    let (mask, first, span) = match condition {
        _ if !is_reached => return None,
        Condition::Eq => (all, k, 0),
        Condition::Ge => (all, k, u32::MAX - k),
        Condition::Gt => (all, k.checked_add(1)?, u32::MAX - 1 - k),
        // From 1 up.
        Condition::Set => (k, 1, u32::MAX - 1),
    };
    let (first, span) = if goes_on_if_it_holds {
        (first, span)
    } else {
        // The other side of the circle; there is none if this side is all of it.
        (first.wrapping_add(span).wrapping_add(1), (u32::MAX - 1).checked_sub(span)?)
    };
    Some(Pair { size, shift: shift as u8, jump, offset, x_mask, mask, first, span })
}

/// Does a conditional jump go on to the next instruction if the condition holds, and where does it
/// go otherwise? None if neither goes on.
fn way(at: usize, insn: Insn) -> Option<(bool, u16)> {
    // A program has 4096 instructions at most.
    let to = |skip: u8| (at + 1 + usize::from(skip)) as u16;
    match (insn.jt, insn.jf) {
        (0, jf) => Some((true, to(jf))),
        (jt, 0) => Some((false, to(jt))),
        _ => None,
    }
}
