//! A validated program, ready for the interpreter.
//!
//! Called by: code that gets a program from libpcap, a file or another process.

use crate::insn::{Insn, Op};
use crate::lower::{Step, lower};
use crate::packet::Packet;
use crate::validate::{Refusal, check};
use crate::vm;

/// A validated program, which may run on any packet.
#[derive(Clone, Debug)]
pub struct Program {
    insns: Box<[Insn]>,
    steps: Box<[Step]>,
}

impl Program {
    /// Validate a program and prepare it for the interpreter.
    ///
    /// # Errors
    /// The first instruction that breaks a rule, and the rule.
    pub fn new(insns: &[Insn]) -> Result<Program, Refusal> {
        let ops = check(insns)?;
        Ok(Program { insns: insns.into(), steps: lower(insns, &ops) })
    }

    /// Run the interpreter; returns the maximum number of bytes to keep of the packet, 0 for no
    /// match.
    ///
    /// As in libpcap, a load outside the packet and a division by X = 0 return 0, arithmetic wraps,
    /// and a shift by 32 or more gives 0.
    pub fn run(&self, packet: &Packet<'_>) -> u32 {
        vm::run(&self.steps, packet)
    }

    /// The constant result, if the program begins with a constant return, as the filter of a tap
    /// for all packets does.
    pub(crate) fn always(&self) -> Option<u32> {
        match self.steps.first()? {
            Step::One(one) if one.op == Op::RetK => Some(one.k),
            _ => None,
        }
    }

    /// The instructions that it was made of.
    pub fn insns(&self) -> &[Insn] {
        &self.insns
    }
}
