//! Runs each stack on its own thread, each on its own core. An idle end spins briefly, then sleeps
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

use super::ends::{Receiver, Sender, Turn};
use super::one_thread::{STALL, TICK, deadline, stalled};
use super::plan::Plan;
use super::progress::Progress;
use super::report::memory::{Cpu, Measured};
use crate::clock::{self, Clock, Interrupt, Lap, Stopwatch};
use crate::control_service::{ControlService, Mailbox};

/// Looks at an empty ring before going to sleep: about the cost of a wake-up.
const LOOKS: u32 = 200;

struct Shared {
    clock: Clock,
    start: Barrier,
    /// Stop sending.
    stop: AtomicBool,
    /// End at once: nothing moves, or the other end failed.
    abort: AtomicBool,
    sender_done: AtomicBool,
    sent: AtomicU64,
    received: AtomicU64,
    retransmits: AtomicU64,
    bells: [Doorbell; 2],
    mailboxes: [Mailbox; 2],
}

/// The result of a thread; no lap if it was aborted.
struct Finished<T> {
    end: T,
    lap: Option<Lap>,
    pinned: bool,
}

/// Move everything.
pub(super) fn run(
    plan: &Plan,
    (sender, receiver): (Sender, Receiver),
    interrupt: &Interrupt,
    control: ControlService,
) -> Result<Measured> {
    let cores = clock::cores(2);
    // Unpinned if there is only one core: the system places two threads better.
    let core = |n: usize| (cores.len() == 2).then(|| cores[n]);
    let shared = Shared {
        clock: Clock::start(),
        start: Barrier::new(2),
        stop: AtomicBool::new(false),
        abort: AtomicBool::new(false),
        sender_done: AtomicBool::new(false),
        sent: AtomicU64::new(0),
        received: AtomicU64::new(0),
        retransmits: AtomicU64::new(0),
        bells: [sender.bell.clone(), receiver.bell.clone()],
        mailboxes: [Mailbox::new(sender.bell.clone()), Mailbox::new(receiver.bell.clone())],
    };
    let mut progress = Progress::new(plan);
    let (news, done) = channel::<()>();
    let (sender, receiver, mut control) = thread::scope(|scope| {
        let other_news = news.clone();
        let (shared, core) = (&shared, &core);
        let sending = scope.spawn(move || {
            let _news = news;
            shared.guard(0, || send(plan, sender, shared, core(0)))
        });
        let receiving = scope.spawn(move || {
            let _news = other_news;
            shared.guard(1, || receive(receiver, shared, core(1)))
        });
        let control = attend(shared, control, (&mut progress, interrupt), |tick| {
            done.recv_timeout(Span::from(tick)) == Err(RecvTimeoutError::Timeout)
        });
        (sending.join(), receiving.join(), control)
    });
    let panicked = |_| anyhow!("a thread of the transfer panicked");
    let (sender, receiver) = (sender.map_err(panicked)?, receiver.map_err(panicked)?);
    let (mut sender, mut receiver) = match (sender, receiver) {
        (Ok(sender), Ok(receiver)) => (sender, receiver),
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let stacks = (&mut sender.end.end.stack, &mut receiver.end.end.stack);
    control.finish(|| shared.clock.now(), &mut [("sender", stacks.0), ("receiver", stacks.1)]);
    let (Some(sent), Some(received)) = (sender.lap, receiver.lap) else {
        bail!(stalled(&sender.end.state(), &receiver.end.state()));
    };
    receiver.end.drain();
    let cpu = Cpu { sender_s: sent.cpu_s, receiver_s: received.cpu_s };
    let mut measured = Measured::new(&mut sender.end, &mut receiver.end, received, cpu);
    // With files the ends wait for each other's hashing, so the busier end determines the time.
    measured.transfer_s = match plan.file() {
        Some(_) => sent.busy_s.max(received.busy_s),
        None => received.wall_s,
    };
    measured.pinned = sender.pinned && receiver.pinned;
    measured.interrupted = interrupt.noted();
    measured.intervals = progress.intervals();
    Ok(measured)
}

/// The work of the main thread during the transfer.
fn attend(
    shared: &Shared,
    mut control: ControlService,
    (progress, interrupt): (&mut Progress, &Interrupt),
    mut running: impl FnMut(Duration) -> bool,
) -> ControlService {
    let (mut moved, mut moved_at) = (u64::MAX, shared.clock.now());
    while running(control.look_within(TICK)) {
        let sent = shared.sent.load(Ordering::Relaxed);
        let received = shared.note(progress);
        if interrupt.noted() {
            shared.stop.store(true, Ordering::Relaxed);
            shared.ring();
        }
        let now = shared.clock.now();
        let [sender, receiver] = &shared.mailboxes;
        control.poll_mailboxes(now, &[("sender", sender), ("receiver", receiver)]);
        if sent + received != moved {
            (moved, moved_at) = (sent + received, now);
        } else if now.since(moved_at) > STALL {
            shared.abort.store(true, Ordering::Relaxed);
            shared.ring();
            return control;
        }
    }
    shared.note(progress);
    control
}

impl Shared {
    /// Note for the progress lines what has arrived; returns that.
    fn note(&self, progress: &mut Progress) -> u64 {
        let received = self.received.load(Ordering::Relaxed);
        let retransmits = self.retransmits.load(Ordering::Relaxed);
        progress.at(self.clock.now(), received, retransmits);
        received
    }

    fn ring(&self) {
        for bell in &self.bells {
            bell.ring();
        }
    }

    /// Run one end; if it fails, abort the other.
    fn guard<T>(&self, number: usize, end: impl FnOnce() -> Result<T>) -> Result<T> {
        let result = end();
        self.mailboxes[number].close();
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

/// The sending thread.
fn send(
    plan: &Plan,
    mut sender: Sender,
    shared: &Shared,
    core: Option<usize>,
) -> Result<Finished<Sender>> {
    let pinned = clock::pin(core);
    shared.start.wait();
    let mut watch = Stopwatch::start(shared.clock);
    let until = deadline(plan, shared.clock.now());
    let mut next_tick = Instant::ZERO;
    loop {
        let now = shared.clock.now();
        if now >= next_tick || shared.mailboxes[0].is_asked() {
            next_tick = (now + TICK).min(if until > now { until } else { Instant::NEVER });
            shared.sent.store(sender.bytes, Ordering::Relaxed);
            shared.retransmits.store(sender.retransmits(), Ordering::Relaxed);
            if shared.stop.load(Ordering::Relaxed) || now >= until {
                sender.source.stop();
            }
            if shared.aborted() {
                return Ok(Finished { end: sender, lap: None, pinned });
            }
            shared.mailboxes[0].serve(&mut sender.end.stack);
        }
        match sender.turn(now)? {
            Turn::Done => break,
            Turn::Worked => {}
            Turn::Idle if sender.source.is_dry() => {}
            Turn::Idle => shared.wait(&sender.end.stack, &sender.bell, &mut watch, || {
                shared.clock.now() >= next_tick || shared.mailboxes[0].is_asked()
            }),
        }
        if sender.source.is_dry() {
            watch.beside(|| sender.source.refill())?;
        }
    }
    let lap = watch.lap();
    shared.sender_done.store(true, Ordering::Release);
    shared.ring();
    Ok(Finished { end: sender, lap: Some(lap), pinned })
}

/// The receiving thread.
fn receive(
    mut receiver: Receiver,
    shared: &Shared,
    core: Option<usize>,
) -> Result<Finished<Receiver>> {
    let pinned = clock::pin(core);
    shared.start.wait();
    let mut watch = Stopwatch::start(shared.clock);
    let (mut next_tick, mut lap) = (Instant::ZERO, None);
    loop {
        let now = shared.clock.now();
        if now >= next_tick || shared.mailboxes[1].is_asked() {
            next_tick = now + TICK;
            shared.received.store(receiver.bytes, Ordering::Relaxed);
            if shared.aborted() {
                return Ok(Finished { end: receiver, lap: None, pinned });
            }
            shared.mailboxes[1].serve(&mut receiver.end.stack);
        }
        // Loaded before the turn, so that an idle turn has seen everything that was sent.
        let all_sent = shared.sender_done.load(Ordering::Acquire);
        let turn = receiver.turn(now)?;
        receiver.finished |= receiver.is_udp() && all_sent && turn == Turn::Idle;
        if receiver.finished && lap.is_none() {
            lap = Some(watch.lap());
        }
        match turn {
            Turn::Done => {
                shared.received.store(receiver.bytes, Ordering::Relaxed);
                return Ok(Finished { end: receiver, lap, pinned });
            }
            Turn::Worked => {}
            Turn::Idle => shared.wait(&receiver.end.stack, &receiver.bell, &mut watch, || {
                shared.mailboxes[1].is_asked()
                    || receiver.is_udp() && shared.sender_done.load(Ordering::Acquire)
            }),
        }
        if receiver.sink.is_full() {
            watch.beside(|| receiver.drain());
        }
    }
}
