//! Fragments that came before the first one of their datagram, which has the ports: they wait for
//! the verdict on it.
//!
//! Called by: `plain.rs`. They wait two seconds at most, as a verdict lives. RFC 4787 section 11:
//! NAT takes fragments in any order. Limits: `filter_fragments`, `filter_fragment_bytes`. Drop:
//! `filter_fragment`.

use std::collections::VecDeque;

use base::{Budget, DropReason, Drops, Duration, Instant, Limit};
use filter::states::Datagram;
use mbuf::{Mbuf, Pool};

/// How long a fragment waits.
const PATIENCE: Duration = Duration::from_secs(2);

struct Waiting {
    datagram: Datagram,
    until: Instant,
    /// The IP packet with its link header; it has the port that it came by.
    frame: Mbuf,
}

/// Fragments that wait, the oldest first.
#[derive(Default)]
pub(crate) struct Held {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

impl Held {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// When the first one has waited long enough.
    pub(crate) fn next_deadline(&self) -> Instant {
        self.waiting.front().map_or(Instant::NEVER, |first| first.until)
    }

    /// Hold a fragment; the oldest ones make room. RFC 4787 REQ-14, REQ-14a.
    pub(crate) fn hold(
        &mut self,
        datagram: Datagram,
        frame: Mbuf,
        now: Instant,
        (budget, drops, pool): (&mut Budget, &mut Drops, &mut Pool),
    ) {
        let len = frame.len();
        while !self.waiting.is_empty()
            && (!budget.admits(Limit::FilterFragments, self.waiting.len())
                || !budget.admits(Limit::FilterFragmentBytes, self.bytes + len))
        {
            self.drop_first(drops, pool);
        }
        self.bytes += len;
        self.waiting.push_back(Waiting { datagram, until: now + PATIENCE, frame });
    }

    /// The fragments of a datagram, in the order in which they came.
    pub(crate) fn take(&mut self, datagram: &Datagram) -> Vec<Mbuf> {
        let mut taken = Vec::new();
        let mut at = 0;
        while let Some(waiting) = self.waiting.get(at) {
            if waiting.datagram != *datagram {
                at += 1;
            } else if let Some(waiting) = self.waiting.remove(at) {
                self.bytes -= waiting.frame.len();
                taken.push(waiting.frame);
            }
        }
        taken
    }

    /// Drop those that have waited long enough.
    pub(crate) fn expire(&mut self, now: Instant, drops: &mut Drops, pool: &mut Pool) {
        while self.next_deadline() <= now {
            self.drop_first(drops, pool);
        }
    }

    /// Drop all fragments.
    pub(crate) fn clear(&mut self, drops: &mut Drops, pool: &mut Pool) {
        while !self.is_empty() {
            self.drop_first(drops, pool);
        }
    }

    fn drop_first(&mut self, drops: &mut Drops, pool: &mut Pool) {
        if let Some(first) = self.waiting.pop_front() {
            self.bytes -= first.frame.len();
            drops.count(DropReason::FilterFragment);
            pool.free(first.frame);
        }
    }
}
