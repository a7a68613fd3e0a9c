//! Where the packet's length must be looked at: rarely, because what every way to a match reads
//! can be asked for at once.
//!
//! Called by: `emit.rs`. A packet that is too short for a load gives 0 whatever came before, for a
//! program has no effect but its answer. So the first look may ask for the most that each way from
//! there reads, ways that end in 0 anyhow not counted; behind it, the loads it covers need none.

use crate::insn::{Insn, Op};

/// For each instruction the bytes without which the program surely answers 0 from there on;
/// [`u64::MAX`] if it does so whatever the packet.
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

/// Where a load at a constant offset ends; 0 for anything else.
pub(super) fn reach(insn: Insn, op: Op) -> u64 {
    let size = match op {
        Op::LdAbs(size) => size.bytes(),
        Op::LdxMsh => 1,
        _ => return 0,
    };
    u64::from(insn.k) + u64::from(size)
}

/// The look at the length that the load at `at` wants, if at least `known` bytes are there: None
/// if it wants none.
pub(super) fn look(needed: u64, reach: u64, known: u64) -> Option<u64> {
    if reach <= known {
        return None;
    }
    Some(if needed == u64::MAX { reach } else { needed })
}
