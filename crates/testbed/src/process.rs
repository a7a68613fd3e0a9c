//! Programs that run beside a case, and end with it: killed by the number that the system gave
//! them, never by name.
//!
//! Called by: tests.

use std::io::Read;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// A program that ends with its case.
pub struct Running(pub Child);

impl Running {
    /// Wait for its end, for a minute at most.
    ///
    /// # Panics
    /// If it does not end.
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        let ended = until(Duration::from_secs(60), || {
            status = self.0.try_wait().expect("it is a child");
            status.is_some()
        });
        assert!(ended, "it did not end within a minute");
        status.expect("it has ended")
    }

    /// Wait for its end; was it content?
    ///
    /// # Panics
    /// As [`Running::wait`].
    pub fn succeeds(&mut self) -> bool {
        self.wait().success()
    }

    /// Send it a signal and wait for its end, as [`Running::end`].
    ///
    /// # Panics
    /// As that; if it has ended before.
    pub fn end_by(self, signal: Signal) -> (i32, String, String) {
        kill_process(Pid::from_child(&self.0), signal).expect("it runs");
        self.end()
    }

    /// Wait for its end: code, standard output, standard error, both piped. What it prints must
    /// fit into the pipes.
    ///
    /// # Panics
    /// As [`Running::wait`]; if it printed what is no text.
    pub fn end(mut self) -> (i32, String, String) {
        let code = self.wait().code().unwrap_or(-1);
        let (mut out, mut err) = (String::new(), String::new());
        let stdout = self.0.stdout.take().expect("piped").read_to_string(&mut out);
        let stderr = self.0.stderr.take().expect("piped").read_to_string(&mut err);
        stdout.and(stderr).expect("text");
        (code, out, err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; then there is no process to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Look again and again whether it is `so`, for `time` at most; was it?
pub fn until(time: Duration, mut so: impl FnMut() -> bool) -> bool {
    const STEP: Duration = Duration::from_millis(50);
    let looks = time.as_millis() / STEP.as_millis();
    (0..looks).any(|_| so() || (thread::sleep(STEP), false).1) || so()
}
