//! The bytes of a file: read and hashed at the sending end, hashed at the receiving end. `refill`
//! and `drain` do this, and the loops call them outside the measured time.
//!
//! Called by: `data.rs`. It uses the stack only to give loaned buffers back.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use wirespeed::{Mbuf, Stack};

/// Bytes read at once, two turns' worth, so that pauses are few. With more, the bytes leave the
/// cache between hash and copy, which costs the transfer more.
const CHUNK_BYTES: usize = 128 << 10;
/// Buffer for received data; it is hashed when half is used.
const RECEIVE_BYTES: usize = 256 << 10;

/// The sending end's file.
pub(super) struct Reader {
    file: File,
    name: String,
    buffer: Vec<u8>,
    /// The buffer is read up to `end`, and sent up to `sent`. Sent bytes are hashed at the next
    /// refill.
    end: usize,
    sent: usize,
    ended: bool,
    hash: Sha256,
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Reader> {
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
        let mut reader = Reader {
            file,
            name,
            buffer: vec![0; CHUNK_BYTES],
            end: 0,
            sent: 0,
            ended: false,
            hash: Sha256::new(),
        };
        // Finds a directory or a bad disk before anything is sent.
        reader.refill()?;
        Ok(reader)
    }

    #[inline]
    pub(super) fn peek(&self, most: usize) -> &[u8] {
        &self.buffer[self.sent..self.end.min(self.sent + most)]
    }

    #[inline]
    pub(super) fn advance(&mut self, n: usize) {
        self.sent += n;
    }

    #[inline]
    pub(super) fn finished(&self) -> bool {
        self.ended && self.sent == self.end
    }

    pub(super) fn stop(&mut self) {
        self.ended = true;
        self.end = self.sent;
    }

    #[inline]
    pub(super) fn is_dry(&self) -> bool {
        self.sent == self.end && !self.ended
    }

    /// Hash what was sent, and read the next bytes.
    pub(super) fn refill(&mut self) -> Result<()> {
        self.hash.update(&self.buffer[..self.sent]);
        (self.sent, self.end) = (0, 0);
        while self.end < self.buffer.len() {
            match self.file.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(n) => self.end += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot read {}", self.name));
                }
            }
        }
        Ok(())
    }

    pub(super) fn sha256(&mut self) -> String {
        self.hash.update(&self.buffer[..self.sent]);
        self.sent = 0;
        hex(&std::mem::take(&mut self.hash).finalize())
    }
}

/// The receiving end: data that waits to be hashed, copied or in loaned buffers.
pub(super) struct Hashed {
    buffer: Vec<u8>,
    used: usize,
    loaned: Vec<Mbuf>,
    loaned_bytes: usize,
    hash: Sha256,
}

impl Hashed {
    pub(super) fn new() -> Hashed {
        Hashed {
            buffer: vec![0; RECEIVE_BYTES],
            used: 0,
            loaned: Vec::new(),
            loaned_bytes: 0,
            hash: Sha256::new(),
        }
    }

    #[inline]
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.used..]
    }

    #[inline]
    pub(super) fn filled(&mut self, n: usize) {
        self.used += n;
    }

    #[inline]
    pub(super) fn took(&mut self, m: Mbuf) {
        self.loaned_bytes += m.len();
        self.loaned.push(m);
    }

    /// Half of the room is used; a turn rarely needs the other half.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.used.max(self.loaned_bytes) >= RECEIVE_BYTES / 2
    }

    pub(super) fn drain(&mut self, stack: &mut Stack) {
        self.hash.update(&self.buffer[..self.used]);
        self.used = 0;
        for m in self.loaned.drain(..) {
            self.hash.update(m.as_slice());
            stack.give_back(m);
        }
        self.loaned_bytes = 0;
    }

    pub(super) fn sha256(&mut self) -> String {
        hex(&std::mem::take(&mut self.hash).finalize())
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
