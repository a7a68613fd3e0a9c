//! `--log FILE`: what the two ends negotiate, for who debugs one of them.
//!
//! Called by: `run.rs`, with all bytes of both directions. A line has the seconds since it began.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use telnet::{Direction, Transcript};
use wirespeed::Instant;

use crate::output;

/// The file, if there is one.
#[derive(Default)]
pub(super) struct Log(Option<Open>);

struct Open {
    file: File,
    path: PathBuf,
    began: Instant,
    transcript: Transcript,
}

impl Log {
    /// A new file.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn create(path: Option<&Path>, began: Instant) -> Result<Log> {
        let Some(path) = path else { return Ok(Log(None)) };
        let file = File::create(path).with_context(|| {
            format!("cannot write the log to {}: give a file that you may write", path.display())
        })?;
        let transcript = Transcript::default();
        Ok(Log(Some(Open { file, path: path.to_owned(), began, transcript })))
    }

    /// Bytes of one direction. A log that cannot be written any more ends, the connection does not.
    pub(super) fn note(&mut self, direction: Direction, bytes: &[u8], now: Instant) {
        if let Some(open) = &mut self.0
            && let Err(error) = open.note(direction, bytes, now)
        {
            let what_to_do = output::what_to_do(&error);
            let path = open.path.display();
            output::err_raw(&format!(
                "\r\nthe log ends: cannot write to {path}: {error}{what_to_do}\r"
            ));
            self.0 = None;
        }
    }
}

impl Open {
    fn note(&mut self, direction: Direction, bytes: &[u8], now: Instant) -> io::Result<()> {
        let seconds = now.since(self.began).as_secs_f64();
        let lines = self.transcript.lines(direction, bytes);
        let text: String = lines.iter().map(|line| format!("{seconds:.3} {line}\n")).collect();
        self.file.write_all(text.as_bytes())
    }
}
