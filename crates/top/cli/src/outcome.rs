//! How a tool ends, and its exit code: 0 done, 1 failed, 2 an invalid command line, 130 stopped by
//! Ctrl-C. A tool with established exit codes, such as ping, keeps those.
//!
//! Called by: all tools return an [`Outcome`] or an error; `lib.rs` asks for the exit code.

use std::process::ExitCode;

use anyhow::Result;

use crate::output;

/// The exit codes, as help.
pub(crate) const EXIT: &str = "\
Exit status: 0 done, 1 failed, 2 a command line that cannot be carried out (nothing was begun), 130
stopped by Ctrl-C. ping has the exit status of other pings: 0 somebody answered, 1 nobody did, 2 it
could not be tried.";

/// How a tool that ran to its end came out.
pub(crate) enum Outcome {
    Done,
    Interrupted,
    /// A tool's own exit code.
    Exit(u8),
    /// The same of what knows its own.
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

/// The exit code; prints an error.
pub(crate) fn exit_code(result: Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Interrupted) => ExitCode::from(130),
        Ok(Outcome::Exit(code)) => ExitCode::from(code),
        Ok(Outcome::As(code)) => code,
        Err(error) if error.is::<Usage>() => {
            output::err(&format!("error: {error}\n\nFor more information, try '--help'."));
            ExitCode::from(2)
        }
        Err(error) => {
            output::err(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
