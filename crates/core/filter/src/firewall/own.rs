//! Flows that a program of the router begins beside the stack: it sends by a port's mirror, so no
//! socket of the stack knows the flow, and its answers need a state to pass.
//!
//! Called by: the stack, for a packet that leaves by a mirror. Rules are not about what the router
//! itself sends: docs/filter.md. Limits: those of states.

use base::{Budget, DropReason, Instant};

use super::Firewall;
use super::arrive::Beginning;
use crate::packet::ROUTER;
use crate::states::{NewState, SourceLimits};

impl Firewall {
    /// A packet that the router itself sends by port `out_port` begins a flow: answers pass from
    /// now on. [`Firewall::arrive`] has returned `new` for a packet that came by
    /// [`ROUTER`](crate::ROUTER).
    ///
    /// # Errors
    /// Why there is no state for it: those of [`crate::states::States::insert`]. Its answers are
    /// judged by rules then.
    pub fn begin_own(
        &mut self,
        new: &Beginning,
        out_port: u16,
        budget: &mut Budget,
        now: Instant,
    ) -> Result<(), DropReason> {
        if new.is_error() {
            return Ok(());
        }
        let original = new.parsed.key;
        let state = NewState {
            original,
            reply: original.reversed(),
            first: new.transport(),
            icmp: new.parsed.icmp,
            len: new.len,
            in_port: ROUTER,
            out_port,
            rule: u16::MAX,
            generation: self.generation,
            tag: 0,
            // Rules may have been set in the middle of a connection.
            loose: true,
            limits: SourceLimits::default(),
        };
        self.states.insert(&state, budget, now).map(|_| ())
    }
}
