//! The rows of bench `peers`: the table of the issue about foreign peers, word for word. Called by
//! `main.rs`. `follow` has the share of Linux's segments that follow, `counts` instructions of
//! recorded and of single segments, `bytes` the passes over payload, `fair` a bottleneck shared
//! with Linux, `idle` an idle program.

mod bytes;
mod counts;
mod fair;
mod follow;
pub(crate) mod idle;

use crate::harness::Spec;

/// The table.
pub fn rows() -> Vec<Spec> {
    [follow::ROWS, counts::ROWS, bytes::ROWS, fair::ROWS, idle::ROWS].concat()
}
