//! State that every layer of a shard uses: time, buffers, counters, limits, the secret. Also the
//! rate limit of ICMP errors.
//!
//! Called by: every layer. `icmp.rs` asks [`ErrorLimit`], which has a bucket for each destination
//! and one for all. RFC 1122 section 3.2.2, RFC 1812 section 4.3.2.8, RFC 4443 section 2.4(f).
//! Limits: `icmp_errors_per_destination`, `icmp_errors_per_second`.
//!
//! Destinations share a fixed number of buckets by a keyed hash. So a destination that causes
//! errors without end uses up the share of only a few others, and nobody can choose which. The
//! limit for all destinations is random, and changes each second: if it were known, a peer could
//! count by its own errors how many others got, and so find an open UDP port (CVE-2020-25705).
//! Linux's limit is random, too.

use core::net::IpAddr;

use base::{Drops, Instant, KeyedHash, Limit, PerSecond};
use device::BURST;

/// State that every layer of a shard uses.
pub(crate) struct Core {
    /// State that TCP uses, too: time, buffers, counters, limits.
    pub(crate) cx: tcp::Cx,
    pub(crate) drops: Drops,
    pub(crate) secret: KeyedHash,
    /// See [`crate::StackConfig::write_unit_bytes`].
    pub(crate) write_unit_bytes: usize,
}

impl Core {
    /// How many bytes of a write are copied before headers are made for them; `segment` is the size
    /// of a segment in bytes.
    #[inline(always)]
    pub(crate) fn write_unit(&self, segment: usize) -> usize {
        // A device gets nothing before its burst is full, so headers may wait that long as well.
        (BURST * segment).min(self.write_unit_bytes).max(segment + 1)
    }

    #[inline(always)]
    pub(crate) fn set_now(&mut self, now: Instant) {
        // Time never goes back, whatever the caller's clock does.
        if now > self.cx.now {
            self.cx.now = now;
            self.cx.now_ms = now.as_millis() as u32;
        }
    }
}

const BUCKETS: usize = 256;

/// How much of both limits was used in the current second.
pub(crate) struct ErrorLimit {
    buckets: Box<[PerSecond; BUCKETS]>,
    all: PerSecond,
}

impl Default for ErrorLimit {
    fn default() -> ErrorLimit {
        ErrorLimit { buckets: Box::new([PerSecond::default(); BUCKETS]), all: PerSecond::default() }
    }
}

impl ErrorLimit {
    /// May an error be sent to `dst` now? If not, a hit of the limit is counted.
    /// RFC 1812 4.3.2.8-a, RFC 5508 REQ-10f.
    pub(crate) fn admits(&mut self, dst: IpAddr, core: &mut Core) -> bool {
        let (now, secret) = (core.cx.now, core.secret);
        // One IPv6 host can send from a whole /64 network.
        let key = match dst {
            IpAddr::V4(a) => u64::from(a.to_bits()),
            IpAddr::V6(a) => (a.to_bits() >> 64) as u64,
        };
        let bucket = &mut self.buckets[secret.hash([0x6572_726f, key]) as usize % BUCKETS];
        let budget = &mut core.cx.budget;
        let draw = |second| secret.hash([0x6963_6d70, second]);
        bucket.admits(Limit::IcmpErrorsPerDestination, now, budget)
            && self.all.admits_drawn(Limit::IcmpErrorsPerSecond, now, budget, draw)
    }
}
