//! HyStart++, RFC 9406: the first slow start ends when the round trip grows, before the queue is
//! full and a window of segments is lost.
//!
//! Called by: the laws' common part (`mod.rs`), with each ACK of the first slow start. Only the
//! first: those after a time-out have a threshold that was measured (section 4.3). L, the most that
//! one ACK may add, is infinite, as that section has it for what is paced: so is what we send
//! wherever the way is long, and where it is short one ACK answers a burst.

use base::SeqNumber;

use super::Ack;

/// Growth of the round trip that means a queue: an eighth of it (section 4.2, MIN_RTT_DIVISOR),
/// within these.
/// RFC 9406 4.3-a.
const RISE_LEAST_US: u32 = 4_000;
const RISE_MOST_US: u32 = 16_000;
const RISE_DIVISOR: u32 = 8;
/// N_RTT_SAMPLE: samples before their minimum is believed.
const SAMPLES: u16 = 8;
/// A round is judged in as many parts. The RFC judges it whole, which is at its first eight
/// samples: these were sent when the window was half of what it is, and it doubles again before
/// the next round is judged. Decision 0029.
const PARTS: u16 = 8;
/// CSS_GROWTH_DIVISOR: how much slower conservative slow start grows.
const SLOWER: u64 = 4;
/// CSS_ROUNDS: rounds of it before congestion avoidance begins.
const ROUNDS: u8 = 5;
/// No sample yet.
const NONE_US: u32 = u32::MAX;

/// State of the first slow start; every connection that says little has it, so it is small.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    /// windowEnd: the round is over when this is acknowledged.
    round_end: Option<SeqNumber>,
    /// lastRoundMinRTT, currentRoundMinRTT.
    last_round_us: u32,
    this_round_us: u32,
    /// The same of the part that runs.
    this_part_us: u32,
    /// Samples of the round, and those that are still to come in the part.
    samples: u16,
    part_lacks: u16,
    /// In conservative slow start: the round trip that led there (cssBaselineMinRtt) in
    /// microseconds, and rounds.
    conservative: Option<(u32, u8)>,
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
            last_round_us: NONE_US,
            this_round_us: NONE_US,
            this_part_us: NONE_US,
            samples: 0,
            part_lacks: SAMPLES,
            conservative: None,
        }
    }

    /// Section 4.2, for an ACK that took `acked` bytes.
    /// RFC 9406 4.2-b.
    pub(super) fn on_ack(&mut self, ack: &Ack, acked: u64) -> Growth {
        let growth = if self.conservative.is_some() { acked / SLOWER } else { acked };
        let ended = self.round_end.is_none_or(|end| ack.una.ge(end));
        if ended && self.next_round(ack) {
            return Growth::Last(growth);
        }
        let mut full = false;
        if let Some(rtt) = ack.rtt {
            let rtt_us = u32::try_from(rtt.as_micros()).unwrap_or(NONE_US - 1);
            self.this_round_us = self.this_round_us.min(rtt_us);
            self.this_part_us = self.this_part_us.min(rtt_us);
            self.samples = self.samples.saturating_add(1);
            self.part_lacks -= 1;
            if self.part_lacks == 0 {
                full = self.check();
                self.this_part_us = NONE_US;
                self.part_lacks = SAMPLES.max(self.samples / PARTS);
            }
        }
        if full { Growth::Last(growth) } else { Growth::By(growth) }
    }

    /// A round begins; `true` if the one before was the last of slow start.
    fn next_round(&mut self, ack: &Ack) -> bool {
        self.round_end = Some(ack.nxt);
        self.last_round_us = self.this_round_us;
        self.this_round_us = NONE_US;
        self.this_part_us = NONE_US;
        self.part_lacks = SAMPLES.max(self.samples / PARTS);
        self.samples = 0;
        match &mut self.conservative {
            Some((_, rounds)) => {
                *rounds += 1;
                *rounds >= ROUNDS
            }
            None => false,
        }
    }

    /// A part of a round is over; `true` if there is no doubt of a queue.
    /// RFC 9406 4.2-a, 4.2-c.
    fn check(&mut self) -> bool {
        match self.conservative {
            // Before the second round this never is: no sample is the longest of times.
            None if self.this_part_us >= longer(self.last_round_us) => {
                self.conservative = Some((self.this_part_us, 0));
            }
            // The round trip fell again: what grew was no queue of ours.
            Some((baseline, _)) if self.this_part_us < baseline => self.conservative = None,
            Some((baseline, _)) => return self.this_part_us >= longer(baseline),
            None => {}
        }
        false
    }
}

/// A round trip and RttThresh of section 4.2, in microseconds.
fn longer(rtt_us: u32) -> u32 {
    rtt_us.saturating_add((rtt_us / RISE_DIVISOR).clamp(RISE_LEAST_US, RISE_MOST_US))
}

#[cfg(test)]
mod tests;
