//! `MSG_ZEROCOPY`: bytes are copied here as ever, and said to have been, which is an answer that
//! the interface has (`SO_EE_CODE_ZEROCOPY_COPIED`). A notice comes once a call's bytes are
//! acknowledged; notices of calls in a row become one.
//!
//! Called by: `transfer.rs`, `ready.rs`, `epoll.rs`. Source: Linux
//! Documentation/networking/msg_zerocopy.rst.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use super::file::Endpoint;
use super::world::State;

/// Calls that wait for a notice at most; beyond that they get none.
const WAITING_MAX: usize = 4096;

/// What a socket's calls with `MSG_ZEROCOPY` wait for, and what is to be told.
#[derive(Debug, Default)]
pub(super) struct Notifications {
    /// Bytes written so far, by all calls.
    written: u64,
    next: u32,
    /// The call's number, and what must be acknowledged.
    waiting: VecDeque<(u32, u64)>,
    /// Numbers from and to.
    reported: VecDeque<(u32, u32)>,
}

impl Notifications {
    /// A call wrote this much.
    pub(super) fn wrote(&mut self, bytes: usize, wants_notice: bool) {
        self.written += bytes as u64;
        if wants_notice && bytes > 0 && self.waiting.len() < WAITING_MAX {
            self.waiting.push_back((self.next, self.written));
            self.next = self.next.wrapping_add(1);
        }
    }

    /// So much is acknowledged; is there something new to tell?
    fn acknowledged(&mut self, bytes: u64) -> bool {
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

    /// Is there anything to tell?
    pub(super) fn any(&self) -> bool {
        !self.reported.is_empty()
    }

    /// The next to tell.
    pub(super) fn take(&mut self) -> Option<(u32, u32)> {
        self.reported.pop_front()
    }
}

/// See what a socket's peer has acknowledged by now. News is an edge.
pub(super) fn look(state: &mut State, fd: RawFd) {
    let Ok(socket) = state.socket(fd) else { return };
    let Endpoint::Connection(handle) = socket.endpoint else { return };
    if socket.notifications.waiting.is_empty() {
        return;
    }
    let acked = state.stack.tcp_info(handle).map_or(u64::MAX, |info| info.bytes_acked);
    if let Ok(socket) = state.socket(fd)
        && socket.notifications.acknowledged(acked)
    {
        socket.edges += 1;
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
