//! Coalescing of wake-ups: the receiving end sets a threshold, the sending end wakes when it is
//! reached.
//!
//! Called by: `mem.rs`. The receiver writes its threshold before it arms its doorbell; a sender
//! that finds the doorbell armed sees the threshold (`docs/decisions/0051-mitigation.md`).

use core::sync::atomic::Ordering;

use super::Mem;
use crate::mitigation::Threshold;

impl Mem {
    pub(super) fn set_threshold(&mut self, threshold: Threshold) {
        let rare = &self.here.rare.0;
        rare.wake_frames.store(threshold.frames, Ordering::Relaxed);
        rare.wake_bytes.store(threshold.bytes, Ordering::Relaxed);
    }

    /// Has the threshold of the peer, which sleeps or is about to, been reached?
    #[cold]
    pub(super) fn is_worth_a_wake(&self, made_room: bool) -> bool {
        let peer = &self.peer.rare.0;
        let frames = peer.wake_frames.load(Ordering::Relaxed) as usize;
        if frames <= 1 || (made_room && peer.wants_room.load(Ordering::Relaxed)) {
            return true;
        }
        self.see_taken();
        let waiting = self.limits.tx_depth - self.tx.slots();
        let bytes = u64::from(peer.wake_bytes.load(Ordering::Relaxed));
        waiting >= frames || self.in_flight_bytes() >= bytes
    }

    /// Has this end's own threshold been reached, so that it must not sleep?
    pub(super) fn has_gathered(&mut self) -> bool {
        let rare = &self.here.rare.0;
        let frames = rare.wake_frames.load(Ordering::Relaxed) as usize;
        let waiting = self.rx.slots();
        if waiting == 0 || frames <= 1 || waiting >= frames {
            return waiting > 0;
        }
        let bytes = u64::from(rare.wake_bytes.load(Ordering::Relaxed));
        self.rx.read_chunk(waiting).is_ok_and(|chunk| {
            let (older, newer) = chunk.as_slices();
            let waiting_bytes: u64 = older.iter().chain(newer).map(|f| f.len() as u64).sum();
            waiting_bytes >= bytes
        })
    }
}
