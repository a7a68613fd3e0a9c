//! Runs both stacks on one thread, in turns: the shortest path for a byte.
//!
//! Called by: `run.rs`. The clock is read once a turn. One turn in eight is also timed in its
//! middle, to divide the thread's CPU time between the ends.

use std::time::Duration as Span;

use anyhow::{Result, bail};
use wirespeed::{Duration, Instant};

use super::ends::{Receiver, Sender, Turn};
use super::plan::{Goal, Plan};
use super::progress::Progress;
use super::report::memory::{Cpu, Measured};
use crate::clock::{self, Clock, Interrupt, Lap, Stopwatch};
use crate::control_service::ControlService;

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

/// Time of sampled turns in nanoseconds, by end.
#[derive(Default)]
struct Split {
    sender_ns: u64,
    receiver_ns: u64,
}

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
    (mut sender, mut receiver): (Sender, Receiver),
    interrupt: &Interrupt,
    mut control: ControlService,
) -> Result<Measured> {
    let pinned = clock::pin(clock::cores(1).first().copied());
    let mut progress = Progress::new(plan);
    let clock = Clock::start();
    let ended =
        turns(plan, (&mut sender, &mut receiver), interrupt, (&mut progress, &mut control), clock);
    let measured = ended.map(|Ended { lap, share, interrupted }| {
        receiver.drain();
        let (received, retransmits) = (receiver.bytes, sender.retransmits());
        let cpu = Cpu { sender_s: lap.cpu_s * share, receiver_s: lap.cpu_s * (1.0 - share) };
        let mut measured = Measured::new(&mut sender, &mut receiver, lap, cpu);
        (measured.transfer_s, measured.pinned, measured.interrupted) =
            (lap.counted_s, pinned, interrupted);
        progress.at(clock.now(), received, retransmits);
        measured.intervals = progress.intervals();
        measured
    });
    let (sender, receiver) = (&mut sender.end.stack, &mut receiver.end.stack);
    control.finish(|| clock.now(), &mut [("sender", sender), ("receiver", receiver)]);
    measured
}

/// The result of the turns.
struct Ended {
    lap: Lap,
    /// The sender's share of the CPU time, 0 to 1.
    share: f64,
    interrupted: bool,
}

fn turns(
    plan: &Plan,
    (sender, receiver): (&mut Sender, &mut Receiver),
    interrupt: &Interrupt,
    (progress, control): (&mut Progress, &mut ControlService),
    clock: Clock,
) -> Result<Ended> {
    let mut watch = Stopwatch::start(clock);
    let start = clock.now();
    let mut ticks =
        Ticks { next: start, deadline: deadline(plan, start), moved: 0, moved_at: start };
    let (mut split, mut lap, mut interrupted) = (Split::default(), None, false);
    for turn in 0_u64.. {
        let now = clock.now();
        if now >= ticks.next {
            interrupted |= interrupt.noted();
            if interrupted || now >= ticks.deadline {
                sender.source.stop();
            }
            ticks.look(now, sender, receiver)?;
            watch.beside(|| progress.at(now, receiver.bytes, sender.retransmits()));
            let mut stacks =
                [("sender", &mut sender.end.stack), ("receiver", &mut receiver.end.stack)];
            if control.is_watched() {
                // Copying packets for a client counts as time of the transfer.
                control.poll(now, &mut stacks);
            } else {
                watch.beside(|| control.poll(now, &mut stacks));
            }
            ticks.next = ticks.next.min(now + control.look_within(TICK));
        }
        let sent = sender.turn(now)?;
        let middle = turn.is_multiple_of(SPLIT_EVERY).then(|| clock.now());
        let received = receiver.turn(now)?;
        if let Some(middle) = middle {
            split.sender_ns += middle.since(now).as_nanos();
            split.receiver_ns += clock.now().since(middle).as_nanos();
        }
        receiver.finished |= receiver.is_udp() && sent == Turn::Done && received == Turn::Idle;
        if receiver.finished && lap.is_none() {
            lap = Some(watch.lap());
        }
        if sent == Turn::Done && received == Turn::Done {
            break;
        }
        if sender.source.is_dry() || receiver.sink.is_full() {
            watch.beside(|| {
                receiver.drain();
                if sender.source.is_dry() { sender.source.refill() } else { Ok(()) }
            })?;
        }
        if sent != Turn::Worked && received == Turn::Idle {
            nap(sender, receiver, clock, &mut watch);
        }
    }
    let lap = lap.unwrap_or_else(|| watch.lap());
    Ok(Ended { lap, share: split.sender_share(), interrupted })
}

impl Ticks {
    /// Fail if nothing moves; set the time of the next check.
    fn look(&mut self, now: Instant, sender: &Sender, receiver: &Receiver) -> Result<()> {
        let moved = sender.bytes + receiver.bytes + u64::from(receiver.finished);
        if moved != self.moved {
            (self.moved, self.moved_at) = (moved, now);
        } else if now.since(self.moved_at) > STALL {
            bail!(stalled(&sender.state(), &receiver.state()));
        }
        let next = now + TICK;
        self.next = if self.deadline > now { next.min(self.deadline) } else { next };
        Ok(())
    }
}

/// The error message when nothing moved for [`STALL`].
pub(super) fn stalled(sender: &str, receiver: &str) -> String {
    let seconds = STALL.as_secs_f64();
    format!(
        "nothing moved for {seconds} seconds; please report this with the two lines below\n\
         sender: {sender}\nreceiver: {receiver}"
    )
}

impl Split {
    /// The sender's share of the sampled time, 0 to 1.
    fn sender_share(&self) -> f64 {
        let all = self.sender_ns + self.receiver_ns;
        if all == 0 { 0.5 } else { self.sender_ns as f64 / all as f64 }
    }
}

/// Neither end has work before a timer: sleep until then.
fn nap(sender: &Sender, receiver: &Receiver, clock: Clock, watch: &mut Stopwatch) {
    let (left, right) = (&sender.end.stack, &receiver.end.stack);
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
