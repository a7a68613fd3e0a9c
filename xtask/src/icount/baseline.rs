//! The committed counts, and the differences of more than one percent.
//!
//! A decrease fails too: the baseline would then hide the next increase.

use super::Row;
use anyhow::{Context, Result};
use std::path::Path;

const TOLERANCE: f64 = 0.01;

/// The baseline; empty if there is none yet.
pub(super) fn read(path: &Path) -> Result<Vec<Row>> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            serde_json::from_str(&text).with_context(|| format!("cannot read {}", path.display()))
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Replace the baseline.
pub(super) fn write(path: &Path, rows: &[Row]) -> Result<()> {
    let text = serde_json::to_string_pretty(rows)? + "\n";
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// A sentence for each case that changed, appeared or disappeared.
pub(super) fn compare(baseline: &[Row], now: &[Row]) -> Vec<String> {
    let of =
        |rows: &[Row], case: &str| rows.iter().find(|r| r.case == case).map(|r| r.instructions);
    let mut moved = Vec::new();
    for Row { case, instructions } in now {
        match of(baseline, case) {
            None => moved.push(format!("{case}: {instructions} instructions, not in the baseline")),
            Some(before) if (instructions - before).abs() > before * TOLERANCE => {
                let percent = (instructions - before) / before * 100.0;
                moved.push(format!("{case}: {before} to {instructions} ({percent:+.1} %)"));
            }
            Some(_) => {}
        }
    }
    for Row { case, .. } in baseline.iter().filter(|r| of(now, &r.case).is_none()) {
        moved.push(format!("{case}: in the baseline, and no longer counted"));
    }
    moved
}
