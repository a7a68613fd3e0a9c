//! Why the page cannot be served.
//!
//! Called by: the rest of the crate.

use std::io;

/// Why the page cannot be served, with advice in the text.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system or the stack refuses something that the page needs.
    #[error("{what}")]
    Refused {
        /// What is refused, and advice.
        what: String,
        /// The error.
        #[source]
        cause: io::Error,
    },
    /// There is no socket to serve at.
    #[error("{0}")]
    NoSocket(&'static str),
}

impl Error {
    /// A function for `map_err`: it makes the error for something that is refused.
    pub(crate) fn of<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Error {
        let what = what.into();
        move |cause| Error::Refused { what, cause: cause.into() }
    }
}
