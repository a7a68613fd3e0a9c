//! A doorbell: wakes a thread that sleeps, and costs a fence and a load when nobody does.
//!
//! Called by: devices and driver threads. Must not know: what the news is.
//! Counters: `woken`, rings that woke a sleeper; a ringer counts its own suppressed rings.
//!
//! # The protocol
//! ```text
//! sleeper   arm() { armed = true; fence }    look once more for news    sleep() or disarm()
//! ringer    publish the news                 ring() { fence; is armed? then unset it and wake }
//! ```
//! Of two SeqCst fences one comes first. If the ringer's does, the sleeper's second look sees the
//! news; if the sleeper's does, the ringer sees `armed`. So no wake-up is lost, and a ring while
//! nobody sleeps writes nothing that is shared. `tests/loom_doorbell.rs` tries every interleaving,
//! and shows that it fails without the second look and without the fence.

use core::time::Duration;

#[cfg(loom)]
use loom::sync::{
    Arc, Condvar, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
use std::sync::{
    Arc, Condvar, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering, fence},
};

/// One bell for one sleeper; any number of clones on any threads may ring it.
#[derive(Clone)]
pub struct Doorbell(Arc<Bell>);

/// `armed` has lines of its own: ringers read it once a burst, and it changes only around a sleep.
#[repr(align(128))]
struct Bell {
    armed: AtomicBool,
    woken: AtomicU64,
    sleeper: Mutex<()>,
    rung: Condvar,
}

impl Default for Doorbell {
    fn default() -> Doorbell {
        Doorbell::new()
    }
}

impl Doorbell {
    /// A bell that nobody listens to yet.
    pub fn new() -> Doorbell {
        Doorbell(Arc::new(Bell {
            armed: AtomicBool::new(false),
            woken: AtomicU64::new(0),
            sleeper: Mutex::new(()),
            rung: Condvar::new(),
        }))
    }

    /// Say that this thread is about to sleep. Look for news after this, then [`Doorbell::sleep`]
    /// if there is none and [`Doorbell::disarm`] if there is.
    pub fn arm(&self) {
        self.0.armed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Do not sleep after all.
    pub fn disarm(&self) {
        self.0.armed.store(false, Ordering::Relaxed);
    }

    /// Sleep until a ring, or until `timeout` has passed; leaves the bell disarmed. May return
    /// early: look for news again. Returns at once if the bell was rung since [`Doorbell::arm`].
    pub fn sleep(&self, timeout: Option<Duration>) {
        let bell = &*self.0;
        let guard = bell.sleeper.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // A ringer unsets `armed` before it takes the lock, so it cannot slip in between; acquire,
        // so that its news is seen where the lock was not passed on.
        if bell.armed.load(Ordering::Acquire) {
            match timeout {
                None => drop(bell.rung.wait(guard)),
                Some(timeout) => drop(bell.rung.wait_timeout(guard, timeout)),
            }
        }
        self.disarm();
    }

    /// Wake the sleeper, if there is one; call it after the news is published. Returns whether
    /// one was woken.
    #[inline]
    pub fn ring(&self) -> bool {
        fence(Ordering::SeqCst);
        self.ring_fenced()
    }

    /// [`Doorbell::ring`] for a caller that has just made the SeqCst fence itself.
    #[inline]
    pub(crate) fn ring_fenced(&self) -> bool {
        self.0.armed.load(Ordering::Relaxed) && self.wake()
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) -> bool {
        let bell = &*self.0;
        // Of several ringers one wakes. Acquire and release order the ringers among themselves.
        if !bell.armed.swap(false, Ordering::AcqRel) {
            return false;
        }
        // Holding the lock once makes sure that a sleeper which saw `armed` is inside its wait.
        drop(bell.sleeper.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        bell.rung.notify_all();
        bell.woken.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// How often a ring found a sleeper.
    pub fn woken(&self) -> u64 {
        self.0.woken.load(Ordering::Relaxed)
    }
}
