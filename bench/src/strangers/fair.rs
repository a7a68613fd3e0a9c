//! A flow of ours and one of Linux's CUBIC on one bottleneck.
//! Called by `mod.rs`.

use crate::harness::Spec;

/// Rows of the table.
pub(super) const ROWS: &[Spec] = &[];
