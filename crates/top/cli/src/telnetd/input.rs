//! What the user sent and the program's terminal has not taken yet.
//!
//! Called by: `session.rs`. Limits: [`INPUT_BYTES`] and [`PARTS`], above which the connection is
//! not read; twice as much for commands of a Synch.
//!
//! Where lines are edited elsewhere (EXTPROC), the kernel takes a character for an end of file only
//! if it is alone in the terminal. So it is written when all before it was read, and what is behind
//! it once it was read itself. And it drops what is more than its buffer holds before a program
//! reads for the first time, so no more than [`UNREAD_BYTES`] are written before it is known that
//! all was read.

use std::collections::VecDeque;
use std::io;

use wirespeed::{Duration, Instant};

use super::pty::Pty;

/// Bytes that wait for the program.
pub(super) const INPUT_BYTES: usize = 64 << 10;
/// Parts that wait for the program: each end of a file begins one.
const PARTS: usize = 1_024;
/// Less than the 4,095 bytes that a terminal of Linux holds.
const UNREAD_BYTES: usize = 4_000;
/// How often it is looked whether the program has read what is before or behind an end of file.
const LOOK: Duration = Duration::from_millis(10);

#[derive(Debug)]
enum Part {
    Data(Vec<u8>),
    /// An end of file, and its character.
    End(u8),
}

/// The queue.
#[derive(Debug)]
pub(super) struct Input {
    parts: VecDeque<Part>,
    bytes: usize,
    /// An end of file was written that may not be read yet.
    is_end_unread: bool,
    /// Bytes written since all was read.
    unread: usize,
    /// The terminal has no room.
    pub(super) is_blocked: bool,
    /// When to look again.
    pub(super) look_at: Instant,
}

impl Default for Input {
    fn default() -> Input {
        Input {
            parts: VecDeque::new(),
            bytes: 0,
            is_end_unread: false,
            unread: 0,
            is_blocked: false,
            look_at: Instant::NEVER,
        }
    }
}

impl Input {
    /// May more come?
    pub(super) fn has_room(&self) -> bool {
        self.bytes < INPUT_BYTES && self.parts.len() < PARTS
    }

    /// May a Synch be read? Its data is dropped, but commands in it are characters of the program
    /// that may have to wait.
    pub(super) fn has_room_for_commands(&self) -> bool {
        self.bytes < 2 * INPUT_BYTES && self.parts.len() < 2 * PARTS
    }

    pub(super) fn push(&mut self, data: Vec<u8>) {
        if data.is_empty() {
            return;
        }
        self.bytes += data.len();
        match self.parts.back_mut() {
            Some(Part::Data(last)) => last.extend_from_slice(&data),
            _ => self.parts.push_back(Part::Data(data)),
        }
    }

    /// An end of file, of which this is the character.
    pub(super) fn push_end(&mut self, character: u8) {
        self.bytes += 1;
        self.parts.push_back(Part::End(character));
    }

    /// The terminal's setting makes something else of what waits.
    pub(super) fn map(&mut self, map: impl Fn(Vec<u8>) -> Vec<u8>) {
        for part in &mut self.parts {
            if let Part::Data(data) = part {
                self.bytes -= data.len();
                *data = map(core::mem::take(data));
                self.bytes += data.len();
            }
        }
    }

    /// Drop everything.
    pub(super) fn clear(&mut self) {
        self.parts.clear();
        self.bytes = 0;
    }

    /// Write what the terminal takes, whose lines are perhaps edited elsewhere.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn feed(&mut self, pty: &Pty, is_external: bool, now: Instant) -> io::Result<()> {
        self.is_blocked = false;
        self.look_at = Instant::NEVER;
        while let Some(part) = self.parts.front_mut() {
            let is_alone = matches!(part, Part::End(_)) || self.is_end_unread;
            if is_alone || (is_external && self.unread >= UNREAD_BYTES) {
                if !pty.is_read() {
                    self.look_at = now + LOOK;
                    return Ok(());
                }
                (self.is_end_unread, self.unread) = (false, 0);
            }
            let (written, is_whole) = match part {
                Part::Data(data) => {
                    let most = if is_external { UNREAD_BYTES - self.unread } else { data.len() };
                    let written = pty.write(&data[..most.min(data.len())])?;
                    data.drain(..written);
                    (written, data.is_empty())
                }
                Part::End(character) => {
                    let written = pty.write(&[*character])?;
                    (written, written > 0)
                }
            };
            self.bytes -= written;
            self.unread = if is_external { self.unread + written } else { UNREAD_BYTES };
            if written == 0 && !is_whole {
                self.is_blocked = true;
                return Ok(());
            }
            if is_whole {
                let part = self.parts.pop_front();
                self.is_end_unread = matches!(part, Some(Part::End(_)));
            }
        }
        Ok(())
    }
}
