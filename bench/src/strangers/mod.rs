//! The rows of bench `peers`: the table of the issue about peers that are not ours, letter for
//! letter. Called by `main.rs`. `follow` has the share of Linux's segments that take the following
//! path, `counts` instructions of recorded and of lone segments, `bytes` the passes over payload,
//! `fair` a bottleneck shared with Linux, `idle` a program with nothing to do.

mod bytes;
mod counts;
mod fair;
mod follow;
mod idle;

use crate::harness::Spec;

/// The table.
pub fn rows() -> Vec<Spec> {
    [follow::ROWS, counts::ROWS, bytes::ROWS, fair::ROWS, idle::ROWS].concat()
}
