//! The Ethernet between the two workstations: 10 Mb/s, one cable, CSMA/CD.
//!
//! Called by: `world.rs`. IEEE 802.3 clause 4: a station begins to send when the cable has been
//! silent for the gap. Two stations that begin within the propagation delay collide: they jam, and
//! wait a random number of slots, from a range that doubles with each collision of the frame.

use device::fault::Rng;

use super::costs::US;

/// 10 Mb/s.
pub(super) const NS_PER_BYTE: u64 = 800;
/// Ethernet's header and check sequence, and the preamble.
const FRAME_BYTES: u64 = 18;
const PREAMBLE_BYTES: u64 = 8;
/// The shortest frame.
const MIN_BYTES: u64 = 64;
/// 9.6 us, 12 bytes of silence.
pub(super) const GAP_NS: u64 = 9_600;
const SLOT_NS: u64 = 51_200;
/// Preamble and jam of a collision.
const JAM_NS: u64 = 9_600;
/// The propagation delay of a few hundred metres.
pub(super) const DELAY_NS: u64 = 2 * US;
const ATTEMPTS: u32 = 16;
const DOUBLINGS: u32 = 10;

/// Nanoseconds on the cable of an IP packet of this many bytes.
pub(super) fn frame_ns(packet: u64) -> u64 {
    ((packet + FRAME_BYTES).max(MIN_BYTES) + PREAMBLE_BYTES) * NS_PER_BYTE
}

/// What happens on the cable now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing begins: no station wants to send, or the cable is busy.
    Nothing,
    /// Look again at this time.
    Later(u64),
    /// A station has begun; its frame is over at `end`.
    Begun { by: usize, end: u64 },
}

/// A frame that a station wants to send.
#[derive(Clone, Copy)]
struct Waiting {
    ns: u64,
    ready: u64,
    collisions: u32,
}

/// The cable.
pub(super) struct Cable {
    rng: Rng,
    waiting: [Option<Waiting>; 2],
    is_busy: bool,
    /// When the cable will have been silent for the gap.
    silent: u64,
    /// Nanoseconds in which the cable carried frames.
    pub(super) used_ns: u64,
    pub(super) collisions: u64,
}

impl Cable {
    pub(super) fn new(seed: u64) -> Cable {
        let (waiting, is_busy) = ([None; 2], false);
        Cable { rng: Rng::new(seed), waiting, is_busy, silent: 0, used_ns: 0, collisions: 0 }
    }

    /// A station whose last frame is over has another frame to send, which takes this many
    /// nanoseconds.
    pub(super) fn offer(&mut self, station: usize, ns: u64, now: u64) {
        self.waiting[station] = Some(Waiting { ns, ready: now, collisions: 0 });
    }

    /// The frame on the cable is over.
    pub(super) fn end(&mut self, now: u64) {
        self.is_busy = false;
        self.silent = now + GAP_NS;
    }

    /// Which station begins now?
    pub(super) fn look(&mut self, now: u64) -> Look {
        if self.is_busy {
            return Look::Nothing;
        }
        let silent = self.silent;
        let begins =
            self.waiting.map(|waiting| waiting.map_or(u64::MAX, |w| w.ready.max(silent).max(now)));
        let first = begins[0].min(begins[1]);
        if first == u64::MAX {
            return Look::Nothing;
        } else if first > now {
            return Look::Later(first);
        }
        // Each of the two begins before it can hear the other.
        if begins.into_iter().all(|begin| begin < now + DELAY_NS) {
            self.collide(now);
            let ready = |waiting: &Waiting| waiting.ready.max(self.silent);
            return Look::Later(self.waiting.iter().flatten().map(ready).min().unwrap_or(now));
        }
        let by = usize::from(begins[1] < begins[0]);
        let ns = self.waiting[by].take().map_or(0, |waiting| waiting.ns);
        self.is_busy = true;
        self.used_ns += ns;
        Look::Begun { by, end: now + ns }
    }

    fn collide(&mut self, now: u64) {
        self.collisions += 1;
        self.silent = now + JAM_NS + DELAY_NS + GAP_NS;
        for waiting in self.waiting.iter_mut().flatten() {
            // After 16 collisions the station gives up and its driver tries again, so that no frame
            // is lost.
            waiting.collisions = (waiting.collisions + 1) % ATTEMPTS;
            let slots = self.rng.below(1 << waiting.collisions.min(DOUBLINGS)) as u64;
            waiting.ready = now + JAM_NS + SLOT_NS * slots;
        }
    }
}
