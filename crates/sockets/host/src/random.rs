//! The random numbers of a client: a keyed hash of a counter.
//!
//! Called by: the DHCP clients, for transaction ids and for the randomisation of their timers. The
//! key is the secret that the caller passes in; it must be fresh whenever a client is made, or the
//! client repeats the transaction ids of its last run.

use base::{Duration, KeyedHash};

/// A generator of its own for each client.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    key: KeyedHash,
    stream: u64,
    drawn: u64,
}

impl Random {
    /// The numbers of `key` for one purpose: two streams of one key are independent.
    pub(crate) fn new(key: KeyedHash, stream: u64) -> Random {
        Random { key, stream, drawn: 0 }
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.drawn = self.drawn.wrapping_add(1);
        self.key.hash([self.stream, self.drawn])
    }

    /// A span from zero up to `most`, which it never reaches unless it is zero.
    pub(crate) fn span(&mut self, most: Duration) -> Duration {
        let scaled = u128::from(self.bits()) * u128::from(most.as_nanos());
        Duration::from_nanos((scaled >> 64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_cover_their_range_and_streams_differ() {
        let key = KeyedHash::new(1, 2);
        let (mut random, mut other) = (Random::new(key, 4), Random::new(key, 6));
        let most = Duration::from_secs(10);
        let spans: Vec<Duration> = (0..1_000).map(|_| random.span(most)).collect();
        assert!(spans.iter().all(|&span| span < most));
        let above = |s| spans.iter().filter(|&&span| span > Duration::from_secs(s)).count();
        assert!((400..600).contains(&above(5)), "{} above the middle", above(5));
        assert!(above(9) > 50 && above(1) < 950);
        assert_eq!(random.span(Duration::ZERO), Duration::ZERO);
        assert_ne!(random.bits(), other.bits());
    }
}
