//! Round-trip time and retransmission time-out, RFC 6298.

use base::Duration;

/// SRTT, RTTVAR and the time-out they give.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    srtt_ns: u64,
    rttvar_ns: u64,
    min_ns: u64,
    rto_ns: u64,
    /// Least that the time-out is above SRTT, in microseconds.
    floor_us: u32,
    /// How often the time-out has doubled (rule 5.5) since the last measurement (Karn).
    pub(crate) backoff: u8,
    /// Time-outs since SND.UNA last advanced: what giving up goes by.
    pub(crate) retries: u8,
}

/// Rule 2.5: an upper bound of at least 60 seconds.
const RTO_MAX: Duration = Duration::from_secs(120);

/// How long peers keep back the ACK for a lone segment: Linux and Windows 40 ms and a tick, as we.
/// No probe comes before this: a pause of a busy peer is no loss.
const PEER_ACK_DELAY: Duration = Duration::from_millis(45);

impl Rtt {
    pub(crate) fn new(initial: Duration, floor: Duration) -> Rtt {
        Rtt {
            srtt_ns: 0,
            rttvar_ns: 0,
            min_ns: u64::MAX,
            rto_ns: initial.as_nanos(),
            floor_us: u32::try_from(floor.as_micros()).unwrap_or(u32::MAX),
            backoff: 0,
            retries: 0,
        }
    }

    /// Take in a measurement (rules 2.2 and 2.3) and forget the backoff.
    #[inline]
    pub(crate) fn sample(&mut self, rtt: Duration) {
        let r = rtt.as_nanos().max(1);
        if self.srtt_ns == 0 {
            self.srtt_ns = r;
            self.rttvar_ns = r / 2;
        } else {
            let error = self.srtt_ns.abs_diff(r);
            self.rttvar_ns = self.rttvar_ns - self.rttvar_ns / 4 + error / 4;
            self.srtt_ns = self.srtt_ns - self.srtt_ns / 8 + r / 8;
        }
        self.min_ns = self.min_ns.min(r);
        self.rto_ns = self.srtt_ns + (4 * self.rttvar_ns).max(u64::from(self.floor_us) * 1000);
        self.backoff = 0;
        self.retries = 0;
    }

    /// How long ACKs may stay away before a tail loss probe (RFC 8985 section 7.2), longer if the
    /// peer may keep back the one for what is in flight.
    #[inline(always)]
    pub(crate) fn probe_timeout(&self, held_back: bool) -> Duration {
        let (two, delay) = (2 * self.srtt_ns, PEER_ACK_DELAY.as_nanos());
        let probe_ns = if held_back { two + delay } else { two.max(delay) };
        Duration::from_nanos(if two == 0 { self.rto_ns } else { probe_ns.min(self.rto_ns) })
    }

    /// The time-out now, backoff included.
    #[inline]
    pub(crate) fn rto(&self) -> Duration {
        let rto = Duration::from_nanos(self.rto_ns << self.backoff.min(20));
        rto.min(RTO_MAX)
    }

    /// [`Rtt::rto`] is not less than this.
    #[inline(always)]
    pub(crate) fn shortest(&self) -> Duration {
        Duration::from_nanos(self.rto_ns).min(RTO_MAX)
    }

    /// Rule 5.7: the SYN timed out, so the first time-out for data is at least 3 s.
    pub(crate) fn syn_timed_out(&mut self) {
        self.backoff = 0;
        self.rto_ns = self.rto_ns.max(Duration::from_secs(3).as_nanos());
    }

    /// Smoothed round-trip time; zero before the first measurement.
    pub(crate) fn srtt(&self) -> Duration {
        Duration::from_nanos(self.srtt_ns)
    }

    /// Mean deviation.
    pub(crate) fn rttvar(&self) -> Duration {
        Duration::from_nanos(self.rttvar_ns)
    }

    /// The least ever measured; zero before the first measurement.
    pub(crate) fn min(&self) -> Duration {
        Duration::from_nanos(if self.min_ns == u64::MAX { 0 } else { self.min_ns })
    }
}
