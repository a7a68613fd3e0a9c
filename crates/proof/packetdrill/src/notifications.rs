//! Completions of `MSG_ZEROCOPY`. The stack copies the bytes anyway and reports that it has copied
//! them, which the interface allows (`SO_EE_CODE_ZEROCOPY_COPIED`). A completion is due once a
//! call's bytes are acknowledged. Completions of consecutive calls are merged.
//!
//! Called by: `transfer.rs`, `fast_open.rs`, `ready.rs`. Source: Linux
//! Documentation/networking/msg_zerocopy.rst.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use libc::{MSG_PEEK, SO_OOBINLINE, SOL_SOCKET};
use rustix::io::Errno;
use stack::TcpHandle;

use super::Call;
use super::file::Socket;
use super::world::State;

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

    /// The peer has acknowledged `bytes` in all. Returns whether there is a new completion to
    /// report.
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

// Urgent data out of band, as on sockets without `SO_OOBINLINE`: the last urgent byte is read with
// `MSG_OOB` and skipped in the stream. The stack itself leaves the byte in the stream (RFC 6093).

/// Does the urgent byte stay in the stream?
pub(super) fn is_inline(socket: &Socket) -> bool {
    socket.remembered.get(&(SOL_SOCKET, SO_OOBINLINE)).is_some_and(|&n| n != 0)
}

/// The number of bytes up to the end of the urgent data, the urgent byte included, and the position
/// of that end in the stream; `None` without urgent data.
fn mark(state: &State, handle: TcpHandle) -> Option<(u64, u64)> {
    let left = state.stack.tcp_urgent_left(handle).filter(|&left| left > 0)?;
    let info = state.stack.tcp_info(handle)?;
    Some((left, info.bytes_received - info.unread as u64 + left))
}

/// Is there an urgent byte that was not read with `MSG_OOB`? If so, `POLLPRI` holds.
pub(super) fn is_pending(state: &State, handle: TcpHandle, taken: Option<u64>) -> bool {
    mark(state, handle).is_some_and(|(_, end)| taken != Some(end))
}

/// How many of `unread` bytes a read returns before it stops at the urgent byte or skips it.
pub(super) fn readable(state: &State, handle: TcpHandle, inline: bool, unread: usize) -> usize {
    match mark(state, handle) {
        Some((1, _)) if !inline => unread.saturating_sub(1),
        Some((left, _)) if !inline => unread.min(usize::try_from(left - 1).unwrap_or(usize::MAX)),
        _ => unread,
    }
}

/// A read with `MSG_OOB`: one byte. `INVAL` if there is no urgent byte, or if it stays in the
/// stream; `AGAIN` if it was announced and has not arrived.
pub(super) fn receive(
    state: &mut State,
    fd: RawFd,
    handle: TcpHandle,
    into: &mut [u8],
    flags: i32,
) -> Call<usize> {
    let socket = state.socket(fd)?;
    let (inline, taken) = (is_inline(socket), socket.urgent_taken);
    let (_, end) = mark(state, handle).ok_or(Errno::INVAL)?;
    if inline || taken == Some(end) {
        return Err(Errno::INVAL);
    }
    let byte = state.stack.tcp_urgent_byte(handle).ok_or(Errno::AGAIN)?;
    if flags & MSG_PEEK == 0 {
        state.socket(fd)?.urgent_taken = Some(end);
    }
    let Some(first) = into.first_mut() else { return Ok(0) };
    *first = byte;
    Ok(1)
}

/// Before a read of the stream: if the urgent byte is next, skip it.
pub(super) fn pass_over(state: &mut State, fd: RawFd, handle: TcpHandle) -> Call<()> {
    let inline = is_inline(state.socket(fd)?);
    if !inline && state.stack.tcp_at_mark(handle) == Some(true) {
        // If the urgent byte has not arrived, the read that follows finds nothing either.
        let _ = state.stack.tcp_read(handle, &mut [0]);
    }
    Ok(())
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
