//! A user at a terminal: types, and waits for what is shown.

use anyhow::{Context, Result, ensure};
use rexpect::process::WaitStatus;
use rexpect::session::{PtySession, spawn_command};
use std::process::Command;
use std::time::Duration;

/// How long something may take to be shown, in ms.
const TIMEOUT_MS: u64 = 20_000;

/// The user.
pub(super) struct User(PtySession);

impl User {
    /// Starts a program on a terminal, which ends with this.
    pub(super) fn new(mut command: Command) -> Result<User> {
        command.env("TERM", "xterm");
        Ok(User(spawn_command(command, Some(TIMEOUT_MS)).context("no terminal")?))
    }

    /// Wait for this; what was shown before it.
    pub(super) fn sees(&mut self, text: &str) -> Result<String> {
        self.0.exp_string(text).with_context(|| format!("'{text}' is not shown"))
    }

    pub(super) fn types(&mut self, keys: &str) -> Result<()> {
        self.0.send(keys)?;
        self.0.flush()?;
        Ok(())
    }

    pub(super) fn pauses(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// The window gets another size.
    pub(super) fn resizes(&mut self, rows: u16, columns: u16) -> Result<()> {
        let terminal = self.0.process().get_file_handle()?;
        let mut stty = Command::new("stty");
        stty.args(["rows", &rows.to_string(), "cols", &columns.to_string()]);
        ensure!(stty.stdin(terminal).status()?.success(), "stty cannot set the size");
        Ok(())
    }

    /// The program ends, with success.
    pub(super) fn ends(mut self) -> Result<()> {
        self.0.exp_eof()?;
        let status = self.0.process().wait()?;
        ensure!(matches!(status, WaitStatus::Exited(_, 0)), "it ended with {status:?}");
        Ok(())
    }
}
