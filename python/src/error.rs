//! Errors as Python's own: an `OSError` with an error number, from which Python chooses the class
//! (`ConnectionRefusedError`, `BlockingIOError`), and the text of the stack, which says what to do.
//!
//! Called by: everything that returns to Python.

use std::io::{self, ErrorKind};

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTimeoutError};
use pyo3::{PyErr, create_exception};

create_exception!(
    wirespeed,
    Deadlock,
    PyRuntimeError,
    "Nothing will ever happen in a world of virtual time, and a call waits."
);

/// The exception for an error of the stack.
pub(crate) fn raise(error: &io::Error) -> PyErr {
    numbered(wirespeed::net::errno(error), &text(error))
}

/// An `OSError` with a number and a text.
pub(crate) fn numbered(number: i32, text: &str) -> PyErr {
    PyOSError::new_err((number, text.to_owned()))
}

fn text(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock => "the call would have to wait".to_owned(),
        _ => error.to_string(),
    }
}

/// A call that took longer than the socket's timeout.
pub(crate) fn timed_out() -> PyErr {
    PyTimeoutError::new_err("timed out")
}

/// A call on a socket that this program has closed, or that a fork has left behind.
pub(crate) fn closed() -> PyErr {
    numbered(libc::EBADF, "the socket is closed, or belongs to the parent process: make a new one")
}

/// A call on a stack of the parent process.
pub(crate) fn of_parent() -> PyErr {
    let text = "the stack belongs to the parent process: make one after the fork, or start \
                processes by `spawn`";
    numbered(libc::EBADF, text)
}
