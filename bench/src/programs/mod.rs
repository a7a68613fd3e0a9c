//! The rows of bench `programs`: the stack as programs in other languages and of other libraries use
//! it. Called by `main.rs`. Each row has a file.

use crate::harness::Spec;

/// The table.
pub const ROWS: &[Spec] = &[];
