//! What is known of one neighbour.
//!
//! Called by: `table.rs`, which changes it. RFC 4861 section 7.3.2.

use std::collections::VecDeque;

use base::{Instant, MacAddr};
use mbuf::Mbuf;

use super::{Key, MOVE_INTERVAL, MOVES_MAX, Row, State};

/// One neighbour.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) state: State,
    pub(super) mac: MacAddr,
    /// When the state's timer expires; [`Instant::NEVER`] in states without one.
    pub(super) deadline: Instant,
    pub(super) confirmed_at: Instant,
    /// When the moves that were followed would have been over, at one a [`MOVE_INTERVAL`].
    moves_until: Instant,
    /// Its position in `by_use`.
    pub(super) used: u64,
    pub(super) tries: u8,
    pub(super) pending: VecDeque<Mbuf>,
}

impl Entry {
    pub(super) fn new(state: State, mac: MacAddr, now: Instant, used: u64) -> Entry {
        Entry {
            state,
            mac,
            deadline: Instant::NEVER,
            confirmed_at: Instant::ZERO,
            moves_until: now,
            used,
            tries: 0,
            pending: VecDeque::new(),
        }
    }

    /// May its link address change now? If so, that is noted.
    pub(super) fn may_move(&mut self, now: Instant) -> bool {
        let from = self.moves_until.max(now);
        let may = from.since(now) <= MOVE_INTERVAL.saturating_mul(MOVES_MAX - 1);
        if may {
            self.moves_until = from + MOVE_INTERVAL;
        }
        may
    }

    pub(super) fn row(&self, (port, ip): Key) -> Row {
        Row {
            port,
            ip,
            mac: (self.state != State::Incomplete).then_some(self.mac),
            state: self.state,
            confirmed_at: (self.confirmed_at != Instant::ZERO).then_some(self.confirmed_at),
        }
    }
}
