//! The partner's datagrams with states, in order: those that come early wait, what is missing is
//! asked for, and given up after a while.
//!
//! Called by: `session.rs`. Bounds: [`EARLY_MAX`] datagrams wait, [`MISSING_MAX`] are asked for at
//! once.

use std::collections::BTreeMap;

use base::{Duration, Instant};

/// Datagrams that wait for one before them, at most; the sender keeps as many.
pub(crate) const EARLY_MAX: usize = 256;
/// Missing datagrams in one question.
pub(crate) const MISSING_MAX: usize = 64;
/// The time between two questions, and after which a gap is given up.
const ASK_AGAIN: Duration = Duration::from_millis(40);
const GIVE_UP: Duration = Duration::from_secs(1);

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    Kept,
    Repeated,
    /// It is so far ahead that those before it are given up: so many.
    Skipped(u64),
}

/// The order of what comes.
pub(crate) struct Inbound {
    /// The number that is next.
    pub(crate) expected: u64,
    early: BTreeMap<u64, Vec<u8>>,
    /// The partner has sent all below this number.
    sent: u64,
    gap_since: Option<Instant>,
    ask_at: Instant,
}

impl Inbound {
    pub(crate) fn new(expected: u64, now: Instant) -> Inbound {
        let early = BTreeMap::new();
        Inbound { expected, early, sent: expected, gap_since: None, ask_at: now }
    }

    /// Was it taken before?
    pub(crate) fn has(&self, number: u64) -> bool {
        number < self.expected || self.early.contains_key(&number)
    }

    /// Keep a body until its turn.
    pub(crate) fn put(&mut self, number: u64, body: Vec<u8>) -> Put {
        if self.has(number) {
            return Put::Repeated;
        }
        self.sent = self.sent.max(number.saturating_add(1));
        let mut put = Put::Kept;
        if number - self.expected >= EARLY_MAX as u64 {
            let lost = number - self.expected - self.early.len() as u64;
            self.early.clear();
            (self.expected, self.gap_since) = (number, None);
            put = Put::Skipped(lost);
        }
        self.early.insert(number, body);
        put
    }

    /// The partner has sent all below `next`.
    pub(crate) fn note_sent(&mut self, next: u64) {
        self.sent = self.sent.max(next);
    }

    /// The next body in order, with its number.
    pub(crate) fn next(&mut self) -> Option<(u64, Vec<u8>)> {
        let body = self.early.remove(&self.expected)?;
        let number = self.expected;
        self.expected += 1;
        self.gap_since = None;
        Some((number, body))
    }

    /// The numbers that are to be asked for.
    pub(crate) fn missing(&mut self, now: Instant) -> Vec<u64> {
        let end = self.sent.min(self.expected.saturating_add(EARLY_MAX as u64));
        if self.expected >= end {
            self.gap_since = None;
            return Vec::new();
        }
        self.gap_since.get_or_insert(now);
        if now < self.ask_at {
            return Vec::new();
        }
        self.ask_at = now + ASK_AGAIN;
        let missing = (self.expected..end).filter(|number| !self.early.contains_key(number));
        missing.take(MISSING_MAX).collect()
    }

    /// Give up a gap that is there for too long; how many datagrams never came.
    pub(crate) fn give_up(&mut self, now: Instant) -> u64 {
        if self.gap_since.is_none_or(|since| now.since(since) < GIVE_UP) {
            return 0;
        }
        let next = self.early.keys().next().copied().unwrap_or(self.sent);
        let lost = next.saturating_sub(self.expected);
        (self.expected, self.gap_since) = (self.expected.max(next), None);
        lost
    }
}
