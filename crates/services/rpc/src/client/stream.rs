//! Calls over a stream: many at a time, in records; one-way calls (batching, RFC 5531 section 10);
//! what happens when a connection ends.
//!
//! Called by: `blocking.rs`. A call is encoded once, directly into the buffer from which it is
//! written. Drops: `RpcNotAsked`, `RpcMalformed`, `RpcRecord`.

use core::ops::Range;

use base::{DropReason, Drops, Instant};

use super::{CallError, CallId, Config, Slots, put_call, results};
use crate::message::Reply;
#[cfg(feature = "tokio")]
use crate::record::Record;
use crate::record::{self, RecordReader};
use crate::xdr::{Encode, padded, put_u32};

/// A call that has got its reply: its results, or the error that the server returned.
pub type Replied<'a> = (CallId, Result<&'a [u8], CallError>);

/// The same as [`Replied`], with the results in a buffer of their own.
#[cfg(feature = "tokio")]
pub(crate) type Taken = (CallId, Result<Record, CallError>);

/// A client over a stream.
#[derive(Debug)]
pub struct StreamClient {
    config: Config,
    template: Vec<u8>,
    /// The table of calls that wait, with the time at which each call is given up.
    slots: Slots<Instant>,
    next_xid: u32,
    out: Vec<u8>,
    written: usize,
    records: RecordReader,
    drops: Drops,
}

impl StreamClient {
    /// A client whose xids count from `first_xid` on. It should be random, because a server may
    /// remember the calls of the program's last run.
    pub fn new(config: Config, first_xid: u32) -> StreamClient {
        StreamClient {
            template: config.template(),
            slots: Slots::new(config.calls),
            next_xid: first_xid,
            out: Vec::with_capacity(config.send_bytes),
            written: 0,
            records: RecordReader::new(config.receive_bytes, config.record_max),
            drops: Drops::default(),
            config,
        }
    }

    /// Encode a call. Its bytes are written with the next [`StreamClient::output`].
    ///
    /// # Errors
    /// Too many calls wait, or the call is too long.
    #[inline]
    pub fn call<A: Encode + ?Sized>(
        &mut self,
        procedure: u32,
        args: &A,
        now: Instant,
    ) -> Result<CallId, CallError> {
        let xid = self.next_call(now)?;
        if let Err(error) = self.put(xid, procedure, args, None) {
            self.slots.remove(xid);
            return Err(error);
        }
        Ok(CallId(xid))
    }

    /// Encode a call whose last argument is an opaque of `bytes` bytes, without these bytes.
    /// Returns the call, and the place in the output where the bytes belong.
    ///
    /// # Errors
    /// As for [`StreamClient::call`].
    #[cfg(feature = "tokio")]
    pub(crate) fn call_around<A: Encode + ?Sized>(
        &mut self,
        procedure: u32,
        args: &A,
        bytes: usize,
        now: Instant,
    ) -> Result<(CallId, usize), CallError> {
        let xid = self.next_call(now)?;
        match self.put(xid, procedure, args, Some(bytes)) {
            Ok(place) => Ok((CallId(xid), place)),
            Err(error) => {
                self.slots.remove(xid);
                Err(error)
            }
        }
    }

    /// Add a call that waits to the table. Returns its xid.
    #[inline]
    fn next_call(&mut self, now: Instant) -> Result<u32, CallError> {
        self.next_xid = self.next_xid.wrapping_add(1);
        let gives_up = now + self.config.timeout;
        let most = self.slots.most();
        self.slots.insert(self.next_xid, gives_up).ok_or(CallError::TooManyCalls(most))
    }

    /// Encode a call to which the server sends no reply, or whose reply is ignored.
    ///
    /// # Errors
    /// The call is too long.
    pub fn batch<A: Encode + ?Sized>(&mut self, procedure: u32, args: &A) -> Result<(), CallError> {
        self.next_xid = self.next_xid.wrapping_add(1);
        // If a reply comes anyway, it matches no call, because no slot has this index.
        let xid = self.slots.unused(self.next_xid);
        self.put(xid, procedure, args, None).map(drop)
    }

    /// Append a call and, after its arguments, the length and padding of an opaque. Returns the
    /// place where the opaque's bytes belong.
    #[inline]
    fn put<A: Encode + ?Sized>(
        &mut self,
        xid: u32,
        procedure: u32,
        args: &A,
        opaque: Option<usize>,
    ) -> Result<usize, CallError> {
        let before = self.out.len();
        let at = record::begin(&mut self.out);
        put_call(&mut self.out, &self.template, xid, procedure, args);
        let bytes = self.out.len() - at + opaque.map_or(0, |bytes| 4 + padded(bytes));
        if bytes > self.config.record_max {
            self.out.truncate(before);
            return Err(CallError::TooLong(bytes, self.config.record_max));
        }
        let mut place = self.out.len();
        if let Some(opaque) = opaque {
            put_u32(&mut self.out, opaque as u32);
            place = self.out.len();
            self.out.resize(place + padded(opaque) - opaque, 0);
        }
        record::mark(&mut self.out, at, bytes);
        Ok(place)
    }

    /// The bytes to be written: all calls since the last write.
    #[inline]
    pub fn output(&self) -> &[u8] {
        &self.out[self.written..]
    }

    /// Move the bytes to be written into `into`, which must be empty. They count as written then.
    #[cfg(feature = "tokio")]
    pub(crate) fn take_output(&mut self, into: &mut Vec<u8>) {
        debug_assert!(into.is_empty() && self.written == 0, "a driver writes one way or the other");
        core::mem::swap(&mut self.out, into);
    }

    /// Do so many bytes wait that they should be written before more calls are made?
    pub fn should_write(&self) -> bool {
        self.out.len() - self.written >= self.config.send_bytes
    }

    /// Note that `bytes` bytes of the output were written.
    #[inline]
    pub fn written(&mut self, bytes: usize) {
        self.written = (self.written + bytes).min(self.out.len());
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
    }

    /// The room into which the program reads bytes from the stream.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        self.records.room()
    }

    /// Note that `bytes` bytes were read into the room.
    #[inline]
    pub fn filled(&mut self, bytes: usize) {
        self.records.filled(bytes);
    }

    /// The next reply to a call that waits: its results, or the error that the server returned.
    ///
    /// # Errors
    /// The stream cannot go on: end the connection and call [`StreamClient::disconnected`].
    #[inline]
    pub fn next_reply(&mut self) -> Result<Option<Replied<'_>>, CallError> {
        let Some((id, range)) = self.next_answered()? else { return Ok(None) };
        let reply = Reply::parse(self.records.bytes(range))?;
        Ok(Some((id, results(reply.outcome))))
    }

    /// Like [`StreamClient::next_reply`], but the results are in a buffer of their own. Long
    /// results keep the buffer into which they were read; later bytes go into the buffer that
    /// `spare` returns.
    ///
    /// # Errors
    /// As for [`StreamClient::next_reply`].
    #[cfg(feature = "tokio")]
    pub(crate) fn take_reply(
        &mut self,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> Result<Option<Taken>, CallError> {
        let Some((id, range)) = self.next_answered()? else { return Ok(None) };
        let reply = Reply::parse(self.records.bytes(range.clone()))?;
        // The results are at the end of their record.
        let bytes = results(reply.outcome).map(<[u8]>::len);
        let record = self.records.take(range, spare());
        Ok(Some((id, bytes.map(|bytes| record.last(bytes)))))
    }

    /// The next call that has got its reply, and the place of the reply in the buffer.
    #[inline]
    fn next_answered(&mut self) -> Result<Option<(CallId, Range<usize>)>, CallError> {
        loop {
            let range = match self.records.next_range() {
                Ok(Some(range)) => range,
                Ok(None) => return Ok(None),
                Err(error) => {
                    self.drops.count(DropReason::RpcRecord);
                    return Err(error.into());
                }
            };
            let Ok(reply) = Reply::parse(self.records.bytes(range.clone())) else {
                self.drops.count(DropReason::RpcMalformed);
                continue;
            };
            let xid = reply.xid;
            if self.slots.remove(xid).is_none() {
                self.drops.count(DropReason::RpcNotAsked);
                continue;
            }
            return Ok(Some((CallId(xid), range)));
        }
    }

    /// When the first of the calls is given up.
    pub fn deadline(&self) -> Instant {
        self.slots.iter().map(|(_, &at)| at).min().unwrap_or(Instant::NEVER)
    }

    /// Take a call whose time is over. It is forgotten.
    pub fn next_expired(&mut self, now: Instant) -> Option<CallId> {
        let (xid, _) = self.slots.iter().find(|&(_, &at)| at <= now)?;
        self.slots.remove(xid);
        Some(CallId(xid))
    }

    /// The connection has ended: forget all calls, and return them. They fail with
    /// [`CallError::Disconnected`]. Each may or may not have been carried out, so the program has
    /// to decide whether to call again.
    pub fn disconnected(&mut self) -> Vec<CallId> {
        let calls: Vec<CallId> = self.slots.iter().map(|(xid, _)| CallId(xid)).collect();
        for call in &calls {
            self.slots.remove(call.0);
        }
        self.out.clear();
        self.written = 0;
        self.records.reset();
        calls
    }

    /// How many calls wait for their reply.
    pub fn waiting(&self) -> usize {
        self.slots.len()
    }

    /// How long a call may take.
    pub fn timeout(&self) -> base::Duration {
        self.config.timeout
    }

    /// Dropped messages, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }
}
