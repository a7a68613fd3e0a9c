//! The laws that must hold in every world, whatever happens to its packets. Most laws have a file
//! of their own.
//!
//! Called by: `world`: at each frame that is sent or arrives, after each step of a host, every
//! second, and at the end. The bytes of streams are compared where they are read (`app`), and their
//! lengths are compared at the end (`stream`).

mod cwnd;
mod liveness;
mod look;
mod memory;
mod pacing;
mod stream;
mod window;

use base::Instant;
pub(crate) use liveness::Liveness;
pub(crate) use look::{Look, story};

use crate::app::Endpoint;
use crate::flow::Flow;
use crate::host::Host;
use crate::seen::Seen;
use crate::violation::Violation;

/// All laws of a world.
#[derive(Debug, Default)]
pub(crate) struct Oracles {
    window: window::Window,
    cwnd: cwnd::Cwnd,
    pacing: pacing::Pacing,
    timers: liveness::Timers,
}

impl Oracles {
    /// Check a segment that a host sends.
    pub(crate) fn sent(&mut self, seen: &Seen, now: Instant) -> Result<(), Violation> {
        self.pacing.sent(seen, now);
        self.window.sent(seen)
    }

    /// Record a segment that an adversary sends; no law is checked.
    pub(crate) fn reported(&mut self, seen: &Seen) {
        self.window.reported(seen);
    }

    /// Record a segment that arrives as it was sent.
    pub(crate) fn arrived(&mut self, seen: &Seen) {
        self.window.arrived(seen);
    }

    /// Check a connection after its host has been polled.
    pub(crate) fn stepped(&mut self, look: &Look<'_>) -> Result<(), Violation> {
        self.cwnd.check(look)?;
        self.pacing.stepped(look)?;
        self.timers.check(look)?;
        memory::check_connection(look)
    }

    /// Check those parts of a host's state that belong to no connection.
    pub(crate) fn stepped_host(
        &mut self,
        host: &Host,
        connections_max: usize,
    ) -> Result<(), Violation> {
        memory::check_host(&host.stack, host.stack.budget(), connections_max)
    }
}

/// Check the flows when every connection has ended.
pub(crate) fn at_end(flows: &[Flow], ends: &[Endpoint]) -> Result<(), Violation> {
    flows.iter().try_for_each(|flow| stream::check(flow, &ends[flow.client], &ends[flow.server]))
}

/// Check a host when nothing is in flight any more.
pub(crate) fn after_end(number: usize, host: &mut Host) -> Result<(), Violation> {
    memory::check(number, host)
}
