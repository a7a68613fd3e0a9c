//! Events: which states began, last and ended, with their counters, for flow export.
//!
//! Called by: `insert.rs`, `states.rs`, `reports.rs`; the firewall takes them. The queue is
//! bounded, and counts events that found no room. Nothing is queued until somebody asks. RFC 7011;
//! RFC 5102 section 5.11.3 (reasons for the end of a flow). Limit: `filter_events`.

use std::collections::VecDeque;

use base::Instant;

use super::Direction;
use super::timeouts::Phase;
use crate::packet::Tuple;

/// A state as tools and exporters see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The tuple of the first packet as it arrived.
    pub original: Tuple,
    /// The tuple of answers as they arrive.
    pub reply: Tuple,
    /// Packets in the original and the reply direction.
    pub packets: [u64; 2],
    /// Bytes in the original and the reply direction.
    pub bytes: [u64; 2],
    /// Where the flow is.
    pub phase: Phase,
    /// Type and code of the first message of a flow of ICMP.
    pub icmp: Option<(u8, u8)>,
    /// The rule that passed it.
    pub rule: u16,
    /// Generation of the rules that judged it last.
    pub generation: u32,
    /// Port that the first packet came by.
    pub in_port: u16,
    /// Port that it left by.
    pub out_port: u16,
    /// The caller's number.
    pub tag: u32,
    /// Are windows not checked?
    pub loose: bool,
    /// When the first packet came, to 67 ms.
    pub created: Instant,
    /// When the last packet that counts came, to 67 ms.
    pub seen: Instant,
    /// When it ends if no more packets come.
    pub expires: Instant,
}

/// Why a state ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// No packet for as long as its timeout.
    Idle,
    /// Its timeout was shorter because the table is nearly full.
    Pressure,
    /// Its place went to a new flow.
    Evicted,
    /// A new flow has its tuple.
    Replaced,
    /// A user ended it.
    Killed,
    /// The rules of today do not pass it.
    Rules,
    /// The partner of this router says so.
    Partner,
}

impl Why {
    /// For logs and tools.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Why::Idle => "idle",
            Why::Pressure => "pressure",
            Why::Evicted => "evicted",
            Why::Replaced => "replaced",
            Why::Killed => "killed",
            Why::Rules => "rules",
            Why::Partner => "partner",
        }
    }
}

/// What happened to a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It began.
    Began,
    /// It lasts, and has had packets since the last event that reported it.
    Lasts,
    /// It ended.
    Ended(Why),
}

/// What earlier events have reported of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// Packets by direction.
    pub packets: [u64; 2],
    /// Bytes by direction.
    pub bytes: [u64; 2],
    /// When the last of these events was, to 67 ms.
    pub at: Option<Instant>,
}

/// A state began, lasts or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Instant,
    /// The state then.
    pub state: State,
    /// What happened.
    pub what: What,
    /// What [`What::Lasts`] has reported of it before.
    pub reported: Reported,
}

impl Event {
    /// Packets and bytes of a direction that no earlier event has reported.
    #[must_use]
    pub fn new_counts(&self, direction: Direction) -> (u64, u64) {
        let of = direction as usize;
        let packets = self.state.packets[of].wrapping_sub(self.reported.packets[of]);
        (packets, self.state.bytes[of].wrapping_sub(self.reported.bytes[of]))
    }
}

/// Which events somebody wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Of states that begin.
    pub begun: bool,
    /// Of states that end.
    pub ended: bool,
}

/// Events that wait to be taken.
#[derive(Default)]
pub(super) struct Events {
    queue: VecDeque<Event>,
    pub(super) wanted: Wanted,
    /// Values of [`base::Limit::FilterEvents`].
    most: usize,
    lost: u64,
}

impl Events {
    /// Queue up to `most` events of those that are wanted. The queue is allocated at once, so that
    /// no packet waits while it grows.
    pub(super) fn want(&mut self, wanted: Wanted, most: usize) {
        (self.wanted, self.most) = (wanted, most);
        match wanted == Wanted::default() {
            true => self.queue = VecDeque::new(),
            false => self.queue.reserve_exact(most.saturating_sub(self.queue.len())),
        }
    }

    pub(super) fn push(&mut self, event: Event) {
        if self.queue.len() < self.most {
            self.queue.push_back(event);
        } else {
            self.lost += 1;
        }
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        self.queue.pop_front()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}
