//! A program that was checked, and is ready for the interpreter.
//!
//! Called by: code that takes a program from libpcap, a file or another process.

use crate::insn::{Insn, Op};
use crate::lower::{Step, lower};
use crate::packet::Packet;
use crate::validate::{Refusal, check};
use crate::vm;

/// A program that may run on any packet.
#[derive(Clone, Debug)]
pub struct Program {
    insns: Box<[Insn]>,
    steps: Box<[Step]>,
}

impl Program {
    /// Look at a program and make it ready to run.
    ///
    /// # Errors
    /// The first instruction that breaks a rule, and which.
    pub fn new(insns: &[Insn]) -> Result<Program, Refusal> {
        let ops = check(insns)?;
        Ok(Program { insns: insns.into(), steps: lower(insns, &ops) })
    }

    /// Run the interpreter: how many bytes of the packet to keep, at most; 0 is no match.
    ///
    /// As libpcap has it: a load outside the packet and a division by X = 0 return 0; arithmetic
    /// wraps; a shift by 32 or more leaves 0.
    pub fn run(&self, packet: &Packet<'_>) -> u32 {
        vm::run(&self.steps, packet)
    }

    /// Its constant result for every packet, if it begins with a constant return: the filter of a
    /// tap that wants all of them.
    pub(crate) fn always(&self) -> Option<u32> {
        match self.steps.first()? {
            Step::One(one) if one.op == Op::RetK => Some(one.k),
            _ => None,
        }
    }

    /// The instructions it was made of.
    pub fn insns(&self) -> &[Insn] {
        &self.insns
    }
}
