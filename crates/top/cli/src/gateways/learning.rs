//! `--learn`: the rules that a run needed, written when it has ended.
//!
//! Called by: the tools with a gateway. The gateway's process writes the lines of its log to a file
//! in memory, which is read at the end.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use machine::parts::in_memory;
use policy::learn::Learned;

use super::open::{cannot_write, private_file};

/// A file of rules to come.
pub(crate) struct Learns {
    lines: File,
    file: File,
    path: PathBuf,
}

impl Learns {
    /// Open the file now, so that a mistake in its name is seen before the program runs.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn begin(path: &Path) -> Result<Learns> {
        let (lines, file) = (in_memory(&[])?.into(), private_file(path)?.into());
        Ok(Learns { lines, file, path: path.to_owned() })
    }

    /// Where the gateway writes lines.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn lines(&self) -> Result<OwnedFd> {
        Ok(self.lines.try_clone().context("no descriptor is left")?.into())
    }

    /// The run has ended: write the rules.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn end(mut self) -> Result<()> {
        let mut learned = Learned::default();
        self.lines.rewind().context("the lines of the log are lost")?;
        for line in BufReader::new(&self.lines).lines() {
            learned.line(&line.context("the lines of the log are lost")?);
        }
        let written = self.file.write_all(learned.policy().as_bytes());
        written.map_err(|why| cannot_write(&self.path, &why))
    }
}
