//! [`LookupError`]: why a lookup has no addresses, in words for users.
//!
//! Called by: `lookup.rs`.

use super::name::NameError;

/// Why a lookup has no addresses; the text is the host that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// It cannot be a host name.
    #[error("'{0}' is no host name: {1}")]
    Name(String, NameError),
    /// NXDOMAIN.
    #[error("there is no host '{0}': look at its spelling")]
    NoName(String),
    /// NODATA.
    #[error("host '{0}' has no address of the IP version asked for")]
    NoAddress(String),
    /// The name servers cannot or will not answer (SERVFAIL, REFUSED), or are not reachable.
    #[error("no name server can answer for '{0}': try again later, or ask other servers")]
    Failed(String),
    /// The name servers do not answer.
    #[error("no name server answers for '{0}': is their address right, and is there a route?")]
    TimedOut(String),
    /// Aliases that lead to each other.
    #[error("the aliases (CNAME) of '{0}' lead nowhere: report it to who runs the domain")]
    AliasLoop(String),
    /// No name server is configured.
    #[error("no name server is configured to look '{0}' up: name one, or give an address")]
    NoServers(String),
}

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
