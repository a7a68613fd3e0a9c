//! How many descriptors the process may have.
//!
//! Called by: programs, before they make a [`crate::Host`].

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are left for listeners, logs and devices.
pub const RESERVED: usize = 16;

/// How many sockets a [`crate::Host`] may have: as many descriptors as this process may open
/// (RLIMIT_NOFILE), all but [`RESERVED`]. The engine's limit `gateway_flows` should not be more.
pub fn descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    limit.saturating_sub(RESERVED)
}

/// Raise the limit of open descriptors to its hard limit. The limit is the whole process's: a
/// library leaves that to its program, which may have code that uses select(2).
pub fn raise_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // A limit up to the hard one is never refused. If it were, the old limit would stay.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
