//! Signals of a process that waits for another one: which arrived, and a descriptor that says so.
//!
//! Called by: `launch.rs`, `init.rs`, `attach.rs`, `serve.rs`. Signals of the terminal go to the
//! whole process group, hence to the program, too: the waiting process takes them and does nothing.
//! A signal that is ignored already stays so, for the program as well (nohup(1)). SIGCHLD must not
//! stay blocked: whoever starts this process may have blocked it, to read it from a signalfd(2) for
//! instance, and a mask is inherited. Source: signal(7).

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{self, SigSet};
use rustix::process::Signal;
use signal_hook::consts::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2,
};
use signal_hook::low_level::pipe;
use signal_hook::{SigId, flag, low_level};

use crate::error::{Error, refused};

/// Taken, and not passed on: the terminal sent them to the program as well.
const OF_THE_TERMINAL: &[i32] = &[SIGINT, SIGQUIT, SIGTSTP];
/// Passed on to the program.
const PASSED_ON: &[i32] = &[SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT];
/// They ask a process to end that has no program to pass them on to.
const ENDS: &[i32] = &[SIGTERM, SIGHUP, SIGINT, SIGQUIT];

/// Signals that this process catches, while this lives.
pub(crate) struct Signals {
    bell: UnixStream,
    arrived: Vec<(i32, Arc<AtomicBool>)>,
    handlers: Vec<SigId>,
}

impl Signals {
    /// Begin to catch signals.
    pub(crate) fn catch() -> Result<Signals, Error> {
        let wanted = [OF_THE_TERMINAL, PASSED_ON].concat();
        Signals::register(&wanted, ignored()).map_err(refused("signals cannot be caught"))
    }

    /// Begin to catch the signals of [`Signals::take_end`] alone. INT and QUIT end a process that a
    /// script has started in the background, too, although its shell ignores them for it.
    pub(crate) fn catch_ends() -> Result<Signals, Error> {
        let ignored = ignored() & !(1 << (SIGINT - 1) | 1 << (SIGQUIT - 1));
        Signals::register(ENDS, ignored).map_err(refused("signals cannot be caught"))
    }

    fn register(wanted: &[i32], ignored: u64) -> std::io::Result<Signals> {
        let (bell, rung) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        rung.set_nonblocking(true)?;
        let mut signals = Signals { bell, arrived: Vec::new(), handlers: Vec::new() };
        let wanted = wanted.iter().chain(&[SIGCHLD]);
        for &signal in wanted.filter(|&&signal| ignored & 1 << (signal - 1) == 0) {
            let flag = Arc::new(AtomicBool::new(false));
            signals.handlers.push(flag::register(signal, Arc::clone(&flag))?);
            signals.handlers.push(pipe::register(signal, rung.try_clone()?)?);
            signals.arrived.push((signal, flag));
        }
        // Without a report of its children's ends this process would wait for ever.
        SigSet::from_iter([signal::Signal::SIGCHLD]).thread_unblock()?;
        Ok(signals)
    }

    /// The signals that arrived since the last call.
    fn take(&mut self) -> impl Iterator<Item = i32> {
        let mut bytes = [0; 64];
        while matches!((&self.bell).read(&mut bytes), Ok(len) if len > 0) {}
        let arrived = self.arrived.iter().filter(|(_, flag)| flag.swap(false, Ordering::Relaxed));
        arrived.map(|&(signal, _)| signal)
    }

    /// The signals to pass on that arrived since the last call.
    pub(crate) fn take_for_program(&mut self) -> Vec<Signal> {
        let passed_on = self.take().filter(|signal| PASSED_ON.contains(signal));
        passed_on.filter_map(Signal::from_named_raw).collect()
    }

    /// Did a signal arrive that asks this process to end?
    pub(crate) fn take_end(&mut self) -> bool {
        let arrived: Vec<i32> = self.take().collect();
        arrived.iter().any(|signal| ENDS.contains(signal))
    }
}

impl AsFd for Signals {
    /// Readable when a signal arrived.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            low_level::unregister(handler);
        }
    }
}

/// The set of signals that this process ignores, the first signal in the lowest bit (proc(5)).
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let set = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    // A report of a child's end is never ignored.
    set & !(1 << (SIGCHLD - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_arrived_are_told_once() {
        let mut signals = Signals::catch().expect("signals");
        let myself = rustix::process::getpid();
        rustix::process::kill_process(myself, Signal::USR2).expect("it runs");
        // A shell's job in the background ignores this one, and so do its children.
        let has_quit = signals.arrived.iter().any(|(signal, _)| *signal == SIGQUIT);
        if has_quit {
            rustix::process::kill_process(myself, Signal::QUIT).expect("it runs");
        }
        let expected = 1 + usize::from(has_quit);
        let count = |signals: &Signals| {
            signals.arrived.iter().filter(|(_, flag)| flag.load(Ordering::Relaxed)).count()
        };
        // Another thread may handle them.
        let begun = std::time::Instant::now();
        while !crate::message::is_readable(&signals) || count(&signals) < expected {
            assert!(begun.elapsed().as_secs() < 60, "the signals do not arrive");
            std::thread::yield_now();
        }
        assert_eq!(signals.take_for_program(), [Signal::USR2]);
        assert_eq!(signals.take_for_program(), []);
    }
}
