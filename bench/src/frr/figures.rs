//! The figures of one run with a recorded stream. `stream/run.rs` measures them, `stream.rs` makes
//! rows of them, and `world.rs` keeps them for all rows.

use std::fmt;

/// What the stream is, in words, and the runs with it.
pub(super) type Runs = (String, Vec<Run>);

/// What a run has shown.
pub(super) struct Run {
    pub(super) seconds: f64,
    /// CPU time of the router meanwhile.
    pub(super) worker_cpu_s: f64,
    pub(super) bytes_a_route: f64,
    /// What was subtracted for the arrays.
    pub(super) array_bytes: usize,
    pub(super) pause_us: f64,
    pub(super) packets_a_second: f64,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.2} s, {:.2} s of CPU time, {:.1} bytes a route, longest pause {:.1} us, {:.0} \
             packets/s",
            self.seconds,
            self.worker_cpu_s,
            self.bytes_a_route,
            self.pause_us,
            self.packets_a_second
        )
    }
}
