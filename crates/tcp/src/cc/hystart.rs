//! HyStart++, RFC 9406: the first slow start ends when the round trip grows, before the queue is
//! full and a window of segments is lost.
//!
//! Called by: the laws' common part (`mod.rs`), with each ACK of the first slow start. Must not
//! know: the window's size, which law is in use.
//! Only the first: those after a time-out have a threshold that was measured (section 4.3). L, the
//! most that one ACK may add, is infinite, as that section has it for what is paced: so is what we
//! send wherever the way is long, and where it is short one ACK answers a burst.

use base::{Duration, SeqNumber};

use super::Ack;

/// Growth of the round trip that means a queue: an eighth of it (section 4.2, MIN_RTT_DIVISOR),
/// within these.
const RISE_LEAST: Duration = Duration::from_millis(4);
const RISE_MOST: Duration = Duration::from_millis(16);
const RISE_DIVISOR: u64 = 8;
/// N_RTT_SAMPLE: samples of a round before its minimum is believed.
const SAMPLES: u8 = 8;
/// CSS_GROWTH_DIVISOR: how much slower conservative slow start grows.
const SLOWER: u64 = 4;
/// CSS_ROUNDS: rounds of it before congestion avoidance begins.
const ROUNDS: u8 = 5;
/// No sample yet.
const NONE: Duration = Duration::MAX;

/// State of the first slow start.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    /// windowEnd: the round is over when this is acknowledged.
    round_end: Option<SeqNumber>,
    /// lastRoundMinRTT, currentRoundMinRTT.
    last_round: Duration,
    this_round: Duration,
    /// rttSampleCount.
    samples: u8,
    /// In conservative slow start: the round trip that led there (cssBaselineMinRtt), and rounds.
    conservative: Option<(Duration, u8)>,
}

/// What the window is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// Grow by so many bytes.
    By(u64),
    /// Grow by so many bytes, and then no more by slow start: the threshold is here.
    Last(u64),
}

impl HyStart {
    pub(super) fn new() -> HyStart {
        HyStart {
            round_end: None,
            last_round: NONE,
            this_round: NONE,
            samples: 0,
            conservative: None,
        }
    }

    /// Section 4.2, for an ACK that took `acked` bytes.
    pub(super) fn on_ack(&mut self, ack: &Ack, acked: u64) -> Growth {
        let growth = if self.conservative.is_some() { acked / SLOWER } else { acked };
        let ended = self.round_end.is_none_or(|end| ack.una.ge(end));
        if ended && self.next_round(ack) {
            return Growth::Last(growth);
        }
        if let Some(rtt) = ack.rtt {
            self.this_round = self.this_round.min(rtt);
            self.samples = self.samples.saturating_add(1);
            self.judge();
        }
        Growth::By(growth)
    }

    /// A round begins; `true` if the one before was the last of slow start.
    fn next_round(&mut self, ack: &Ack) -> bool {
        self.round_end = Some(ack.nxt);
        self.last_round = self.this_round;
        self.this_round = NONE;
        self.samples = 0;
        match &mut self.conservative {
            Some((_, rounds)) => {
                *rounds += 1;
                *rounds >= ROUNDS
            }
            None => false,
        }
    }

    fn judge(&mut self) {
        if self.samples < SAMPLES {
            return;
        }
        match self.conservative {
            None if self.last_round != NONE => {
                let rise = self.last_round.div(RISE_DIVISOR).clamp(RISE_LEAST, RISE_MOST);
                if self.this_round >= self.last_round + rise {
                    self.conservative = Some((self.this_round, 0));
                }
            }
            // The round trip fell again: what grew was no queue of ours.
            Some((baseline, _)) if self.this_round < baseline => self.conservative = None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
