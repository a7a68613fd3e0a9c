//! The progress of a run, on standard error: a bar on a terminal, otherwise a line now and then.
//!
//! Called by: `pool`, and experiments that make their runs one after the other.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time between two lines without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// A bar, or lines.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    begun: Instant,
    said: Instant,
    total: usize,
}

impl Progress {
    pub(crate) fn new(total: usize) -> Progress {
        // A dumb terminal cannot return to the beginning of a line.
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let bar = (io::stderr().is_terminal() && !dumb).then(|| {
            let bar = ProgressBar::new(total as u64);
            let shape = "{bar:40} {pos} of {len} runs, {elapsed}, about {eta} left";
            if let Ok(style) = ProgressStyle::with_template(shape) {
                bar.set_style(style);
            }
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
            bar
        });
        let now = Instant::now();
        Progress { bar, begun: now, said: now, total }
    }

    /// Report that `done` runs are done.
    pub(crate) fn at(&mut self, done: usize) {
        if let Some(bar) = &self.bar {
            bar.set_position(done as u64);
        } else if self.said.elapsed() >= LINE_EVERY {
            self.said = Instant::now();
            let seconds = self.begun.elapsed().as_secs();
            // A closed standard error is ignored.
            let _ = writeln!(io::stderr(), "{done} of {} runs after {seconds} s", self.total);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
