//! Record marking over streams (RFC 5531 section 11): in front of each fragment of a record are
//! four bytes, whose highest bit marks the last fragment.
//!
//! Called by: `client/stream.rs`, `server/session.rs`, `tasks/streams.rs`. Bytes are parsed in the
//! buffer into which they were read. A record in one fragment is never moved, and a long record can
//! be taken out together with its buffer. The buffer grows with the bytes received, not with the
//! length that a mark announces. Drops: `RpcRecord`.

use core::ops::{Deref, Range};

use crate::limits::{BUFFER_UNIT, FRAGMENTS_MAX};

/// Bytes of a mark.
pub const MARK_BYTES: usize = 4;
/// The bit of a mark that means that the record ends with this fragment.
const LAST: u32 = 1 << 31;

/// Why a stream cannot go on: it is not known where its next record begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A record has more bytes than the limit.
    #[error("the peer sends a record of {0} bytes or more, the limit is {1}: allow larger records")]
    TooLong(usize, usize),
    /// A record has more fragments than the limit.
    #[error("the peer sends a record in more than {FRAGMENTS_MAX} fragments: it is broken")]
    TooManyFragments,
}

/// Begin a record in `out`, with room for its mark. Bytes that are appended from now on are the
/// record's. Returns where the record begins.
#[inline]
pub fn begin(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; MARK_BYTES]);
    out.len()
}

/// Write the mark of the record that began at `at`, as one fragment.
///
/// # Panics
/// The record has 2 GB or more.
#[inline]
pub fn end(out: &mut [u8], at: usize) {
    let bytes = out.len() - at;
    mark(out, at, bytes);
}

/// Like [`end`], for a record of `bytes` bytes of which some are written from elsewhere.
#[inline]
pub(crate) fn mark(out: &mut [u8], at: usize, bytes: usize) {
    assert!(bytes < LAST as usize, "a record must be shorter than 2 GB: send less in a call");
    out[at - MARK_BYTES..at].copy_from_slice(&(LAST | bytes as u32).to_be_bytes());
}

/// A record, or the part of it after the header, in a buffer of its own.
#[derive(Debug, Default)]
pub struct Record {
    buffer: Vec<u8>,
    range: Range<usize>,
}

impl Deref for Record {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

impl From<Vec<u8>> for Record {
    fn from(buffer: Vec<u8>) -> Record {
        let range = 0..buffer.len();
        Record { buffer, range }
    }
}

impl Record {
    /// The last `bytes` bytes of the record, or the whole record if it is shorter.
    pub fn last(mut self, bytes: usize) -> Record {
        self.range.start = self.range.end - bytes.min(self.range.len());
        self
    }

    /// Append bytes to the record.
    #[cfg(feature = "tokio")]
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.buffer.truncate(self.range.end);
        self.buffer.extend_from_slice(bytes);
        self.range.end += bytes.len();
    }

    /// The buffer, for other uses; its content is no longer needed.
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }
}

/// Reads records from a stream.
#[derive(Debug)]
pub struct RecordReader {
    buffer: Vec<u8>,
    /// How many bytes may be read beyond the end of a record.
    unit: usize,
    /// The fragments of the current record received so far, joined, are at `start..joined`.
    start: usize,
    joined: usize,
    /// Bytes that were read but not parsed yet are at `raw..filled`.
    raw: usize,
    filled: usize,
    /// Bytes of the current fragment that have not arrived yet.
    missing: usize,
    is_last: bool,
    /// How many fragments of the current record have begun.
    fragments: u32,
    record_max: usize,
}

impl RecordReader {
    /// A reader that reads `receive_bytes` at a time, and records of `record_max` bytes at most.
    pub fn new(receive_bytes: usize, record_max: usize) -> RecordReader {
        let unit = receive_bytes.max(64);
        let buffer = vec![0; unit];
        let (start, joined, raw, filled) = (0, 0, 0, 0);
        let (missing, is_last, fragments) = (0, false, 0);
        RecordReader {
            buffer,
            unit,
            start,
            joined,
            raw,
            filled,
            missing,
            is_last,
            fragments,
            record_max,
        }
    }

    /// Forget all received bytes, for another stream.
    pub fn reset(&mut self) {
        (self.start, self.joined, self.raw, self.filled) = (0, 0, 0, 0);
        (self.missing, self.is_last, self.fragments) = (0, false, 0);
    }

    /// Has a part of a record arrived?
    pub fn is_inside(&self) -> bool {
        self.raw < self.filled || self.fragments > 0
    }

    /// Bytes of memory that the buffer occupies.
    pub fn memory(&self) -> usize {
        self.buffer.len()
    }

    /// The room for the next bytes of the stream; never empty. For a long record the room ends with
    /// the record, so that the record's buffer contains nothing else. Before calling this, call
    /// [`RecordReader::next_record`] until it returns `None`.
    pub fn room(&mut self) -> &mut [u8] {
        if !self.is_inside() {
            (self.start, self.joined, self.raw, self.filled) = (0, 0, 0, 0);
        }
        let wanted = (self.missing + MARK_BYTES).min(BUFFER_UNIT);
        if self.buffer.len() - self.filled < wanted.min(self.buffer.len() / 2) {
            self.compact();
        }
        if self.buffer.len() - self.filled < wanted {
            // The buffer grows by at most as many bytes as it contains, rounded up to units.
            let more = self.missing.min(self.filled).max(wanted).next_multiple_of(BUFFER_UNIT);
            self.buffer.resize(self.buffer.len() + more, 0);
        }
        let end = self.buffer.len().min(self.filled + self.missing.max(self.unit).max(wanted));
        &mut self.buffer[self.filled..end]
    }

    /// Note that `bytes` bytes were read into the room.
    pub fn filled(&mut self, bytes: usize) {
        self.filled = (self.filled + bytes).min(self.buffer.len());
    }

    /// Move the buffer's content to its front.
    fn compact(&mut self) {
        let joined = self.joined - self.start;
        self.buffer.copy_within(self.start..self.joined, 0);
        self.buffer.copy_within(self.raw..self.filled, joined);
        self.filled = joined + self.filled - self.raw;
        (self.start, self.joined, self.raw) = (0, joined, joined);
    }

    /// The next record that is complete.
    ///
    /// # Errors
    /// The stream cannot go on.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<&[u8]>, RecordError> {
        Ok(self.next_range()?.map(|range| &self.buffer[range]))
    }

    /// The next complete record, in a buffer of its own. A long record is not copied: it keeps its
    /// buffer, and the next bytes are read into the buffer that `spare` returns.
    ///
    /// # Errors
    /// The stream cannot go on.
    pub fn take_record(
        &mut self,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> Result<Option<Record>, RecordError> {
        Ok(self.next_range()?.map(|range| self.take(range, spare())))
    }

    /// Has only the beginning of a record arrived, with a long rest still to come?
    #[cfg(feature = "tokio")]
    pub(crate) fn is_before_long_end(&self) -> bool {
        let begun = self.joined - self.start;
        self.is_last && self.missing >= BUFFER_UNIT && begun >= crate::limits::HEAD_BYTES
    }

    /// The beginning of that record in a buffer of its own, and the number of bytes that are
    /// missing. The caller reads the missing bytes itself; what is read here afterwards comes after
    /// them in the stream.
    #[cfg(feature = "tokio")]
    pub(crate) fn take_begun(&mut self, spare: Vec<u8>) -> (Record, usize) {
        let missing = self.missing;
        let head = self.take(self.start..self.joined, spare);
        self.reset();
        (head, missing)
    }

    /// The record whose range [`RecordReader::next_range`] returned last, as
    /// [`RecordReader::take_record`] would return it.
    pub(crate) fn take(&mut self, range: Range<usize>, mut spare: Vec<u8>) -> Record {
        let rest = self.raw..self.filled;
        if range.len() <= self.unit || rest.len() > self.unit {
            spare.clear();
            spare.extend_from_slice(&self.buffer[range]);
            return spare.into();
        }
        if spare.len() < self.unit {
            spare.resize(self.unit, 0);
        }
        spare[..rest.len()].copy_from_slice(&self.buffer[rest.clone()]);
        (self.start, self.joined, self.raw, self.filled) = (0, 0, 0, rest.len());
        let buffer = core::mem::replace(&mut self.buffer, spare);
        Record { buffer, range }
    }

    /// The bytes of the range that [`RecordReader::next_range`] returned last.
    #[inline]
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// The place of the next complete record in the buffer. It is valid until the next call of
    /// `room`.
    #[inline]
    pub(crate) fn next_range(&mut self) -> Result<Option<Range<usize>>, RecordError> {
        loop {
            let taken = self.missing.min(self.filled - self.raw);
            if taken > 0 {
                if self.joined != self.raw {
                    self.buffer.copy_within(self.raw..self.raw + taken, self.joined);
                }
                self.joined += taken;
                self.raw += taken;
                self.missing -= taken;
            }
            if self.missing > 0 {
                return Ok(None);
            }
            if self.is_last {
                let record = self.start..self.joined;
                (self.is_last, self.fragments) = (false, 0);
                (self.start, self.joined) = (self.raw, self.raw);
                return Ok(Some(record));
            }
            if !self.next_mark()? {
                return Ok(None);
            }
        }
    }

    // RFC 5531 11-a: the highest bit of a mark means that the fragment is the last one.
    /// Take the mark of a fragment, if it has arrived.
    fn next_mark(&mut self) -> Result<bool, RecordError> {
        let Some(mark) = self.buffer[self.raw..self.filled].first_chunk() else {
            return Ok(false);
        };
        let mark = u32::from_be_bytes(*mark);
        self.raw += MARK_BYTES;
        if self.fragments == 0 {
            (self.start, self.joined) = (self.raw, self.raw);
        }
        self.fragments += 1;
        self.missing = (mark & !LAST) as usize;
        self.is_last = mark & LAST != 0;
        // RFC 5531 11-b: a record may come in any number of fragments, within our limits.
        let bytes = self.joined - self.start + self.missing;
        if bytes > self.record_max {
            return Err(RecordError::TooLong(bytes, self.record_max));
        }
        if self.fragments > FRAGMENTS_MAX {
            return Err(RecordError::TooManyFragments);
        }
        Ok(true)
    }
}
