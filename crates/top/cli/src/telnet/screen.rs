//! Standard output, which takes what it takes at once.
//!
//! Called by: `run.rs`.

use std::io::{self, stdout};

use anyhow::{Context, Result};
use rustix::io::Errno;

use crate::output;

/// Bytes of a write: what a pipe has room for if poll(2) says that it has any.
const WRITE_BYTES: usize = 4 << 10;

/// What is to be shown.
#[derive(Debug, Default)]
pub(super) struct Screen {
    waiting: Vec<u8>,
}

impl Screen {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn push(&mut self, mut bytes: Vec<u8>) {
        self.waiting.append(&mut bytes);
    }

    /// Write once, after poll(2) said that there is room. `false` if the reader is gone.
    ///
    /// # Errors
    /// It cannot be written: a full disk.
    pub(super) fn write(&mut self) -> Result<bool> {
        let part = &self.waiting[..self.waiting.len().min(WRITE_BYTES)];
        match rustix::io::write(stdout(), part) {
            Ok(len) => drop(self.waiting.drain(..len)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // A terminal that is gone is a reader that is gone.
            Err(Errno::PIPE | Errno::IO) => return Ok(false),
            Err(error) => {
                let error = io::Error::from(error);
                let what_to_do = output::what_to_do(&error);
                let what = format!("cannot write to standard output{what_to_do}");
                return Err(error).context(what);
            }
        }
        Ok(true)
    }
}
