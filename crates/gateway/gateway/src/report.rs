//! What became of each flow: a report at its end or its refusal, for the log.
//!
//! Called by: `tcp/`. The owner of the gateway takes them with [`crate::Gateway::next_report`].

use std::collections::VecDeque;

use base::Instant;

use crate::gateway::Gateway;
use crate::outside::{Ends, Failure};

/// Reports that wait at most.
const REPORTS_MAX: usize = 1_024;

/// How a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Both halves ended.
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
}

/// The end of a flow, or its refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its ends, as the guest saw them.
    pub ends: Ends,
    /// How it ended.
    pub end: End,
    /// When it began.
    pub since: Instant,
    /// Bytes from the guest.
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
}

impl<T, S> Gateway<T, S> {
    /// The next report, oldest first. 1,024 wait at most; [`Gateway::lost_reports`] counts the
    /// others.
    pub fn next_report(&mut self) -> Option<Report> {
        self.reports.queue.pop_front()
    }

    /// Reports for which there was no room.
    pub fn lost_reports(&self) -> u64 {
        self.reports.lost
    }
}
