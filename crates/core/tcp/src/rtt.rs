//! Estimates the round-trip time of a connection and computes its retransmission time-out, RFC
//! 6298; also the time-out of a tail loss probe, RFC 8985 section 7.2.
//!
//! Called by: `ack` with each measurement; `timer`, `recovery` and `pacing` for the results.

use base::Duration;

use crate::Config;

/// SRTT, RTTVAR, and the time-out that follows from them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    srtt_ns: u64,
    rttvar_ns: u64,
    min_ns: u64,
    /// The time-out without backoff; at most `max_ns`.
    rto_ns: u64,
    /// [`Config::rto_max`].
    max_ns: u64,
    /// Minimum difference between time-out and SRTT, in microseconds.
    rto_min_us: u32,
    /// How often the time-out was doubled (rule 5.5) since the last measurement.
    pub(crate) backoff: u8,
    /// Time-outs since SND.UNA last advanced. If there are too many, the connection is aborted.
    pub(crate) retries: u8,
    /// [`crate::Compat::peer_ack_delay`] and [`crate::Compat::probe_min`], in milliseconds.
    peer_ack_delay_ms: u8,
    probe_min_ms: u8,
}

/// A setting in whole milliseconds, at most 255.
fn short_ms(setting: Duration) -> u8 {
    u8::try_from(setting.as_millis()).unwrap_or(u8::MAX)
}

impl Rtt {
    pub(crate) fn new(config: &Config) -> Rtt {
        Rtt {
            srtt_ns: 0,
            rttvar_ns: 0,
            min_ns: u64::MAX,
            rto_ns: config.rto_initial.min(config.rto_max).as_nanos(),
            max_ns: config.rto_max.as_nanos(),
            rto_min_us: u32::try_from(config.rto_min.as_micros()).unwrap_or(u32::MAX),
            backoff: 0,
            retries: 0,
            peer_ack_delay_ms: short_ms(config.compat.peer_ack_delay),
            probe_min_ms: short_ms(config.compat.probe_min),
        }
    }

    /// Take a measurement (rules 2.2 and 2.3) and reset the backoff.
    /// RFC 9293 MUST-18. RFC 6298 2-b, 2-c.
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
        let rto_ns = self.srtt_ns + (4 * self.rttvar_ns).max(u64::from(self.rto_min_us) * 1000);
        self.rto_ns = rto_ns.min(self.max_ns);
        self.backoff = 0;
        self.retries = 0;
    }

    /// How long to wait for an ACK before a tail loss probe (RFC 8985 section 7.2); longer if the
    /// peer may delay the ACK for what is in flight (`held_back`).
    /// RFC 8985 7.2-b.
    #[inline(always)]
    pub(crate) fn probe_timeout(&self, held_back: bool) -> Duration {
        let two = 2 * self.srtt_ns;
        let ms = if held_back { self.peer_ack_delay_ms } else { self.probe_min_ms };
        let delay = u64::from(ms) * 1_000_000;
        let probe_ns = if held_back { two + delay } else { two.max(delay) };
        Duration::from_nanos(if two == 0 { self.rto_ns } else { probe_ns.min(self.rto_ns) })
    }

    /// The current time-out, backoff included.
    /// RFC 9293 MUST-19.
    #[inline]
    pub(crate) fn rto(&self) -> Duration {
        let rto = Duration::from_nanos(self.rto_ns << self.backoff.min(20));
        rto.min(Duration::from_nanos(self.max_ns))
    }

    /// The time-out without backoff: a lower bound of [`Rtt::rto`].
    #[inline(always)]
    pub(crate) fn shortest(&self) -> Duration {
        Duration::from_nanos(self.rto_ns)
    }

    /// Rule 5.7: the SYN timed out, so the first time-out for data is at least 3 s.
    /// RFC 6298 5-e.
    pub(crate) fn syn_timed_out(&mut self) {
        self.backoff = 0;
        self.rto_ns = self.rto_ns.max(Duration::from_secs(3).as_nanos()).min(self.max_ns);
    }

    /// Smoothed round-trip time; zero before the first measurement.
    pub(crate) fn srtt(&self) -> Duration {
        Duration::from_nanos(self.srtt_ns)
    }

    /// Round-trip time variation (mean deviation).
    pub(crate) fn rttvar(&self) -> Duration {
        Duration::from_nanos(self.rttvar_ns)
    }

    /// The minimum ever measured; zero before the first measurement.
    pub(crate) fn min(&self) -> Duration {
        Duration::from_nanos(if self.min_ns == u64::MAX { 0 } else { self.min_ns })
    }
}
