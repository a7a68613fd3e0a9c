//! Times of records: milliseconds since 1970, computed from the stack's clock.

use base::Instant;

/// The same moment on two clocks, from which times of the stack are converted. RFC 7011 6.1.8-a:
/// times are in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// The moment on the stack's clock.
    pub now: Instant,
    /// The moment in milliseconds since 1970-01-01 00:00 UTC.
    pub unix_ms: u64,
}

impl Clock {
    /// Convert a time of the stack to milliseconds since 1970.
    #[must_use]
    pub fn millis(&self, at: Instant) -> u64 {
        match at <= self.now {
            true => self.unix_ms.saturating_sub(self.now.since(at).as_millis()),
            false => self.unix_ms.saturating_add(at.since(self.now).as_millis()),
        }
    }

    /// The moment in seconds since 1970 modulo 2^32, for the header of a message.
    pub(crate) fn seconds(&self) -> u32 {
        (self.unix_ms / 1_000) as u32
    }
}
