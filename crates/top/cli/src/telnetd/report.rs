//! What `telnetd` prints: where it listens, and at the end the totals.
//!
//! Called by: `telnetd.rs`; `run.rs` counts.

use telnet::Counts;

use super::args::Args;

/// The totals.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) sessions: u64,
    /// Connections that were closed at once.
    pub(super) refused: u64,
    /// Sessions that ended because their clients said or read nothing.
    pub(super) late: u64,
    /// What the ends of all sessions counted.
    pub(super) counts: Counts,
}

impl Tally {
    /// Add what an ended session counted.
    pub(super) fn add(&mut self, counts: Counts) {
        self.counts.refused += counts.refused;
        self.counts.dropped += counts.dropped;
        self.counts.flushed += counts.flushed;
    }
}

/// The first line.
pub(super) fn begin(args: &Args) -> String {
    format!("TELNET at {}; Ctrl-C ends it\n", args.listen())
}

/// The last line.
pub(super) fn end(tally: &Tally) -> String {
    let mut text = format!("{} sessions", tally.sessions);
    for (count, what) in [
        (tally.refused, "connections over the limits, or without a terminal"),
        (tally.late, "ended because the client said or read nothing for too long"),
        (tally.counts.refused, "options refused"),
        (tally.counts.dropped, "sub-negotiations dropped"),
        (tally.counts.flushed, "bytes flushed"),
    ] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    text + "\n"
}
