//! Suite `programs`: the stack in programs that are not ours, or not in Rust.

use super::Case;

pub(super) const CASES: &[Case] = &[];
