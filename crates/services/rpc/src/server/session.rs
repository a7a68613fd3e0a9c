//! [`Session`]: one connection to a server. Calls are carried out in order. Their replies are
//! collected in one buffer, which is written at once.
//!
//! Called by: `blocking.rs`. RFC 5531 section 11. Limits: `RECORD_BYTES` or the caller's,
//! `REPLY_BYTES`, `HALF_RECORD`, `IDLE`. Drops: `RpcRecord`.

use core::net::{Ipv4Addr, SocketAddr};

use base::{DropReason, Instant};

use super::{Incoming, Server, Transport};
use crate::limits::{BUFFER_UNIT, HALF_RECORD, IDLE, REPLY_BYTES};
use crate::record::{self, RecordError, RecordReader};

/// Why a server ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// A record exceeds a limit.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The peer sends something that is not a call.
    #[error("the peer sends data that is no RPC call")]
    Malformed,
}

/// One connection to a server.
#[derive(Debug)]
pub struct Session {
    from: SocketAddr,
    transport: Transport,
    records: RecordReader,
    record_max: usize,
    out: Vec<u8>,
    written: usize,
    /// When the last record was completed, or the incomplete one began.
    since: Instant,
    is_half: bool,
}

impl Session {
    /// A connection from the address `from`, with records of `record_max` bytes at most.
    pub fn new(from: SocketAddr, record_max: usize, now: Instant) -> Session {
        let records = RecordReader::new(BUFFER_UNIT, record_max);
        let (out, written, is_half) = (Vec::new(), 0, false);
        let transport = Transport::Stream;
        Session { from, transport, records, record_max, out, written, since: now, is_half }
    }

    /// A connection over a Unix socket, from root or from another user.
    pub fn local(is_root: bool, record_max: usize, now: Instant) -> Session {
        let port = if is_root { 1 } else { u16::MAX };
        let from = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Session { transport: Transport::Local, ..Session::new(from, record_max, now) }
    }

    /// The room for bytes from the stream. Do not read while [`Session::is_full`].
    pub fn room(&mut self) -> &mut [u8] {
        self.records.room()
    }

    /// Note that `bytes` bytes were read into the room, and carry out the calls among them.
    ///
    /// # Errors
    /// End the connection after the rest of the output is written.
    pub fn filled(
        &mut self,
        bytes: usize,
        server: &mut Server,
        now: Instant,
    ) -> Result<(), SessionError> {
        self.records.filled(bytes);
        self.go_on(server, now)
    }

    /// Carry out calls that were read while the output was full.
    ///
    /// # Errors
    /// End the connection after the rest of the output is written.
    pub fn go_on(&mut self, server: &mut Server, now: Instant) -> Result<(), SessionError> {
        let mut has_carried_out = false;
        while !self.is_full() {
            let record = match self.records.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(error) => {
                    server.drops.count(DropReason::RpcRecord);
                    return Err(error.into());
                }
            };
            (self.since, self.is_half, has_carried_out) = (now, false, true);
            let at = record::begin(&mut self.out);
            let malformed = server.drops.of(DropReason::RpcMalformed);
            let (bytes, from, transport) = (record, self.from, self.transport);
            let reply_max = self.record_max;
            let room = reply_max;
            let incoming = Incoming { bytes, more: &[], from, transport, reply_max, room };
            if server.answer(&incoming, &mut self.out) {
                record::end(&mut self.out, at);
            } else {
                self.out.truncate(at - record::MARK_BYTES);
                if server.drops.of(DropReason::RpcMalformed) > malformed {
                    return Err(SessionError::Malformed);
                }
            }
        }
        // The time in which calls were carried out does not count as the peer's.
        if self.records.is_inside() && !self.is_half && !has_carried_out {
            (self.since, self.is_half) = (now, true);
        }
        Ok(())
    }

    /// The bytes to write.
    pub fn output(&self) -> &[u8] {
        &self.out[self.written..]
    }

    /// Note that `bytes` bytes of the output were written.
    pub fn written(&mut self, bytes: usize) {
        self.written = (self.written + bytes).min(self.out.len());
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
    }

    /// Are there so many unwritten replies that nothing more should be read?
    pub fn is_full(&self) -> bool {
        self.out.len() - self.written >= REPLY_BYTES.min(4 * self.record_max)
    }

    /// When the connection should be ended because it is idle, or because a record takes too long.
    pub fn deadline(&self) -> Instant {
        self.since + if self.is_half { HALF_RECORD } else { IDLE }
    }
}
