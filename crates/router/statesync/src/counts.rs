//! What a session has counted, and why datagrams are refused.
//!
//! Called by: `session.rs`; tools and metrics read it.

/// Why a datagram is refused, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refused {
    /// It is too short or too long.
    Length,
    /// Of another version of the protocol: both routers need the same one.
    Version,
    /// Its kind is unknown.
    Kind,
    /// Its sender has another key, or it was changed on the way.
    Key,
    /// The datagram is our own, or its session is not the partner's present one.
    Session,
    /// It came before.
    Repeated,
    /// Its body makes no sense.
    Malformed,
    /// States whose ports have names that are not known yet.
    Names,
    /// A state of a port that has no namesake here.
    NoPort,
}

impl Refused {
    /// All of them.
    pub const ALL: [Refused; 9] = [
        Refused::Length,
        Refused::Version,
        Refused::Kind,
        Refused::Key,
        Refused::Session,
        Refused::Repeated,
        Refused::Malformed,
        Refused::Names,
        Refused::NoPort,
    ];

    /// For tools and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Refused::Length => "length",
            Refused::Version => "version",
            Refused::Kind => "kind",
            Refused::Key => "key",
            Refused::Session => "session",
            Refused::Repeated => "repeated",
            Refused::Malformed => "malformed",
            Refused::Names => "names",
            Refused::NoPort => "no_port",
        }
    }
}

/// What a session has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Copies of states, and ends of states, that were put into datagrams.
    pub sent: u64,
    /// Those that came.
    pub received: u64,
    /// Datagrams of all kinds that were made.
    pub datagrams_sent: u64,
    /// Datagrams that were taken.
    pub datagrams_received: u64,
    /// Datagrams that were sent again because the partner missed them.
    pub repeated: u64,
    /// Datagrams of the partner's that were asked for.
    pub gaps: u64,
    /// Datagrams of the partner's that never came: it is asked for all of its states then.
    pub lost: u64,
    /// Times that all states were sent.
    pub bulks_sent: u64,
    /// Times that all states of the partner came.
    pub bulks_received: u64,
    refused: [u64; Refused::ALL.len()],
}

impl Counts {
    /// How many were refused for this reason.
    #[must_use]
    pub fn refused(&self, why: Refused) -> u64 {
        self.refused.get(why as usize).copied().unwrap_or_default()
    }

    pub(crate) fn refuse(&mut self, why: Refused) {
        if let Some(count) = self.refused.get_mut(why as usize) {
            *count += 1;
        }
    }
}
