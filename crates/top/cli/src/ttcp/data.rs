//! The data of a transfer: a pattern that both ends know, or a file.
//!
//! Called by: the ends.
//!
//! Byte `i` of the pattern stream is byte `i mod PERIOD` of a fixed random block. The receiver
//! compares the first and last bytes of every read or loaned buffer, 4 KB in every 4 MB, and all of
//! the first 4 MB. That finds lost, repeated and swapped segments at almost no cost. Files are
//! hashed instead, outside the measured time.

use std::sync::Arc;

use anyhow::{Result, bail};
use wirespeed::{Mbuf, Stack};

use super::file::{Hashed, Reader};

/// A prime, so that no segment size divides it and a misplaced segment shows.
const PERIOD: usize = 65_521;
/// Bytes compared of every [`SAMPLE_EVERY`], and the most compared at once.
const SAMPLE: usize = 4096;
/// The first so many bytes are all compared.
const SAMPLE_EVERY: u64 = 4 << 20;
const PATTERN_READ_BYTES: usize = 128 << 10;

/// The block, followed by its first `look` bytes, so that a comparison or a write need not wrap.
pub(super) fn block(look: usize) -> Arc<[u8]> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes: Vec<u8> = (0..PERIOD)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect();
    for i in 0..look {
        bytes.push(bytes[i]);
    }
    bytes.into()
}

/// The data to send.
pub(super) enum Source {
    Pattern { block: Arc<[u8]>, at: usize, left: u64 },
    File(Box<Reader>),
}

impl Source {
    /// `limit` bytes of pattern, peeked up to as many bytes at a time as `block` was made for.
    pub(super) fn pattern(limit: u64, block: Arc<[u8]>) -> Source {
        Source::Pattern { block, at: 0, left: limit }
    }

    /// The next bytes, up to `most`; empty at the end, or until [`Source::refill`].
    #[inline]
    pub(super) fn peek(&self, most: usize) -> &[u8] {
        match self {
            Source::Pattern { block, at, left } => {
                let n = usize::try_from(*left).map_or(most, |left| left.min(most));
                &block[*at..*at + n]
            }
            Source::File(reader) => reader.peek(most),
        }
    }

    /// How many bytes there are, up to `most`; of a file, as many as can be peeked at.
    #[inline]
    pub(super) fn ahead(&self, most: usize) -> usize {
        match self {
            Source::Pattern { left, .. } => usize::try_from(*left).map_or(most, |n| n.min(most)),
            Source::File(reader) => reader.peek(most).len(),
        }
    }

    /// Remove the first `n` bytes.
    #[inline]
    pub(super) fn advance(&mut self, n: usize) {
        match self {
            Source::Pattern { at, left, .. } => {
                *at = (*at + n) % PERIOD;
                *left -= n as u64;
            }
            Source::File(reader) => reader.advance(n),
        }
    }

    /// Is there no more data?
    #[inline]
    pub(super) fn finished(&self) -> bool {
        match self {
            Source::Pattern { left, .. } => *left == 0,
            Source::File(reader) => reader.finished(),
        }
    }

    /// End the data here.
    pub(super) fn stop(&mut self) {
        match self {
            Source::Pattern { left, .. } => *left = 0,
            Source::File(reader) => reader.stop(),
        }
    }

    /// Does it need [`Source::refill`]?
    #[inline]
    pub(super) fn is_dry(&self) -> bool {
        matches!(self, Source::File(reader) if reader.is_dry())
    }

    /// Read and hash; takes time.
    pub(super) fn refill(&mut self) -> Result<()> {
        match self {
            Source::Pattern { .. } => Ok(()),
            Source::File(reader) => reader.refill(),
        }
    }

    /// The SHA-256 of the file's bytes that were sent.
    pub(super) fn sha256(&mut self) -> Option<String> {
        match self {
            Source::Pattern { .. } => None,
            Source::File(reader) => Some(reader.sha256()),
        }
    }
}

/// The destination of received data.
pub(super) enum Sink {
    Pattern { checker: Checker, room: Vec<u8> },
    File(Box<Hashed>),
}

impl Sink {
    pub(super) fn pattern() -> Sink {
        Sink::Pattern { checker: Checker::new(), room: vec![0; PATTERN_READ_BYTES] }
    }

    /// The buffer for the next bytes; empty until [`Sink::drain`].
    #[inline]
    pub(super) fn room(&mut self) -> &mut [u8] {
        match self {
            Sink::Pattern { room, .. } => room,
            Sink::File(hashed) => hashed.room(),
        }
    }

    /// `n` bytes were put into the buffer.
    #[inline]
    pub(super) fn filled(&mut self, n: usize) -> Result<()> {
        match self {
            Sink::Pattern { checker, room } => checker.check(&room[..n]),
            Sink::File(hashed) => {
                hashed.filled(n);
                Ok(())
            }
        }
    }

    /// Take a loaned buffer; it is given back here or by [`Sink::drain`].
    #[inline]
    pub(super) fn took(&mut self, m: Mbuf, stack: &mut Stack) -> Result<()> {
        match self {
            Sink::Pattern { checker, .. } => {
                checker.check(m.as_slice())?;
                stack.give_back(m);
            }
            Sink::File(hashed) => hashed.took(m),
        }
        Ok(())
    }

    /// Does it need [`Sink::drain`]?
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Sink::File(hashed) if hashed.is_full())
    }

    /// Hash the received data; takes time.
    pub(super) fn drain(&mut self, stack: &mut Stack) {
        if let Sink::File(hashed) = self {
            hashed.drain(stack);
        }
    }

    /// The SHA-256 of the file's bytes that were received.
    pub(super) fn sha256(&mut self) -> Option<String> {
        match self {
            Sink::Pattern { .. } => None,
            Sink::File(hashed) => Some(hashed.sha256()),
        }
    }
}

/// Compares received data with the pattern.
pub(super) struct Checker {
    block: Arc<[u8]>,
    position: u64,
    /// `position` modulo `PERIOD`.
    at: usize,
    /// Where in the stream the next sample begins.
    sample_at: u64,
    /// Bytes of the current sample still to be compared.
    sample_left: usize,
}

impl Checker {
    pub(super) fn new() -> Checker {
        let block = block(SAMPLE);
        Checker { block, position: 0, at: 0, sample_at: SAMPLE_EVERY, sample_left: 0 }
    }

    /// Check the next bytes of the stream.
    #[inline]
    pub(super) fn check(&mut self, bytes: &[u8]) -> Result<()> {
        let mut good = self.same_ends(bytes);
        let end = self.position + bytes.len() as u64;
        if self.position < SAMPLE_EVERY {
            good &= (0..bytes.len()).step_by(SAMPLE).all(|at| self.same(bytes, at, SAMPLE));
        } else if end > self.sample_at {
            good &= self.sample(bytes, end);
        }
        if !good {
            bail!(
                "wrong data: what was received from byte {} on is not what was sent",
                self.position
            );
        }
        self.position = end;
        self.at += bytes.len();
        if self.at >= PERIOD {
            self.at %= PERIOD;
        }
        Ok(())
    }

    /// Compare the first and the last eight bytes.
    #[inline]
    fn same_ends(&self, bytes: &[u8]) -> bool {
        let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) else {
            return self.same(bytes, 0, bytes.len());
        };
        let behind = self.at + bytes.len() - 8;
        let behind = if behind < PERIOD { behind } else { behind % PERIOD };
        self.block[self.at..].first_chunk() == Some(first)
            && self.block[behind..].first_chunk() == Some(last)
    }

    /// Compare a part of a sample: somewhere in a large read, or all of small reads until it is
    /// complete.
    #[cold]
    fn sample(&mut self, bytes: &[u8], end: u64) -> bool {
        if self.sample_left == 0 {
            self.sample_left = SAMPLE;
        }
        let beyond = bytes.len().saturating_sub(self.sample_left);
        let at = (self.sample_at as usize / PERIOD).wrapping_mul(7919) % (beyond + 1);
        let good = self.same(bytes, at, self.sample_left);
        self.sample_left -= self.sample_left.min(bytes.len());
        if self.sample_left == 0 {
            self.sample_at = end + SAMPLE_EVERY;
        }
        good
    }

    /// Compare up to `most` bytes from `at` on.
    #[inline]
    fn same(&self, bytes: &[u8], at: usize, most: usize) -> bool {
        let found = &bytes[at..(at + most).min(bytes.len())];
        let expected = (self.at + at) % PERIOD;
        found == &self.block[expected..expected + found.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checker_takes_the_stream_and_refuses_a_shift_of_one_byte() {
        let mut source = Source::pattern(1_000_000, block(7000));
        let mut checker = Checker::new();
        while !source.finished() {
            let n = source.peek(7000).len();
            assert!(checker.check(source.peek(7000)).is_ok());
            source.advance(n);
        }
        assert_eq!(checker.position, 1_000_000);
        let mut checker = Checker::new();
        assert!(checker.check(&Source::pattern(100, block(100)).peek(100)[1..]).is_err());
    }

    #[test]
    fn the_checker_finds_a_wrong_byte_at_the_end_of_any_read() {
        let mut source = Source::pattern(u64::MAX, block(1000));
        let mut checker = Checker::new();
        for _ in 0..100 {
            assert!(checker.check(source.peek(1000)).is_ok());
            source.advance(1000);
        }
        let mut wrong = source.peek(1000).to_vec();
        wrong[999] ^= 1;
        assert!(checker.check(&wrong).is_err());
    }
}
