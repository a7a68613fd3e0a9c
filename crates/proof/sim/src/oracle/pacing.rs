//! Pacing: a connection sends no faster than its pacing rate, except for a burst.
//!
//! Called by: the oracles, with each segment that a host sends and after each step of a host. The
//! law: in any interval a connection sends no more bytes of payload than its pacing rate times the
//! interval, plus a burst. A leaky bucket checks all intervals at once. A connection without a
//! pacing rate, because its round trip is short, is not checked.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use base::{Instant, Switch};

use super::look::Look;
use crate::seen::Seen;
use crate::violation::Violation;

/// How many bytes may leave at once: a super-segment, and the frames that are released together
/// with it.
const BURST_BYTES: f64 = (2 * 65_536) as f64;
/// A tick of the timer wheel, in seconds. Bytes that are due within a tick may leave too: departure
/// times are rounded to a quarter of a tick, and a tick may pass before more segments are made.
const TICK: f64 = (1u64 << 20) as f64 / 1e9;

/// A bucket that fills with the bytes sent and leaks at the pacing rate.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// The pacing rate in bytes per second, as of the last step.
    rate: f64,
    /// The highest rate since the bucket was empty.
    peak: f64,
    level: f64,
    at: Instant,
    /// Bytes sent since the last step.
    fresh: f64,
    /// The end of the stream at the last step, in bytes.
    sent: u64,
}

impl Bucket {
    fn fill(&mut self, bytes: u32, now: Instant) {
        let leaked = self.rate * now.since(self.at).as_secs_f64();
        if leaked >= self.level {
            self.peak = 0.0;
        }
        self.peak = self.peak.max(self.rate);
        self.level = (self.level - leaked).max(0.0) + f64::from(bytes);
        self.fresh += f64::from(bytes);
        self.at = now;
    }

    /// Called after a step: the stream is acknowledged up to `acked` and sent up to `sent`, and
    /// `rate` applies from now on. Returns the bytes above the allowed level, or zero.
    fn step(&mut self, acked: u64, sent: u64, rate: f64) -> f64 {
        if acked >= self.sent {
            // For a moment nothing was in flight, so the next data is a new burst.
            self.level = self.level.min(self.fresh);
        }
        self.peak = self.peak.max(rate);
        (self.rate, self.sent, self.fresh) = (rate, sent, 0.0);
        (self.level - BURST_BYTES - self.peak * TICK).max(0.0)
    }
}

/// The buckets of all connections, by the two addresses of the connection: the sender's, then the
/// receiver's.
#[derive(Debug, Default)]
pub(crate) struct Pacing {
    buckets: BTreeMap<(SocketAddr, SocketAddr), Bucket>,
}

impl Pacing {
    pub(crate) fn sent(&mut self, seen: &Seen, now: Instant) {
        if let Some(bucket) = self.buckets.get_mut(&(seen.src, seen.dst)) {
            bucket.fill(seen.len, now);
        }
    }

    pub(crate) fn stepped(&mut self, look: &Look<'_>) -> Result<(), Violation> {
        let info = &look.info;
        let Some(ends) = look.end.handle.and_then(|h| look.stack.tcp_addresses(h)) else {
            return Ok(());
        };
        if info.pacing_rate == 0 || !look.stack.switches().on(Switch::Pacing) {
            self.buckets.remove(&ends);
            return Ok(());
        }
        let bucket = self.buckets.entry(ends).or_default();
        let sent = info.bytes_acked + u64::from(info.in_flight);
        let over = bucket.step(info.bytes_acked, sent, info.pacing_rate as f64);
        if over > 0.0 {
            let (index, rate) = (look.index, info.pacing_rate);
            let what = format!("end {index}: {over:.0} bytes ahead of {rate} bytes a second");
            return Err(Violation::new("pacing", what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most bytes above the allowed level, at a rate of one byte every 1,000 ns, with data
    /// always in flight.
    fn over(sends: impl IntoIterator<Item = (u64, u32)>) -> f64 {
        let (mut bucket, mut sent, mut most) = (Bucket::default(), 0, 0.0f64);
        bucket.step(0, 1, 1e6);
        for (ms, bytes) in sends {
            bucket.fill(bytes, Instant::from_nanos(ms * 1_000_000));
            sent += u64::from(bytes);
            most = most.max(bucket.step(0, sent, 1e6));
        }
        most
    }

    #[test]
    fn a_rate_is_kept_by_who_waits_and_broken_by_who_does_not() {
        assert!(over((1..2_000).map(|ms| (ms, 1_000))) == 0.0);
        assert!(over((1..2_000).map(|ms| (ms, 1_100))) > 0.0);
    }

    #[test]
    fn a_burst_is_allowed_once() {
        assert!(over([(1, 65_536), (1, 65_536), (1, 1_000)]) == 0.0);
        assert!(over([(1, 65_536), (1, 65_536), (1, 1_000), (1, 1_000)]) > 0.0);
    }
}
