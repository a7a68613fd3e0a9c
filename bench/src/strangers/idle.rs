//! Wake-ups of a program that has nothing to do.
//! Called by `mod.rs`.

use crate::harness::Spec;

/// Rows of the table.
pub(super) const ROWS: &[Spec] = &[];
