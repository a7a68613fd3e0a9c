//! The law: streams are equal. One end has read the bytes that the other end wrote, and all of them
//! if both ends closed gracefully.
//!
//! Called by: the oracles, once every connection has ended. The bytes were compared when they were
//! read; this file checks how many there were, and how the two ends ended.

use super::look::story;
use crate::app::{Endpoint, Phase};
use crate::flow::Flow;
use crate::violation::Violation;

pub(crate) fn check(flow: &Flow, client: &Endpoint, server: &Endpoint) -> Result<(), Violation> {
    for (reader, writer) in [(client, server), (server, client)] {
        if reader.read > writer.written {
            return Err(violation(flow, "more was read than was written", client, server));
        }
        if !flow.is_graceful {
            continue;
        }
        if reader.phase != Phase::Ended(None) || !reader.saw_end {
            return Err(violation(flow, "a graceful end failed", client, server));
        }
        if reader.read != writer.written {
            return Err(violation(flow, "bytes are missing", client, server));
        }
    }
    Ok(())
}

fn violation(flow: &Flow, what: &str, client: &Endpoint, server: &Endpoint) -> Violation {
    let what = format!("flow {}: {what}; {}; {}", flow.number, story(client), story(server));
    Violation::new("stream", what)
}
