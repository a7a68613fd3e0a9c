//! Carries out the misbehaviour of an adversary: makes its acknowledgments, windows, SACK blocks
//! and timestamps.
//!
//! Called by: `adversary`, when it answers.

use base::Instant;
use wire::tcp::{SackBlocks, Timestamps};

use crate::adversary::Adversary;
use crate::misbehaviour::Misbehaviour;

/// How many bytes one false report covers: two full segments.
const STEP: u32 = 2 * 1448;
/// The most parts of a divided ACK.
const PARTS_MAX: u64 = 64;
/// The furthest that a clock jumps, in milliseconds.
const JUMP_MS_MAX: usize = 20_000;
/// How many bytes of the stream arrive before the silent adversary falls silent.
const SILENT_FROM_BYTES: u64 = 5_000;

impl Adversary {
    /// Acknowledge the received bytes. `before` is how many had been received before this segment.
    pub(crate) fn answer(&mut self, before: u64, now: Instant, out: &mut Vec<Vec<u8>>) {
        let misbehaviour = self.settings.misbehaviour;
        if misbehaviour == Misbehaviour::Silence && self.received() >= SILENT_FROM_BYTES {
            self.misbehaved += 1;
            self.is_gone = true;
            return;
        }
        let mut said = self.said(now);
        said.options.sack = self.blocks();
        let misbehaves_now = self.misbehaves_at(now) && self.rng.happens(0.5);
        if misbehaviour == Misbehaviour::OptimisticAcks {
            // The peer never retransmits bytes that were acknowledged, so a gap among them stays.
            // Therefore the adversary acknowledges everything that it has seen, until it falls
            // silent.
            let most = if misbehaves_now { 4 * STEP as usize } else { 1 };
            let ahead = self.rng.below(most) as u32;
            self.misbehaved += u64::from(misbehaves_now);
            said.options.sack = SackBlocks::EMPTY;
            said.ack = self.peer_first + (self.seen_to as u32 + ahead);
        } else if misbehaves_now {
            self.misbehaved += u64::from(misbehaviour != Misbehaviour::Nothing);
            match misbehaviour {
                Misbehaviour::DividedAcks => {
                    let bytes = self.honest_ack().saturating_sub(before);
                    for part in 1..bytes.min(PARTS_MAX) {
                        let mut some = said;
                        let ack = before + bytes * part / bytes.min(PARTS_MAX);
                        some.ack = self.peer_first + ack as u32;
                        self.push(&some, &[], out);
                    }
                }
                Misbehaviour::Windows => said.window = [0, 0, 1, 100, u16::MAX][self.rng.below(5)],
                _ => said.options.sack = self.false_blocks(said.options.sack),
            }
        }
        self.push(&said, &[], out);
        if misbehaviour == Misbehaviour::Reneging
            && self.misbehaves_at(now)
            && self.rng.happens(0.3)
        {
            self.pieces.retain(|&from, _| from == 0);
        }
    }

    /// The MSS that the adversary sends in its SYN.
    pub(crate) fn mss(&mut self) -> u16 {
        match self.settings.misbehaviour {
            Misbehaviour::TinyMss => {
                self.misbehaved += 1;
                1
            }
            _ => 1460,
        }
    }

    /// The adversary's timestamp, and the timestamp that it echoes; `None` if the peer has sent
    /// none.
    pub(crate) fn timestamps(&mut self, now: Instant) -> Option<Timestamps> {
        let mut echo = self.their_clock?;
        let clock = now.as_millis() as u32;
        let mut offset = self.clock_offset;
        if self.settings.misbehaviour == Misbehaviour::Timestamps
            && self.misbehaves_at(now)
            && self.rng.happens(0.2)
        {
            self.misbehaved += 1;
            let jump = self.rng.below(JUMP_MS_MAX) as u32;
            match self.rng.below(4) {
                // The clock jumps forwards for good, so that later timestamps are not older.
                0 => {
                    self.clock_offset = self.clock_offset.wrapping_add(jump);
                    offset = self.clock_offset;
                }
                // The clock jumps back for this segment only.
                1 => offset = offset.wrapping_sub(jump),
                2 => echo = echo.wrapping_add(jump),
                _ => echo = [0, echo.wrapping_sub(jump), u32::MAX][self.rng.below(3)],
            }
        }
        Some(Timestamps { value: clock.wrapping_add(offset), echo })
    }

    /// A correct SACK report: the first three pieces that arrived out of order.
    fn blocks(&self) -> SackBlocks {
        let mut sack = SackBlocks::EMPTY;
        for (&from, &end) in self.pieces.iter().filter(|(from, _)| **from > 0).take(3) {
            sack.push(self.peer_first + from as u32, self.peer_first + end as u32);
        }
        sack
    }

    fn false_blocks(&mut self, truth: SackBlocks) -> SackBlocks {
        let ack = self.peer_first + self.honest_ack() as u32;
        let seen_to = self.peer_first + self.seen_to as u32;
        let somewhere = self.rng.below(8 * STEP as usize) as u32;
        let mut sack = SackBlocks::EMPTY;
        match self.settings.misbehaviour {
            Misbehaviour::SackOutside => {
                sack.push(ack + (1 << 24), ack + ((1 << 24) + STEP));
                sack.push(ack - (1 << 24), ack - (1 << 23));
                sack.push(ack - STEP, ack + (1 << 30));
            }
            Misbehaviour::SackOverlapping => {
                let from = ack + (1 + somewhere);
                sack.push(from, from + STEP);
                sack.push(from + STEP / 2, from + 2 * STEP);
                sack.push(from + 1, from + 3);
            }
            Misbehaviour::SackInverted => {
                sack.push(ack + (somewhere + STEP), ack + somewhere);
                sack.push(ack + somewhere, ack + somewhere);
                sack.push(seen_to, ack);
            }
            Misbehaviour::SackNeverSent => {
                sack.push(seen_to + STEP, seen_to + 2 * STEP);
                sack.push(ack + 1, seen_to + STEP);
            }
            Misbehaviour::Dsack => {
                sack.push(ack - (1 + somewhere), ack - somewhere);
                truth.iter().for_each(|(left, right)| {
                    sack.push(left, right);
                });
            }
            _ => return truth,
        }
        sack
    }
}
