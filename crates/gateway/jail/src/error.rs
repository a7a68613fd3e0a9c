//! The errors of a launch: one sentence each, with what to do.
//!
//! Called by: all files here. An error of a child process travels to the launcher as a message.

use core::fmt;

use serde::{Deserialize, Serialize};

/// The kinds of [`Error`], as far as callers treat them differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorKind {
    /// The program was not started.
    NotStarted,
    /// There is no such program.
    NotFound,
    /// The file of the program cannot be executed.
    NotExecutable,
    /// The gateway ended before the program did.
    GatewayEnded,
}

/// Why a launch failed. [`fmt::Display`] gives a sentence with what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    kind: ErrorKind,
    text: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Error {
        Error { kind, text: text.into() }
    }

    /// The program was not started, because of `text`.
    pub(crate) fn not_started(text: impl Into<String>) -> Error {
        Error::new(ErrorKind::NotStarted, text)
    }

    /// What kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The exit status for it, as of env(1): 125, 126 if the file cannot be executed, 127 if there
    /// is none.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            ErrorKind::NotStarted | ErrorKind::GatewayEnded => 125,
            ErrorKind::NotExecutable => 126,
            ErrorKind::NotFound => 127,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl core::error::Error for Error {}

/// Makes the error for a system call that failed before the program was started: "`what`
/// (reason)", with the advice that fits this machine.
pub(crate) fn refused<E: Into<std::io::Error>>(what: &str) -> impl FnOnce(E) -> Error {
    move |why| crate::namespaces::explain(what, &why.into())
}
