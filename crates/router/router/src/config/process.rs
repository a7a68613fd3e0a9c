//! Settings of the program that runs the stacks: shards, privileges, limits, metrics, the control
//! socket. None of them is an operation on a stack: they count once a configuration takes effect,
//! or from the next start of the program ([`Process::needs_restart`]).
//!
//! Called by: `config.rs`; `group.rs` reads `[control]`, whose keys name groups.

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};

use base::{Budget, Duration, Limit};

use super::file::Section;
use crate::machine::Machine;

/// The most shards: on machines of today more queues of a port are of no use.
pub const SHARDS_MAX: usize = 64;

/// The longest wait for queued output at the end.
const DRAIN_MAX_S: usize = 300;

/// Settings of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// How long queued output may take to leave at the end.
    pub drain: Duration,
    /// Stacks that share the packets, each on a thread of its own.
    pub shards: usize,
    /// The address where `/metrics` and `/healthz` are served, on a socket of the kernel.
    pub metrics: Option<SocketAddr>,
    /// Does a process without privileges run the stack?
    pub separate: bool,
    /// The number of that process's user; `None`: a user who owns nothing.
    pub user: Option<u32>,
    /// Limits that the file has; they count from the start of the program.
    pub limits: BTreeMap<&'static str, usize>,
    /// The control socket for users other than root, and the groups that may use it.
    pub control: Option<Control>,
}

/// The control socket for other users than root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Its path.
    pub socket: String,
    /// Members of these groups may open sockets.
    pub groups: BTreeSet<String>,
}

impl Default for Process {
    fn default() -> Process {
        Process {
            drain: Duration::from_secs(5),
            shards: 1,
            metrics: None,
            separate: true,
            user: None,
            limits: BTreeMap::new(),
            control: None,
        }
    }
}

impl Process {
    /// All but `[control]`.
    pub(super) fn read(file: &Section<'_>, machine: &mut Machine) -> Process {
        let mut process = Process::default();
        if let Some(seconds) = file.number("drain_seconds", 0..=DRAIN_MAX_S) {
            process.drain = Duration::from_secs(seconds);
        }
        if let Some(metrics) = file.one("metrics", "[metrics]") {
            let example = "127.0.0.1:9464";
            metrics.needed("listen", &format!("\"{example}\""));
            process.metrics = metrics.parsed("listen", example);
        }
        if let Some(privileges) = file.one("privileges", "[privileges]") {
            process.separate = privileges.flag("separate").unwrap_or(process.separate);
            process.user = user(&privileges, process.separate, machine);
        }
        if let Some(limits) = file.one("limits", "[limits]") {
            for limit in Limit::ALL {
                // A program of rules holds no more than it may by default.
                let most = match limit {
                    Limit::FilterRules => limit.default_value(),
                    _ => isize::MAX as usize,
                };
                let value = limits.number(limit.name(), 0..=most);
                process.limits.extend(value.map(|value| (limit.name(), value)));
            }
        }
        process.shards = file.number("shards", 1..=SHARDS_MAX).unwrap_or(process.shards);
        process
    }

    /// The limits of a stack.
    pub fn budget(&self) -> Budget {
        let mut budget = Budget::default();
        for &limit in Limit::ALL {
            budget.set(limit, self.limit(limit));
        }
        budget
    }

    /// The value of a limit.
    pub(crate) fn limit(&self, limit: Limit) -> usize {
        self.limits.get(limit.name()).copied().unwrap_or_else(|| limit.default_value())
    }

    /// The settings that differ in another configuration and count only from the start of the
    /// program.
    pub fn needs_restart(&self, other: &Process) -> Vec<&'static str> {
        let socket = |of: &Process| of.control.as_ref().map(|control| control.socket.clone());
        let all = [
            ("[limits]", self.limits != other.limits),
            ("[privileges]", (self.separate, self.user) != (other.separate, other.user)),
            ("socket of [control]", socket(self) != socket(other)),
            ("shards", self.shards != other.shards),
        ];
        all.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

/// The number of the user that the process without privileges is to have.
fn user(privileges: &Section<'_>, separate: bool, machine: &mut Machine) -> Option<u32> {
    let name = privileges.text("user")?;
    if !separate {
        let what = "user needs a separate process: remove user, or remove separate = false";
        privileges.note("user", what);
    }
    let uid = machine.user(name);
    if uid.is_none() {
        let what = format!("there is no user '{name}' on this machine: make it, or remove user");
        privileges.note("user", what);
    }
    uid
}
