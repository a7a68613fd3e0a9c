//! The validator: decides which programs may run.
//!
//! Called by: `program.rs`. The interpreter and the compiler trust a program that passes: every
//! opcode is known; every jump is inside the program; every jump is forward, so that the program
//! ends, unless its user bounds jumps that go back; no division is by a constant 0; no load asks
//! the machine for something that only Linux knows.
//!
//! Each rule is the stricter one of libpcap and Linux, with one exception: Linux refuses programs
//! that read a word of M before they write it, which libpcap makes and runs. Here M begins as
//! zeros.

use core::fmt;

use crate::insn::{ANCILLARY, AluOp, Insn, Op, Operand, PACKET_TYPE};

/// Maximum number of instructions of a program (`BPF_MAXINSNS`).
pub const INSNS_MAX: usize = 4096;
/// Words of scratch memory (`BPF_MEMWORDS`).
pub const SCRATCH_WORDS: u32 = 16;

/// Why a program is refused, and at which instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The instruction, numbered from 0 as in `tcpdump -d`.
    pub at: usize,
    /// What is wrong with the instruction.
    pub reason: Reason,
}

/// What is wrong with an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The program has no instructions.
    Empty,
    /// The program has more than [`INSNS_MAX`] instructions.
    TooLong(usize),
    /// The opcode does not exist.
    UnknownOpcode(u16),
    /// A jump past the last instruction, or a jump back in a program that may have none.
    JumpOutside(u32),
    /// The word of scratch memory does not exist.
    ScratchIndex(u32),
    /// A load that asks the machine for a value other than the packet's type, instead of reading
    /// the packet.
    Ancillary(u32),
    /// Division by the constant 0.
    DivisionByZero,
    /// The last instruction is not a return.
    NoReturn,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the filter is refused: instruction {}: {}", self.at, self.reason)
    }
}

impl core::error::Error for Refusal {}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Reason::Empty => f.write_str("the program is empty; it needs a RET at least"),
            Reason::TooLong(has) => {
                write!(f, "a program has {INSNS_MAX} instructions at most; this one has {has}")
            }
            Reason::UnknownOpcode(opcode) => write!(f, "opcode {opcode:#06x} is unknown"),
            Reason::JumpOutside(by) => {
                let by = by as i32;
                let hint = match by < 0 {
                    true => {
                        " (protochain goes back: write the packets with -w, then filter the file \
                         with -r)"
                    }
                    false => "",
                };
                write!(
                    f,
                    "it jumps {by} instructions on; a jump must go forward, to an instruction of \
                     the program{hint}"
                )
            }
            Reason::ScratchIndex(index) => {
                write!(f, "M[{index}] does not exist; the last is M[15]")
            }
            Reason::Ancillary(at) => write!(
                f,
                "only the kernel of Linux can answer its load at {at:#x}; loads from 0xfffff000 on \
                 are refused, except 0xfffff004, the packet's direction"
            ),
            Reason::DivisionByZero => f.write_str("it divides by the constant 0"),
            Reason::NoReturn => f.write_str("it is the last and no RET"),
        }
    }
}

impl core::error::Error for Reason {}

/// What the validator found out about a valid program.
pub(crate) struct Checked {
    /// The operation of each instruction.
    pub(crate) ops: Vec<Op>,
    /// Does any jump go back?
    pub(crate) goes_back: bool,
    /// Does any instruction ask for the packet's type?
    pub(crate) asks_direction: bool,
}

/// Check every instruction against every rule, in order. Jumps may go back if `may_go_back`.
pub(crate) fn check(insns: &[Insn], may_go_back: bool) -> Result<Checked, Refusal> {
    let refusal = |at, reason| Err(Refusal { at, reason });
    if insns.is_empty() {
        return refusal(0, Reason::Empty);
    }
    if insns.len() > INSNS_MAX {
        return refusal(INSNS_MAX, Reason::TooLong(insns.len()));
    }
    let mut ops = Vec::with_capacity(insns.len());
    let (mut goes_back, mut asks_direction) = (false, false);
    for (at, insn) in insns.iter().enumerate() {
        let back = if may_go_back { at + 1 } else { 0 };
        match alone(*insn, back, insns.len() - 1 - at) {
            Ok(op) => {
                goes_back |= op == Op::Ja && (insn.k as i32) < 0;
                asks_direction |= asks(op, insn.k);
                ops.push(op);
            }
            Err(reason) => return refusal(at, reason),
        }
    }
    let last = insns.len() - 1;
    if !matches!(ops[last], Op::RetK | Op::RetA) {
        return refusal(last, Reason::NoReturn);
    }
    Ok(Checked { ops, goes_back, asks_direction })
}

/// Does the instruction ask for the packet's type?
pub(crate) fn asks(op: Op, k: u32) -> bool {
    matches!(op, Op::LdAbs(_)) && k == PACKET_TYPE
}

/// Check the rules that need only the instruction itself. A jump may go back over at most `back`
/// instructions, this one included, and forward over at most `left`, the number of instructions
/// after it.
fn alone(insn: Insn, back: usize, left: usize) -> Result<Op, Reason> {
    let op = insn.op().ok_or(Reason::UnknownOpcode(insn.code))?;
    let inside = |skip: u32| {
        let is_inside = usize::try_from(skip).is_ok_and(|skip| skip < left);
        if is_inside { Ok(()) } else { Err(Reason::JumpOutside(skip)) }
    };
    match op {
        Op::Ja if (insn.k as i32) < 0 => {
            let over = usize::try_from((insn.k as i32).unsigned_abs());
            if !over.is_ok_and(|over| over <= back) {
                return Err(Reason::JumpOutside(insn.k));
            }
        }
        Op::Ja => inside(insn.k)?,
        Op::LdAbs(_) if insn.k >= ANCILLARY && insn.k != PACKET_TYPE => {
            return Err(Reason::Ancillary(insn.k));
        }
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

/// The words of M that some path reads before it writes them, a bit for each word, and the first
/// instruction that reads such a word. The loop keeps, for each instruction, the words that are
/// written on every path to it. Jumps go forward, so one pass covers every path; unreachable
/// instructions read nothing.
pub(crate) fn unwritten(insns: &[Insn], ops: &[Op]) -> (u16, Option<usize>) {
    let (mut read, mut first) = (0, None);
    let mut written = vec![u16::MAX; insns.len()];
    written[0] = 0;
    for (at, (insn, op)) in insns.iter().zip(ops).enumerate() {
        let mut here = written[at];
        match op {
            Op::LdMem | Op::LdxMem if here & 1 << insn.k == 0 => {
                read |= 1 << insn.k;
                first = first.or(Some(at));
            }
            Op::St | Op::Stx => here |= 1 << insn.k,
            _ => {}
        }
        for next in insn.followers(*op, at).into_iter().flatten() {
            written[next] &= here;
        }
    }
    (read, first)
}
