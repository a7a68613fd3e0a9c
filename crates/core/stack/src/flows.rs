//! Links each frame of a burst to the next frame of the same flow, for bursts in which several
//! flows alternate. So a leader finds its followers among frames of other flows
//! (docs/decisions/0009).
//!
//! Called by: `rx.rs`, when the frame after a leader belongs to another flow. Only port numbers
//! distinguish the flows here; the leader's comparison of headers confirms that guess. A frame that
//! is not plain TCP (an ICMP error, a packet with options) may concern any flow, so no link leads
//! past it.

use device::{BURST, Burst};
use mbuf::Mbuf;
use wire::{ipv4, protocol};

/// Buckets of frames, by a hash of their ports. When a bucket is walked, its frames are compared by
/// their ports.
const BUCKETS: usize = 64;

/// No frame.
const NONE: u8 = u8::MAX;

/// How many bursts are skipped at most after a search that found nothing.
const SKIPPED_MAX: u8 = 63;

const _: () = assert!(BURST < NONE as usize);

/// The frames of a burst, in the order in which they came.
pub(crate) type Frames = [Option<Mbuf>; BURST];

/// Links between frames of one flow.
pub(crate) struct Flows {
    ports: [u32; BURST],
    next: [u8; BURST],
    /// Bursts to skip before the next search. `patience` is how many were to be skipped after the
    /// last search.
    skip: u8,
    patience: u8,
}

impl Default for Flows {
    fn default() -> Flows {
        Flows { ports: [0; BURST], next: [NONE; BURST], skip: 0, patience: 0 }
    }
}

impl Flows {
    /// Is a search for alternating flows in this burst worth its cost? Yes if some were found
    /// lately, or if it is time to try again.
    #[inline(always)]
    pub(crate) fn are_worth_it(&mut self) -> bool {
        let worth_it = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        worth_it
    }

    /// Note how many followers were found in a burst.
    pub(crate) fn found(&mut self, followers: usize) {
        self.patience = match followers {
            0 => (2 * self.patience + 1).min(SKIPPED_MAX),
            _ => 0,
        };
        self.skip = self.patience;
    }

    /// Take the frames of a burst, whose last frame comes first, and link those of one flow;
    /// `link_len` bytes of link header are in front of each packet. Returns the number of frames.
    pub(crate) fn link(&mut self, burst: &mut Burst, link_len: usize) -> (Frames, usize) {
        let mut last = [NONE; BUCKETS];
        for (place, m) in (0..burst.len()).rev().zip(burst.iter()) {
            let Some(ports) = ports(m, link_len) else {
                last = [NONE; BUCKETS];
                self.next[place] = NONE;
                continue;
            };
            self.ports[place] = ports;
            let bucket = ports.wrapping_mul(0x9e37_79b1) as usize >> 26;
            self.next[place] = core::mem::replace(&mut last[bucket], place as u8);
        }
        let mut frames = [const { None }; BURST];
        let count = burst.len();
        for (to, m) in frames.iter_mut().zip(burst.drain(..).rev()) {
            *to = Some(m);
        }
        (frames, count)
    }

    /// The place of the next frame of the same flow as the frame at `place`.
    #[inline(always)]
    pub(crate) fn next(&self, place: usize) -> Option<usize> {
        let mut next = *self.next.get(place)?;
        while let Some(ports) = self.ports.get(usize::from(next)) {
            if ports == self.ports.get(place)? {
                return Some(usize::from(next));
            }
            next = *self.next.get(usize::from(next))?;
        }
        None
    }
}

/// Both ports of a frame that is plain TCP, in the byte order of the frame.
#[inline(always)]
pub(crate) fn ports(m: &Mbuf, link_len: usize) -> Option<u32> {
    let packet = m.as_slice().get(link_len..)?;
    let header = packet.first_chunk::<{ ipv4::HEADER_LEN }>()?;
    let at = match header[0] {
        0x45 if header[9] == protocol::TCP => 20,
        first if first >> 4 == 6 && header[6] == protocol::TCP => 40,
        _ => return None,
    };
    packet.get(at..)?.first_chunk().map(|ports| u32::from_ne_bytes(*ports))
}
