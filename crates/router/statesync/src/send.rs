//! Our datagrams with states: records are gathered to datagrams, and the last datagrams are kept
//! for a partner that misses one.
//!
//! Called by: `session.rs`. Bounds: [`READY_MAX`] datagrams wait, as many as the partner can miss
//! are kept.

use std::collections::VecDeque;

use base::{Duration, Instant};

use crate::receive::EARLY_MAX;
use crate::records::{LONGEST, Record};
use crate::seal::{Header, Kind, OVERHEAD, Seal, SessionId};

/// Datagrams that wait to be sent, at most.
const READY_MAX: usize = 64;
/// A record waits so long for others at most.
const GATHER: Duration = Duration::from_millis(20);

/// What is to be sent.
pub(crate) struct Outbound {
    /// The number of the next datagram.
    pub(crate) next: u64,
    /// The most bytes of a body.
    most: usize,
    open: Vec<u8>,
    open_since: Option<Instant>,
    ready: VecDeque<Vec<u8>>,
    kept: VecDeque<(u64, Vec<u8>)>,
}

impl Outbound {
    pub(crate) fn new(datagram: usize) -> Outbound {
        Outbound {
            next: 1,
            most: datagram.saturating_sub(OVERHEAD).max(LONGEST + 4),
            open: Vec::new(),
            open_since: None,
            ready: VecDeque::new(),
            kept: VecDeque::new(),
        }
    }

    /// The most bytes of a body.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Another session of the partner begins: nothing of the last one is of use.
    pub(crate) fn clear(&mut self) {
        self.open.clear();
        self.open_since = None;
        self.ready.clear();
        self.kept.clear();
    }

    /// Records that may be added now at least.
    pub(crate) fn room(&self) -> usize {
        let datagrams = READY_MAX.saturating_sub(self.ready.len() + 1);
        datagrams * (self.most / LONGEST).max(1)
    }

    /// Add a record; ports of `names` are meant.
    pub(crate) fn push(&mut self, record: &Record, names: u32, with: &With<'_>, now: Instant) {
        let mut bytes = Vec::with_capacity(LONGEST);
        record.write(&mut bytes);
        if self.open.len() + bytes.len() > self.most {
            self.close(with);
        }
        if self.open.is_empty() {
            self.open.extend(names.to_be_bytes());
            self.open_since = Some(now);
        }
        self.open.extend(bytes);
    }

    /// Finish the datagram that is being filled.
    pub(crate) fn close(&mut self, with: &With<'_>) {
        self.open_since = None;
        if self.open.is_empty() {
            return;
        }
        let body = core::mem::take(&mut self.open);
        let header = Header { kind: Kind::States, session: with.own, number: self.next };
        let Some(datagram) = with.seal.seal(&header, with.to, &body) else { return };
        if self.kept.len() >= EARLY_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back((self.next, datagram.clone()));
        self.next += 1;
        self.ready.push_back(datagram);
    }

    /// The next datagram that is due.
    pub(crate) fn pop(&mut self, with: &With<'_>, now: Instant) -> Option<Vec<u8>> {
        if self.open_since.is_some_and(|since| now.since(since) >= GATHER) {
            self.close(with);
        }
        self.ready.pop_front()
    }

    /// Send a datagram again that the partner misses; `false`: it is gone.
    pub(crate) fn again(&mut self, number: u64) -> bool {
        let first = self.kept.front().map_or(u64::MAX, |(number, _)| *number);
        let at = number.checked_sub(first).and_then(|at| usize::try_from(at).ok());
        let Some((_, datagram)) = at.and_then(|at| self.kept.get(at)) else { return false };
        // One that still waits is not sent twice.
        let waits = self.next - number <= self.ready.len() as u64;
        if !waits && self.ready.len() < READY_MAX {
            self.ready.push_front(datagram.clone());
            return true;
        }
        false
    }
}

/// What makes a datagram of a body.
pub(crate) struct With<'a> {
    pub(crate) seal: &'a Seal,
    pub(crate) own: SessionId,
    pub(crate) to: SessionId,
}
