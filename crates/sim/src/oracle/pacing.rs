//! Pacing: data leaves no faster than the connection says that it sends, but for a burst.
//!
//! Called by: the oracles, with each segment that a host sends and after each step of a host.
//! The law: in any interval a connection sends no more bytes of payload than its pacing rate times
//! the interval and a burst; a leaky bucket says the same of all intervals at once. A connection
//! that names no rate is not looked at: today none does, and [`rate_of`] is the line to change.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use base::Instant;
use tcp::Info;

use super::{Look, Violation};
use crate::seen::Seen;

/// What may leave at once: a super-segment, and what was released with it.
const BURST_BYTES: f64 = (2 * 65_536) as f64;

/// The pacing rate that a connection says it sends at, in bits a second.
fn rate_of(_: &Info) -> Option<u64> {
    None
}

/// A bucket that fills with what is sent and leaks at the pacing rate.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Bits a second, as of the last step and of the one before: it may have changed in between.
    rates: [u64; 2],
    level: f64,
    at: Instant,
}

impl Bucket {
    /// The bytes above what may be there after `bytes` more; zero if all is well.
    fn fill(&mut self, bytes: u32, now: Instant) -> f64 {
        let rate = self.rates[0].max(self.rates[1]) as f64 / 8.0;
        let leaked = rate * now.since(self.at).as_secs_f64();
        self.level = (self.level - leaked).max(0.0) + f64::from(bytes);
        self.at = now;
        (self.level - BURST_BYTES).max(0.0)
    }
}

/// Connections by their two addresses, the sender's first.
#[derive(Debug, Default)]
pub(crate) struct Pacing {
    buckets: BTreeMap<(SocketAddr, SocketAddr), Bucket>,
}

impl Pacing {
    pub(crate) fn sent(&mut self, seen: &Seen, now: Instant) -> Result<(), Violation> {
        let Some(bucket) = self.buckets.get_mut(&(seen.src, seen.dst)) else { return Ok(()) };
        let over = bucket.fill(seen.len, now);
        if over > 0.0 {
            let rate = bucket.rates[0];
            let what = format!("{over:.0} bytes ahead of {rate} bits a second: {seen}");
            return Err(Violation::new("pacing", what));
        }
        Ok(())
    }

    pub(crate) fn stepped(&mut self, look: &Look<'_>) {
        if let Some(rate) = rate_of(&look.info)
            && let Some(ends) = look.end.handle.and_then(|h| look.stack.tcp_addresses(h))
        {
            let bucket = self.buckets.entry(ends).or_default();
            bucket.rates = [rate, bucket.rates[0]];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_rate_is_kept_by_who_waits_and_broken_by_who_does_not() {
        // 8 Mb/s are 1,000 bytes a millisecond.
        let bucket = Bucket { rates: [8_000_000, 0], ..Bucket::default() };
        let mut paced = bucket;
        assert!((1..2_000).all(|ms| paced.fill(1_000, at_ms(ms)) == 0.0));
        let mut hasty = bucket;
        assert!((1..2_000).any(|ms| hasty.fill(1_100, at_ms(ms)) > 0.0));
    }

    #[test]
    fn a_burst_is_allowed_once() {
        let mut bucket = Bucket { rates: [8_000_000, 0], ..Bucket::default() };
        assert!((0..2).all(|_| bucket.fill(65_536, at_ms(1)) == 0.0));
        assert!(bucket.fill(1_448, at_ms(1)) > 0.0);
    }
}
