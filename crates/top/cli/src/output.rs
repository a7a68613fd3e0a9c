//! Printing, and how a tool ends: 0 done, 1 failed, 2 an invalid command line, 130 stopped by
//! Ctrl-C; a tool with established exit codes, such as ping, keeps those. A reader that has gone
//! away (`| head -1`) is no failure; a full disk is one.
//!
//! Called by: all commands, for results; messages go to standard error. All tools return an
//! [`Outcome`] or an error. Both contain text of peers, captures and other programs. So both are
//! printed without control characters, except for the end of a line and a tabulator: a terminal
//! would obey them. Raw bytes, and a tool's own commands to a terminal, go by [`as_is`] and
//! [`written`].

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
pub(crate) use wirespeed::control::advice::{
    to_read as what_to_do_to_read, to_write as what_to_do,
};
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

/// Flush standard output after a write with this result; false if the reader is gone.
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

/// Write a message to standard error; a failure cannot be reported.
pub(crate) fn err(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", lines(text));
}

/// The same for text of our own, to a terminal that may be raw.
#[cfg(target_os = "linux")]
pub(crate) fn err_raw(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// The exit codes, as help.
pub(crate) const EXIT: &str = "\
Exit status: 0 done, 1 failed, 2 a command line that cannot be carried out (nothing was begun), 130
stopped by Ctrl-C. ping has the exit status of other pings: 0 somebody answered, 1 nobody did, 2 it
could not be tried.";

/// The outcome of a tool that ran to its end.
pub(crate) enum Outcome {
    Done,
    Interrupted,
    /// A tool's own exit code.
    Exit(u8),
    /// An exit code that was made elsewhere.
    As(ExitCode),
}

/// An invalid command line: what is wrong and what to do instead.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Is the error about the command line? Options of gateways are read by crate `machine`.
pub(crate) fn is_usage(error: &anyhow::Error) -> bool {
    error.is::<Usage>() || error.is::<machine::Usage>()
}

/// The exit code; prints an error.
pub(crate) fn exit_code(result: Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Interrupted) => ExitCode::from(130),
        Ok(Outcome::Exit(code)) => ExitCode::from(code),
        Ok(Outcome::As(code)) => code,
        Err(error) if is_usage(&error) => {
            err(&format!("error: {error}\n\nFor more information, try '--help'."));
            ExitCode::from(2)
        }
        Err(error) => {
            err(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
