//! Network namespaces with names, because a router's configuration names its control namespace, and
//! programs that run in them. Called by all files of bench `frr`. Both go with their values.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::build;
use crate::namespace::{enter, ip};

/// How long a program may take to end by itself.
const END: Duration = Duration::from_secs(6);

/// A network namespace whose loopback is up.
pub(super) struct Space {
    name: String,
}

impl Space {
    /// Makes one; `role` is a part of its name.
    ///
    /// # Errors
    /// Without root or iproute2.
    pub(super) fn new(role: &str) -> Result<Space> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let space = Space { name: format!("wsbench-{}-{number}-{role}", std::process::id()) };
        ip(&format!("netns add {}", space.name)).context("namespaces need root")?;
        space.ip("link set lo up")?;
        Ok(space)
    }

    /// Its name in `ip netns`.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` for it.
    ///
    /// # Errors
    /// What `ip` says.
    pub(super) fn ip(&self, arguments: &str) -> Result<()> {
        ip(&format!("-n {} {arguments}", self.name))
    }

    /// Connects two namespaces by a veth pair: `(namespace, interface, number)`. Both ends are up;
    /// a number of 0 lets the kernel choose.
    ///
    /// # Errors
    /// What `ip` says.
    pub(super) fn join(
        (one, at_one, number): (&Space, &str, u32),
        (other, at_other): (&Space, &str),
    ) -> Result<()> {
        let index = if number == 0 { String::new() } else { format!("index {number} ") };
        one.ip(&format!(
            "link add name {at_one} {index}type veth peer name {at_other} netns {}",
            other.name
        ))?;
        one.ip(&format!("link set {at_one} up"))?;
        other.ip(&format!("link set {at_other} up"))
    }

    /// Writes a setting below `/proc/sys/net`.
    ///
    /// # Errors
    /// The kernel has no such setting.
    pub(super) fn set(&self, name: &str, value: &str) -> Result<()> {
        let path = format!("/proc/sys/net/{name}");
        self.within(|| std::fs::write(&path, value).with_context(|| format!("writing {path}")))
    }

    /// The kernel leaves an interface's IPv6 to our router, which has the device.
    ///
    /// # Errors
    /// There is no such interface.
    pub(super) fn leave_to_router(&self, interface: &str) -> Result<()> {
        self.set(&format!("ipv6/conf/{interface}/disable_ipv6"), "1")
    }

    /// A command in it.
    pub(super) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Runs `work` in it, on a thread of its own.
    ///
    /// # Errors
    /// Those of `work`.
    pub(super) fn within<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let path = Path::new("/run/netns").join(&self.name);
        let inside = || {
            enter(&File::open(&path).with_context(|| format!("opening {}", path.display()))?)?;
            work()
        };
        std::thread::scope(|scope| scope.spawn(inside).join())
            .map_err(|_| anyhow!("a thread panicked"))?
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        if let Err(why) = ip(&format!("netns del {}", self.name)) {
            eprintln!("wirespeed-bench: a network namespace is left behind: {why:#}");
        }
    }
}

/// How a program is ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// By SIGTERM, and SIGKILL if it does not help: the program tidies up.
    Asked,
    /// By SIGKILL: its namespace goes as well.
    Killed,
}

/// A program that runs until this value is dropped.
pub(super) struct Running {
    child: Child,
    end: End,
}

impl Running {
    /// Starts a program, whose output goes to a file.
    ///
    /// # Errors
    /// There is no such program.
    pub(super) fn start(command: &mut Command, output: &Path, end: End) -> Result<Running> {
        let file = File::create(output).with_context(|| format!("making {}", output.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        Ok(Running { child, end })
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Does it still run?
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn has_ended_within(&mut self, limit: Duration) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            if !self.is_alive() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.child);
        if self.end == End::Asked {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::TERM);
            if self.has_ended_within(END) {
                return;
            }
            eprintln!("    process {} did not end, and is killed", self.child.id());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end, and returns what it printed.
///
/// # Errors
/// It failed; the error has its words.
pub(super) fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {}", words.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Waits until `is_so`.
///
/// # Errors
/// It is not within `limit`, or Ctrl-C was pressed.
pub(super) fn until(
    what: &str,
    limit: Duration,
    every: Duration,
    mut is_so: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let begun = Instant::now();
    while !is_so()? {
        ensure!(!build::interrupted(), "interrupted");
        if begun.elapsed() > limit {
            bail!("{what}: not within {} s", limit.as_secs());
        }
        std::thread::sleep(every);
    }
    Ok(())
}
