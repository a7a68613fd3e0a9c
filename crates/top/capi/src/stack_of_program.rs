//! A stack of the program.
//!
//! Called by: `stack_calls.rs` for programs; sockets. A stack has a driver thread
//! (`ws_stack_start`) or is polled by the program (`WS_POLLED`), in the program's time.

use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant as SystemTime;

use base::Instant;
use net::{Driver, DriverThread, Net, Next, Stepped};
use stack::VirtualClock;

use crate::clock::Offset;
use crate::device_of_program::Bells;
use crate::error::{Call, Error};
use crate::hooks::{FrameClock, Hooks};
use crate::lookups::Lookups;
use crate::queue::Queue;
use crate::types::{WS_LOG_ERROR, WS_LOG_INFO};

/// The most rounds of one poll: the program's loop runs again in between.
const ROUNDS_MAX: usize = 64;

/// A stack, with what runs it.
pub(crate) struct Stack {
    pub(crate) net: Net,
    pub(crate) queue: Arc<Queue>,
    pub(crate) hooks: Arc<Hooks>,
    pub(crate) lookups: Lookups,
    clock: Option<(VirtualClock, Arc<Offset>)>,
    /// A driver thread runs: calls may wait.
    has_thread: AtomicBool,
    /// When a polled stack has to be polled again, in nanoseconds of its clock.
    next: AtomicU64,
    runs: Mutex<Runs>,
    bells: Mutex<Bells>,
}

/// What runs a stack.
enum Runs {
    /// Nothing yet.
    Nothing(Driver),
    Thread(DriverThread),
    Polls(Stepped),
    Ended,
}

impl Stack {
    /// A stack that does not run yet.
    pub(crate) fn new(
        core: stack::Stack,
        is_polled: bool,
        hooks: impl FnOnce(FrameClock) -> Hooks,
    ) -> Call<Arc<Stack>> {
        let (net, runs, clock) = if is_polled {
            let clock = VirtualClock::default();
            let (net, stepped) = Net::stepped(core, clock.clone());
            (net, Runs::Polls(stepped), Some((clock, Arc::new(Offset::default()))))
        } else {
            let (net, driver) = Net::new(core);
            (net, Runs::Nothing(driver), None)
        };
        let time = match &clock {
            Some((clock, offset)) => FrameClock::Virtual(clock.clone(), offset.clone()),
            None => FrameClock::System(SystemTime::now()),
        };
        Ok(Arc::new(Stack {
            net,
            queue: Queue::new(is_polled)?,
            hooks: Arc::new(hooks(time)),
            lookups: Lookups::default(),
            clock,
            has_thread: AtomicBool::new(false),
            next: AtomicU64::new(0),
            runs: Mutex::new(runs),
            bells: Mutex::default(),
        }))
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        // After a panic of a step `net` refuses all calls, so poisoning can be ignored.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bells of the program's own devices, by port.
    pub(crate) fn bells(&self) -> MutexGuard<'_, Bells> {
        // Nothing panics while it holds this lock.
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// May a call wait? Only while a driver thread runs.
    pub(crate) fn may_wait(&self) -> bool {
        self.has_thread.load(Ordering::Acquire)
    }

    pub(crate) fn is_polled(&self) -> bool {
        self.clock.is_some()
    }

    pub(crate) fn start(&self) -> Call<()> {
        let mut runs = self.runs();
        match core::mem::replace(&mut *runs, Runs::Ended) {
            Runs::Nothing(driver) => {
                *runs = Runs::Thread(without_signals(|| driver.spawn_thread())?);
                self.has_thread.store(true, Ordering::Release);
                self.hooks.log(WS_LOG_INFO, "the stack runs in a thread");
                Ok(())
            }
            other => {
                let error = match &other {
                    Runs::Thread(_) => Error::new(libc::EALREADY, "the stack runs already"),
                    Runs::Polls(_) => {
                        Error::invalid("the stack is polled: call ws_stack_poll() instead")
                    }
                    _ => Error::ended(),
                };
                *runs = other;
                Err(error)
            }
        }
    }

    pub(crate) fn poll(&self, now_ns: u64) -> Call<()> {
        let Some((clock, offset)) = &self.clock else {
            return Err(Error::invalid(
                "the stack has a thread: make it with WS_POLLED to poll it",
            ));
        };
        let mut runs = self.runs();
        let Runs::Polls(stepped) = &mut *runs else { return Err(Error::ended()) };
        clock.advance_to(offset.of_stack(now_ns, clock));
        self.queue.silence_driver();
        let mut next = Instant::ZERO;
        for _ in 0..ROUNDS_MAX {
            next = match stepped.step(self.queue.waker_of_driver()) {
                Next::Again => Instant::ZERO,
                Next::At(at) => at,
                Next::WhenWoken => Instant::NEVER,
                Next::Ended => return Err(Error::ended()),
            };
            if next != Instant::ZERO {
                break;
            }
        }
        if next == Instant::ZERO {
            self.queue.waker_of_driver().wake_by_ref();
        }
        self.queue.follow(stepped.descriptor());
        self.next.store(next.as_nanos(), Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn next_deadline(&self) -> Call<u64> {
        let Some((_, offset)) = &self.clock else {
            return Err(Error::invalid("the stack has a thread, which keeps its deadlines"));
        };
        if self.queue.driver_is_woken() {
            return Ok(0);
        }
        match Instant::from_nanos(self.next.load(Ordering::Relaxed)) {
            Instant::NEVER => Ok(u64::MAX),
            Instant::ZERO => Ok(0),
            at => Ok(offset.to_program(at)),
        }
    }

    /// End the stack: waiting calls return, and its sockets fail.
    pub(crate) fn end(&self) {
        self.net.shut_down();
        self.has_thread.store(false, Ordering::Release);
        let runs = core::mem::replace(&mut *self.runs(), Runs::Ended);
        if let Runs::Thread(thread) = runs
            && let Err(error) = thread.stop()
        {
            self.hooks.log(WS_LOG_ERROR, &format!("the stack's thread ended badly: {error}"));
        }
        self.lookups.clear();
    }
}

/// Block all signals for threads that begin in here: signals are for the program's own threads.
fn without_signals<T>(begin: impl FnOnce() -> T) -> T {
    /// The signals that the thread blocked before.
    struct Before(libc::sigset_t);
    impl Drop for Before {
        fn drop(&mut self) {
            // SAFETY: the set was filled by the system.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
        }
    }
    // SAFETY: zeros are valid for sets of signals.
    let (mut all, mut before) = unsafe { core::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>() };
    // SAFETY: both sets are ours. With SIG_SETMASK and valid sets the calls do not fail.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    let _before = Before(before);
    begin()
}
