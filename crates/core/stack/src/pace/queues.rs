//! The gaps that are set, and the frames that wait for them.
//!
//! Called by: `pace.rs`. Limits: `burst_gaps`, `gap_destinations`, `gap_queue`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use core::net::IpAddr;

use base::{Budget, Cidr, Duration, Instant, Limit};
use mbuf::{Mbuf, Pool};

/// Why a gap was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapError {
    /// The gap is longer than [`super::GAP_MAX`]: give a shorter one.
    TooLong,
    /// As many networks have a gap as the limit `burst_gaps` admits: raise it, or set one gap for a
    /// network that contains several of them.
    LimitReached,
}

impl core::fmt::Display for GapError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            GapError::TooLong => "the gap is longer than a second: give a shorter one",
            GapError::LimitReached => {
                "as many networks have a gap as limit burst_gaps admits: raise it, or give one gap \
                 to a network that contains several of them"
            }
        })
    }
}

impl core::error::Error for GapError {}

/// A destination by port and address.
pub(super) type Key = (u16, IpAddr);

/// The frames that wait for one destination, and the state of the last one that left.
struct Queue {
    gap: Duration,
    /// No frame may leave before this time.
    next: Instant,
    /// The number of the last frame in the sequence of its port's frames. At the port it may wait
    /// behind others.
    position: u64,
    /// [`crate::Stack::flow_epoch`] when the last frame in the queue was known to fit its link.
    epoch: u64,
    /// The last frame was still at the port when the next one was due.
    is_late: bool,
    frames: VecDeque<Mbuf>,
    /// A sender was pushed back and waits for room.
    is_awaited: bool,
}

/// The queue or limit that is full, so that a datagram is refused.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    Queue,
    Table,
}

/// The gaps, and the frames that wait for them.
#[derive(Default)]
pub(crate) struct Pace {
    /// The entry with the longest prefix comes first.
    gaps: Vec<(Cidr, Duration)>,
    // Remote hosts choose the keys when we answer them. No choice of keys slows down a tree.
    queues: BTreeMap<Key, Queue>,
    /// The queues with frames, by the time when their next frame may leave.
    due: BTreeSet<(Instant, Key)>,
    /// The number of queues for which a sender waits.
    awaited: usize,
    /// Such a queue has got room since the last call of [`Pace::found_room`].
    found_room: bool,
}

impl Pace {
    /// Has any destination a gap?
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// The gap between frames to `dst`.
    pub(crate) fn gap(&self, dst: IpAddr) -> Option<Duration> {
        gap_of(&self.gaps, dst)
    }

    pub(super) fn set(
        &mut self,
        to: Cidr,
        gap: Option<Duration>,
        now: Instant,
        budget: &mut Budget,
    ) -> Result<(), GapError> {
        let to = to.network();
        let known = self.gaps.iter().position(|(cidr, _)| *cidr == to);
        match (known, gap) {
            (Some(at), Some(gap)) => self.gaps[at].1 = gap,
            (Some(at), None) => drop(self.gaps.remove(at)),
            (None, None) => {}
            (None, Some(_)) if !budget.admits(Limit::BurstGaps, self.gaps.len()) => {
                return Err(GapError::LimitReached);
            }
            (None, Some(gap)) => {
                let at = self.gaps.partition_point(|(cidr, _)| cidr.prefix_len >= to.prefix_len);
                self.gaps.insert(at, (to, gap));
            }
        }
        // A frame that already waits does not wait longer than the new gap from now.
        let gaps = &self.gaps;
        for (&key, queue) in &mut self.queues {
            queue.gap = gap_of(gaps, key.1).unwrap_or_default();
            let next = queue.next.min(now + queue.gap);
            if self.due.remove(&(queue.next, key)) {
                self.due.insert((next, key));
            }
            queue.next = next;
        }
        Ok(())
    }

    /// May another datagram be queued for `key`? If its queue is full, there may be room later.
    pub(super) fn admit(
        &mut self,
        key: Key,
        now: Instant,
        budget: &mut Budget,
    ) -> Result<(), Full> {
        if let Some(queue) = self.queues.get(&key) {
            // A datagram may always wait for the gap, whatever the limit.
            let len = queue.frames.len();
            let has_room = len == 0 || budget.admits(Limit::GapQueue, len);
            return if has_room { Ok(()) } else { Err(Full::Queue) };
        }
        let limit = Limit::GapDestinations;
        if self.queues.len() >= budget.of(limit) {
            // Empty queues whose gap has passed are not needed any more.
            self.queues.retain(|_, queue| !queue.frames.is_empty() || queue.next > now);
        }
        if budget.admits(limit, self.queues.len()) { Ok(()) } else { Err(Full::Table) }
    }

    /// Note that a sender waits for room in the queue of `key`.
    pub(super) fn await_room(&mut self, key: Key) {
        if let Some(queue) = self.queues.get_mut(&key)
            && !core::mem::replace(&mut queue.is_awaited, true)
        {
            self.awaited += 1;
        }
    }

    pub(super) fn push(&mut self, key: Key, (gap, epoch): (Duration, u64), frame: Mbuf) {
        let queue = self.queues.entry(key).or_insert_with(|| Queue {
            gap,
            next: Instant::ZERO,
            position: 0,
            epoch,
            is_late: false,
            frames: VecDeque::new(),
            is_awaited: false,
        });
        if queue.frames.is_empty() {
            self.due.insert((queue.next, key));
            queue.epoch = epoch;
        }
        queue.frames.push_back(frame);
    }

    /// The destination whose next frame may leave at `now`.
    pub(super) fn due(&self, now: Instant) -> Option<Key> {
        let &(at, key) = self.due.first()?;
        (at <= now).then_some(key)
    }

    /// When the next frame may leave.
    pub(crate) fn next_departure(&self) -> Instant {
        self.due.first().map_or(Instant::NEVER, |&(at, _)| at)
    }

    /// May the next frame of `key`, which is due, go to its port at `now`, when the device has
    /// taken `taken` frames? If the frame before it still waits there, the answer is no, and the
    /// frame is due a gap later.
    pub(super) fn may_leave(&mut self, key: Key, now: Instant, taken: u64) -> bool {
        let Some(queue) = self.queues.get_mut(&key) else { return false };
        let has_left = queue.position <= taken;
        // When a late frame left is unknown, so the gap begins now.
        if has_left && !queue.is_late {
            return true;
        }
        queue.is_late = !has_left;
        self.due.remove(&(queue.next, key));
        queue.next = now + queue.gap.max(Duration::from_nanos(1));
        self.due.insert((queue.next, key));
        false
    }

    /// Remove and return the next frame of `key`, which goes to its port at `now` as the
    /// `position`th frame there.
    pub(super) fn pop(
        &mut self,
        key: Key,
        now: Instant,
        position: u64,
        queue_max: usize,
    ) -> Option<Mbuf> {
        let queue = self.queues.get_mut(&key)?;
        self.due.remove(&(queue.next, key));
        let frame = queue.frames.pop_front();
        (queue.next, queue.position) = (now + queue.gap, position);
        if !queue.frames.is_empty() {
            self.due.insert((queue.next, key));
        }
        if queue.is_awaited && queue.frames.len() <= queue_max / 2 {
            queue.is_awaited = false;
            self.awaited -= 1;
            self.found_room = true;
        }
        frame
    }

    /// Returns the next frame of `key`, if something that limits its size has changed since it was
    /// queued.
    pub(super) fn outdated(&self, key: Key, epoch: u64) -> Option<&Mbuf> {
        self.queues.get(&key).filter(|queue| queue.epoch != epoch)?.frames.front()
    }

    /// Does a sender wait for room in any queue?
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited > 0
    }

    /// Has a queue that a sender waits for got room since the last call?
    pub(crate) fn found_room(&mut self) -> bool {
        core::mem::take(&mut self.found_room)
    }

    /// The number of frames that wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.queues.values().map(|queue| queue.frames.len()).sum()
    }

    /// Forget a port, by which nothing leaves any more. Returns how many frames were dropped.
    pub(crate) fn forget_port(&mut self, port: u16, pool: &mut Pool) -> u64 {
        let mut count = 0;
        self.due.retain(|(_, key)| key.0 != port);
        self.queues.retain(|key, queue| {
            if key.0 != port {
                return true;
            }
            count += queue.frames.len() as u64;
            queue.frames.drain(..).for_each(|frame| pool.free(frame));
            self.awaited -= usize::from(queue.is_awaited);
            self.found_room |= queue.is_awaited;
            false
        });
        count
    }
}

fn gap_of(gaps: &[(Cidr, Duration)], dst: IpAddr) -> Option<Duration> {
    let (_, gap) = gaps.iter().find(|(cidr, _)| cidr.contains(dst))?;
    (*gap > Duration::ZERO).then_some(*gap)
}
