//! One cable for both ends, CSMA/CD: carrier sense, collisions, backoff.
//!
//! Called by: `wire.rs`. Counters: collisions, frames given up. IEEE 802.3, clause 4: a station
//! that senses no carrier for the length of a gap begins to send. If it senses another station
//! while it sends, it jams, stops, and waits a random number of slots, from a range that doubles
//! with each collision of the frame.
//!
//! A transmission is decided when its first bit has reached the other end: until then the other end
//! may begin to send too. Two ends that wait for the same silence begin at the same time.

use base::{Duration, Instant};

use super::Config;
use super::counts::Counts;
use super::transmit::{GAP_BITS, PREAMBLE_BITS, Transmitter, span};
use crate::fault::Rng;

/// The slot time, the unit of backoff: as long as the shortest frame.
pub(super) const SLOT_BITS: u64 = 512;

/// The jam that a station sends after it has detected a collision, so that the other station
/// detects it too.
const JAM_BITS: u64 = 32;

/// After this many collisions a frame is given up.
const ATTEMPTS: u32 = 16;

/// After this many collisions the backoff range stops doubling.
const DOUBLINGS: u32 = 10;

/// The cable.
pub(super) struct Cable {
    delay: Duration,
    slot: Duration,
    gap: Duration,
    jam: Duration,
    preamble: Duration,
    rng: Rng,
}

impl Cable {
    pub(super) fn new(config: &Config, seed: u64) -> Cable {
        let takes = |bits| span(bits, config.rate_bps);
        Cable {
            delay: config.delay,
            slot: takes(SLOT_BITS),
            gap: takes(GAP_BITS),
            jam: takes(JAM_BITS),
            preamble: takes(PREAMBLE_BITS),
            rng: Rng::new(seed),
        }
    }

    /// Decide the transmissions whose first bit has reached the other end by `now`.
    pub(super) fn serve(
        &mut self,
        ends: &mut [Transmitter; 2],
        counts: &mut [Counts; 2],
        now: Instant,
    ) {
        loop {
            let (first, begin, other) = match [ends[0].next_begin(), ends[1].next_begin()] {
                [None, None] => return,
                [Some(begin), None] => (0, begin, None),
                [None, Some(begin)] => (1, begin, None),
                [Some(a), Some(b)] if b < a => (1, b, Some(a)),
                [Some(a), Some(b)] => (0, a, Some(b)),
            };
            let heard = begin + self.delay;
            if heard > now {
                return;
            }
            match other {
                Some(other) if other <= heard => {
                    let begins = if first == 0 { [begin, other] } else { [other, begin] };
                    self.collide(begins, ends, counts);
                }
                _ => {
                    let end = ends[first].send(begin);
                    ends[1 - first].hold(end + self.delay + self.gap);
                }
            }
        }
    }

    fn collide(
        &mut self,
        begins: [Instant; 2],
        ends: &mut [Transmitter; 2],
        counts: &mut [Counts; 2],
    ) {
        let stops = [0, 1].map(|side: usize| {
            let hears = begins[1 - side] + self.delay;
            hears.max(begins[side] + self.preamble) + self.jam
        });
        for side in 0..2 {
            let silence = stops[side].max(stops[1 - side] + self.delay);
            ends[side].hold(silence + self.gap);
            counts[side].collisions += 1;
            ends[side].collisions += 1;
            if ends[side].collisions >= ATTEMPTS {
                counts[side].given_up += 1;
                ends[side].give_up(stops[side]);
            } else {
                let slots = self.rng.below(1 << ends[side].collisions.min(DOUBLINGS));
                ends[side].hold(stops[side] + self.slot.saturating_mul(slots as u64));
            }
        }
    }
}
