//! A router that runs: a process with privileges opens devices and watches over a second one, which
//! runs the stack without any.
//!
//! Called by: `wirespeed up`, and any program that is to be a router. `run` is the first process
//! and `parent` its state; `worker` is the second process, `engine` the router in it, and `notices`
//! the messages that it logs by itself. Its log goes to standard error. docs/router.md;
//! docs/decisions/0079-privileges.md.
//!
//! ```no_run
//! # use wirespeed_router as router;
//! fn main() -> std::process::ExitCode {
//!     router::Daemon::new("router.toml").run()
//! }
//! ```

mod beyond;
mod engine;
mod kernel;
mod mirrors;
mod notices;
mod parent;
mod pauses;
pub(crate) mod report;
pub(crate) use report::{info, warning};
mod run;
mod worker;
mod zebra;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use live::Http;

/// A router of this configuration.
pub struct Daemon {
    file: PathBuf,
    page: Option<Http>,
    version: String,
}

impl Daemon {
    /// The file is in TOML; docs/router.md explains it.
    pub fn new(file: impl Into<PathBuf>) -> Daemon {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Daemon { file: file.into(), page: None, version }
    }

    /// Show a page to browsers.
    #[must_use]
    pub fn page(self, page: Option<Http>) -> Daemon {
        Daemon { page, ..self }
    }

    /// The version that metrics and the page show.
    #[must_use]
    pub fn version(self, version: &str) -> Daemon {
        Daemon { version: version.to_owned(), ..self }
    }

    /// Run it until SIGTERM or SIGINT; SIGHUP reads the file again. To start its worker it starts
    /// this program again, so call it before the program does anything else; a program that has to
    /// do something first calls [`worker`] before that.
    ///
    /// The exit code is 0 after a signal, 1 if it failed, 2 if the file is wrong and nothing was
    /// started, and that of the worker if the worker ended by itself.
    pub fn run(self) -> ExitCode {
        worker(&self.version).unwrap_or_else(|| exit(run::up(&self)))
    }

    /// Only look whether the file is valid, which needs no privileges: 0 if it is, else 1, or 2 if
    /// it cannot be read.
    pub fn check(&self) -> ExitCode {
        exit(run::check(&self.file))
    }
}

/// If this process is the worker of a router that this program runs, run the worker until it ends,
/// and return the program's exit code.
pub fn worker(version: &str) -> Option<ExitCode> {
    let mut args = std::env::args().skip(1);
    let is_worker = args.next().is_some_and(|first| first == worker::ARGUMENT);
    is_worker.then(|| exit(worker::main(args.next().as_deref(), version).map(|()| 0)))
}

fn exit(ended: Result<u8>) -> ExitCode {
    ExitCode::from(ended.unwrap_or_else(|why| {
        report::error(&format!("error: {why:#}"));
        if why.is::<run::Unreadable>() { 2 } else { 1 }
    }))
}
