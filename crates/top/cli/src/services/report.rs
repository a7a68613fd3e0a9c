//! What `services` prints: the services and their ports, and at the end the totals.
//!
//! Called by: `services.rs`; `tcp.rs` and `udp.rs` count.

/// The first line.
pub(super) const BEGIN: &str = "echo at port 7, discard at 9, daytime at 13, chargen at 19, over \
                                TCP and UDP; Ctrl-C ends it\n";

/// The totals.
#[derive(Debug, Default)]
pub(super) struct Moved {
    pub(super) connections: u64,
    /// Over TCP, both directions.
    pub(super) bytes: u64,
    pub(super) datagrams: u64,
    pub(super) answered: u64,
    /// Not answered because they came from a service's port.
    pub(super) from_services: u64,
    /// Not answered because of the rate limit.
    pub(super) over_limit: u64,
}

/// What happened to a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    /// Discard never replies.
    Discarded,
    /// It came from a port of a service.
    FromService,
    /// The rate limit was reached.
    OverLimit,
    /// The reply could not be sent.
    Unsent,
}

impl Moved {
    /// Count a datagram.
    pub(super) fn note(&mut self, fate: Fate) {
        self.datagrams += 1;
        match fate {
            Fate::Answered => self.answered += 1,
            Fate::FromService => self.from_services += 1,
            Fate::OverLimit => self.over_limit += 1,
            Fate::Discarded | Fate::Unsent => {}
        }
    }
}

/// The last lines.
pub(super) fn end(moved: &Moved) -> String {
    let mut text = format!("{} connections, {} bytes\n", moved.connections, moved.bytes);
    if moved.datagrams > 0 {
        text += &format!("{} datagrams, {} answered", moved.datagrams, moved.answered);
        for (count, why) in [
            (moved.from_services, "from ports of services"),
            (moved.over_limit, "over the limit of --udp-rate"),
        ] {
            if count > 0 {
                text += &format!(", {count} {why}");
            }
        }
        text.push('\n');
    }
    text
}
