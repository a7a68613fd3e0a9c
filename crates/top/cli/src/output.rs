//! Printing. A reader that has gone away (`| head -1`) is no failure; a full disk is one.
//!
//! Called by: all commands, for results; messages go to standard error. What peers, captures and
//! other programs say is part of both, so that no control character but the end of a line and a
//! tabulator goes to either: a terminal would obey it. Raw bytes, and what a tool itself tells a
//! terminal, go by [`as_is`] and [`written`].

use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};
use wirespeed::control::text::lines;

/// Write a whole result to standard output.
pub(crate) fn out(text: &str) -> Result<()> {
    read_by_someone(text).map(drop)
}

/// The same for continuous output: false once the reader is gone, whereupon the tool ends.
pub(crate) fn read_by_someone(text: &str) -> Result<bool> {
    written(io::stdout().lock().write_all(lines(text).as_bytes()))
}

/// Write text of our own to a terminal, which may be raw.
pub(crate) fn as_is(text: &str) -> Result<()> {
    written(io::stdout().lock().write_all(text.as_bytes())).map(drop)
}

/// What came of a write to standard output, which is flushed: false if the reader is gone.
pub(crate) fn written(result: io::Result<()>) -> Result<bool> {
    match result.and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            let what = format!("cannot write to standard output{}", what_to_do(&error));
            Err(error).context(what)
        }
        Ok(()) => Ok(true),
    }
}

/// What helps against the common causes of a failed write; appended to the message.
pub(crate) fn what_to_do(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull => " (make room on the disk: `df -h`)",
        ErrorKind::QuotaExceeded => " (make room under your quota: `quota`)",
        ErrorKind::BrokenPipe => " (who read it has ended; see what that says)",
        ErrorKind::NotFound => " (make the folder first: `mkdir -p`)",
        ErrorKind::PermissionDenied => " (choose a folder that you may write to)",
        ErrorKind::IsADirectory => " (this is a folder: name a file in it)",
        ErrorKind::ReadOnlyFilesystem => " (the file system is read-only: choose another)",
        _ => "",
    }
}

/// The same of a file that cannot be read.
pub(crate) fn what_to_do_to_read(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => " (see what there is: `ls`)",
        ErrorKind::PermissionDenied => " (read it as a user who may, such as root: `sudo`)",
        ErrorKind::IsADirectory => " (this is a folder: name a file in it)",
        _ => "",
    }
}

/// Write a message to standard error; a failure cannot be reported.
pub(crate) fn err(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", lines(text));
}

/// The same of text of our own, to a terminal that may be raw.
#[cfg(target_os = "linux")]
pub(crate) fn err_raw(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
