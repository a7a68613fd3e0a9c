//! The bytes that an end has to send, and where the TCP urgent pointer belongs among them.
//!
//! Called by: both ends, which write; programs, which send. Programs have to respect the limit
//! `ANSWER_BYTES`: they do not read from a peer that does not read the answers to its requests.

use crate::code::{DM, IAC};
use crate::limits::ANSWER_BYTES;

/// Bytes that wait to be sent.
#[derive(Debug, Default)]
pub struct Out {
    bytes: Vec<u8>,
    /// Number of bytes up to and including the last urgent data mark; 0 if there is none.
    urgent: usize,
    /// Bytes of answers that were appended since all answers had been sent.
    answers: usize,
    /// Number of bytes up to and including the last answer; 0 if there is none.
    answers_end: usize,
}

impl Out {
    /// The bytes to send next, and whether the last of them is urgent (RFC 854, the Synch).
    pub fn next(&self) -> (&[u8], bool) {
        match self.urgent {
            0 => (&self.bytes, false),
            end => (&self.bytes[..end], true),
        }
    }

    /// How many bytes wait.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Does nothing wait?
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// May more bytes be received? Anything that is received may need an answer.
    pub fn has_room_for_answers(&self) -> bool {
        self.answers < ANSWER_BYTES
    }

    /// Note that the bytes after the first `before` ones are answers.
    pub(crate) fn answered(&mut self, before: usize) {
        if self.bytes.len() > before {
            self.answers += self.bytes.len() - before;
            self.answers_end = self.bytes.len();
        }
    }

    /// Note that the first `count` bytes of those that [`Out::next`] returned were sent.
    pub fn sent(&mut self, count: usize) {
        self.bytes.drain(..count.min(self.bytes.len()));
        self.urgent = self.urgent.saturating_sub(count);
        self.answers_end = self.answers_end.saturating_sub(count);
        if self.answers_end == 0 {
            self.answers = 0;
        }
    }

    /// Append bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Append bytes with IAC doubled. RFC 854 14-a, RFC 855 2-b.
    pub(crate) fn doubled(&mut self, bytes: impl IntoIterator<Item = u8>) {
        for byte in bytes {
            self.bytes.push(byte);
            if byte == IAC {
                self.bytes.push(IAC);
            }
        }
    }

    /// Append a Synch: IAC DM, with the DM urgent. RFC 854 9-b.
    pub(crate) fn synch(&mut self) {
        self.raw(&[IAC, DM]);
        self.urgent = self.bytes.len();
    }
}

// Line ends of the network virtual terminal (RFC 854): CR LF is a new line, CR NUL a carriage
// return. With BINARY (RFC 856) bytes are as they are.

/// Encodes data to be sent; it remembers the last byte.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    is_after_cr: bool,
}

impl Encoder {
    /// Encode data. A CR that is not followed by LF becomes CR NUL. RFC 854 11-a.
    pub(crate) fn data(&mut self, bytes: &[u8], is_binary: bool, out: &mut Out) {
        for &byte in bytes {
            if core::mem::take(&mut self.is_after_cr) && byte != b'\n' && !is_binary {
                out.raw(&[0]);
            }
            out.doubled([byte]);
            self.is_after_cr = byte == b'\r' && !is_binary;
        }
    }

    /// Complete a CR at the end of the data: no LF will follow it.
    pub(crate) fn end(&mut self, out: &mut Out) {
        if core::mem::take(&mut self.is_after_cr) {
            out.raw(&[0]);
        }
    }
}

/// Decodes received data; it remembers the last byte.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    is_after_cr: bool,
}

impl Decoder {
    /// Append received data to `to`, without the NUL of CR NUL and, if `drops_lf`, without the LF
    /// of CR LF.
    pub(crate) fn data(&mut self, bytes: &[u8], is_binary: bool, drops_lf: bool, to: &mut Vec<u8>) {
        for &byte in bytes {
            let is_after_cr = core::mem::replace(&mut self.is_after_cr, byte == b'\r');
            let is_end = byte == 0 || (byte == b'\n' && drops_lf);
            if !(is_after_cr && is_end && !is_binary) {
                to.push(byte);
            }
        }
    }
}
