//! The share of data segments from Linux over a TAP without offload that are followed.
//! Called by `mod.rs`.

use crate::harness::Spec;

/// Rows of the table.
pub(super) const ROWS: &[Spec] = &[];
