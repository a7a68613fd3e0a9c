//! The rows of bench `peers`, about peers that are not ours. Called by `main.rs`. This file
//! measures the share of Linux's segments that follow a leader. `counts` counts instructions for
//! Linux's recorded segments and for flows with one segment a turn, `bytes` measures the passes
//! over payload, `fair` a bottleneck shared with Linux, `idle` an idle program.

mod bytes;
mod counts;
mod fair;
pub(crate) mod idle;

use anyhow::Result;

use crate::harness::{Bench, Better, Figure, Spec, spec};
use crate::recorded::{Kind, live};

/// The table.
pub fn rows() -> Vec<Spec> {
    [ROWS, counts::ROWS, bytes::ROWS, fair::ROWS, idle::ROWS].concat()
}

// The share of data segments from Linux, over a TAP without offload, that follow a leader. The
// kernel sends at full speed; our end reads everything. The share is `tcp_followed` divided by
// `tcp_segments_in`.

/// Rows of the table.
const ROWS: &[Spec] = {
    use Better::Higher;
    &[
        spec(
            "IPv4 from Linux over TAP without offload: share of data segments followed",
            Higher,
            0.85,
            0.93,
            "share",
            |b| share(b, Kind { v6: false, flows: 1 }),
        ),
        spec(
            "IPv6 from Linux over TAP without offload: share of data segments followed",
            Higher,
            0.85,
            0.93,
            "share",
            |b| share(b, Kind { v6: true, flows: 1 }),
        ),
    ]
};

fn share(b: &Bench, kind: Kind) -> Result<Figure> {
    let (rounds, seconds) = if b.is_quick { (1, 1.0) } else { (3, 3.0) };
    let mut samples = Vec::new();
    let mut note = String::new();
    for _ in 0..rounds {
        let seen = live(kind, seconds)?;
        samples.push(seen.followed as f64 / seen.segments as f64);
        note = format!(
            "{} of {} segments, {:.1} a burst, in the last of {rounds} runs",
            seen.followed,
            seen.segments,
            seen.segments as f64 / seen.bursts as f64
        );
    }
    Ok(Figure { value: crate::measure::median(&samples), samples, note })
}
