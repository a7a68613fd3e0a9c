//! The clock of a polled stack, in the program's time and in the stack's.
//!
//! Called by: `stack_of_program.rs`, `hooks.rs`.

use base::Instant;
use stack::VirtualClock;

/// The difference between the program's time and the clock of a polled stack. The first poll sets
/// it, so that the program's time may begin anywhere.
#[derive(Default)]
pub(crate) struct Offset(std::sync::OnceLock<u64>);

impl Offset {
    /// The stack's time at the program's time `now_ns`.
    pub(crate) fn of_stack(&self, now_ns: u64, clock: &VirtualClock) -> Instant {
        let offset = *self.0.get_or_init(|| now_ns.wrapping_sub(clock.now().as_nanos()));
        let at = now_ns.wrapping_sub(offset);
        // A time that went back would be far in the future: the clock stays.
        if at > u64::MAX / 2 { clock.now() } else { Instant::from_nanos(at) }
    }

    /// The program's time at the stack's time `at`.
    pub(crate) fn to_program(&self, at: Instant) -> u64 {
        at.as_nanos().wrapping_add(self.0.get().copied().unwrap_or(0))
    }
}
