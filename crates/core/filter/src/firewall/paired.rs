//! What the partner's session has done, for tools.
//!
//! Called by: the router, which leaves it here a few times a second; `show pair` and metrics.

use core::net::SocketAddr;

use base::Instant;

use super::Firewall;

/// What the session with the partner of a pair of routers has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paired {
    /// The partner.
    pub peer: SocketAddr,
    /// It is there.
    pub is_up: bool,
    /// Since when it is there, or is not.
    pub since: Instant,
    /// Copies of states, and ends of states, that were sent.
    pub sent: u64,
    /// Those that came.
    pub received: u64,
    /// Copies that have become states here.
    pub imported: u64,
    /// Copies that have updated a state here.
    pub updated: u64,
    /// Datagrams that were sent.
    pub datagrams_sent: u64,
    /// Datagrams that were taken.
    pub datagrams_received: u64,
    /// Datagrams that the partner has asked for again.
    pub repeated: u64,
    /// Datagrams that this router has asked for again.
    pub gaps: u64,
    /// Datagrams of the partner's that never came.
    pub lost: u64,
    /// Times that all states were sent, and came.
    pub bulks: [u64; 2],
    /// Copies and datagrams that were refused, by the name of the reason.
    pub refused: Vec<(&'static str, u64)>,
    /// Why the partner is not there, as far as that is known.
    pub failure: Option<String>,
}

impl Firewall {
    /// What the partner's session has done; `None`: there is no partner.
    #[must_use]
    pub fn paired(&self) -> Option<&Paired> {
        self.paired.as_deref()
    }

    /// The session says what it has done.
    pub fn note_paired(&mut self, paired: Option<Paired>) {
        self.paired = paired.map(Box::new);
    }
}
