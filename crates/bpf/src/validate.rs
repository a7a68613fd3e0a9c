//! The validator: decides which programs may run.
//!
//! Called by: `program.rs`. The interpreter and the compiler trust a program that passes: every
//! opcode is known; every jump is forward and inside the program, so it ends; M is written before
//! it is read, on every path; no division is by a constant 0. Each rule is the stricter one of
//! libpcap and Linux.

use crate::insn::{AluOp, Insn, Op, Operand};

/// Maximum number of instructions of a program (`BPF_MAXINSNS`).
pub const INSNS_MAX: usize = 4096;
/// Words of scratch memory (`BPF_MEMWORDS`).
pub const SCRATCH_WORDS: u32 = 16;

/// Why a program is refused, and at which instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the filter is refused: instruction {at}: {reason}")]
pub struct Refusal {
    /// The instruction, numbered from 0 as in `tcpdump -d`.
    pub at: usize,
    /// What is wrong with it.
    pub reason: Reason,
}

/// What is wrong with an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The program has no instructions.
    #[error("there is none; a program needs a RET at least")]
    Empty,
    /// The program has more than [`INSNS_MAX`] instructions.
    #[error("a program has {INSNS_MAX} instructions at most; this one has {0}")]
    TooLong(usize),
    /// No such opcode.
    #[error("opcode {0:#06x} is unknown")]
    UnknownOpcode(u16),
    /// A jump past the last instruction, or backwards.
    #[error(
        "it jumps {} instructions on; jumps go forward, to instructions that are there",
        *.0 as i32
    )]
    JumpOutside(u32),
    /// No such word of scratch memory.
    #[error("M[{0}] does not exist; the last is M[15]")]
    ScratchIndex(u32),
    /// A read of a word of scratch memory that some path has not written.
    #[error("M[{0}] is read and not written on every way here")]
    ScratchUnwritten(u32),
    /// Division by the constant 0.
    #[error("it divides by the constant 0")]
    DivisionByZero,
    /// The last instruction is not a return.
    #[error("it is the last and no RET")]
    NoReturn,
}

/// Check every rule on every instruction, in order; returns their operations.
pub(crate) fn check(insns: &[Insn]) -> Result<Vec<Op>, Refusal> {
    let refusal = |at, reason| Err(Refusal { at, reason });
    if insns.is_empty() {
        return refusal(0, Reason::Empty);
    }
    if insns.len() > INSNS_MAX {
        return refusal(INSNS_MAX, Reason::TooLong(insns.len()));
    }
    let mut ops = Vec::with_capacity(insns.len());
    for (at, insn) in insns.iter().enumerate() {
        match alone(*insn, insns.len() - 1 - at) {
            Ok(op) => ops.push(op),
            Err(reason) => return refusal(at, reason),
        }
    }
    let last = insns.len() - 1;
    if !matches!(ops[last], Op::RetK | Op::RetA) {
        return refusal(last, Reason::NoReturn);
    }
    scratch(insns, &ops)?;
    Ok(ops)
}

/// Check the rules that need only the instruction itself and how many are `left` behind it.
fn alone(insn: Insn, left: usize) -> Result<Op, Reason> {
    let op = insn.op().ok_or(Reason::UnknownOpcode(insn.code))?;
    let inside = |skip: u32| {
        let is_inside = usize::try_from(skip).is_ok_and(|skip| skip < left);
        if is_inside { Ok(()) } else { Err(Reason::JumpOutside(skip)) }
    };
    match op {
        Op::Ja => inside(insn.k)?,
        Op::Jump(..) => {
            inside(insn.jt.into())?;
            inside(insn.jf.into())?;
        }
        Op::St | Op::Stx | Op::LdMem | Op::LdxMem if insn.k >= SCRATCH_WORDS => {
            return Err(Reason::ScratchIndex(insn.k));
        }
        Op::Alu(AluOp::Div | AluOp::Mod, Operand::K) if insn.k == 0 => {
            return Err(Reason::DivisionByZero);
        }
        _ => {}
    }
    Ok(op)
}

/// Check that M is written before it is read. For each instruction there is a bit per word: written
/// on every path to it. Jumps go forward, so one pass covers every path; unreachable instructions
/// are not checked.
fn scratch(insns: &[Insn], ops: &[Op]) -> Result<(), Refusal> {
    let mut written = vec![u16::MAX; insns.len()];
    written[0] = 0;
    for (at, (insn, op)) in insns.iter().zip(ops).enumerate() {
        let mut here = written[at];
        match op {
            Op::LdMem | Op::LdxMem if here & 1 << insn.k == 0 => {
                return Err(Refusal { at, reason: Reason::ScratchUnwritten(insn.k) });
            }
            Op::St | Op::Stx => here |= 1 << insn.k,
            _ => {}
        }
        for next in insn.followers(*op, at).into_iter().flatten() {
            written[next] &= here;
        }
    }
    Ok(())
}
