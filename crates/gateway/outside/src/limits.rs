//! How many descriptors the process may have.
//!
//! Called by: programs, before they make a [`crate::Host`].

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are left for listeners, logs and devices.
pub const RESERVED: usize = 16;

/// Raise the limit of open descriptors (RLIMIT_NOFILE) to its hard limit, and return how many
/// sockets a [`crate::Host`] may have: all but [`RESERVED`]. The default of the engine's limit
/// `gateway_flows` should not be more.
pub fn descriptors() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    // A limit up to the hard one is never refused. If it were, the old limit would stay.
    let limit = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        Err(_) => current,
    };
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    limit.saturating_sub(RESERVED)
}
