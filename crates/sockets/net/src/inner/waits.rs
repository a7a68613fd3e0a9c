//! Who waits for what: wakers in the wait queues of sockets, and alarms by time.
//!
//! Called by: `wait`, poll functions, timers, the driver. Wakers are woken and dropped at the end
//! of the call, once the lock is released (`inner.rs`).

use core::task::{Context, Waker};

use base::Instant;

use super::Inner;
use crate::waiting::{Readiness, WaitQueue};

impl Inner {
    fn wait_queue(&mut self, readiness: Readiness) -> Option<&mut WaitQueue> {
        match readiness {
            Readiness::Read(handle) => self.tcp.get_mut(handle).map(|s| &mut s.read),
            Readiness::Write(handle) => self.tcp.get_mut(handle).map(|s| &mut s.write),
            Readiness::Accept(handle) => self.listeners.get_mut(handle),
            Readiness::Datagram(handle) => self.udp.get_mut(handle),
            Readiness::Room => Some(&mut self.room),
            Readiness::Lookup => Some(&mut self.lookups),
        }
    }

    /// Wake `waker` once `readiness` may hold. The wait keeps its number `id`, or gets a new one.
    pub(crate) fn wait(&mut self, readiness: Readiness, id: &mut Option<u64>, waker: &Waker) {
        let id = *id.get_or_insert_with(|| {
            self.numbers += 1;
            self.numbers
        });
        let old = self.wait_queue(readiness).and_then(|wait_queue| wait_queue.set(id, waker));
        self.discard(old);
    }

    /// [`Inner::wait`] for a poll function: it replaces the waker of the last poll of `readiness`.
    pub(crate) fn wait_polled(&mut self, readiness: Readiness, cx: &Context<'_>) {
        let old =
            self.wait_queue(readiness).and_then(|wait_queue| wait_queue.set_polled(cx.waker()));
        self.discard(old);
    }

    /// Remove the waker of wait `id` from its wait queue.
    pub(crate) fn leave(&mut self, readiness: Readiness, id: Option<u64>) {
        let old = id.and_then(|id| self.wait_queue(readiness)?.remove(id));
        self.discard(old);
    }

    /// Drop the wakers of a socket that is gone.
    pub(crate) fn forget(&mut self, mut wait_queue: WaitQueue) {
        wait_queue.take_into(&mut self.trash);
    }

    /// Wake `waker` at a time; returns the key for [`Inner::cancel_alarm`].
    pub(crate) fn alarm(&mut self, at: Instant, waker: &Waker) -> (Instant, u64) {
        self.numbers += 1;
        let key = (at, self.numbers);
        self.alarms.insert(key, waker.clone());
        key
    }

    /// Cancel an alarm.
    pub(crate) fn cancel_alarm(&mut self, key: (Instant, u64)) {
        let old = self.alarms.remove(&key);
        self.discard(old);
    }

    /// Wake the alarms that are due.
    pub(crate) fn ring_alarms(&mut self, now: Instant) {
        while let Some(entry) = self.alarms.first_entry()
            && entry.key().0 <= now
        {
            let waker = entry.remove();
            self.wakers.push(waker);
        }
    }

    /// When the driver has to run even if nothing is received.
    pub(crate) fn next_deadline(&self) -> Instant {
        let alarm = self.alarms.first_key_value().map_or(Instant::NEVER, |(&(at, _), _)| at);
        self.stack.next_deadline().min(alarm)
    }
}
