//! Instructions for each segment of recorded Linux traffic, and for each turn in which every flow
//! has one segment. Called by `mod.rs`. The cases are those of `icount`; `recorded` replays
//! segments that Linux has sent.

use anyhow::Result;

use crate::harness::{Better, Figure, Spec, spec};
use crate::memory::instructions;

/// Rows of the table.
pub(super) const ROWS: &[Spec] = {
    use Better::Lower;
    &[
        spec(
            "recorded Linux bulk, IPv4: instructions per received segment without byte passes",
            Lower,
            230.0,
            180.0,
            "instructions",
            |_| {
                recorded(
                    "recorded-linux-v4",
                    &["recorded-linux-v4-random-ids", "recorded-linux-v6"],
                )
            },
        ),
        spec(
            "recorded Linux bulk, 16 flows that alternate: instructions per received segment \
             without byte passes",
            Lower,
            600.0,
            400.0,
            "instructions",
            |_| recorded("recorded-linux-16-flows", &["recorded-linux-16-flows-by-segment"]),
        ),
        spec(
            "one segment a turn, 32 flows: instructions a turn without byte passes",
            Lower,
            1900.0,
            1500.0,
            "instructions",
            |_| recorded("one-segment-a-turn-32-flows", &[]),
        ),
    ]
};

/// The instructions of a case of icount. The note gives those of other cases.
fn recorded(case: &str, others: &[&str]) -> Result<Figure> {
    let value = instructions(case)?;
    let mut note = "by valgrind; in recordings of Linux only the receiver counts, with its \
                    ACKs"
        .to_owned();
    for other in others {
        note += &format!("; {other} {:.1}", instructions(other)?);
    }
    Ok(Figure { value, samples: vec![value], note })
}
