//! The rows of bench `lab`: the table of its issue, word for word. Called by `main.rs`. `live` has
//! how soon the live page is there.

mod live;

use crate::harness::{Better, Spec, spec};

/// The table.
pub const ROWS: &[Spec] = {
    use Better::Lower;
    &[spec("first paint of the live page, ms", Lower, 1000.0, 300.0, "ms", live::first_paint)]
};
