//! The rows of bench `lab`: the table of its issue, word for word. Called by `main.rs`. `budget`
//! has what looking at a stack costs, and whether the stages' sum is the whole; `report` has
//! `lab all`; `live` how soon the live page is there.

mod budget;
mod live;
mod report;

use crate::harness::{Better, Spec, spec};

/// The table.
pub const ROWS: &[Spec] = {
    use Better::Lower;
    &[
        spec(
            "instructions per predicted segment, instrumentation off / before this issue",
            Lower,
            1.0,
            1.0,
            "x",
            budget::instrumentation_off,
        ),
        spec("cost of live budget, percent", Lower, 2.0, 0.5, "%", budget::live),
        spec("lab all --quick, seconds", Lower, 300.0, 150.0, "s", report::seconds),
        spec("report size, MB", Lower, 3.0, 1.0, "MB", report::size),
        spec("first paint of the live page, ms", Lower, 1000.0, 300.0, "ms", live::first_paint),
        spec(
            "budget's sum / end-to-end cost, distance from 1",
            Lower,
            0.10,
            0.03,
            "",
            budget::distance,
        ),
    ]
};
