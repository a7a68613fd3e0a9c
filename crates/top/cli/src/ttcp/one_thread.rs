//! Runs both stacks on one thread, in turns: the shortest path for a byte.
//!
//! Called by: `run.rs`. The clock is read once a turn. One turn in eight is also timed in its
//! middle, to divide the thread's CPU time between the sides.

use std::time::Duration as Span;

use anyhow::{Result, bail};
use wirespeed::{Duration, Instant};

use super::ends::{Side, Turn};
use super::plan::{Goal, Plan};
use super::progress::{Count, Progress};
use super::report::memory::{Measured, Times};
use crate::clock::{self, Clock, Interrupt, Lap, Stopwatch};
use observe::Service;

/// Time between checks of Ctrl-C, progress and stalls.
pub(super) const TICK: Duration = Duration::from_millis(50);
/// If nothing moves for this long, something is broken, and the run ends with an error.
pub(super) const STALL: Duration = Duration::from_secs(20);
/// Longest sleep of an idle loop.
const NAP: Duration = Duration::from_millis(2);
const SPLIT_EVERY: u64 = 8;

/// The checks that interrupt the work.
struct Ticks {
    next: Instant,
    deadline: Instant,
    moved: u64,
    moved_at: Instant,
}

/// Time of sampled turns in nanoseconds, by side.
#[derive(Default)]
struct Split([u64; 2]);

/// When sending ends, if the goal is a time.
pub(super) fn deadline(plan: &Plan, now: Instant) -> Instant {
    match plan.goal {
        Goal::Seconds(s) => now + Duration::from_nanos((s * 1e9) as u64),
        _ => Instant::NEVER,
    }
}

/// Move everything.
pub(super) fn run(
    plan: &Plan,
    mut sides: [Side; 2],
    interrupt: &Interrupt,
    mut control: Service,
) -> Result<Measured> {
    let pinned = clock::pin(clock::cores(1).first().copied());
    let mut progress = Progress::new(plan, plan.bytes());
    let clock = Clock::start();
    let ended = turns(plan, &mut sides, interrupt, (&mut progress, &mut control), clock);
    let measured = ended.and_then(|Ended { began, lap, share, interrupted }| {
        sides.iter_mut().try_for_each(Side::attend_files)?;
        progress.at(clock.now(), counts(plan, &sides));
        let cpu_s = [lap.cpu_s * share, lap.cpu_s * (1.0 - share)];
        let times = Times { began: [began; 2], lap, cpu_s, transfer_s: lap.counted_s };
        let mut measured = Measured::new(plan, &mut sides, times, progress.intervals());
        (measured.pinned, measured.interrupted) = (pinned, interrupted);
        Ok(measured)
    });
    let [left, right] = &mut sides;
    let [name, other_name] = plan.stack_names();
    let stacks = (&mut left.end.stack, &mut right.end.stack);
    control.finish(|| clock.now(), &mut [(name, stacks.0), (other_name, stacks.1)]);
    measured
}

/// What the flows have moved, in the order of [`Plan::labels`].
fn counts(plan: &Plan, [left, right]: &[Side; 2]) -> Vec<Count> {
    let count = |(from, to): (&Side, &Side), n: usize| Count {
        bytes: to.streams[n].receive.as_ref().map_or(0, |receive| receive.bytes),
        retransmits: from.streams[n].retransmits(&from.end),
    };
    let directions = [(left, right), (right, left)].into_iter().take(plan.directions.len());
    directions.flat_map(|way| (0..plan.parallel).map(move |n| count(way, n))).collect()
}

/// The result of the turns.
struct Ended {
    began: Instant,
    lap: Lap,
    /// The first side's share of the CPU time, 0 to 1.
    share: f64,
    interrupted: bool,
}

fn turns(
    plan: &Plan,
    sides: &mut [Side; 2],
    interrupt: &Interrupt,
    (progress, control): (&mut Progress, &mut Service),
    clock: Clock,
) -> Result<Ended> {
    let mut watch = Stopwatch::start(clock);
    let began = clock.now();
    let mut ticks =
        Ticks { next: began, deadline: deadline(plan, began), moved: 0, moved_at: began };
    let (mut split, mut lap, mut interrupted) = (Split::default(), None, false);
    for turn in 0_u64.. {
        let now = clock.now();
        if now >= ticks.next {
            interrupted |= interrupt.noted();
            if interrupted || now >= ticks.deadline {
                sides.iter_mut().for_each(Side::stop);
            }
            ticks.look(now, sides)?;
            watch.beside(|| progress.at(now, counts(plan, sides)));
            tell(plan, sides, control, now, &mut watch);
            ticks.next = ticks.next.min(now + control.look_within(TICK));
        }
        let [left, right] = &mut *sides;
        let here = left.turn(now, right.has_sent())?;
        let middle = turn.is_multiple_of(SPLIT_EVERY).then(|| clock.now());
        let there = right.turn(now, left.has_sent())?;
        if let Some(middle) = middle {
            split.0[0] += middle.since(now).as_nanos();
            split.0[1] += clock.now().since(middle).as_nanos();
        }
        if lap.is_none() && left.has_received() && right.has_received() {
            lap = Some(watch.lap());
        }
        if here == Turn::Done && there == Turn::Done {
            break;
        }
        if sides.iter().any(Side::awaits_file) {
            watch.beside(|| sides.iter_mut().try_for_each(Side::attend_files))?;
        } else if here != Turn::Worked && there != Turn::Worked {
            nap(sides, clock, &mut watch);
        }
    }
    let lap = lap.unwrap_or_else(|| watch.lap());
    Ok(Ended { began, lap, share: split.share(), interrupted })
}

/// Answer who asks about the stacks.
fn tell(
    plan: &Plan,
    [left, right]: &mut [Side; 2],
    control: &mut Service,
    now: Instant,
    watch: &mut Stopwatch,
) {
    let [name, other_name] = plan.stack_names();
    let mut stacks = [(name, &mut left.end.stack), (other_name, &mut right.end.stack)];
    if control.is_watched() {
        // Copying packets for a client counts as time of the transfer.
        control.poll(now, &mut stacks);
    } else {
        watch.beside(|| control.poll(now, &mut stacks));
    }
}

impl Ticks {
    /// Fail if nothing moves; set the time of the next check.
    fn look(&mut self, now: Instant, sides: &[Side; 2]) -> Result<()> {
        let is_new = |side: &Side| side.moved() + u64::from(side.has_received());
        let moved = sides.iter().map(is_new).sum();
        if moved != self.moved {
            (self.moved, self.moved_at) = (moved, now);
        } else if now.since(self.moved_at) > STALL {
            bail!(stalled(sides));
        }
        let next = now + TICK;
        self.next = if self.deadline > now { next.min(self.deadline) } else { next };
        Ok(())
    }
}

/// The error message when nothing moved for [`STALL`].
pub(super) fn stalled([left, right]: &[Side; 2]) -> String {
    let seconds = STALL.as_secs_f64();
    format!(
        "nothing moved for {seconds} seconds; please report this with the two lines below\n\
         left: {}\nright: {}",
        left.state(),
        right.state()
    )
}

impl Split {
    /// The first side's share of the sampled time, 0 to 1.
    fn share(&self) -> f64 {
        let [left, right] = self.0;
        if left + right == 0 { 0.5 } else { left as f64 / (left + right) as f64 }
    }
}

/// Neither side has work before a timer: sleep until then.
fn nap([left, right]: &[Side; 2], clock: Clock, watch: &mut Stopwatch) {
    let (left, right) = (&left.end.stack, &right.end.stack);
    if left.has_input() || right.has_input() {
        return;
    }
    let now = clock.now();
    let wait = left.next_deadline().min(right.next_deadline()).since(now).min(NAP);
    if wait > Duration::ZERO {
        std::thread::sleep(Span::from(wait));
        watch.slept_s += clock.now().since(now).as_secs_f64();
    }
}
