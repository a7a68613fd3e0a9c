//! Is the collector reached? UDP does not say so: it is not while datagrams cannot be sent, and
//! after an ICMP error until later datagrams have had none.
//!
//! Called by: `export.rs`. `show filter` has the reason, and the log has it once.

use core::fmt::Display;

use base::{Duration, Instant};
use stack::{ErrorKind, UdpErrorReport};

/// A socket that cannot be had is asked for again, and templates are sent to a collector that was
/// away, after this time.
pub(super) const AGAIN: Duration = Duration::from_secs(1);

/// A datagram that had no ICMP error after this time has arrived, as far as can be known. A next
/// hop that does not answer is given up after three seconds.
const QUIET: Duration = Duration::from_secs(5);

/// What is known of the way to a collector.
#[derive(Default)]
pub(super) struct Reach {
    failure: Option<String>,
    /// When the last ICMP error came, if that is the failure.
    heard: Option<Instant>,
    /// When the first datagram after it was sent. Hosts send errors at most once in a second.
    tried: Option<Instant>,
}

impl Reach {
    /// Why the collector is not reached; `None` if it is, or if that is not known.
    pub(super) fn failure(&self) -> Option<&String> {
        self.failure.as_ref()
    }

    /// A datagram cannot be sent. The reason does not replace that of a fresh ICMP error: a next
    /// hop that does not answer has both in turn.
    pub(super) fn refused(&mut self, why: &dyn Display, now: Instant) {
        if self.heard.is_none_or(|at| now.since(at) >= QUIET) {
            (self.failure, self.heard) = (Some(why.to_string()), None);
        }
        self.tried = None;
    }

    /// A datagram was sent.
    pub(super) fn sent(&mut self, now: Instant) {
        match self.heard {
            None => self.failure = None,
            Some(at) if now.since(at) >= AGAIN => self.tried = self.tried.or(Some(now)),
            Some(_) => {}
        }
    }

    /// An ICMP error about a datagram came. Errors about its size and its TTL are for the sender to
    /// act on.
    pub(super) fn heard(&mut self, report: &UdpErrorReport, now: Instant) {
        let ErrorKind::Unreachable(why) = report.kind else { return };
        let failure = match report.icmp {
            Some(_) => format!("{why}, from {}", report.from),
            None => "next hop does not answer".to_owned(),
        };
        *self = Reach { failure: Some(failure), heard: Some(now), tried: None };
    }

    /// Time has passed.
    pub(super) fn look(&mut self, now: Instant) {
        if self.tried.is_some_and(|at| now.since(at) >= QUIET) {
            *self = Reach::default();
        }
    }
}
