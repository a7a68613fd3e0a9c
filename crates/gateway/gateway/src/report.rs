//! What became of each flow: a report at its end or its refusal, for the log. What a session of
//! datagrams or echoes exchanges with a peer is a flow, too.
//!
//! Called by: `tcp/`, `datagrams/`. The owner of the gateway takes them with
//! [`crate::Gateway::next_report`].

use std::collections::VecDeque;

use base::Instant;

use crate::outside::{Ends, Failure};

/// Reports that wait at most.
const REPORTS_MAX: usize = 8_192;

/// What a flow is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// Echo requests of ICMP and ICMPv6.
    Echo,
}

impl Protocol {
    /// The word in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Echo => "echo",
        }
    }
}

/// How a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Both halves ended; of datagrams: nobody has sent any for long enough.
    Finished,
    /// The guest has reset it, or has vanished.
    ResetByGuest,
    /// The outside has reset it.
    ResetByOutside(Failure),
    /// The connect failed.
    NotConnected(Failure),
    /// The guest did not take a flow to a published port.
    NotTaken,
    /// The policy refused it.
    Refused,
    /// A limit or the gateway's memory kept it from beginning.
    Unanswered,
    /// It was idle, and made room for another.
    Evicted,
    /// The gateway has ended.
    ShutDown,
}

/// The end of a flow, or its refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// What it was of.
    pub protocol: Protocol,
    /// Its ends, as the guest saw them; of echoes the guest's port is the identifier, and the other
    /// one is 0.
    pub ends: Ends,
    /// How it ended.
    pub end: End,
    /// When it began.
    pub since: Instant,
    /// Bytes from the guest; of datagrams and echoes those of their payload.
    pub bytes_up: u64,
    /// Bytes to the guest.
    pub bytes_down: u64,
}

/// The reports that wait.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    queue: VecDeque<Report>,
    lost: u64,
}

impl Reports {
    pub(crate) fn push(&mut self, report: Report) {
        if self.queue.len() < REPORTS_MAX {
            self.queue.push_back(report);
        } else {
            self.lost += 1;
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Report> {
        self.queue.pop_front()
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Those that nobody has taken.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Report> {
        self.queue.iter()
    }
}
