//! Decides where the packet's length must be checked. Checks are few, because one check covers all
//! loads that every path to a match performs.
//!
//! Called by: `emit.rs`. A packet that is too short for a load gives 0, whatever ran before,
//! because a program has no effect but its result. So the first check may require as many bytes as
//! every path from there needs; paths that return 0 anyway do not count. Loads that it covers need
//! no check of their own.

use crate::insn::{Insn, Op};

/// For each instruction, the bytes without which the program returns 0 on every path from there;
/// [`u64::MAX`] if it returns 0 for any packet.
pub(super) fn needed(insns: &[Insn], ops: &[Op]) -> Vec<u64> {
    let mut needed = vec![0; insns.len()];
    for at in (0..insns.len()).rev() {
        let later = insns[at].followers(ops[at], at).into_iter().flatten();
        let least = later.map(|next| needed[next]).min();
        needed[at] = match ops[at] {
            Op::RetK if insns[at].k == 0 => u64::MAX,
            op => least.unwrap_or(0).max(reach(insns[at], op)),
        };
    }
    needed
}

/// The end of a load at a constant offset; 0 for other instructions.
pub(super) fn reach(insn: Insn, op: Op) -> u64 {
    let size = match op {
        Op::LdAbs(size) => size.bytes(),
        Op::LdxMsh => 1,
        _ => return 0,
    };
    u64::from(insn.k) + u64::from(size)
}

/// The length to check before a load that ends at `reach`, if at least `known` bytes exist; `None`
/// if no check is needed.
pub(super) fn look(needed: u64, reach: u64, known: u64) -> Option<u64> {
    if reach <= known {
        return None;
    }
    Some(if needed == u64::MAX { reach } else { needed })
}
