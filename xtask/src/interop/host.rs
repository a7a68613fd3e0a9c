//! A host for our stack to talk to: a network namespace, mostly with a TAP in it, and programs that
//! run there. Dropping it removes all of it, however a case ends.

use super::Workbench;
use crate::process;
use anyhow::{Context, Result, bail, ensure};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The namespace; its TAP is `ws0`, the kernel's addresses 10.9.0.1 and fd09::1.
pub(super) struct Host<'a> {
    bench: &'a Workbench,
    namespace: String,
}

/// The device and addresses of our stack, for every `wirespeed` command.
pub(super) const OURS: [&str; 6] =
    ["--dev", "tap:ws0", "--addr", "10.9.0.2/24", "--addr", "fd09::2/64"];

/// A program in the background, ended with the case.
pub(super) struct Running {
    child: Child,
    shown: String,
}

impl<'a> Host<'a> {
    /// A host with the TAP.
    pub(super) fn new(bench: &'a Workbench) -> Result<Host<'a>> {
        let host = Host::without_tap(bench)?;
        for line in [
            "tuntap add dev ws0 mode tap vnet_hdr",
            "link set ws0 txqueuelen 10000",
            "addr add 10.9.0.1/24 dev ws0",
            "addr add fd09::1/64 dev ws0 nodad",
            "link set ws0 up",
        ] {
            host.ip(line)?;
        }
        Ok(host)
    }

    /// A host with only the namespace.
    pub(super) fn without_tap(bench: &'a Workbench) -> Result<Host<'a>> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let host = Host { bench, namespace: format!("wsinterop-{}-{number}", std::process::id()) };
        let add = ["netns", "add", &host.namespace];
        bench.run(Command::new("ip").args(add), Duration::from_secs(10))?;
        host.ip("link set lo up")?;
        Ok(host)
    }

    /// The name of the namespace.
    pub(super) fn name(&self) -> &str {
        &self.namespace
    }

    /// `ip` in the namespace, once.
    pub(super) fn ip(&self, words: &str) -> Result<()> {
        let mut command = Command::new("ip");
        command.args(["-n", &self.namespace]).args(words.split(' '));
        self.bench.run(&mut command, Duration::from_secs(10))?;
        Ok(())
    }

    /// A program in the namespace.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, program]);
        command.env("WIRESPEED_RUNTIME_DIR", self.bench.path("run"));
        command
    }

    /// `wirespeed COMMAND` over the TAP.
    pub(super) fn ours(&self, command: &str) -> Result<Command> {
        let program = self.bench.wirespeed()?;
        let mut ours = self.command(program.to_str().context("a path that is no text")?);
        ours.arg(command).args(OURS);
        Ok(ours)
    }

    /// Start a program; its output goes to files of the case's folder, called `name`.
    pub(super) fn start(&self, name: &str, command: &mut Command) -> Result<Running> {
        let shown = process::shown(command);
        let file = |end: &str| std::fs::File::create(self.bench.path(&format!("{name}.{end}")));
        let child = command
            .stdin(Stdio::null())
            .stdout(file("out")?)
            .stderr(file("err")?)
            .spawn()
            .with_context(|| format!("cannot run {shown}"))?;
        Ok(Running { child, shown })
    }

    /// Standard output of a started program so far.
    pub(super) fn printed(&self, name: &str) -> String {
        std::fs::read_to_string(self.bench.path(&format!("{name}.out"))).unwrap_or_default()
    }

    /// Wait until a program listens at port 5001.
    pub(super) fn until_listening(&self) -> Result<()> {
        let listening = || {
            let mut command = self.command("sh");
            command.args(["-c", "ss -Hltn sport = :5001 | grep -q LISTEN"]);
            Ok(command)
        };
        self.until(listening).map(drop)
    }

    /// Repeat `command` until it succeeds, for ten seconds; each try may take thirty.
    pub(super) fn until(&self, mut command: impl FnMut() -> Result<Command>) -> Result<String> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match self.bench.run(&mut command()?, Duration::from_secs(30)) {
                Ok(text) => return Ok(text),
                Err(why) if Instant::now() > deadline => return Err(why),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        let gone = Command::new("ip").args(["netns", "del", &self.namespace]).status();
        if !gone.is_ok_and(|status| status.success()) {
            eprintln!("warning: the network namespace {} is left behind", self.namespace);
        }
    }
}

impl Running {
    /// The process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Does it still run?
    pub(super) fn is_alive(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Wait for its end, whatever the exit status; after `limit` it is killed.
    pub(super) fn for_at_most(mut self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        while self.is_alive()? && Instant::now() < deadline && !process::interrupted() {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Wait for its end; returns the exit status.
    pub(super) fn status(&mut self, limit: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() >= deadline || process::interrupted() {
                bail!("`{}` did not end in {} s", self.shown, limit.as_secs());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Wait for its end, which must be a success.
    pub(super) fn finish(mut self, limit: Duration) -> Result<()> {
        let status = self.status(limit)?;
        ensure!(status.success(), "`{}` ended with {status}", self.shown);
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; then there is no process to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
