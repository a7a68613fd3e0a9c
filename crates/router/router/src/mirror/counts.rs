//! Counters of a mirror: frames both ways, and those that were dropped here, by reason. The stack
//! counts those that it drops itself (`wirespeed show drops`).
//!
//! Called by: `frames.rs`; `metrics.rs` shows them.

/// Why a frame of a mirror was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The mirror is down: `ip link set PORT up` in the control namespace.
    Down,
    /// The kernel has no room.
    Full,
    /// The port has no mirror at present.
    NoMirror,
    /// The kernel or the virtio header says that the frame is none.
    Bad,
    /// The stack refused what a program sent: its counters say why.
    Refused,
}

impl Loss {
    pub(crate) const ALL: [Loss; 5] =
        [Loss::Down, Loss::Full, Loss::NoMirror, Loss::Bad, Loss::Refused];

    /// Its name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Loss::Down => "mirror-down",
            Loss::Full => "mirror-full",
            Loss::NoMirror => "no-mirror",
            Loss::Bad => "bad-frame",
            Loss::Refused => "refused",
        }
    }
}

/// Frames of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
}

impl Passed {
    pub(super) fn count(&mut self, bytes: usize) {
        self.frames += 1;
        self.bytes += bytes as u64;
    }
}

/// The counters of one mirror.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Frames that were punted to programs.
    pub(crate) punted: Passed,
    /// Frames of programs that the stack took.
    pub(crate) sent: Passed,
    losses: [u64; Loss::ALL.len()],
}

impl Counts {
    pub(super) fn lose(&mut self, loss: Loss) {
        self.losses[loss as usize] += 1;
    }

    /// How many frames were dropped for this reason.
    pub(crate) fn lost(&self, loss: Loss) -> u64 {
        self.losses[loss as usize]
    }
}
