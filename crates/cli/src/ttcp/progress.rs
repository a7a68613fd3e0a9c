//! Progress lines like iperf3's: what arrived since the last line, the rate, and retransmissions.
//! They go to standard error: always if that is a terminal, otherwise if `-i` asks for them.
//!
//! Called by: the loops, a few times a second; the report has the intervals.

use std::io::IsTerminal;

use serde::Serialize;
use wirespeed::{Duration, Instant};

use super::plan::Plan;
use super::report::{self, lengths};
use crate::output;

/// Intervals kept for the report; of a longer transfer the first ones.
const KEPT_MAX: usize = 100_000;

/// A part of the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Interval {
    start_s: f64,
    end_s: f64,
    bytes: u64,
    bits_per_second: f64,
    retransmits: u64,
}

/// The counts at the last line.
#[derive(Clone, Copy)]
struct Mark {
    at: Instant,
    bytes: u64,
    retransmits: u64,
}

/// The lines so far.
pub(super) struct Progress {
    every: Duration,
    prints: bool,
    total: Option<u64>,
    began: Option<Instant>,
    last: Mark,
    intervals: Vec<Interval>,
}

impl Progress {
    /// For the transfer of a plan.
    pub(super) fn new(plan: &Plan) -> Progress {
        let is_asked = plan.interval.is_some();
        Progress {
            every: plan.interval.unwrap_or(Duration::from_secs(1)),
            prints: is_asked || std::io::stderr().is_terminal(),
            total: plan.bytes().filter(|&n| n > 0),
            began: None,
            last: Mark { at: Instant::ZERO, bytes: 0, retransmits: 0 },
            intervals: Vec::new(),
        }
    }

    /// Record the bytes that have arrived, or were sent, and the segments retransmitted so far. The
    /// first call begins the first interval.
    pub(super) fn at(&mut self, now: Instant, bytes: u64, retransmits: u64) {
        let mark = Mark { at: now, bytes, retransmits };
        let Some(began) = self.began else {
            (self.began, self.last) = (Some(now), mark);
            return;
        };
        if self.every == Duration::ZERO || now.since(self.last.at) < self.every {
            return;
        }
        let interval = interval(began, &self.last, &mark);
        self.last = mark;
        if self.prints {
            output::err(&line(&interval, self.total.map(|total| (bytes, total))));
        }
        if self.intervals.len() < KEPT_MAX {
            self.intervals.push(interval);
        }
    }

    /// Take the intervals, for the report.
    pub(super) fn intervals(&mut self) -> Vec<Interval> {
        std::mem::take(&mut self.intervals)
    }
}

fn interval(began: Instant, last: &Mark, now: &Mark) -> Interval {
    let bytes = now.bytes.saturating_sub(last.bytes);
    Interval {
        start_s: last.at.since(began).as_secs_f64(),
        end_s: now.at.since(began).as_secs_f64(),
        bytes,
        bits_per_second: bytes as f64 * 8.0 / now.at.since(last.at).as_secs_f64(),
        retransmits: now.retransmits.saturating_sub(last.retransmits),
    }
}

fn line(interval: &Interval, of: Option<(u64, u64)>) -> String {
    let Interval { start_s, end_s, bytes, bits_per_second, retransmits } = *interval;
    let span = format!("{start_s:.2}-{end_s:.2}");
    let (moved, rate) = (lengths(bytes), report::rate(bits_per_second));
    let part = of.map_or(String::new(), |(bytes, total)| {
        format!("   {:3.0} %", 100.0 * bytes as f64 / total as f64)
    });
    format!("{span:>15} s  {moved:>11}  {rate:>11}  {retransmits:>5} retransmits{part}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(every: Duration) -> Progress {
        let last = Mark { at: Instant::ZERO, bytes: 0, retransmits: 0 };
        let (began, intervals) = (None, Vec::new());
        Progress { every, prints: false, total: None, began, last, intervals }
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn an_interval_has_what_came_since_the_last_one() {
        let mut progress = progress(Duration::from_secs(1));
        for (ms, bytes, retransmits) in
            [(500, 0, 0), (900, 700, 0), (1500, 1000, 2), (2400, 1800, 2), (3500, 3000, 5)]
        {
            progress.at(at(ms), bytes, retransmits);
        }
        let found = progress.intervals();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found[0].bytes, found[0].retransmits), (1000, 2));
        assert_eq!((found[0].start_s, found[0].end_s), (0.0, 1.0));
        assert_eq!((found[1].bytes, found[1].bits_per_second), (2000, 8000.0));
        assert_eq!(
            line(&found[0], Some((1000, 4000))),
            "      0.00-1.00 s   1000 bytes    8.00 kb/s      2 retransmits    25 %"
        );
    }

    #[test]
    fn an_interval_of_nothing_is_none() {
        let mut progress = progress(Duration::ZERO);
        (0..5).for_each(|n| progress.at(at(n * 1000), n, 0));
        assert!(progress.intervals().is_empty());
    }
}
