//! The program of a session: found, started on the terminal by way of ourselves, and waited for.
//!
//! Called by: `telnetd.rs` and `session.rs`. A new session and its controlling terminal are made in
//! the process that becomes the program, which is ourselves for a moment (`--on-terminal`).

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, PidfdFlags, ioctl_tiocsctty, pidfd_open, setsid};
use signal_hook::consts::{
    SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2,
};

use super::pty::Pty;
use crate::Usage;

/// The terminal of clients that do not say theirs.
const TERMINAL: &str = "dumb";
/// Characters of a terminal's type that are passed on.
const TERMINAL_BYTES: usize = 64;

/// Variables of ours that a program needs and that tell a stranger nothing: the environment of who
/// started the daemon may hold keys and paths.
const KEPT: [&str; 7] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "LANG"];

/// Check that the program is there.
///
/// # Errors
/// [`Usage`], if it is not.
pub(super) fn find(program: &[OsString]) -> Result<()> {
    let Some(name) = program.first() else { bail!(Usage("give a PROGRAM after --".to_owned())) };
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let has_slash = Path::new(name).components().count() > 1;
    let is_there = match has_slash {
        true => Path::new(name).is_file(),
        false => std::env::split_paths(&paths).any(|dir| dir.join(name).is_file()),
    };
    if !is_there {
        let name = name.to_string_lossy();
        bail!(Usage(format!("there is no program '{name}': give its path after --, as /bin/sh")));
    }
    Ok(())
}

/// What a client says that its program may know.
#[derive(Debug, Default)]
pub(super) struct About {
    terminal: Option<String>,
    variables: Vec<(String, String)>,
}

impl About {
    /// The terminal's type; RFC 1091 has it in capitals, terminfo in small letters.
    pub(super) fn set_terminal(&mut self, name: &str) {
        let name = name.to_ascii_lowercase();
        let is_good = name.len() <= TERMINAL_BYTES && is_plain(&name, b"-+._");
        self.terminal = is_good.then_some(name);
    }

    /// Variables: those of the language alone, with values that name no file.
    pub(super) fn set_variables(&mut self, all: Vec<(String, String)>) {
        let is_category = |name: &str| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
        };
        let is_language =
            |name: &str| name == "LANG" || name.strip_prefix("LC_").is_some_and(is_category);
        let is_taken =
            |(name, value): &(String, String)| is_language(name) && is_plain(value, b"_.@:+-");
        self.variables = all.into_iter().filter(is_taken).collect();
    }
}

/// Letters, digits and `marks`, and no mark first: a program may take a value that begins with `-`
/// for an option, or one that begins with `.` or `:` for a file.
fn is_plain(text: &str, marks: &[u8]) -> bool {
    let is_first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    is_first && text.bytes().all(|b| b.is_ascii_alphanumeric() || marks.contains(&b))
}

/// A program that runs.
pub(super) struct Program {
    child: Child,
    descriptor: OwnedFd,
}

impl Program {
    /// Start it.
    ///
    /// # Errors
    /// The system has no room for it.
    pub(super) fn start(program: &[OsString], about: &About, pty: &Pty) -> io::Result<Program> {
        let slave = pty.slave()?;
        // Ourselves, also after the file was replaced.
        let mut command = Command::new("/proc/self/exe");
        command.args(["telnetd", "--on-terminal", "--"]).args(program);
        command.env_clear();
        command.envs(KEPT.iter().filter_map(|&name| Some((name, std::env::var_os(name)?))));
        command.env("TERM", about.terminal.as_deref().unwrap_or(TERMINAL));
        command.envs(about.variables.iter().map(|(name, value)| (name, value)));
        let end = || slave.try_clone().map(Stdio::from);
        let child = command.stdin(end()?).stdout(end()?).stderr(end()?).spawn()?;
        let descriptor = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        Ok(Program { child, descriptor })
    }

    /// For poll(2): readable once it has ended.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Has it ended? It leaves no zombie then.
    pub(super) fn has_ended(&mut self) -> bool {
        // An error means that there is no such child any more.
        !matches!(self.child.try_wait(), Ok(None))
    }
}

/// A program that ignores a signal hands that down to what it starts: a daemon that a script put
/// into the background ignores SIGINT and SIGQUIT, and no key of a user would end anything.
const OF_USERS: [i32; 11] = [
    SIGHUP, SIGINT, SIGQUIT, SIGALRM, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2, SIGCHLD,
];

/// Lead a session on the terminal that standard input is, and become the program.
pub(super) fn become_program(program: &[OsString]) -> anyhow::Error {
    let begin = || -> Result<OsString> {
        setsid().context("this is for telnetd to call")?;
        ioctl_tiocsctty(io::stdin()).context("standard input is no terminal")?;
        for signal in OF_USERS {
            // A signal that is caught is reset to its default by execve(2).
            signal_hook::flag::register(signal, Arc::default()).context("no signals")?;
        }
        program.first().cloned().context("no program")
    };
    match begin() {
        Err(error) => error,
        Ok(name) => {
            let error = Command::new(&name).args(&program[1..]).exec();
            anyhow!("cannot run {}: {error}", name.to_string_lossy())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_sets_its_terminal_and_language_and_nothing_else() {
        let mut about = About::default();
        about.set_terminal("XTERM-256COLOR");
        assert_eq!(about.terminal.as_deref(), Some("xterm-256color"));
        for name in ["../../etc/x", "-f", "", ".x", "x\n", &"x".repeat(65)] {
            about.set_terminal(name);
            assert_eq!(about.terminal, None, "{name:?}");
        }
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        about.set_variables(vec![
            pair("LANG", "de_DE.UTF-8"),
            pair("LC_ALL", "../x"),
            pair("LD_PRELOAD", "x.so"),
            pair("USER", "-f root"),
            pair("LC_A=B", "x"),
            pair("LC_", "x"),
            pair("LC_TIME", "-f"),
            pair("LC_TIME", ""),
        ]);
        assert_eq!(about.variables, [pair("LANG", "de_DE.UTF-8")]);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        assert!(find(&["sh".into()]).is_ok() && find(&["/bin/sh".into()]).is_ok());
        let error = find(&["no-such-program".into()]).expect_err("it is not there");
        assert!(error.is::<Usage>() && error.to_string().contains("no-such-program"));
    }
}
