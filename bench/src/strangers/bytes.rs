//! What the passes over payload cost: alone, in a transfer, loaned, between two cores.
//! Called by `mod.rs`.

use crate::harness::Spec;

/// Rows of the table.
pub(super) const ROWS: &[Spec] = &[];
