//! Progress lines like iperf3's: what arrived since the last line, the rate, and retransmissions;
//! of several flows a line each and the sum of each direction. They go to standard error: always if
//! that is a terminal, otherwise if `-i` asks for them.
//!
//! Called by: the loops, a few times a second; the report has the intervals. Intervals begin and
//! end at multiples of `-i` from the beginning, by what was counted right before and behind that
//! time; the last one ends with the transfer.

use std::io::IsTerminal;

use serde::Serialize;
use wirespeed::{Duration, Instant};

use super::plan::{Direction, Label, Plan};
use super::report::{self, lengths};
use crate::output;

/// Intervals of all flows kept for the report; of a longer transfer the first ones.
const KEPT_MAX: usize = 200_000;
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

impl Interval {
    /// A transfer as a single interval.
    pub(super) fn whole(seconds: f64, bytes: u64, retransmits: u64) -> Interval {
        let bits_per_second = report::ratio(bytes as f64 * 8.0, seconds);
        Interval { start_s: 0.0, end_s: seconds, bytes, bits_per_second, retransmits }
    }
}

/// What one flow has moved, and how many of its segments were retransmitted, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) bytes: u64,
    pub(super) retransmits: u64,
}

/// The counts at a time.
#[derive(Clone)]
struct Mark {
    at: Instant,
    counts: Vec<Count>,
}

/// The lines so far.
pub(super) struct Progress {
    every: Duration,
    prints: bool,
    labels: Vec<Label>,
    /// Bytes of the only direction, if they are known.
    total: Option<u64>,
    began: Option<Instant>,
    /// At the end of the last interval, and at the last call.
    last: Mark,
    seen: Mark,
    /// Of each flow.
    intervals: Vec<Vec<Interval>>,
}

impl Progress {
    /// For the transfer of a plan, of so many bytes each way if that is known.
    pub(super) fn new(plan: &Plan, total: Option<u64>) -> Progress {
        let is_asked = plan.interval.is_some();
        let labels: Vec<Label> = plan.labels().collect();
        let none = Mark { at: Instant::ZERO, counts: vec![Count::default(); labels.len()] };
        Progress {
            every: plan.interval.unwrap_or(Duration::from_secs(1)),
            prints: is_asked || std::io::stderr().is_terminal(),
            total: total.filter(|&n| n > 0 && plan.directions.len() == 1),
            began: None,
            last: none.clone(),
            seen: none,
            intervals: vec![Vec::new(); labels.len()],
            labels,
        }
    }

    /// Record what the flows have moved so far, in the order of [`Plan::labels`]. The first call
    /// begins the first interval.
    pub(super) fn at(&mut self, now: Instant, counts: Vec<Count>) {
        let mark = Mark { at: now, counts };
        let Some(began) = self.began else {
            (self.began, self.last, self.seen) = (Some(now), mark.clone(), mark);
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
        let span = (self.last.at.since(began).as_secs_f64(), end.at.since(began).as_secs_f64());
        let pairs = self.last.counts.iter().zip(&end.counts);
        let each: Vec<Interval> = pairs.map(|(last, now)| interval(span, last, now)).collect();
        if self.prints {
            output::err(self.lines(&each, &end).trim_end());
        }
        let kept = KEPT_MAX / self.labels.len().max(1);
        for (intervals, interval) in self.intervals.iter_mut().zip(each) {
            if intervals.len() < kept {
                intervals.push(interval);
            }
        }
        self.last = end;
    }

    /// The lines of an interval: the only flow's, or each flow's and the sum of each direction.
    fn lines(&self, each: &[Interval], end: &Mark) -> String {
        let part = self.total.map(|total| (end.counts.iter().map(|c| c.bytes).sum(), total));
        if let [interval] = each {
            return line(interval, part);
        }
        let has = |wanted| self.labels.iter().any(|label| label.direction == wanted);
        let directions = [Direction::Tx, Direction::Rx].into_iter().filter(|&d| has(d));
        let (has_both, mut lines) = (has(Direction::Tx) && has(Direction::Rx), String::new());
        let mut add = |label: Label, interval: &Interval, part| {
            lines += &format!("{} {}\n", label.text(has_both), line(interval, part));
        };
        for direction in directions {
            let its = || self.labels.iter().zip(each).filter(|(l, _)| l.direction == direction);
            its().for_each(|(&label, interval)| add(label, interval, None));
            let alone: Vec<&[Interval]> = its().map(|(_, i)| std::slice::from_ref(i)).collect();
            if let [sum] = sum_of(&alone)[..]
                && alone.len() > 1
            {
                add(Label { stream: None, direction }, &sum, part);
            }
        }
        lines
    }

    /// The transfer has ended with the last call: take each flow's intervals, for the report, with
    /// the one that has begun.
    pub(super) fn intervals(&mut self) -> Vec<Vec<Interval>> {
        if let Some(began) = self.began
            && self.every > Duration::ZERO
            && self.seen.at > self.last.at
        {
            self.take(began, self.seen.clone());
        }
        std::mem::take(&mut self.intervals)
    }
}

/// Interval by interval, the sum of flows.
pub(super) fn sum_of(flows: &[&[Interval]]) -> Vec<Interval> {
    let Some((first, others)) = flows.split_first() else { return Vec::new() };
    let mut sum = first.to_vec();
    for (all, one) in others.iter().flat_map(|flow| flow.iter().enumerate()) {
        let Some(all) = sum.get_mut(all) else { continue };
        all.bytes += one.bytes;
        all.bits_per_second += one.bits_per_second;
        all.retransmits += one.retransmits;
    }
    sum
}

/// What was counted at a time between two calls, as if it had come evenly.
fn between(before: &Mark, behind: &Mark, at: Instant) -> Mark {
    let (part, whole) = (at.since(before.at).as_nanos(), behind.at.since(before.at).as_nanos());
    let share = |from: u64, to: u64| {
        let more = u128::from(to.saturating_sub(from)) * u128::from(part);
        from + (more / u128::from(whole.max(1))) as u64
    };
    let pairs = before.counts.iter().zip(&behind.counts);
    let counts = pairs.map(|(from, to)| Count {
        bytes: share(from.bytes, to.bytes),
        retransmits: share(from.retransmits, to.retransmits),
    });
    Mark { at, counts: counts.collect() }
}

/// What was counted between two times, in seconds from the beginning.
fn interval((start_s, end_s): (f64, f64), last: &Count, now: &Count) -> Interval {
    let bytes = now.bytes.saturating_sub(last.bytes);
    Interval {
        start_s,
        end_s,
        bytes,
        bits_per_second: bytes as f64 * 8.0 / (end_s - start_s),
        retransmits: now.retransmits.saturating_sub(last.retransmits),
    }
}

pub(super) fn line(interval: &Interval, of: Option<(u64, u64)>) -> String {
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

    fn progress(every: Duration, labels: &[Label]) -> Progress {
        let last = Mark { at: Instant::ZERO, counts: vec![Count::default(); labels.len()] };
        Progress {
            every,
            prints: false,
            labels: labels.to_vec(),
            total: None,
            began: None,
            last: last.clone(),
            seen: last,
            intervals: vec![Vec::new(); labels.len()],
        }
    }

    fn alone(every: Duration) -> Progress {
        progress(every, &[Label { stream: Some(1), direction: Direction::Tx }])
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn counts(bytes: u64, retransmits: u64) -> Vec<Count> {
        vec![Count { bytes, retransmits }]
    }

    #[test]
    fn intervals_lie_on_the_grid_and_the_last_one_ends_with_the_transfer() {
        let mut progress = alone(Duration::from_secs(1));
        for (ms, bytes, retransmits) in
            [(500, 0, 0), (900, 700, 0), (1500, 1000, 2), (2400, 1800, 2), (2600, 3000, 4)]
        {
            progress.at(at(ms), counts(bytes, retransmits));
        }
        let found = &progress.intervals()[0];
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
        let mut progress = alone(Duration::from_secs(1));
        progress.at(at(0), counts(0, 0));
        progress.at(at(5000), counts(5000, 0));
        progress.at(at(1_000_500), counts(9000, 0));
        let found = &progress.intervals()[0];
        assert_eq!((found.len(), found[5].end_s, found[6].end_s), (7, 1000.0, 1000.5));
        assert_eq!(found.iter().map(|i| i.bytes).sum::<u64>(), 9000);
    }

    #[test]
    fn an_interval_of_nothing_is_none() {
        let mut progress = alone(Duration::ZERO);
        (0..5).for_each(|n| progress.at(at(n * 1000), counts(n, 0)));
        assert!(progress.intervals()[0].is_empty());
    }

    #[test]
    fn several_flows_have_a_line_each_and_a_sum_each_way() {
        let of = |direction| [1, 2].map(|n| Label { stream: Some(n), direction });
        let labels = [of(Direction::Tx), of(Direction::Rx)].concat();
        let progress = progress(Duration::from_secs(1), &labels);
        let each = [1000, 500, 70, 7].map(|bytes| Interval::whole(1.0, bytes, 0));
        let lines = progress.lines(&each, &progress.last);
        let names: Vec<&str> = lines.lines().map(|line| &line[..9]).collect();
        let each_way =
            ["[  1][TX]", "[  2][TX]", "[SUM][TX]", "[  1][RX]", "[  2][RX]", "[SUM][RX]"];
        assert_eq!(names, each_way);
        assert!(lines.contains("1.46 KiB") && lines.contains("77 bytes"), "{lines}");
    }
}
