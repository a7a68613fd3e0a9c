//! A doorbell: wakes a sleeping thread or a waiting task. A ring that finds no sleeper costs one
//! locked instruction.
//!
//! Called by: devices and driver threads. Counters: rings that woke a sleeper, and rings that found
//! none ([`Doorbell::wakeups`]).
//!
//! # The protocol
//! ```text
//! sleeper   arm() { armed |= 1 }    look once more for news    sleep() or disarm()
//! ringer    publish the news        ring() { rings += 1; was it armed? then unset it and wake }
//! ```
//! The flag and the count share one word, which both sides change by an atomic read-modify-write,
//! so one of the two operations comes first. If the ringer's comes first, the sleeper's operation
//! reads its result, and the sleeper's second look sees the news. If the sleeper's comes first, the
//! ringer sees the flag. So no wake-up is lost. `tests/loom_doorbell` tries every interleaving, and
//! shows that wake-ups are lost without the second look, or with a plain load in the ringer. A
//! SeqCst fence and a load would be correct too, but on Zen 3 they cost 36 ns more than the locked
//! addition, which also counts the ring.
//!
//! A task does not sleep here. It leaves its waker with [`Doorbell::arm_waker`], looks for news
//! once more and returns. The ring takes the waker out, so each arming is good for one wake-up.

use core::task::Waker;
use core::time::Duration;

use std::sync::{Arc, PoisonError};

#[cfg(loom)]
use loom::sync::{
    Condvar, Mutex,
    atomic::{AtomicU64, Ordering},
};
#[cfg(not(loom))]
use std::sync::{
    Condvar, Mutex,
    atomic::{AtomicU64, Ordering},
};

/// One doorbell for one sleeper; any number of clones on any threads may ring it.
#[derive(Clone)]
pub struct Doorbell(Arc<Bell>);

const ARMED: u64 = 1;
const RING: u64 = 2;

/// It has two cache lines of its own, so that the ringer's processor keeps them until the sleeper
/// arms.
#[repr(align(128))]
struct Bell {
    /// Bit 0: a sleeper is asleep or about to sleep. The other bits: the number of rings.
    state: AtomicU64,
    woken: AtomicU64,
    sleeper: Mutex<Sleeper>,
    rung: Condvar,
}

/// The waiter: a task's waker, or a thread in [`Doorbell::sleep`].
#[derive(Default)]
struct Sleeper {
    waker: Option<Waker>,
    /// Does a thread wait on [`Bell::rung`]? Notifying costs a system call even if no thread waits.
    waits: bool,
}

impl Sleeper {
    /// Store `waker`. Returns the previous one, which the caller drops after releasing the lock.
    fn replace(&mut self, waker: &Waker) -> Option<Waker> {
        let known = self.waker.as_ref().is_some_and(|old| old.will_wake(waker));
        if known { None } else { self.waker.replace(waker.clone()) }
    }
}

impl Default for Doorbell {
    fn default() -> Doorbell {
        Doorbell::new()
    }
}

impl Doorbell {
    /// A doorbell that is not armed.
    pub fn new() -> Doorbell {
        Doorbell(Arc::new(Bell {
            state: AtomicU64::new(0),
            woken: AtomicU64::new(0),
            sleeper: Mutex::new(Sleeper::default()),
            rung: Condvar::new(),
        }))
    }

    /// Announce that this thread is about to sleep. Look for news after this; then call
    /// [`Doorbell::sleep`] if there is none and [`Doorbell::disarm`] if there is.
    pub fn arm(&self) {
        self.0.state.fetch_or(ARMED, Ordering::AcqRel);
    }

    /// [`Doorbell::arm`] for a task: the next ring wakes `waker`, once. Look for news after this,
    /// and call [`Doorbell::disarm`] if there is some. The waker of an earlier call is replaced.
    pub fn arm_waker(&self, waker: &Waker) {
        let mut sleeper = self.0.sleeper.lock().unwrap_or_else(PoisonError::into_inner);
        let old = sleeper.replace(waker);
        // Arm under the lock. Then a late ringer finds this waker and wakes it needlessly, but
        // never leaves the doorbell armed without a waiter.
        self.arm();
        drop(sleeper);
        // Dropping the last reference may run any code, so do it without the lock.
        drop(old);
    }

    /// Undo [`Doorbell::arm`]: this thread does not sleep.
    pub fn disarm(&self) {
        self.0.state.fetch_and(!ARMED, Ordering::AcqRel);
    }

    /// Sleep until a ring, or until `timeout` has passed, and leave the doorbell disarmed. The call
    /// may return early, so look for news again. It returns at once if the doorbell was rung since
    /// [`Doorbell::arm`].
    pub fn sleep(&self, timeout: Option<Duration>) {
        let bell = &*self.0;
        let mut guard = bell.sleeper.lock().unwrap_or_else(PoisonError::into_inner);
        // A ringer clears the flag before it takes the lock, so it cannot ring between this check
        // and the wait.
        if bell.state.load(Ordering::Acquire) & ARMED != 0 {
            guard.waits = true;
            guard = match timeout {
                None => bell.rung.wait(guard).unwrap_or_else(PoisonError::into_inner),
                Some(timeout) => {
                    let woken = bell.rung.wait_timeout(guard, timeout);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            guard.waits = false;
        }
        drop(guard);
        self.disarm();
    }

    /// For a thread that sleeps by other means than [`Doorbell::sleep`]: from now on a ring wakes
    /// `waker`. Returns `false` if the doorbell was rung since [`Doorbell::arm`]; then do not
    /// sleep. In both cases call [`Doorbell::disarm`] afterwards.
    pub fn hand_over(&self, waker: &Waker) -> bool {
        let mut sleeper = self.0.sleeper.lock().unwrap_or_else(PoisonError::into_inner);
        // A ringer clears the flag before it takes the lock and looks for a waker.
        if self.0.state.load(Ordering::Acquire) & ARMED == 0 {
            return false;
        }
        let old = sleeper.replace(waker);
        drop(sleeper);
        drop(old);
        true
    }

    /// Wake the sleeper, if there is one. Call this after the news is published. Returns whether a
    /// sleeper was woken.
    #[inline]
    pub fn ring(&self) -> bool {
        self.ring_if(|| true)
    }

    /// Like [`Doorbell::ring`], but wakes a sleeper only if `wanted` returns true. `wanted` is
    /// called only if there is a sleeper, and sees what the sleeper wrote before it armed.
    #[inline]
    pub fn ring_if(&self, wanted: impl FnOnce() -> bool) -> bool {
        self.0.state.fetch_add(RING, Ordering::AcqRel) & ARMED != 0 && wanted() && self.wake()
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) -> bool {
        let bell = &*self.0;
        // Only one of several ringers wakes the sleeper.
        if bell.state.fetch_and(!ARMED, Ordering::AcqRel) & ARMED == 0 {
            return false;
        }
        // Once we hold the lock, a sleeper that saw the flag is inside its wait.
        let mut sleeper = bell.sleeper.lock().unwrap_or_else(PoisonError::into_inner);
        let (waker, waits) = (sleeper.waker.take(), sleeper.waits);
        drop(sleeper);
        if waits {
            bell.rung.notify_all();
        }
        bell.woken.fetch_add(1, Ordering::Relaxed);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// The number of rings that woke a sleeper, and of rings that did not.
    pub fn wakeups(&self) -> (u64, u64) {
        let sent = self.0.woken.load(Ordering::Relaxed);
        (sent, (self.0.state.load(Ordering::Relaxed) / RING).saturating_sub(sent))
    }
}
