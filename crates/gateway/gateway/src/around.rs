//! What a turn of the gateway works with.
//!
//! Called by: the owner of the event loop makes one for each call.

use base::Instant;
use stack::Stack;

/// What a turn works with.
pub struct Around<'a, O, P> {
    /// The stack towards the guest.
    pub stack: &'a mut Stack,
    /// The other side.
    pub outside: &'a mut O,
    /// The policy that decides about flows and names.
    pub policy: &'a mut P,
    /// The time, by the stack's clock.
    pub now: Instant,
}
