//! The three processes as the launcher sees them: this program again with a first argument that
//! says what it is to be, and a socket for messages as its standard input.
//!
//! Called by: `launch.rs` and `init.rs`; the children call [`begin`] first.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process, set_parent_process_death_signal, waitpid,
};
use signal_hook::consts::{SIGTSTP, SIGTTIN, SIGTTOU};

use crate::error::{Error, refused};

/// First arguments: the gateway, the program before it is executed, the first process of a PID
/// namespace, and one that enters namespaces which are there.
pub(crate) const GATEWAY: &str = "--jail-gateway";
pub(crate) const PROGRAM: &str = "--jail-program";
pub(crate) const INIT: &str = "--jail-init";
pub(crate) const INSIDE: &str = "--jail-inside";

/// A command for this program, as what `role` says.
pub(crate) fn myself(role: &str, socket: OwnedFd) -> Result<Command, Error> {
    let file = std::env::current_exe().map_err(refused("the program's own file is not found"))?;
    // It may have been replaced meanwhile.
    let file = if file.exists() { file } else { "/proc/self/exe".into() };
    let mut command = Command::new(file);
    command.arg(role).stdin(Stdio::from(socket));
    Ok(command)
}

/// How a process changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It ended with this exit status; 128 and the signal's number if a signal ended it.
    Ended(u8),
    /// It was stopped by this signal.
    Stopped(i32),
}

impl Change {
    pub(crate) fn of(status: WaitStatus) -> Change {
        if let Some(signal) = status.stopping_signal() {
            return Change::Stopped(signal);
        }
        let by_signal = status.terminating_signal().map(|signal| 128 + signal);
        Change::Ended(by_signal.or(status.exit_status()).unwrap_or(128) as u8)
    }

    /// Did a terminal stop it?
    pub(crate) fn is_stop_of_terminal(self) -> bool {
        matches!(self, Change::Stopped(signal) if [SIGTSTP, SIGTTIN, SIGTTOU].contains(&signal))
    }
}

/// A child process. It is killed and waited for when this is dropped.
pub(crate) struct Process {
    pid: Pid,
    has_ended: bool,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> std::io::Result<Process> {
        let child = command.spawn()?;
        Ok(Process::of(Pid::from_child(&child)))
    }

    /// A process that became a child of this one.
    pub(crate) fn of(pid: Pid) -> Process {
        Process { pid, has_ended: false }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Leave it alone: it outlives this process.
    pub(crate) fn leave(mut self) {
        self.has_ended = true;
    }

    pub(crate) fn send(&self, signal: Signal) {
        if !self.has_ended {
            // It may have ended meanwhile.
            let _ = kill_process(self.pid, signal);
        }
    }

    /// How it changed since the last call.
    pub(crate) fn change(&mut self) -> Option<Change> {
        self.wait(WaitOptions::NOHANG | WaitOptions::UNTRACED)
    }

    /// Wait for its end.
    pub(crate) fn end(&mut self) -> Option<Change> {
        self.wait(WaitOptions::empty())
    }

    fn wait(&mut self, how: WaitOptions) -> Option<Change> {
        if self.has_ended {
            return None;
        }
        let change = loop {
            match waitpid(Some(self.pid), how) {
                Err(Errno::INTR) => {}
                Ok(changed) => break Change::of(changed?.1),
                // Somebody else waited for it.
                Err(_) => break Change::Ended(128),
            }
        };
        self.has_ended = matches!(change, Change::Ended(_));
        Some(change)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.has_ended {
            self.send(Signal::KILL);
            self.end();
        }
    }
}

/// What a child does first: ends with its parent, closes what it inherited, and takes its socket.
pub(crate) fn begin(keep: impl Fn(&OsStr) -> bool) -> Result<OwnedFd, Error> {
    die_with_parent()?;
    close_inherited(keep);
    let stdin = std::io::stdin();
    stdin.as_fd().try_clone_to_owned().map_err(refused("the launcher's socket cannot be used"))
}

/// The parent's end ends this process. A new user namespace resets that (prctl(2)).
pub(crate) fn die_with_parent() -> Result<(), Error> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(refused("this process cannot be made to end with its parent"))
}

/// Close inherited descriptors but the standard ones and those whose number `keep` accepts.
fn close_inherited(keep: impl Fn(&OsStr) -> bool) {
    let Ok(folder) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers: Vec<OsString> = folder.flatten().map(|entry| entry.file_name()).collect();
    for number in numbers {
        let parsed = number.to_str().and_then(|text| text.parse::<i32>().ok());
        if let Some(fd) = parsed.filter(|&fd| fd > 2)
            && !keep(&number)
        {
            let _ = nix::unistd::close(fd);
        }
    }
}

/// Is the descriptor of this number no socket? An inherited socket would be a way out of the
/// program's network; files and pipes are the user's to pass.
pub(crate) fn is_no_socket(number: &OsStr) -> bool {
    let metadata = std::fs::metadata(std::path::Path::new("/proc/self/fd").join(number));
    metadata.is_ok_and(|metadata| !metadata.file_type().is_socket())
}
