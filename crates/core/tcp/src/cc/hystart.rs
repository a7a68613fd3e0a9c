//! HyStart++, RFC 9406: the first slow start ends when the round trip grows, before the queue is
//! full and a window of segments is lost.
//!
//! Called by: `mod.rs`, with each ACK of the first slow start. Later slow starts end at a measured
//! ssthresh (section 4.3). L, the limit on growth per ACK, is infinite, as that section permits
//! with pacing: connections with a long round trip are paced, and on short ones one ACK answers a
//! burst.

use base::SeqNumber;

use super::Ack;

/// RttThresh: growth of the round trip that indicates a queue. It is an eighth of the round trip
/// (section 4.2, MIN_RTT_DIVISOR), within these bounds.
/// RFC 9406 4.3-a.
const RISE_LEAST_US: u32 = 4_000;
const RISE_MOST_US: u32 = 16_000;
const RISE_DIVISOR: u32 = 8;
/// N_RTT_SAMPLE: samples before their minimum is used.
const SAMPLES: u16 = 8;
/// A round is judged in up to this many parts. The RFC judges a round once, at its first eight
/// samples. Their segments were sent when the window was half of its present size, and the window
/// doubles again before the next round is judged. Decision 0031.
const PARTS: u16 = 8;
/// CSS_GROWTH_DIVISOR: how much slower conservative slow start (CSS) grows.
const SLOWER: u64 = 4;
/// CSS_ROUNDS: rounds of CSS before congestion avoidance begins.
const ROUNDS: u8 = 5;
/// No sample yet.
const NONE_US: u32 = u32::MAX;

/// State of the first slow start. Idle connections keep it too, so it is small.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    /// windowEnd: the round ends when this is acknowledged.
    round_end: Option<SeqNumber>,
    /// lastRoundMinRTT, currentRoundMinRTT.
    last_round_us: u32,
    this_round_us: u32,
    /// The minimum of the current part.
    this_part_us: u32,
    /// Samples of this round. `part_lacks`: samples still missing in this part.
    samples: u16,
    part_lacks: u16,
    /// In CSS: the round trip that started it (cssBaselineMinRtt), in microseconds, and the number
    /// of CSS rounds so far.
    conservative: Option<(u32, u8)>,
}

/// How cwnd grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// Grow by this many bytes.
    By(u64),
    /// Grow by this many bytes, then set ssthresh to end slow start.
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

    /// Section 4.2, for an ACK of `acked` bytes.
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

    /// Start a round; `true` if the round before was the last of slow start.
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

    /// A part of a round is complete; `true` if the round trip kept growing in CSS.
    /// RFC 9406 4.2-a, 4.2-c.
    fn check(&mut self) -> bool {
        match self.conservative {
            // Never true before the second round: without a sample `last_round_us` is the maximum.
            None if self.this_part_us >= longer(self.last_round_us) => {
                self.conservative = Some((self.this_part_us, 0));
            }
            // The round trip fell again: the growth was not our queue.
            Some((baseline, _)) if self.this_part_us < baseline => self.conservative = None,
            Some((baseline, _)) => return self.this_part_us >= longer(baseline),
            None => {}
        }
        false
    }
}

/// A round trip plus RttThresh of section 4.2, in microseconds.
fn longer(rtt_us: u32) -> u32 {
    rtt_us.saturating_add((rtt_us / RISE_DIVISOR).clamp(RISE_LEAST_US, RISE_MOST_US))
}

#[cfg(test)]
mod tests;
