//! Progress lines like iperf3's: what arrived since the last line, the rate, and retransmissions.
//! They go to standard error: always if that is a terminal, otherwise if `-i` asks for them.
//!
//! Called by: the loops, a few times a second; the report has the intervals. Intervals begin and
//! end at multiples of `-i` from the beginning, by what was counted right before and behind that
//! time; the last one ends with the transfer.

use std::io::IsTerminal;

use serde::Serialize;
use wirespeed::{Duration, Instant};

use super::plan::Plan;
use super::report::{self, lengths};
use crate::output;

/// Intervals kept for the report; of a longer transfer the first ones.
const KEPT_MAX: usize = 100_000;
/// After a pause of more intervals than this (a suspended machine), one stands for all of them.
const MISSED_MAX: u64 = 100;

/// A part of the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Interval {
    start_s: f64,
    end_s: f64,
    bytes: u64,
    bits_per_second: f64,
    retransmits: u64,
}

/// The counts at a time.
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
    /// At the end of the last interval, and at the last call.
    last: Mark,
    seen: Mark,
    intervals: Vec<Interval>,
}

impl Progress {
    /// For the transfer of a plan.
    pub(super) fn new(plan: &Plan) -> Progress {
        let is_asked = plan.interval.is_some();
        let none = Mark { at: Instant::ZERO, bytes: 0, retransmits: 0 };
        Progress {
            every: plan.interval.unwrap_or(Duration::from_secs(1)),
            prints: is_asked || std::io::stderr().is_terminal(),
            total: plan.bytes().filter(|&n| n > 0),
            began: None,
            last: none,
            seen: none,
            intervals: Vec::new(),
        }
    }

    /// Record the bytes that have arrived, or were sent, and the segments retransmitted so far. The
    /// first call begins the first interval.
    pub(super) fn at(&mut self, now: Instant, bytes: u64, retransmits: u64) {
        let mark = Mark { at: now, bytes, retransmits };
        let Some(began) = self.began else {
            (self.began, self.last, self.seen) = (Some(now), mark, mark);
            return;
        };
        let every = self.every.as_nanos();
        while every > 0 && now.since(self.last.at) >= self.every {
            let missed = now.since(self.last.at).as_nanos() / every;
            let steps = if missed > MISSED_MAX { missed } else { 1 };
            let end = Instant::from_nanos(self.last.at.as_nanos() + steps * every);
            let end = between(&self.seen, &mark, end);
            self.take(began, end);
        }
        self.seen = mark;
    }

    /// An interval has ended.
    fn take(&mut self, began: Instant, end: Mark) {
        let interval = interval(began, &self.last, &end);
        self.last = end;
        if self.prints {
            output::err(&line(&interval, self.total.map(|total| (end.bytes, total))));
        }
        if self.intervals.len() < KEPT_MAX {
            self.intervals.push(interval);
        }
    }

    /// The transfer has ended with the last call: take the intervals, for the report, with the one
    /// that has begun.
    pub(super) fn intervals(&mut self) -> Vec<Interval> {
        if let Some(began) = self.began
            && self.every > Duration::ZERO
            && self.seen.at > self.last.at
        {
            self.take(began, self.seen);
        }
        std::mem::take(&mut self.intervals)
    }
}

/// What was counted at a time between two calls, as if it had come evenly.
fn between(before: &Mark, behind: &Mark, at: Instant) -> Mark {
    let (part, whole) = (at.since(before.at).as_nanos(), behind.at.since(before.at).as_nanos());
    let share = |from: u64, to: u64| {
        let more = u128::from(to.saturating_sub(from)) * u128::from(part);
        from + (more / u128::from(whole.max(1))) as u64
    };
    Mark {
        at,
        bytes: share(before.bytes, behind.bytes),
        retransmits: share(before.retransmits, behind.retransmits),
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
        Progress { every, prints: false, total: None, began, last, seen: last, intervals }
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn intervals_lie_on_the_grid_and_the_last_one_ends_with_the_transfer() {
        let mut progress = progress(Duration::from_secs(1));
        for (ms, bytes, retransmits) in
            [(500, 0, 0), (900, 700, 0), (1500, 1000, 2), (2400, 1800, 2), (2600, 3000, 4)]
        {
            progress.at(at(ms), bytes, retransmits);
        }
        let found = progress.intervals();
        let ends: Vec<_> = found.iter().map(|i| (i.start_s, i.end_s)).collect();
        assert_eq!(ends, [(0.0, 1.0), (1.0, 2.0), (2.0, 2.1)]);
        // Half of what came between the calls at 2.4 s and 2.6 s.
        let counts: Vec<_> = found.iter().map(|i| (i.bytes, i.retransmits)).collect();
        assert_eq!(counts, [(1000, 2), (1400, 1), (600, 1)]);
        assert_eq!(found[1].bits_per_second, 11_200.0);
        assert_eq!(
            line(&found[0], Some((1000, 4000))),
            "      0.00-1.00 s   1000 bytes    8.00 kb/s      2 retransmits    25 %"
        );
    }

    #[test]
    fn a_long_pause_is_one_interval() {
        let mut progress = progress(Duration::from_secs(1));
        progress.at(at(0), 0, 0);
        progress.at(at(5000), 5000, 0);
        progress.at(at(1_000_500), 9000, 0);
        let found = progress.intervals();
        assert_eq!((found.len(), found[5].end_s, found[6].end_s), (7, 1000.0, 1000.5));
        assert_eq!(found.iter().map(|i| i.bytes).sum::<u64>(), 9000);
    }

    #[test]
    fn an_interval_of_nothing_is_none() {
        let mut progress = progress(Duration::ZERO);
        (0..5).for_each(|n| progress.at(at(n * 1000), n, 0));
        assert!(progress.intervals().is_empty());
    }
}
