//! How the network learns that no task of the programs can run.
//!
//! Called by: the hooks of tokio's runtime, which runs one before its thread waits; the wakers of
//! stacks; `pump.rs`, which waits.
//!
//! Packets move and time passes only when no task can run. So the order of events depends neither
//! on how long a task computes nor on the machine.

use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::Arc;
use std::task::Wake;

use tokio::sync::Notify;

/// The pump waits for nothing.
const NOTHING: u8 = 0;
/// The pump waits until no task can run.
const IDLE: u8 = 1;
/// The pump waits until no task can run and a stack has been woken.
const IDLE_AND_WOKEN: u8 = 2;

/// What the pump waits for.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    wanted: AtomicU8,
    woken: Arc<AtomicBool>,
    notify: Notify,
}

impl Idle {
    /// No task can run; called before the runtime's thread waits. All of this is one thread, so the
    /// orderings are relaxed.
    pub(crate) fn report(&self) {
        let is_wanted = match self.wanted.load(Ordering::Relaxed) {
            IDLE => true,
            IDLE_AND_WOKEN => self.woken.load(Ordering::Relaxed),
            _ => false,
        };
        if is_wanted {
            self.wanted.store(NOTHING, Ordering::Relaxed);
            self.notify.notify_one();
        }
    }

    /// Wait until no task can run.
    pub(crate) async fn idle(&self) {
        self.wanted.store(IDLE, Ordering::Relaxed);
        self.notify.notified().await;
    }

    /// Wait until no task can run and a stack has been woken.
    pub(crate) async fn idle_and_woken(&self) {
        self.wanted.store(IDLE_AND_WOKEN, Ordering::Relaxed);
        self.notify.notified().await;
    }

    /// The pump no longer waits.
    pub(crate) fn cancel(&self) {
        self.wanted.store(NOTHING, Ordering::Relaxed);
    }

    /// Has a stack been woken since the last call?
    pub(crate) fn take_woken(&self) -> bool {
        self.woken.swap(false, Ordering::Relaxed)
    }

    /// Some stack has to be stepped.
    pub(crate) fn wake(&self) {
        self.woken.store(true, Ordering::Relaxed);
    }

    /// A flag for the waker of one stack.
    pub(crate) fn flag(&self) -> Arc<Flag> {
        Arc::new(Flag { woken: AtomicBool::new(true), any: self.woken.clone() })
    }
}

/// Says that a stack has to be stepped.
#[derive(Debug)]
pub(crate) struct Flag {
    woken: AtomicBool,
    any: Arc<AtomicBool>,
}

impl Flag {
    /// Was the stack woken since the last call?
    pub(crate) fn take(&self) -> bool {
        self.woken.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Flag>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Flag>) {
        self.woken.store(true, Ordering::Relaxed);
        self.any.store(true, Ordering::Relaxed);
    }
}
