//! The laws that must hold in every world, whatever happens to its packets; one file each.
//!
//! Called by: `world`, at each frame that is sent or arrives, after each step of a host, every
//! second, and at the end. Streams are compared where they are read (`app`), and their lengths at
//! the end (`stream`).

mod cwnd;
mod leaks;
mod liveness;
mod memory;
mod pacing;
mod stream;
mod timers;
mod window;

use core::fmt;

pub(crate) use liveness::Liveness;

use base::Instant;
use stack::Stack;
use tcp::Info;

use crate::app::{Endpoint, Phase};
use crate::host::Host;
use crate::seen::Seen;
use crate::world::Flow;

/// A law that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which law.
    pub oracle: &'static str,
    /// What was seen.
    pub what: String,
}

impl Violation {
    pub(crate) fn new(oracle: &'static str, what: String) -> Violation {
        Violation { oracle, what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.oracle, self.what)
    }
}

/// One connection's end after a step of its host.
pub(crate) struct Look<'a> {
    pub(crate) index: usize,
    pub(crate) end: &'a Endpoint,
    pub(crate) info: Info,
    pub(crate) stack: &'a Stack,
    /// Its host's clock has never jumped.
    pub(crate) clock_is_true: bool,
    /// The world's time.
    pub(crate) now: Instant,
}

/// All laws of a world.
#[derive(Debug, Default)]
pub(crate) struct Oracles {
    window: window::Window,
    cwnd: cwnd::Cwnd,
    pacing: pacing::Pacing,
    timers: timers::Timers,
}

impl Oracles {
    /// A host sends a segment.
    pub(crate) fn sent(&mut self, seen: &Seen, now: Instant) -> Result<(), Violation> {
        self.pacing.sent(seen, now);
        self.window.sent(seen)
    }

    /// An adversary sends a segment: no law is checked.
    pub(crate) fn reported(&mut self, seen: &Seen) {
        self.window.reported(seen);
    }

    /// A segment arrives as it was sent.
    pub(crate) fn arrived(&mut self, seen: &Seen) {
        self.window.arrived(seen);
    }

    /// A host has been polled.
    pub(crate) fn stepped(&mut self, look: &Look<'_>) -> Result<(), Violation> {
        self.cwnd.check(look)?;
        self.pacing.stepped(look)?;
        self.timers.check(look)?;
        memory::check_connection(look)
    }

    /// The same for what belongs to no connection.
    pub(crate) fn stepped_host(
        &mut self,
        host: &Host,
        connections_max: usize,
    ) -> Result<(), Violation> {
        memory::check_host(&host.stack, host.stack.budget(), connections_max)
    }
}

/// When every connection has ended.
pub(crate) fn at_end(flows: &[Flow], ends: &[Endpoint]) -> Result<(), Violation> {
    flows.iter().try_for_each(|flow| stream::check(flow, &ends[flow.client], &ends[flow.server]))
}

/// When nothing is in flight any more either.
pub(crate) fn after_end(number: usize, host: &mut Host) -> Result<(), Violation> {
    leaks::check(number, host)
}

/// What an end did, for messages.
pub(crate) fn story(end: &Endpoint) -> String {
    let phase = match end.phase {
        Phase::Waiting => "never opened".to_owned(),
        Phase::Open => "open".to_owned(),
        Phase::Ended(None) => "ended".to_owned(),
        Phase::Ended(Some(error)) => format!("ended by {error:?}"),
    };
    format!("host {} {phase}, wrote {}, read {}", end.host, end.written, end.read)
}
