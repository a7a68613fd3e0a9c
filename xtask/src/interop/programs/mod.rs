//! Suite `programs`: the stack in programs that are not ours, or not in Rust.

mod c;

use super::Case;

pub(super) const CASES: &[Case] = &[c::ECHO, c::SOCKS, c::BULK, c::GAME, c::CLANG_TOO];
