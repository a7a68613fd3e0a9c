//! The progress bar: on a terminal only, on standard error, without colours.
//!
//! Called by: the loops, a few times a second. Must not know: what moves the bytes.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::plan::Plan;

/// A bar, or nothing at all.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(plan: &Plan) -> Progress {
        // A dumb terminal cannot go back to the beginning of a line.
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let target = if dumb {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(10)
        };
        let total = plan.bytes().filter(|&n| n > 0);
        let bar = match total {
            Some(total) => ProgressBar::new(total),
            None => ProgressBar::no_length(),
        };
        let shape = match total {
            Some(_) => "{bar:40} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}",
            None => "{elapsed_precise} {binary_bytes}, {binary_bytes_per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(shape) {
            bar.set_style(style);
        }
        bar.set_draw_target(target);
        Progress(bar)
    }

    /// So many bytes have arrived.
    pub(super) fn at(&self, bytes: u64) {
        self.0.set_position(bytes);
    }

    /// Take the bar away: the report follows.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
