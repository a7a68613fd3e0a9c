//! Figures of Linux on some of the same cells, measured once and only quoted here.
//!
//! Called by: `wan`, for a column beside ours.

use super::grid::{Cell, Impairment};

/// How they were measured; printed with every table that quotes them.
pub(super) const NOTE: &str = "Linux: version 6.18, quoted, not run now. Measured once between \
     two TAPs joined by an emulator in real time: 60 s with the start-up, 1500-byte frames, no \
     GSO, medians of five seeds, share of rate x 1448/1500 as here. Its 'reno' repairs with SACK \
     and stands beside our newreno; its BBR is version 1. A dash: not measured.";

/// Length of their runs in seconds; figures of other lengths are not comparable.
pub(super) const SECONDS: u64 = 60;

/// The impairment, as a key of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// Parts per million.
    Lost(u32),
    /// One packet in a hundred late, by milliseconds.
    Late(u64),
}

/// Rate in Mb/s, round trip in ms, queue in kB, flows, impairment; shares of CUBIC, BBR, Reno.
type Line = (u64, u64, u64, usize, Wrong, [f64; 3]);

/// The goodput of share 1 at 100 Mb/s, in Mb/s.
const FULL: f64 = 100.0 * 1448.0 / 1500.0;

const LINES: &[Line] = &[
    (100, 100, 1250, 1, Wrong::Nothing, [0.984, 0.961, 0.985]),
    (200, 100, 625, 1, Wrong::Nothing, [0.76, 0.86, 0.59]),
    (1000, 50, 6250, 1, Wrong::Nothing, [0.960, 0.955, 0.962]),
    (100, 100, 1250, 1, Wrong::Late(10), [0.73, 0.965, 0.84]),
    (100, 100, 1250, 1, Wrong::Late(40), [0.63, 0.938, 0.47]),
    (100, 100, 1250, 1, Wrong::Lost(100), [35.4 / FULL, 0.957, 20.0 / FULL]),
    (100, 100, 1250, 1, Wrong::Lost(1_000), [7.5 / FULL, 0.945, 6.9 / FULL]),
    (100, 100, 1250, 1, Wrong::Lost(10_000), [1.60 / FULL, 0.900, 1.50 / FULL]),
    (20, 40, 150, 4, Wrong::Nothing, [0.994, 0.97, 0.98]),
];

/// The share that Linux reached in this cell, if it was measured.
pub(super) fn linux(cell: &Cell, seconds: u64) -> Option<f64> {
    if seconds != SECONDS {
        return None;
    }
    let column = ["cubic", "bbr", "newreno"].iter().position(|&name| name == cell.cc.name())?;
    let path = cell.goodput(seconds, 1);
    let wrong = match cell.impairment {
        Impairment::Clean => Wrong::Nothing,
        Impairment::Loss(share) => Wrong::Lost((share * 1e6).round() as u32),
        Impairment::Late(share, by) if (share - 0.01).abs() < 1e-9 => Wrong::Late(by.as_millis()),
        Impairment::Late(..) => return None,
    };
    let same = |&&(rate, rtt_ms, queue_kb, flows, what, _): &&Line| {
        path.rate_bps == rate * 1_000_000
            && 2 * path.delay.as_micros() == rtt_ms * 1_000
            && (path.queue_bytes as u64).abs_diff(queue_kb * 1_000) <= 1
            && path.flows == flows
            && what == wrong
    };
    LINES.iter().find(same).map(|line| line.5[column])
}
