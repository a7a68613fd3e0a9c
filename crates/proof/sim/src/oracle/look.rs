//! What an oracle checks, and the text about an end in a message.
//!
//! Called by: the oracles.

use base::Instant;
use stack::Stack;
use tcp::Info;

use crate::app::{Endpoint, Phase};

/// The state of one end of a connection after a step of its host.
pub(crate) struct Look<'a> {
    pub(crate) index: usize,
    pub(crate) end: &'a Endpoint,
    pub(crate) info: Info,
    pub(crate) stack: &'a Stack,
    /// Is the host's clock reliable? It is if it has never jumped.
    pub(crate) clock_is_true: bool,
    /// The world's time.
    pub(crate) now: Instant,
}

/// The history of an end, for messages.
pub(crate) fn story(end: &Endpoint) -> String {
    let phase = match end.phase {
        Phase::Waiting => "never opened".to_owned(),
        Phase::Open => "open".to_owned(),
        Phase::Ended(None) => "ended".to_owned(),
        Phase::Ended(Some(error)) => format!("ended by {error:?}"),
    };
    format!("host {} {phase}, wrote {}, read {}", end.host, end.written, end.read)
}
