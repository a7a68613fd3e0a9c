//! The times at which messages are sent again.
//!
//! Called by: `client.rs`. RFC 8415 section 15 (the rule) and section 7.6 (its parameters).

use base::{Duration, Instant};

use super::State;
use crate::random::Random;

/// The longest time between two Solicits or Information-requests, unless a server changes it.
pub(super) const MAX_RT_DEFAULT: Duration = Duration::from_secs(3_600);
/// A delay before the first message, against hosts that start at the same time.
pub(super) const FIRST_DELAY_MAX: Duration = Duration::from_secs(1);

/// The parameters of one kind of message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    /// Initial retransmission time.
    pub(super) irt: Duration,
    /// Maximum retransmission time; zero: none.
    pub(super) mrt: Duration,
    /// Maximum retransmission count; zero: none.
    pub(super) mrc: u32,
    /// Maximum retransmission duration; zero: none, or the end of a lease.
    pub(super) mrd: Duration,
}

/// RFC 8415 7.6-a: the parameters of a state's message. `max_rt` is SOL_MAX_RT or INF_MAX_RT.
pub(super) fn parameters(state: State, max_rt: Duration) -> Parameters {
    let row = |irt, mrt, mrc, mrd| Parameters {
        irt: Duration::from_secs(irt),
        mrt: Duration::from_secs(mrt),
        mrc,
        mrd: Duration::from_secs(mrd),
    };
    match state {
        State::Requesting => row(1, 30, 10, 0),
        State::Confirming => row(1, 4, 0, 10),
        State::Renewing | State::Rebinding => row(10, 600, 0, 0),
        State::Releasing | State::Declining => row(1, 0, 4, 0),
        _ => Parameters { mrt: max_rt, ..row(1, 0, 0, 0) },
    }
}

/// Messages of one kind until an answer comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    /// The transaction id, 24 bits.
    pub(super) xid: u32,
    /// When the first was sent.
    pub(super) first_at: Instant,
    /// When the last one was sent.
    pub(super) last_at: Instant,
    pub(super) sent: u32,
    rt: Duration,
    /// When the next one is due.
    pub(super) next_at: Instant,
}

impl Exchange {
    /// A new exchange, whose first message is due at `at`.
    pub(super) fn new(at: Instant, random: &mut Random) -> Exchange {
        let xid = random.bits() as u32 & 0x00ff_ffff;
        Exchange { xid, first_at: at, last_at: at, sent: 0, rt: Duration::ZERO, next_at: at }
    }

    /// Has the exchange failed?
    pub(super) fn is_over(&self, now: Instant, parameters: Parameters) -> bool {
        let Parameters { mrc, mrd, .. } = parameters;
        let is_late = mrd > Duration::ZERO && now >= self.first_at + mrd;
        self.sent > 0 && (is_late || mrc > 0 && self.sent >= mrc)
    }

    /// A message is sent now.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        state: State,
        parameters: Parameters,
        random: &mut Random,
    ) {
        // RFC 8415 15-a: RT is IRT, then twice the last RT, at most MRT, each with RAND between
        // -0.1 and 0.1 of it.
        self.rt = match self.sent {
            0 => {
                self.first_at = now;
                // RFC 8415 18.2.1-b: the first RT of a Solicit is longer than IRT.
                match state {
                    State::Soliciting => {
                        let part = random.span(parameters.irt.div(10));
                        parameters.irt + part + Duration::from_nanos(1)
                    }
                    _ => randomised(parameters.irt, parameters.irt, random),
                }
            }
            _ => randomised(self.rt.saturating_mul(2), self.rt, random),
        };
        if parameters.mrt > Duration::ZERO && self.rt > parameters.mrt {
            self.rt = randomised(parameters.mrt, parameters.mrt, random);
        }
        self.last_at = now;
        self.sent = self.sent.saturating_add(1);
        self.next_at = now + self.rt;
        if parameters.mrd > Duration::ZERO {
            self.next_at = self.next_at.min(self.first_at + parameters.mrd);
        }
    }

    /// Hundredths of a second since the first message (RFC 8415 section 21.9).
    pub(super) fn elapsed(&self, now: Instant) -> u16 {
        let hundredths = match self.sent {
            0 => 0,
            _ => now.since(self.first_at).as_millis() / 10,
        };
        u16::try_from(hundredths).unwrap_or(u16::MAX)
    }
}

/// `base` plus a random part of `part`, between -0.1 and 0.1 of it.
fn randomised(base: Duration, part: Duration, random: &mut Random) -> Duration {
    base.saturating_sub(part.div(10)) + random.span(part.div(5))
}
