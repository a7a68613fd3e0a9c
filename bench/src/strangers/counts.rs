//! Instructions per segment of recorded Linux traffic, and per turn of flows with one segment.
//! Called by `mod.rs`.

use crate::harness::Spec;

/// Rows of the table.
pub(super) const ROWS: &[Spec] = &[];
