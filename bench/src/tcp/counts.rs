//! Rows of instruction counts: the cost of an ACK with a large window over the cost with a small
//! one. Called by `mod.rs`. The cases are `icount`'s (`outstanding.rs` makes their state).

use anyhow::{Result, ensure};

use crate::harness::Figure;
use crate::memory::instructions;

/// The cases `KIND-100000-outstanding` over `KIND-100-outstanding`.
pub(super) fn ratio(kind: &str) -> Result<Figure> {
    let many = instructions(&format!("{kind}-100000-outstanding"))?;
    let few = instructions(&format!("{kind}-100-outstanding"))?;
    ensure!(few > 0.0, "an ACK cost nothing");
    let value = many / few;
    let note = format!("{many:.1} over {few:.1} instructions, by valgrind, the ACK's poll alone");
    Ok(Figure { value, samples: vec![value], note })
}
