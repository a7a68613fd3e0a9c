//! Urgent data, for users of the polled API: writing it, hearing of it, and where it ends.
//!
//! Called by: programs, `net`. Nothing here is on the packet path, and what it means
//! [`tcp::urgent`] knows.

use tcp::urgent;
use tcp::usrreq::CallError;

use crate::{Stack, TcpHandle};

impl Stack {
    /// [`Stack::tcp_write`], but the last byte is urgent: the peer hears of it at once, also while
    /// its window is shut, and finds a mark there (RFC 6093: the byte stays in the stream). If not
    /// all was taken, nothing is marked: write the rest in the same way. MSG_OOB.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn tcp_write_urgent(&mut self, handle: TcpHandle, data: &[u8]) -> Result<usize, CallError> {
        let Some((&last, before)) = data.split_last() else { return Ok(0) };
        let written = if before.is_empty() { 0 } else { self.tcp_write(handle, before)? };
        if written < before.len() {
            return Ok(written);
        }
        let pcb = self.connections.get_dirty(handle).ok_or(CallError::Closed)?;
        match urgent::write(&mut pcb.tcb, last, &mut self.core.cx) {
            Ok(()) => Ok(data.len()),
            Err(_) if written > 0 => Ok(written),
            Err(error) => Err(error),
        }
    }

    /// Bytes up to the end of the urgent data that was announced and not read yet, those that are
    /// still to come included; 0 if there are none. [`tcp::Events::URGENT`] tells when there are
    /// some, or more.
    pub fn tcp_urgent_left(&self, handle: TcpHandle) -> Option<u64> {
        self.connections.get(handle).map(|p| urgent::left(&p.tcb))
    }

    /// The last urgent byte, if it was received and not read; a read still passes it. A socket that
    /// hands it over out of band, as recv(2) with MSG_OOB does, drops it from the stream itself.
    pub fn tcp_urgent_byte(&mut self, handle: TcpHandle) -> Option<u8> {
        tcp::urgent::byte(&mut self.connections.get_mut(handle)?.tcb)
    }

    /// Is the next byte to read the last urgent one? A read ends before it, so that this can be
    /// asked. SIOCATMARK, sockatmark(3).
    pub fn tcp_at_mark(&self, handle: TcpHandle) -> Option<bool> {
        self.connections.get(handle).map(|p| urgent::at_mark(&p.tcb))
    }
}
