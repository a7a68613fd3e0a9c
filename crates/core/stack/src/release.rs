//! Frames that may not leave yet, by departure time: the release queue of pacing.
//!
//! Called by: `tx.rs`; `change.rs` when a port is removed. A frame without a departure time never
//! comes here. When a connection ends, its frames stay here, like the frames that a device has:
//! they count as sent. Limit `paced_frames` bounds them; frames beyond it leave at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::Instant;
use mbuf::{Mbuf, Pool};

/// Waiting frames. Those with the same departure time leave in the order in which they came.
#[derive(Default)]
pub(crate) struct Release {
    heap: BinaryHeap<Reverse<Waiting>>,
    arrivals: u64,
}

struct Waiting {
    departure: Instant,
    arrival: u64,
    port: u16,
    frame: Mbuf,
}

impl Release {
    pub(crate) fn push(&mut self, port: u16, frame: Mbuf) {
        self.arrivals += 1;
        let departure = frame.time();
        self.heap.push(Reverse(Waiting { departure, arrival: self.arrivals, port, frame }));
    }

    /// Returns the next frame whose time has come, with its port.
    #[inline]
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(u16, Mbuf)> {
        if self.heap.peek()?.0.departure > now {
            return None;
        }
        self.heap.pop().map(|Reverse(w)| (w.port, w.frame))
    }

    pub(crate) fn next_departure(&self) -> Instant {
        self.heap.peek().map_or(Instant::NEVER, |w| w.0.departure)
    }

    /// The number of frames that wait.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Drop the frames of a port that was removed; another port may get its number. Returns how
    /// many frames were dropped.
    pub(crate) fn forget_port(&mut self, port: u16, pool: &mut Pool) -> u64 {
        let all = core::mem::take(&mut self.heap).into_vec();
        let (gone, stay): (Vec<_>, Vec<_>) = all.into_iter().partition(|w| w.0.port == port);
        self.heap = stay.into();
        let count = gone.len() as u64;
        gone.into_iter().for_each(|Reverse(w)| pool.free(w.frame));
        count
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        (self.departure, self.arrival) == (other.departure, other.arrival)
    }
}
impl Eq for Waiting {}
impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> core::cmp::Ordering {
        (self.departure, self.arrival).cmp(&(other.departure, other.arrival))
    }
}
