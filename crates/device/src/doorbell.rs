//! A doorbell: wakes a thread that sleeps or a task that waits, and costs one locked instruction if
//! there is none.
//!
//! Called by: devices and driver threads. Counters: rings that woke a sleeper, and rings that found
//! none ([`Doorbell::wakeups`]).
//!
//! # The protocol
//! ```text
//! sleeper   arm() { armed |= 1 }    look once more for news    sleep() or disarm()
//! ringer    publish the news        ring() { rings += 1; was it armed? then unset it and wake }
//! ```
//! The flag and the count are one word, and both sides read and write it in one step, so one of
//! the two steps comes first. If the ringer's does, the sleeper's step reads it and its second
//! look sees the news; if the sleeper's does, the ringer sees the flag. So no wake-up is lost.
//! `tests/loom_doorbell.rs` tries every interleaving, and shows that it fails without the second
//! look and with a plain load for the ringer's step. A SeqCst fence and a load would do as well,
//! but that fence costs 36 ns more on Zen 3 than the locked addition, which counts as well.
//!
//! A task does not sleep in here: it leaves its waker with [`Doorbell::arm_waker`], looks once more
//! and returns. The ring takes the waker out, so each arming is good for one wake-up.

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

/// One bell for one sleeper; any number of clones on any threads may ring it.
#[derive(Clone)]
pub struct Doorbell(Arc<Bell>);

const ARMED: u64 = 1;
const RING: u64 = 2;

/// Two lines of its own: the ringer's processor keeps them until the sleeper goes to sleep.
#[repr(align(128))]
struct Bell {
    /// Bit 0: a sleeper sleeps or is about to. Above it: how often it was rung.
    state: AtomicU64,
    woken: AtomicU64,
    sleeper: Mutex<Sleeper>,
    rung: Condvar,
}

/// The waker.
#[derive(Default)]
struct Sleeper {
    waker: Option<Waker>,
    /// A thread waits for [`Bell::rung`]: notifying it costs a system call, even without a waiter.
    waits: bool,
}

impl Sleeper {
    /// Wake `waker` from now on; returns the one before, to be dropped without the lock.
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
    /// A bell that is not armed yet.
    pub fn new() -> Doorbell {
        Doorbell(Arc::new(Bell {
            state: AtomicU64::new(0),
            woken: AtomicU64::new(0),
            sleeper: Mutex::new(Sleeper::default()),
            rung: Condvar::new(),
        }))
    }

    /// Say that this thread is about to sleep. Look for news after this, then [`Doorbell::sleep`]
    /// if there is none and [`Doorbell::disarm`] if there is.
    pub fn arm(&self) {
        self.0.state.fetch_or(ARMED, Ordering::AcqRel);
    }

    /// [`Doorbell::arm`] for a task: the next ring wakes `waker`, once. Look for news after this;
    /// with [`Doorbell::disarm`] if there is some. The waker of an earlier call is forgotten.
    pub fn arm_waker(&self, waker: &Waker) {
        let mut sleeper = self.0.sleeper.lock().unwrap_or_else(PoisonError::into_inner);
        let old = sleeper.replace(waker);
        // Under the lock: a ringer that is late then finds this waker and wakes it for nothing,
        // but never leaves the bell armed without a waiter.
        self.arm();
        drop(sleeper);
        // Its last reference may run any code.
        drop(old);
    }

    /// Do not sleep after all.
    pub fn disarm(&self) {
        self.0.state.fetch_and(!ARMED, Ordering::AcqRel);
    }

    /// Sleep until a ring, or until `timeout` has passed; leaves the bell disarmed. May return
    /// early: look for news again. Returns at once if the bell was rung since [`Doorbell::arm`].
    pub fn sleep(&self, timeout: Option<Duration>) {
        let bell = &*self.0;
        let mut guard = bell.sleeper.lock().unwrap_or_else(PoisonError::into_inner);
        // A ringer unsets the flag before it takes the lock, so it cannot slip in between.
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

    /// For one that sleeps by other means than [`Doorbell::sleep`]: from now on a ring wakes
    /// `waker`. `false`: it was rung since [`Doorbell::arm`], so do not sleep. In both cases
    /// [`Doorbell::disarm`] afterwards.
    pub fn hand_over(&self, waker: &Waker) -> bool {
        let mut sleeper = self.0.sleeper.lock().unwrap_or_else(PoisonError::into_inner);
        // A ringer unsets the flag before it takes the lock and looks for a waker.
        if self.0.state.load(Ordering::Acquire) & ARMED == 0 {
            return false;
        }
        let old = sleeper.replace(waker);
        drop(sleeper);
        drop(old);
        true
    }

    /// Wake the sleeper, if there is one; call it after the news is published. Returns whether
    /// one was woken.
    #[inline]
    pub fn ring(&self) -> bool {
        self.ring_if(|| true)
    }

    /// [`Doorbell::ring`], but a sleeper is woken only if `wanted` says so. It is asked only if
    /// there is one, and sees what that wrote before it armed.
    #[inline]
    pub fn ring_if(&self, wanted: impl FnOnce() -> bool) -> bool {
        self.0.state.fetch_add(RING, Ordering::AcqRel) & ARMED != 0 && wanted() && self.wake()
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) -> bool {
        let bell = &*self.0;
        // Of several ringers one wakes.
        if bell.state.fetch_and(!ARMED, Ordering::AcqRel) & ARMED == 0 {
            return false;
        }
        // Holding the lock once makes sure that a sleeper which saw the flag is inside its wait.
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

    /// Rings that woke a sleeper, and rings that did not.
    pub fn wakeups(&self) -> (u64, u64) {
        let sent = self.0.woken.load(Ordering::Relaxed);
        (sent, (self.0.state.load(Ordering::Relaxed) / RING).saturating_sub(sent))
    }
}
