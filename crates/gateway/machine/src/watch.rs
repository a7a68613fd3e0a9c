//! What others see of the gateway: the control socket for `show`, `top`, `dump` and `explain`, the
//! page, the log of flows, the capture.
//!
//! Called by: `turns.rs`.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;

use ::gateway::Ready;
use anyhow::{Context, Result};
use base::{Budget, Duration, Instant};
use control::advice;
use device::capture::CaptureStatus;
use live::{Live, Whose};
use observe::{Beyond, Service};
use outside::Host;
use rustix::event::PollFlags;
use stack::Stack;

use super::log::{Log, LogCounts};
use super::messages::Messages;
use super::wakes::TOOLS;

/// Bytes of lines from which rules are learnt; further lines do not count.
const LEARNED_MAX: usize = 64 << 20;

/// Longer than any wait.
const NO_TICK: Duration = Duration::from_secs(365 * 86_400);

/// Those who watch.
pub(super) struct Watch {
    /// The name of the tool and of its stack in `wirespeed show`.
    command: &'static str,
    messages: Messages,
    service: Service,
    capture: Option<CaptureStatus>,
    log: Option<Log>,
    /// The lines for rules, and how many bytes they may still have.
    learned: Option<(File, usize)>,
    /// Takes the lines of the log.
    lines: Option<Lines>,
}

/// A function of the program that takes lines of the log.
pub type Lines = Box<dyn FnMut(&str)>;

impl Watch {
    /// Nobody.
    pub(super) fn new(command: &'static str, messages: Messages) -> Watch {
        let service = Service::new(command);
        Watch { command, messages, service, capture: None, log: None, learned: None, lines: None }
    }

    /// Serve tools at a control socket that the launcher made.
    pub(super) fn serve_at(&mut self, listener: OwnedFd, path: &Path) {
        self.service.serve_at(listener, path, false);
    }

    /// Serve a page.
    pub(super) fn page(&mut self, listener: OwnedFd, token: Option<String>) -> Result<()> {
        let page = Live::granted(None, Some(listener), token)?;
        let program = self.messages.program.context("this program serves no page")?;
        let whose = Whose {
            command: self.command.to_owned(),
            version: program.version.to_owned(),
            complain: program.say,
            locks_down: true,
        };
        self.service.feed(page.serve(whose, None)?);
        Ok(())
    }

    /// Report problems of a capture at the end.
    pub(super) fn capture(&mut self, status: CaptureStatus) {
        self.capture = Some(status);
    }

    /// Log flows there.
    pub(super) fn log(&mut self, file: File) {
        self.log = Some(Log::new(file));
    }

    /// Older lines of the log go there. The log is there already.
    pub(super) fn older_log(&mut self, file: File) {
        if let Some(log) = &mut self.log {
            log.set_older(file);
        }
    }

    /// What the log has done.
    pub(super) fn log_counts(&self) -> LogCounts {
        self.log.as_ref().map(Log::counts).unwrap_or_default()
    }

    /// Collect the lines of the log there.
    pub(super) fn learn(&mut self, file: File) {
        self.learned = Some((file, LEARNED_MAX));
    }

    /// Pass the lines of the log to a function.
    pub(super) fn set_lines(&mut self, lines: Lines) {
        self.lines = Some(lines);
    }

    /// Does somebody read the lines of the log?
    pub(super) fn reads_lines(&self) -> bool {
        self.log.is_some() || self.learned.is_some() || self.lines.is_some()
    }

    /// Does the service have to act by now?
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.service.next_deadline() <= now || self.service.is_watched()
    }

    /// When it has to act although nobody asks.
    pub(super) fn next_deadline(&self, now: Instant) -> Instant {
        self.service.next_deadline().min(now + self.service.look_within(NO_TICK))
    }

    /// Answer requests, and wait for those of the clients that came.
    ///
    /// # Errors
    /// Epoll refuses a client's socket.
    pub(super) fn answer(
        &mut self,
        stack: &mut Stack,
        host: &Host,
        beyond: &dyn Beyond,
        now: Instant,
    ) -> Result<()> {
        self.service.poll_with(now, &mut [(self.command, stack)], beyond);
        self.wait_for(host)
    }

    /// Wait for the descriptors of the service.
    pub(super) fn wait_for(&self, host: &Host) -> Result<()> {
        for (fd, flags) in self.service.descriptors() {
            let mut ready = Ready::default();
            for (flag, bit) in [(PollFlags::IN, Ready::READABLE), (PollFlags::OUT, Ready::WRITABLE)]
            {
                ready = if flags.contains(flag) { ready.and(bit) } else { ready };
            }
            host.watch(fd, TOOLS, ready).context("epoll refuses a tool's connection")?;
        }
        Ok(())
    }

    /// Write a line of the log.
    pub(super) fn line(&mut self, line: &str, budget: &mut Budget) {
        if let Some(lines) = &mut self.lines {
            lines(line);
        }
        if let Some((file, left)) = &mut self.learned
            && line.len() < *left
            && writeln!(file, "{line}").is_ok()
        {
            *left -= line.len();
        }
        if let Some(why) = self.log.as_mut().and_then(|log| log.line(line, budget)) {
            let advice = advice::to_write(&why);
            self.messages.say(&format!(
                "lines of the log are lost: {why}{advice}; `wirespeed show counters` counts them"
            ));
        }
    }

    /// Say that the capture has ended with an error, once.
    pub(super) fn look_at_capture(&mut self) {
        if self.capture.as_ref().is_some_and(CaptureStatus::has_failed)
            && let Some(why) = self.capture.take().and_then(|capture| capture.error())
        {
            self.messages.say(&format!("warning: {why}"));
        }
    }

    /// Let clients with taps collect the last packets.
    pub(super) fn finish(&mut self, stack: &mut Stack, clock: impl Fn() -> Instant) {
        self.service.end_feed();
        self.service.finish(clock, &mut [(self.command, stack)]);
        self.look_at_capture();
    }
}
