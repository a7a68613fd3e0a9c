//! Buffers that a bulk transfer has left behind go back to the system once traffic is low: half of
//! what is unused a second, until [`KEPT_BYTES`] are left. A stack that has given back what it can
//! has no deadline of this kind.
//!
//! Called by: `poll.rs`, when a poll had nothing to do and when the time has come; nothing here
//! runs while packets are handled. Steps are halves, so that a pause between two transfers does not
//! cost the second one all of the buffers, and so that no step takes long.

use base::{Counter, Duration, Instant};

use crate::shared::Core;

/// Unused bytes that stay: a first burst of a bulk transfer finds its buffers.
const KEPT_BYTES: usize = 4 << 20;

/// From one step to the next.
const STEP: Duration = Duration::from_secs(1);

/// Traffic is low with fewer frames than this in a step, both directions together.
const FEW_FRAMES: u64 = 1_000;

/// After a step that could free nothing, because each slab has a buffer in use, another one needs
/// this many frames first.
const FRAMES_TO_RETRY: u64 = 10_000;

/// When the next step is due.
pub(crate) struct Trim {
    pub(crate) at: Instant,
    /// Frames that had been handled when `at` was set.
    frames: u64,
    is_stuck: bool,
}

impl Default for Trim {
    fn default() -> Trim {
        Trim { at: Instant::NEVER, frames: 0, is_stuck: false }
    }
}

fn frames(core: &Core) -> u64 {
    core.cx.counters.of(Counter::RxFrames) + core.cx.counters.of(Counter::TxFrames)
}

fn unused_bytes(core: &Core) -> usize {
    core.cx.pool.held_bytes().saturating_sub(core.cx.pool.in_use_bytes())
}

impl Trim {
    /// May a step have to be set?
    #[inline(always)]
    pub(crate) fn is_wanted(&self, core: &Core) -> bool {
        core.cx.pool.held_bytes() > KEPT_BYTES && self.at == Instant::NEVER
    }

    /// There is nothing to do: set a step if many buffers are unused.
    #[cold]
    pub(crate) fn set(&mut self, core: &Core) {
        let frames = frames(core);
        let waits = self.is_stuck && frames - self.frames < FRAMES_TO_RETRY;
        if !waits && unused_bytes(core) > KEPT_BYTES {
            *self = Trim { at: core.cx.now + STEP, frames, is_stuck: false };
        }
    }

    /// A step is due.
    #[cold]
    pub(crate) fn step(&mut self, core: &mut Core) {
        let (frames, unused) = (frames(core), unused_bytes(core));
        let is_quiet = frames - self.frames < FEW_FRAMES;
        // While there is traffic, the next poll without work sets it again.
        self.at = Instant::NEVER;
        if !is_quiet || unused <= KEPT_BYTES {
            return;
        }
        let pool = &mut core.cx.pool;
        let keep = pool.in_use_bytes() + (unused / 2).max(KEPT_BYTES);
        self.is_stuck = pool.shrink(keep) == 0;
        self.frames = frames;
        if !self.is_stuck && unused_bytes(core) > KEPT_BYTES {
            self.at = core.cx.now + STEP;
        }
    }
}
