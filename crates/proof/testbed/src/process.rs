//! Child processes of a case. When the case ends, they are killed by process id, never by name.
//!
//! Called by: tests.

use std::io::Read;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A child process. It is killed on drop.
pub struct Running(pub Child);

impl Running {
    /// Wait for the process to exit, for at most a minute.
    ///
    /// # Panics
    /// If the process does not exit in time.
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        let ended = until(Duration::from_secs(60), || {
            status = self.0.try_wait().expect("it is a child");
            status.is_some()
        });
        assert!(ended, "the process did not end within a minute");
        status.expect("it has ended")
    }

    /// Wait for the process to exit. True if it exited with success.
    ///
    /// # Panics
    /// Those of [`Running::wait`].
    pub fn succeeds(&mut self) -> bool {
        self.wait().success()
    }

    /// Send the process a signal.
    ///
    /// # Panics
    /// If the process has exited already.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it runs");
    }

    /// Send the process a signal, then wait as [`Running::end`] does.
    ///
    /// # Panics
    /// Those of [`Running::end`], and if the process has exited already.
    pub fn end_by(self, signal: Signal) -> (i32, String, String) {
        self.signal(signal);
        self.end()
    }

    /// Wait for the process to exit. Returns the exit code, standard output and standard error.
    /// Both outputs must be pipes, and must fit into the pipes' buffers.
    ///
    /// # Panics
    /// Those of [`Running::wait`], and if the output is not UTF-8.
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
        // If the process has exited already, the kill fails, which does not matter.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Call `so` every 50 ms until it returns true, but for at most `time`, however long each call
/// takes. Returns true as soon as `so` does. A call that begins in time counts even if it ends
/// later.
pub fn until(time: Duration, mut so: impl FnMut() -> bool) -> bool {
    const STEP: Duration = Duration::from_millis(50);
    let began = Instant::now();
    loop {
        if so() {
            return true;
        }
        let left = time.saturating_sub(began.elapsed());
        if left.is_zero() {
            return false;
        }
        thread::sleep(left.min(STEP));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_all_looks_together() {
        let (mut looks, look) = (0, Duration::from_millis(60));
        let slow = || {
            thread::sleep(look);
            looks += 1;
            false
        };
        assert!(!until(2 * look, slow));
        // If only the pauses of 50 ms counted, there would be more calls.
        assert!((1..=2).contains(&looks), "{looks} looks");
        assert!(until(Duration::ZERO, || true), "`so` is not called if the time is zero");
    }
}
