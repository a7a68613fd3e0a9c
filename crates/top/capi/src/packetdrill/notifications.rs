//! Completions of `MSG_ZEROCOPY`. The stack copies the bytes anyway and reports that it did, which
//! the interface allows (`SO_EE_CODE_ZEROCOPY_COPIED`). A completion is due once a call's bytes are
//! acknowledged. Completions of consecutive calls are merged.
//!
//! Called by: `transfer.rs`, `fast_open.rs`, `ready.rs`. Source: Linux
//! Documentation/networking/msg_zerocopy.rst.

use std::collections::VecDeque;

/// Maximum calls that wait for a completion; further calls get none.
const WAITING_MAX: usize = 4096;

/// The `MSG_ZEROCOPY` calls of a socket: those not yet acknowledged, and those to report.
#[derive(Debug, Default)]
pub(super) struct Notifications {
    /// Bytes written so far, by all calls.
    written: u64,
    next: u32,
    /// The call's number, and the value of `written` that must be acknowledged.
    waiting: VecDeque<(u32, u64)>,
    /// Ranges of call numbers to report: first and last.
    reported: VecDeque<(u32, u32)>,
}

impl Notifications {
    /// Record a call that wrote `bytes`.
    pub(super) fn wrote(&mut self, bytes: usize, wants_notice: bool) {
        self.written += bytes as u64;
        if wants_notice && bytes > 0 && self.waiting.len() < WAITING_MAX {
            self.waiting.push_back((self.next, self.written));
            self.next = self.next.wrapping_add(1);
        }
    }

    /// `bytes` in all are acknowledged. Returns whether there is a new completion to report.
    pub(super) fn acknowledged(&mut self, bytes: u64) -> bool {
        let mut news = false;
        while let Some(&(number, end)) = self.waiting.front()
            && end <= bytes
        {
            self.waiting.pop_front();
            news = true;
            match self.reported.back_mut() {
                Some((_, last)) if last.wrapping_add(1) == number => *last = number,
                _ => self.reported.push_back((number, number)),
            }
        }
        news
    }

    /// Whether no call waits for a completion.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether there is a completion to report.
    pub(super) fn any(&self) -> bool {
        !self.reported.is_empty()
    }

    /// Take the next range to report.
    pub(super) fn take(&mut self) -> Option<(u32, u32)> {
        self.reported.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_of_calls_in_a_row_become_one() {
        let mut notifications = Notifications::default();
        notifications.wrote(100, true);
        notifications.wrote(50, false);
        notifications.wrote(100, true);
        notifications.wrote(100, true);
        assert!(!notifications.acknowledged(99));
        assert!(notifications.acknowledged(250));
        assert_eq!(notifications.take(), Some((0, 1)));
        assert_eq!(notifications.take(), None);
        assert!(notifications.acknowledged(350));
        assert_eq!(notifications.take(), Some((2, 2)));
    }
}
