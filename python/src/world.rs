//! [`World`]: the stacks of a program that share a virtual clock. Time stands still while the
//! program computes, and jumps to the next event of the stacks when all of its threads wait.
//!
//! Called by: `wait.rs`, and `python/wirespeed` for threads and the event loop. Which thread runs
//! is decided by `turns.rs`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration as SystemDuration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use wirespeed::net::{Next, Stepped};
use wirespeed::pair::VirtualClock;
use wirespeed::{Duration, Instant};

use crate::error::Deadlock;
use crate::poller::Poller;
use crate::turns::Turns;
use crate::wait::{Timeout, Try};

/// How long a thread waits for its turn before it lets Python handle signals.
const SIGNALS: SystemDuration = SystemDuration::from_millis(100);

/// How many rounds a waiting thread makes before it lets Python handle signals.
const ROUNDS: u32 = 256;

/// Set when a stack has work before the time that its last step said.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Flag>) {
        self.0.store(true, Ordering::Release);
    }

    fn wake_by_ref(self: &Arc<Flag>) {
        self.0.store(true, Ordering::Release);
    }
}

/// A stack of the world.
struct Node {
    steps: Stepped,
    flag: Arc<Flag>,
    waker: Waker,
    next: Next,
}

impl Node {
    /// Step if there is work at `now`; `true` if there was.
    fn settle(&mut self, now: Instant) -> bool {
        let woken = self.flag.0.swap(false, Ordering::AcqRel);
        let due = match self.next {
            Next::Again => true,
            Next::At(at) => at <= now,
            Next::WhenWoken => false,
            Next::Ended => return false,
        };
        if woken || due {
            self.next = self.steps.step(&self.waker);
        }
        woken || due
    }
}

/// The state that the lock guards.
struct Inner {
    nodes: Vec<Node>,
    turns: Turns,
    closed: bool,
}

/// Stacks that share a virtual clock.
#[pyclass(frozen, module = "wirespeed._native")]
pub(crate) struct World {
    clock: VirtualClock,
    inner: Mutex<Inner>,
    turn: Condvar,
}

impl World {
    pub(crate) fn new(clock: VirtualClock, stacks: Vec<Stepped>) -> World {
        let node = |steps| {
            let flag = Arc::new(Flag(AtomicBool::new(false)));
            Node { steps, waker: Waker::from(flag.clone()), flag, next: Next::Again }
        };
        let nodes = stacks.into_iter().map(node).collect();
        let inner = Inner { nodes, turns: Turns::default(), closed: false };
        World { clock, inner: Mutex::new(inner), turn: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Let the stacks do what is due; `false` if there was nothing.
    fn settle(&self, inner: &mut Inner) -> bool {
        let now = self.clock.now();
        let mut any = false;
        // Every stack is asked in each round: a frame of the second wakes the first.
        while inner.nodes.iter_mut().fold(false, |worked, node| node.settle(now) | worked) {
            any = true;
        }
        any
    }

    /// Let the time pass to the next event of a stack, or to `limit` if that comes first; `false`
    /// if there is neither.
    fn pass(&self, inner: &mut Inner, limit: Option<Instant>) -> bool {
        let next = inner.nodes.iter().filter_map(|node| match node.next {
            Next::Again => Some(self.clock.now()),
            Next::At(at) => Some(at),
            Next::WhenWoken | Next::Ended => None,
        });
        let Some(at) = next.chain(limit).min() else { return false };
        self.clock.advance_to(at);
        true
    }

    /// Try until there is a result; between two attempts other threads run, and time passes.
    pub(crate) fn wait<T: Send>(
        &self,
        py: Python<'_>,
        timeout: Timeout,
        attempt: &mut (dyn FnMut() -> Try<T> + Send),
    ) -> PyResult<Option<T>> {
        let deadline = timeout.virtual_deadline(self.clock.now());
        for round in 1_u32.. {
            let waited = py.detach(|| self.round(deadline, attempt))?;
            match waited {
                Round::Done(answer) => return answer.map(Some),
                Round::TimedOut => return Ok(None),
                Round::Again if round % ROUNDS == 0 => py.check_signals()?,
                Round::Again => {}
                Round::Signals => py.check_signals()?,
            }
        }
        Ok(None)
    }

    fn round<T>(
        &self,
        deadline: Option<Instant>,
        attempt: &mut (dyn FnMut() -> Try<T> + Send),
    ) -> PyResult<Round<T>> {
        let mut inner = self.lock();
        let me = inner.turns.me()?;
        if inner.turns.is_turn_of(me) {
            if inner.closed {
                // The sockets of closed stacks report it.
                drop(inner);
                return match attempt() {
                    Try::Done(answer) => Ok(Round::Done(answer)),
                    Try::Wait => Err(PyRuntimeError::new_err("the world is closed")),
                };
            }
            if self.settle(&mut inner) {
                inner.turns.progress();
            }
            drop(inner);
            if let Try::Done(answer) = attempt() {
                self.lock().turns.progress();
                return Ok(Round::Done(answer));
            }
            inner = self.lock();
            if deadline.is_some_and(|at| at <= self.clock.now()) {
                inner.turns.progress();
                return Ok(Round::TimedOut);
            }
            // If what the attempt has sent was answered at once, this thread tries again.
            let tries_again = self.settle(&mut inner);
            if inner.turns.pass_on(me, deadline, tries_again) {
                let limit = inner.turns.first_deadline();
                if !self.pass(&mut inner, limit) {
                    inner.turns.progress();
                    self.turn.notify_all();
                    let text = "nothing will ever happen in this world, and a call waits: has the \
                                other side a timeout, or did it end without closing its socket?";
                    return Err(Deadlock::new_err(text));
                }
            }
            self.turn.notify_all();
        }
        // Let the others run, until it is this thread's turn again.
        while !inner.turns.is_turn_of(me) && !inner.closed {
            let (locked, waited) =
                self.turn.wait_timeout(inner, SIGNALS).unwrap_or_else(PoisonError::into_inner);
            inner = locked;
            if waited.timed_out() {
                return Ok(Round::Signals);
            }
        }
        if inner.closed {
            inner.turns.take(me);
        }
        Ok(Round::Again)
    }
}

/// The result of one attempt in virtual time.
enum Round<T> {
    Done(PyResult<T>),
    TimedOut,
    Again,
    Signals,
}

#[pymethods]
impl World {
    /// The time of the world in nanoseconds.
    fn time_ns(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    /// Let time pass until the poller has news or `timeout_ns` have passed. `False` if the time is
    /// over; `None` for no limit.
    fn wait_for(&self, py: Python<'_>, poller: &Poller, timeout_ns: Option<u64>) -> PyResult<bool> {
        let timeout = Timeout::from_nanos(timeout_ns);
        let news = poller.news();
        let waited = self.wait(py, timeout, &mut move || match news.any() {
            true => Try::Done(Ok(())),
            false => Try::Wait,
        })?;
        Ok(waited.is_some())
    }

    /// End the stacks: all calls that wait fail.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let nodes = {
                let mut inner = self.lock();
                inner.closed = true;
                core::mem::take(&mut inner.nodes)
            };
            drop(nodes);
            self.turn.notify_all();
        });
    }

    /// Let all stacks look at their devices now, also at those that cannot wake them.
    fn settle_all(&self, py: Python<'_>) {
        py.detach(|| {
            let mut inner = self.lock();
            for node in &inner.nodes {
                node.flag.0.store(true, Ordering::Release);
            }
            self.settle(&mut inner);
        });
    }

    /// Let this much time pass.
    fn sleep_ns(&self, py: Python<'_>, time_ns: u64) -> PyResult<()> {
        let timeout = Timeout::from_nanos(Some(time_ns));
        self.wait::<()>(py, timeout, &mut || Try::Wait)?;
        Ok(())
    }

    /// Make room for a thread, in the order in which the program starts them; returns its number.
    fn add_thread(&self) -> u64 {
        self.lock().turns.add()
    }

    /// Begin the thread with this number: wait for its turn.
    fn begin_thread(&self, py: Python<'_>, number: u64) -> PyResult<()> {
        py.detach(|| {
            let mut inner = self.lock();
            inner.turns.begin(number);
            while !inner.turns.is_turn_of(number) && !inner.closed {
                inner = self.turn.wait(inner).unwrap_or_else(PoisonError::into_inner);
            }
        });
        Ok(())
    }

    /// End the thread with this number: another one has its turn.
    fn end_thread(&self, number: u64) {
        self.lock().turns.end(number);
        self.turn.notify_all();
    }

    /// Wait until the thread with this number has ended; `False` if the time is over first.
    fn join_thread(&self, py: Python<'_>, number: u64, timeout_ns: Option<u64>) -> PyResult<bool> {
        let timeout = Timeout::from_nanos(timeout_ns);
        let waited = self.wait(py, timeout, &mut || match self.lock().turns.has(number) {
            true => Try::Wait,
            false => Try::Done(Ok(())),
        })?;
        Ok(waited.is_some())
    }
}

/// A time in the future, from now.
pub(crate) fn after(now: Instant, ns: u64) -> Instant {
    now + Duration::from_nanos(ns)
}
