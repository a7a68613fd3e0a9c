//! Output of the daemon: lines of a log on standard error, with priorities if journald reads them.
//!
//! Called by: all of the daemon, in both processes. Source: sd-daemon(3), "Logging prefixes".

use std::io::{self, Write};

use anyhow::{Context, Result};
use control::text::lines;

use crate::applied::Done;
use crate::config::count;

/// A priority of syslog.
#[derive(Clone, Copy)]
pub(super) enum Priority {
    Error = 3,
    Warning = 4,
    Info = 6,
}

/// Write lines.
pub(super) fn log(priority: Priority, text: &str) {
    let is_journal = std::env::var_os("JOURNAL_STREAM").is_some();
    for line in text.lines() {
        match is_journal {
            true => print(&format!("<{}>{line}", priority as u8)),
            false => print(line),
        }
    }
}

/// Write a result to standard output. A reader that has gone away is no failure.
pub(super) fn out(text: &str) -> Result<()> {
    match io::stdout().lock().write_all(lines(text).as_bytes()) {
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => {
            Err(why).context("cannot write to standard output: look at the disk by `df -h`")
        }
        _ => Ok(()),
    }
}

/// A failure cannot be reported.
fn print(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", lines(line));
}

pub(crate) fn info(text: &str) {
    log(Priority::Info, text);
}

pub(crate) fn warning(text: &str) {
    log(Priority::Warning, text);
}

pub(super) fn error(text: &str) {
    log(Priority::Error, text);
}

/// A line for each operation; returns those that failed.
pub(super) fn operations(all: &[Done]) -> Vec<String> {
    let mut failed = Vec::new();
    for Done { operation, result } in all {
        match result {
            Ok(()) => info(&operation.to_string()),
            Err(why) => {
                let text = format!("{operation}: failed: {why}");
                error(&text);
                failed.push(text);
            }
        }
    }
    failed
}

/// A summary of a valid file.
pub(super) fn summary(file: &str, config: &crate::config::Config) -> String {
    let mut all = vec![
        count(config.ports.len(), "port"),
        count(config.routes.len(), "route"),
        count(config.neighbours.len(), "neighbour"),
    ];
    let of_filter = config
        .filter
        .as_ref()
        .map_or((0, 0), |filter| (filter.rules().filter.len(), filter.rules().nat.len()));
    for (number, one) in [
        (config.groups.len(), "group"),
        (config.rules.len(), "rule"),
        (config.mirrors.as_ref().map_or(0, |mirrors| mirrors.ports.len()), "mirror"),
        (of_filter.0, "filter rule"),
        (of_filter.1, "NAT rule"),
    ] {
        if number > 0 {
            all.push(count(number, one));
        }
    }
    format!("{file}: valid: {}\n", all.join(", "))
}
