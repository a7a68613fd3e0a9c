//! Errors of calls: the system's error number, and a text that says what to do.
//!
//! Called by: all files of this crate. `net` reports `io::Error`, whose kinds become numbers.

use std::borrow::Cow;
use std::io;

/// The error of a call.
#[derive(Debug)]
pub(crate) struct Error {
    /// The system's error number, positive.
    pub(crate) number: i32,
    pub(crate) text: Cow<'static, str>,
}

/// The result of a call.
pub(crate) type Call<T> = Result<T, Error>;

impl Error {
    pub(crate) fn new(number: i32, text: impl Into<Cow<'static, str>>) -> Error {
        Error { number, text: text.into() }
    }

    pub(crate) fn invalid(text: impl Into<Cow<'static, str>>) -> Error {
        Error::new(libc::EINVAL, text)
    }

    /// A null pointer, where `what` is needed.
    pub(crate) fn null(what: &str) -> Error {
        Error::new(libc::EFAULT, format!("the pointer to {what} is NULL: pass one"))
    }

    /// Nothing is there now, and the call must not wait.
    pub(crate) fn again() -> Error {
        Error::new(libc::EAGAIN, "the call would have to wait: try again when there are news")
    }

    /// A handle that stands for nothing, or not any more.
    pub(crate) fn stale() -> Error {
        let text = "the handle is stale, or never was one: it was closed, freed or stopped";
        Error::new(libc::EBADF, text)
    }

    /// The stack does not run.
    pub(crate) fn ended() -> Error {
        Error::new(libc::ESHUTDOWN, "the stack has ended: free it and make a new one")
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::new(net::errno(&error), error.to_string())
    }
}
