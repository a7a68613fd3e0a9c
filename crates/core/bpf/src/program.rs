//! A validated program, ready for the interpreter.
//!
//! Called by: code that gets a program from libpcap, a file or another process.
//!
//! A program that asks for the packet's direction is stored as two programs, one for each
//! direction, in which a constant replaces the question. So the interpreter and the compiler need
//! to know nothing of directions.

use crate::insn::{Insn, Op, RECEIVED, SENT};
use crate::lower::{Step, lower};
use crate::packet::{Direction, Packet};
use crate::validate::{Checked, Refusal, asks, check, unwritten};
use crate::vm;

/// A validated program, which may run on any packet.
#[derive(Clone, Debug)]
pub struct Program {
    insns: Box<[Insn]>,
    /// The instructions that run: the given ones, with a constant in place of each load of the
    /// packet's type.
    answered: Box<[Insn]>,
    steps: Box<[Step]>,
    goes_back: bool,
    /// The program for sent packets, if the given instructions ask for the direction.
    sent: Option<Box<Program>>,
}

impl Program {
    /// Validate a program and prepare it for the interpreter. Every jump has to go forward.
    ///
    /// # Errors
    /// The first instruction that breaks a rule, and the rule.
    pub fn new(insns: &[Insn]) -> Result<Program, Refusal> {
        Program::checked(insns, false)
    }

    /// [`Program::new`], but jumps may go back, as in programs for `protochain`. A packet for which
    /// the program goes back more than [`BACK_JUMPS_MAX`](crate::BACK_JUMPS_MAX) times is no match.
    /// Use it for packets of a file and where time does not matter, not for taps.
    ///
    /// # Errors
    /// The first instruction that breaks a rule, and the rule.
    pub fn with_loops(insns: &[Insn]) -> Result<Program, Refusal> {
        Program::checked(insns, true)
    }

    fn checked(insns: &[Insn], may_go_back: bool) -> Result<Program, Refusal> {
        let Checked { ops, goes_back, asks_direction } = check(insns, may_go_back)?;
        let alone = |insns: Box<[Insn]>, ops: &[Op], sent| Program {
            insns: insns.clone(),
            steps: lower(&insns, ops),
            answered: insns,
            goes_back,
            sent,
        };
        if !asks_direction {
            return Ok(alone(insns.into(), &ops, None));
        }
        let answered = |answer: u32, sent| {
            let mut ops = ops.clone();
            let mut insns: Box<[Insn]> = insns.into();
            for (insn, op) in insns.iter_mut().zip(&mut ops) {
                if asks(*op, insn.k) {
                    *op = Op::LdImm;
                    *insn = Insn::of(Op::LdImm, 0, 0, answer);
                }
            }
            alone(insns, &ops, sent)
        };
        let sent = answered(SENT, None);
        Ok(Program { insns: insns.into(), ..answered(RECEIVED, Some(Box::new(sent))) })
    }

    /// Run the interpreter; returns the maximum number of bytes to keep of the packet, or 0 if the
    /// packet does not match. If the program asks for the packet's direction, the packet is taken
    /// for a received one.
    ///
    /// As in libpcap, a load outside the packet and a division by X = 0 return 0, arithmetic wraps,
    /// and a shift by 32 or more gives 0.
    pub fn run(&self, packet: &Packet<'_>) -> u32 {
        vm::run(&self.steps, packet)
    }

    /// The program for packets of this direction.
    pub fn of(&self, direction: Direction) -> &Program {
        match (direction, &self.sent) {
            (Direction::Out, Some(sent)) => sent,
            _ => self,
        }
    }

    /// Does the result depend on the packet's direction?
    pub fn asks_direction(&self) -> bool {
        self.sent.is_some()
    }

    /// Does any jump of the program go back?
    pub fn goes_back(&self) -> bool {
        self.goes_back
    }

    /// The index of the first instruction that may read a word of M before the program has written
    /// it. Such a word is 0 here; libpcap does not define it. `None` if no instruction does that,
    /// or if jumps go back.
    pub fn first_unwritten(&self) -> Option<usize> {
        if self.goes_back { None } else { unwritten(&self.answered, &self.ops()).1 }
    }

    /// The words of M that must be set to 0 before the program runs, one bit for each word.
    #[cfg(all(feature = "jit", unix, target_arch = "x86_64"))]
    pub(crate) fn unwritten(&self) -> u16 {
        unwritten(&self.answered, &self.ops()).0
    }

    fn ops(&self) -> Vec<Op> {
        self.answered.iter().filter_map(|insn| insn.op()).collect()
    }

    /// The constant result, if the program begins with a constant return, as the filter of a tap
    /// for all packets does.
    pub(crate) fn always(&self) -> Option<u32> {
        match self.steps.first()? {
            Step::One(one) if one.op == Op::RetK => Some(one.k),
            _ => None,
        }
    }

    /// The instructions that the program was made of.
    pub fn insns(&self) -> &[Insn] {
        &self.insns
    }

    /// The instructions that run, in which no load asks for the direction.
    #[cfg(all(feature = "jit", unix, target_arch = "x86_64"))]
    pub(crate) fn answered(&self) -> &[Insn] {
        &self.answered
    }
}
