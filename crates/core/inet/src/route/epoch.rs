//! Finds out when no reader uses a record any more. A reader notes the epoch in which its burst
//! began, and erases the note when the burst ends. A record that is taken out of use in an epoch is
//! free once every burst that is running began in a later epoch.
//!
//! Called by: `fib.rs`, once a burst and once a change. No thread waits for another: a long burst
//! only delays the reuse of memory. Source: Fraser, "Practical lock-freedom", 2004.

use core::sync::atomic::{AtomicU64, Ordering, fence};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The value of a reader with no burst running.
const IDLE: u64 = u64::MAX;

/// A record that readers may still use.
#[derive(Clone, Copy, Debug)]
pub(super) enum Freed {
    Node(u32),
    Lone(u32),
    Group(u32),
    Buckets(u32),
}

/// The present epoch, and the readers.
#[derive(Default)]
pub(super) struct Epochs {
    now: AtomicU64,
    readers: Mutex<Vec<Arc<AtomicU64>>>,
}

impl Epochs {
    fn readers(&self) -> MutexGuard<'_, Vec<Arc<AtomicU64>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Add a reader.
    pub(super) fn join(&self) -> Arc<AtomicU64> {
        let reader = Arc::new(AtomicU64::new(IDLE));
        self.readers().push(Arc::clone(&reader));
        reader
    }

    /// Remove a reader.
    pub(super) fn leave(&self, reader: &Arc<AtomicU64>) {
        self.readers().retain(|r| !Arc::ptr_eq(r, reader));
    }

    /// Note that a burst of `reader` begins.
    #[inline]
    pub(super) fn pin(&self, reader: &AtomicU64) {
        reader.store(self.now.load(Ordering::Acquire), Ordering::Relaxed);
        // Either the writer sees the store, or all later reads see what was written before the
        // writer looked. The other half is in `Retired::reclaim`.
        fence(Ordering::SeqCst);
    }

    /// Note that the burst of a reader ends.
    #[inline]
    pub(super) fn unpin(reader: &AtomicU64) {
        reader.store(IDLE, Ordering::Release);
    }
}

/// Records that were taken out of use and may still be read. Only the writer has them.
#[derive(Debug)]
pub(super) struct Retired<T> {
    items: VecDeque<(u64, T)>,
}

impl<T> Default for Retired<T> {
    fn default() -> Self {
        Retired { items: VecDeque::new() }
    }
}

impl<T> Retired<T> {
    /// Retire `item`, to which nothing that is published leads any more.
    pub(super) fn push(&mut self, epochs: &Epochs, item: T) {
        self.items.push_back((epochs.now.load(Ordering::Relaxed), item));
    }

    /// The number of records that wait until they are free.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Begin a new epoch, and pass the records that no reader uses any more to `free`.
    pub(super) fn reclaim(&mut self, epochs: &Epochs, mut free: impl FnMut(T)) {
        if self.items.is_empty() {
            return;
        }
        let now = epochs.now.load(Ordering::Relaxed) + 1;
        epochs.now.store(now, Ordering::Release);
        fence(Ordering::SeqCst);
        let bursts = epochs.readers();
        let oldest = bursts.iter().map(|r| r.load(Ordering::Acquire)).min().unwrap_or(IDLE);
        drop(bursts);
        while self.items.front().is_some_and(|&(epoch, _)| epoch < oldest) {
            let Some((_, item)) = self.items.pop_front() else { return };
            free(item);
        }
    }
}
