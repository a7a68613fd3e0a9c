//! Checked instructions as the interpreter wants them: wide targets, and a load with the
//! comparison behind it as one step.
//!
//! Called by: `validate.rs`. Step n begins where instruction n does, so that a jump into the middle
//! of a fused pair finds the second half still there, and nobody has to ask who jumps where.

use crate::insn::{AluOp, Condition, Insn, Op, Operand, Size};
use crate::validate::followers;

/// What a step does. The names are those of [`Op`]; a pair is its two names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    WordEq,
    HalfEq,
    ByteEq,
    WordSet,
    HalfSet,
    ByteSet,
    WordIndEq,
    HalfIndEq,
    ByteIndEq,
    LdAbs(Size),
    LdInd(Size),
    LdLen,
    LdImm,
    LdMem,
    LdxLen,
    LdxImm,
    LdxMem,
    LdxMsh,
    St,
    Stx,
    Alu(AluOp, Operand),
    Neg,
    Ja,
    Jump(Condition, Operand),
    RetK,
    RetA,
    Tax,
    Txa,
}

/// One step: 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) code: Code,
    /// The next step; where a condition holds, for a jump.
    pub(crate) jt: u16,
    /// The next step where it does not.
    pub(crate) jf: u16,
    /// The offset of a load that is one half of a pair.
    pub(crate) offset: u32,
    /// The constant; in a pair that of the comparison.
    pub(crate) k: u32,
}

const _: () = assert!(size_of::<Step>() <= 16);

/// Steps of instructions that were checked; `ops` says what each does.
pub(crate) fn lower(insns: &[Insn], ops: &[Op]) -> Box<[Step]> {
    let step = |at: usize| {
        pair(at, insns, ops).unwrap_or_else(|| {
            let (jt, jf) = targets(at, insns[at], ops[at]);
            Step { code: alone(ops[at]), jt, jf, offset: 0, k: insns[at].k }
        })
    };
    (0..insns.len()).map(step).collect()
}

/// A load and the comparison behind it in one.
fn pair(at: usize, insns: &[Insn], ops: &[Op]) -> Option<Step> {
    let Some(Op::Jump(condition, Operand::K)) = ops.get(at + 1) else { return None };
    let code = match (ops[at], condition) {
        (Op::LdAbs(Size::Word), Condition::Eq) => Code::WordEq,
        (Op::LdAbs(Size::Half), Condition::Eq) => Code::HalfEq,
        (Op::LdAbs(Size::Byte), Condition::Eq) => Code::ByteEq,
        (Op::LdAbs(Size::Word), Condition::Set) => Code::WordSet,
        (Op::LdAbs(Size::Half), Condition::Set) => Code::HalfSet,
        (Op::LdAbs(Size::Byte), Condition::Set) => Code::ByteSet,
        (Op::LdInd(Size::Word), Condition::Eq) => Code::WordIndEq,
        (Op::LdInd(Size::Half), Condition::Eq) => Code::HalfIndEq,
        (Op::LdInd(Size::Byte), Condition::Eq) => Code::ByteIndEq,
        _ => return None,
    };
    let (jt, jf) = targets(at + 1, insns[at + 1], ops[at + 1]);
    Some(Step { code, jt, jf, offset: insns[at].k, k: insns[at + 1].k })
}

/// Where it goes from here. A program has 4096 instructions at most; what returns goes nowhere.
fn targets(at: usize, insn: Insn, op: Op) -> (u16, u16) {
    let [jt, jf] = followers(at, insn, op).map(|next| next.unwrap_or(0) as u16);
    (jt, jf)
}

fn alone(op: Op) -> Code {
    match op {
        Op::LdAbs(size) => Code::LdAbs(size),
        Op::LdInd(size) => Code::LdInd(size),
        Op::LdLen => Code::LdLen,
        Op::LdImm => Code::LdImm,
        Op::LdMem => Code::LdMem,
        Op::LdxLen => Code::LdxLen,
        Op::LdxImm => Code::LdxImm,
        Op::LdxMem => Code::LdxMem,
        Op::LdxMsh => Code::LdxMsh,
        Op::St => Code::St,
        Op::Stx => Code::Stx,
        Op::Alu(op, operand) => Code::Alu(op, operand),
        Op::Neg => Code::Neg,
        Op::Ja => Code::Ja,
        Op::Jump(condition, operand) => Code::Jump(condition, operand),
        Op::RetK => Code::RetK,
        Op::RetA => Code::RetA,
        Op::Tax => Code::Tax,
        Op::Txa => Code::Txa,
    }
}
