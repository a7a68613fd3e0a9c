//! [`Arriving`]: reads the calls of a connection. The end of a long call stays in the buffers in
//! which it arrived, if the stream lends them.
//!
//! Called by: `streams.rs`. Pieces that are short compared with their buffer are copied, and so are
//! all pieces while the connections hold `ARRIVED_BYTES` of them. Otherwise a peer could make the
//! server keep many buffers that contain few bytes each. Drops: `RpcRecord`, `RpcMalformed`.

use std::io::{self, ErrorKind};

use base::DropReason;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::OwnedSemaphorePermit;

use super::lent::{Arrived, Lender};
use crate::limits::{BUFFER_UNIT, HEAD_BYTES};
use crate::message::{BadCall, Call};
use crate::record::{Record, RecordReader};
use crate::server::SessionError;
use crate::tasks::server::Servers;

/// Reads calls from a connection.
pub(super) struct Arriving<'a, R, L: Lender> {
    servers: &'a Servers,
    reader: R,
    lender: Option<&'a L>,
    records: RecordReader,
    /// The beginning of a long call; `pieces` follow it.
    head: Option<Record>,
    pieces: Vec<Piece<L::Arrived>>,
    /// Bytes of the call that have not arrived yet.
    missing: usize,
    /// The last buffer received. Its first `of_call` bytes may be the end of the call.
    last: Option<L::Arrived>,
    of_call: usize,
}

/// Some bytes of a call, after its beginning.
enum Piece<B> {
    InPlace(
        B,
        #[expect(dead_code, reason = "it is given back with the piece")] OwnedSemaphorePermit,
    ),
    Copied(Vec<u8>),
}

impl<'a, R: AsyncRead + Unpin, L: Lender> Arriving<'a, R, L> {
    /// Reads calls of `record_max` bytes at most from `reader`.
    pub(super) fn new(
        servers: &'a Servers,
        reader: R,
        lender: Option<&'a L>,
        record_max: usize,
    ) -> Arriving<'a, R, L> {
        let records = RecordReader::new(BUFFER_UNIT, record_max);
        let (head, pieces, missing, last, of_call) = (None, Vec::new(), 0, None, 0);
        Arriving { servers, reader, lender, records, head, pieces, missing, last, of_call }
    }

    /// Has a part of a call arrived?
    pub(super) fn is_inside(&self) -> bool {
        self.records.is_inside() || self.head.is_some() || self.last.is_some()
    }

    /// Wait for more bytes. Returns 0 at the end of the stream.
    pub(super) async fn read(&mut self) -> io::Result<usize> {
        if self.last.is_none() {
            let is_long = self.head.is_some() || self.records.is_before_long_end();
            if let Some(lender) = self.lender.filter(|_| is_long) {
                self.last = lender.receive().await?;
            } else {
                let bytes = self.reader.read(self.records.room()).await?;
                self.records.filled(bytes);
                return Ok(bytes);
            }
        }
        let Some(last) = self.last.take() else { return Ok(0) };
        if self.head.is_none() && self.records.is_before_long_end() && last.len() >= BUFFER_UNIT {
            let (head, missing) = self.records.take_begun(self.servers.records.take_full());
            (self.head, self.missing) = (Some(head), missing);
        }
        if self.head.is_some() {
            return Ok(self.piece(last));
        }
        let room = self.records.room();
        let bytes = last.len().min(room.len()).min(HEAD_BYTES);
        room[..bytes].copy_from_slice(&last[..bytes]);
        self.records.filled(bytes);
        self.last = Some(last);
        self.advance(bytes);
        Ok(bytes)
    }

    /// Add the front of `last` to the long call as a piece. Returns how many of its bytes belong to
    /// the call.
    fn piece(&mut self, last: L::Arrived) -> usize {
        let bytes = last.len().min(self.missing);
        self.missing -= bytes;
        if bytes < last.len() {
            (self.last, self.of_call) = (Some(last), bytes);
            return bytes;
        }
        let permit = match bytes {
            BUFFER_UNIT.. => self.servers.arrived.clone().try_acquire_many_owned(bytes as u32).ok(),
            _ => None,
        };
        match (permit, self.pieces.last_mut()) {
            (Some(permit), _) => self.pieces.push(Piece::InPlace(last, permit)),
            (None, Some(Piece::Copied(copied))) => copied.extend_from_slice(&last),
            (None, _) => {
                let mut copied = self.servers.records.take();
                copied.extend_from_slice(&last);
                self.pieces.push(Piece::Copied(copied));
            }
        }
        bytes
    }

    /// Remove bytes from the front of the last received buffer.
    fn advance(&mut self, bytes: usize) {
        if let Some(last) = &mut self.last {
            last.advance(bytes);
            if last.is_empty() {
                self.last = None;
            }
        }
    }

    /// The next complete call; of a long call only the beginning, whose rest [`Arriving::end`]
    /// returns.
    ///
    /// # Errors
    /// The stream cannot go on.
    pub(super) fn next_call(&mut self) -> io::Result<Option<Record>> {
        let call = match (&self.head, self.missing) {
            (Some(_), 0) => self.head.take(),
            (Some(_), _) => None,
            (None, _) => {
                let spare = || self.servers.records.take_full();
                self.records.take_record(spare).map_err(|error| {
                    self.servers.count(DropReason::RpcRecord);
                    invalid(error.into())
                })?
            }
        };
        if call.as_ref().is_some_and(|call| Call::parse(call) == Err(BadCall::Malformed)) {
            self.servers.count(DropReason::RpcMalformed);
            return Err(invalid(SessionError::Malformed));
        }
        Ok(call)
    }

    /// The bytes that follow the beginning which [`Arriving::next_call`] returned last. They are
    /// valid until [`Arriving::forget`].
    pub(super) fn end(&self) -> Vec<&[u8]> {
        let mut end: Vec<&[u8]> = self.pieces.iter().map(|piece| &**piece).collect();
        end.extend(self.last.as_deref().map(|last| &last[..self.of_call]));
        end.retain(|piece| !piece.is_empty());
        end
    }

    /// Copy the end of the call to the end of its beginning in `record`.
    pub(super) fn join(&mut self, record: &mut Record) {
        self.end().into_iter().for_each(|piece| record.append(piece));
        self.forget();
    }

    /// Give back the end of the call, which is no longer needed.
    pub(super) fn forget(&mut self) {
        for piece in self.pieces.drain(..) {
            if let Piece::Copied(buffer) = piece {
                self.servers.records.put(buffer);
            }
        }
        let of_call = core::mem::take(&mut self.of_call);
        self.advance(of_call);
    }
}

impl<B: core::ops::Deref<Target = [u8]>> core::ops::Deref for Piece<B> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Piece::InPlace(bytes, _) => bytes,
            Piece::Copied(bytes) => bytes,
        }
    }
}

fn invalid(error: SessionError) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}
