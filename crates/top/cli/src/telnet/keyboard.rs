//! Standard input: a terminal's keys, or a file, which waits until the ends have agreed.
//!
//! Called by: `run.rs`.

use std::io::stdin;

use rustix::io::Errno;
use telnet::Client;
use wirespeed::{Duration, Instant};

/// Bytes of a read.
const READ_BYTES: usize = 4 << 10;
/// A server that has said nothing for so long will say no more before it is told something.
const QUIET: Duration = Duration::from_millis(300);
/// So long a file waits for a server that does not answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// What was read.
pub(super) enum Read {
    Bytes(Vec<u8>),
    End,
    Nothing,
}

/// Standard input.
pub(super) struct Keyboard {
    pub(super) is_over: bool,
    began: Instant,
    heard: Instant,
    /// A file that is not open yet.
    waits: bool,
}

impl Keyboard {
    pub(super) fn new(is_file: bool, now: Instant) -> Keyboard {
        Keyboard { is_over: false, began: now, heard: now, waits: is_file }
    }

    /// The server said something.
    pub(super) fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// When it may be read; a time in the past for now.
    pub(super) fn opens_at(&self, client: &Client) -> Instant {
        match (self.waits, client.is_settled()) {
            (false, _) => Instant::ZERO,
            (true, true) => (self.heard + QUIET).min(self.began + PATIENCE),
            (true, false) => self.began + PATIENCE,
        }
    }

    /// Read, once poll(2) says that there is something.
    pub(super) fn read(&mut self) -> Read {
        let mut room = [0; READ_BYTES];
        match rustix::io::read(stdin(), &mut room) {
            Ok(len @ 1..) => {
                self.waits = false;
                Read::Bytes(room[..len].to_vec())
            }
            Err(Errno::AGAIN | Errno::INTR) => Read::Nothing,
            // A terminal that is gone is at its end.
            Ok(_) | Err(_) => Read::End,
        }
    }
}
