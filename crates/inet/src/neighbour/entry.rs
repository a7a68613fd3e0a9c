//! What is known of one neighbour.
//!
//! Called by: `table.rs`, which changes it. RFC 4861 section 7.3.2.

use std::collections::VecDeque;

use base::{Instant, MacAddr};
use mbuf::Mbuf;

use super::{Key, Row, State};

/// One neighbour.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) state: State,
    pub(super) mac: MacAddr,
    /// When the state's timer expires; [`Instant::NEVER`] in states without one.
    pub(super) deadline: Instant,
    pub(super) confirmed_at: Instant,
    pub(super) changed_at: Instant,
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
            changed_at: now,
            used,
            tries: 0,
            pending: VecDeque::new(),
        }
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
