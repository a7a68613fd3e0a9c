//! [`LookupError`]: why a lookup has no addresses, in words for users.
//!
//! Called by: `lookup.rs`.

use core::fmt;

use super::name::NameError;

/// Why a lookup has no addresses; the text is the host that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupError {
    /// The text cannot be a host name.
    Name(String, NameError),
    /// NXDOMAIN.
    NoName(String),
    /// NODATA.
    NoAddress(String),
    /// The name servers cannot or will not answer (SERVFAIL, REFUSED), or are not reachable.
    Failed(String),
    /// The name servers do not answer.
    TimedOut(String),
    /// Aliases that lead to each other.
    AliasLoop(String),
    /// No name server is configured.
    NoServers(String),
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LookupError::Name(host, error) => write!(f, "'{host}' is no host name: {error}"),
            LookupError::NoName(host) => {
                write!(f, "there is no host '{host}': look at its spelling")
            }
            LookupError::NoAddress(host) => {
                write!(f, "host '{host}' has no address of the IP version asked for")
            }
            LookupError::Failed(host) => write!(
                f,
                "no name server can answer for '{host}': try again later, or ask other servers"
            ),
            LookupError::TimedOut(host) => write!(
                f,
                "no name server answers for '{host}': are their addresses right, and is there a \
                 route?"
            ),
            LookupError::AliasLoop(host) => write!(
                f,
                "the aliases (CNAME) of '{host}' lead nowhere: report that to the administrator of \
                 the domain"
            ),
            LookupError::NoServers(host) => write!(
                f,
                "no name server is configured to look '{host}' up: name one, or give an address"
            ),
        }
    }
}

impl core::error::Error for LookupError {}

impl LookupError {
    /// If several candidates fail, the error with the highest rank is reported: it tells the user
    /// most about what to do.
    pub(super) fn rank(&self) -> u8 {
        match self {
            LookupError::NoName(_) => 0,
            LookupError::NoAddress(_) => 1,
            LookupError::Failed(_) => 2,
            LookupError::AliasLoop(_) => 3,
            LookupError::TimedOut(_) => 4,
            LookupError::Name(..) | LookupError::NoServers(_) => 5,
        }
    }

    /// As in glibc, a search goes on after an answer, SERVFAIL included, and ends if no server
    /// answers: the next name would have the same servers.
    pub(super) fn ends_the_search(&self) -> bool {
        matches!(self, LookupError::TimedOut(_) | LookupError::AliasLoop(_))
    }
}
