//! Runs each side on its own thread, each on its own core. An idle side spins briefly, then sleeps
//! until its doorbell rings or a timer is due.
//!
//! Called by: `run.rs`. The main thread shows progress, watches Ctrl-C, answers `show` (the threads
//! serve their mailboxes) and ends a stalled run. [`Shared`] has the flags and counts that the
//! threads share and read at every tick.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration as Span;

use anyhow::{Result, anyhow, bail};
use wirespeed::device::Doorbell;
use wirespeed::{Duration, Instant, Stack};

use super::ends::{Side, Turn};
use super::one_thread::{STALL, TICK, deadline, stalled};
use super::plan::Plan;
use super::progress::{Count, Progress};
use super::report::memory::{Measured, Times};
use crate::clock::{self, Clock, Interrupt, Lap, Stopwatch};
use observe::{Mailbox, Service};

/// Looks at an empty ring before going to sleep: about the cost of a wake-up.
const LOOKS: u32 = 200;

struct Shared {
    clock: Clock,
    start: Barrier,
    /// Stop sending.
    stop: AtomicBool,
    /// End at once: nothing moves, or the other thread failed.
    abort: AtomicBool,
    /// In the order of [`Plan::labels`].
    flows: Vec<Moved>,
    seats: [Seat; 2],
}

/// What a flow has moved.
#[derive(Default)]
struct Moved {
    sent: AtomicU64,
    received: AtomicU64,
    retransmits: AtomicU64,
}

/// What concerns one thread.
struct Seat {
    bell: Doorbell,
    mailbox: Mailbox,
    /// All that it sends has left.
    has_sent: AtomicBool,
}

/// The result of a thread; no lap if it was aborted.
struct Finished {
    side: Side,
    began: Instant,
    lap: Option<Lap>,
    pinned: bool,
}

/// Move everything.
pub(super) fn run(
    plan: &Plan,
    sides: [Side; 2],
    interrupt: &Interrupt,
    control: Service,
) -> Result<Measured> {
    let cores = clock::cores(2);
    // Unpinned if there is only one core: the system places two threads better.
    let core = |n: usize| (cores.len() == 2).then(|| cores[n]);
    let shared = Shared::new(plan, &sides);
    let mut progress = Progress::new(plan, plan.bytes());
    progress.at(shared.clock.now(), shared.counts());
    let (news, done) = channel::<()>();
    let (finished, mut control) = thread::scope(|scope| {
        let (shared, core) = (&shared, &core);
        let mut number = 0..;
        let threads = sides.map(|side| {
            let (news, n) = (news.clone(), number.next().unwrap_or(0));
            scope.spawn(move || {
                let _news = news;
                shared.guard(n, || drive(plan, (side, n), shared, core(n)))
            })
        });
        drop(news);
        let control = attend(plan, shared, control, (&mut progress, interrupt), |tick| {
            done.recv_timeout(Span::from(tick)) == Err(RecvTimeoutError::Timeout)
        });
        (threads.map(thread::ScopedJoinHandle::join), control)
    });
    let panicked = |_| anyhow!("a thread of the transfer panicked");
    let [left, right] = finished.map(|joined| joined.map_err(panicked));
    let (left, right) = (left?, right?);
    let (left, right) = match (left, right) {
        (Ok(left), Ok(right)) => (left, right),
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let (laps, began) = ([left.lap, right.lap], [left.began, right.began]);
    let pinned = left.pinned && right.pinned;
    let mut sides = [left.side, right.side];
    let [left, right] = &mut sides;
    let [name, other_name] = plan.stack_names();
    let stacks = (&mut left.end.stack, &mut right.end.stack);
    control.finish(|| shared.clock.now(), &mut [(name, stacks.0), (other_name, stacks.1)]);
    let [Some(here), Some(there)] = laps else { bail!(stalled(&sides)) };
    sides.iter_mut().try_for_each(Side::attend_files)?;
    // The receiver knows when everything has arrived.
    let lap = if plan.directions.len() > 1 && here.wall_s > there.wall_s { here } else { there };
    // With files the sides wait for each other's hashing, so the busier one determines the time.
    let transfer_s = match plan.file() {
        Some(_) => here.busy_s.max(there.busy_s),
        None => lap.wall_s,
    };
    let times = Times { began, lap, cpu_s: [here.cpu_s, there.cpu_s], transfer_s };
    let mut measured = Measured::new(plan, &mut sides, times, progress.intervals());
    (measured.pinned, measured.interrupted) = (pinned, interrupt.noted());
    Ok(measured)
}

/// The work of the main thread during the transfer.
fn attend(
    plan: &Plan,
    shared: &Shared,
    mut control: Service,
    (progress, interrupt): (&mut Progress, &Interrupt),
    mut running: impl FnMut(Duration) -> bool,
) -> Service {
    let [name, other_name] = plan.stack_names();
    let [left, right] = &shared.seats;
    let (mut moved, mut moved_at) = (u64::MAX, shared.clock.now());
    while running(control.look_within(TICK)) {
        let now = shared.clock.now();
        progress.at(now, shared.counts());
        if interrupt.noted() {
            shared.stop.store(true, Ordering::Relaxed);
            shared.ring();
        }
        control.poll_mailboxes(now, &[(name, &left.mailbox), (other_name, &right.mailbox)]);
        let counted = shared.moved();
        if counted != moved {
            (moved, moved_at) = (counted, now);
        } else if now.since(moved_at) > STALL {
            shared.abort.store(true, Ordering::Relaxed);
            shared.ring();
            return control;
        }
    }
    progress.at(shared.clock.now(), shared.counts());
    control
}

impl Shared {
    fn new(plan: &Plan, sides: &[Side; 2]) -> Shared {
        let seat = |side: &Side| Seat {
            bell: side.bell.clone(),
            mailbox: Mailbox::new(side.bell.clone()),
            has_sent: AtomicBool::new(false),
        };
        Shared {
            clock: Clock::start(),
            start: Barrier::new(2),
            stop: AtomicBool::new(false),
            abort: AtomicBool::new(false),
            flows: plan.labels().map(|_| Moved::default()).collect(),
            seats: [seat(&sides[0]), seat(&sides[1])],
        }
    }

    /// Tell the other threads what side `n` has moved.
    fn publish(&self, n: usize, side: &Side) {
        let streams = side.streams.len();
        for (at, stream) in side.streams.iter().enumerate() {
            if let (Some(send), Some(flow)) = (&stream.send, self.flows.get(n * streams + at)) {
                flow.sent.store(send.bytes, Ordering::Relaxed);
                flow.retransmits.store(stream.retransmits(&side.end), Ordering::Relaxed);
            }
            let flow = self.flows.get((1 - n) * streams + at);
            if let (Some(receive), Some(flow)) = (&stream.receive, flow) {
                flow.received.store(receive.bytes, Ordering::Relaxed);
            }
        }
        if side.has_sent() && !self.seats[n].has_sent.swap(true, Ordering::Release) {
            self.seats[1 - n].bell.ring();
        }
    }

    /// For the progress lines: what has arrived.
    fn counts(&self) -> Vec<Count> {
        let count = |flow: &Moved| Count {
            bytes: flow.received.load(Ordering::Relaxed),
            retransmits: flow.retransmits.load(Ordering::Relaxed),
        };
        self.flows.iter().map(count).collect()
    }

    /// Bytes sent and received.
    fn moved(&self) -> u64 {
        let moved = |flow: &Moved| {
            flow.sent.load(Ordering::Relaxed) + flow.received.load(Ordering::Relaxed)
        };
        self.flows.iter().map(moved).sum()
    }

    fn ring(&self) {
        for seat in &self.seats {
            seat.bell.ring();
        }
    }

    /// Run one thread; if it fails, abort the other.
    fn guard<T>(&self, n: usize, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let result = run();
        self.seats[n].mailbox.close();
        if result.is_err() {
            self.abort.store(true, Ordering::Relaxed);
            self.ring();
        }
        result
    }

    fn aborted(&self) -> bool {
        self.abort.load(Ordering::Relaxed)
    }

    /// Sleep until `stack` has input, a timer is due or `urgent` is true, for a tick at most.
    fn wait(
        &self,
        stack: &Stack,
        bell: &Doorbell,
        watch: &mut Stopwatch,
        urgent: impl Fn() -> bool,
    ) {
        for _ in 0..LOOKS {
            if stack.has_input() {
                return;
            }
            core::hint::spin_loop();
        }
        bell.arm();
        let now = self.clock.now();
        let due = stack.next_deadline().since(now).min(TICK);
        // Check again after arming: an event before that did not ring.
        if stack.has_input() || due == Duration::ZERO || self.aborted() || urgent() {
            return bell.disarm();
        }
        bell.sleep(Some(Span::from(due)));
        watch.slept_s += self.clock.now().since(now).as_secs_f64();
    }
}

/// The thread of side `n`.
fn drive(
    plan: &Plan,
    (mut side, n): (Side, usize),
    shared: &Shared,
    core: Option<usize>,
) -> Result<Finished> {
    let pinned = clock::pin(core);
    let (mine, other) = (&shared.seats[n], &shared.seats[1 - n]);
    shared.start.wait();
    let mut watch = Stopwatch::start(shared.clock);
    let began = shared.clock.now();
    let until = deadline(plan, began);
    let (mut next_tick, mut lap) = (Instant::ZERO, None);
    loop {
        let now = shared.clock.now();
        if now >= next_tick || mine.mailbox.is_asked() {
            next_tick = (now + TICK).min(if until > now { until } else { Instant::NEVER });
            shared.publish(n, &side);
            if shared.stop.load(Ordering::Relaxed) || now >= until {
                side.stop();
            }
            if shared.aborted() {
                return Ok(Finished { side, began, lap: None, pinned });
            }
            mine.mailbox.serve(&mut side.end.stack);
        }
        // Loaded before the turn, so that an idle turn has seen everything that was sent.
        let peer_has_sent = other.has_sent.load(Ordering::Acquire);
        let turn = side.turn(now, peer_has_sent)?;
        if lap.is_none() && (turn == Turn::Done || !side.sends() && side.has_received()) {
            lap = Some(watch.lap());
        }
        if side.has_sent() && !mine.has_sent.load(Ordering::Relaxed) || turn == Turn::Done {
            shared.publish(n, &side);
        }
        if turn == Turn::Done {
            return Ok(Finished { side, began, lap, pinned });
        }
        if side.awaits_file() {
            watch.beside(|| side.attend_files())?;
        } else if turn == Turn::Idle {
            shared.wait(&side.end.stack, &side.bell, &mut watch, || {
                shared.clock.now() >= next_tick
                    || mine.mailbox.is_asked()
                    || !peer_has_sent && other.has_sent.load(Ordering::Acquire)
            });
        }
    }
}
