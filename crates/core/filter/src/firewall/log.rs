//! The log of rules with `log`: a bounded queue of lines, so many a second.
//!
//! Called by: the firewall; the stack's caller takes the lines. Limit: `filter_log_per_second`.

use std::collections::VecDeque;

use base::{Budget, DropReason, Duration, Instant, Limit};

use crate::packet::Packet;

/// A line of the log: the first packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// When it came.
    pub at: Instant,
    /// The rule that decided.
    pub rule: Option<u16>,
    /// The packet.
    pub packet: Packet,
    /// Did it pass?
    pub outcome: Result<(), DropReason>,
}

#[derive(Default)]
pub(super) struct Log {
    lines: VecDeque<Line>,
    second: Option<Instant>,
    in_second: usize,
    refused: u64,
}

impl Log {
    pub(super) fn add(&mut self, line: Line, budget: &mut Budget) {
        if self.second.is_none_or(|begin| line.at.since(begin) >= Duration::from_secs(1)) {
            (self.second, self.in_second) = (Some(line.at), 0);
        }
        let most = budget.of(Limit::FilterLogPerSecond);
        if self.lines.len() >= most || !budget.admits(Limit::FilterLogPerSecond, self.in_second) {
            self.refused += 1;
            return;
        }
        self.in_second += 1;
        self.lines.push_back(line);
    }

    pub(super) fn next(&mut self) -> Option<Line> {
        self.lines.pop_front()
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused
    }
}
