//! gVisor's netstack: a Go program (`bench/gvisor`) that is built once and run for each
//! measurement. Called by `core.rs` and by `wirespeed-bench peer gvisor CASE`. The module's version
//! is pinned in its go.mod. `go build` writes the program into the directory of our own binary. The
//! program inherits its CPU affinity, and is killed by its process id if it takes too long.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::measure::{Cores, Measurement, pin};

/// Settings that can be changed from outside. All others are the program's defaults (see its
/// flags).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// MTU of the link, IP header included.
    pub mtu: usize,
    /// GOMAXPROCS: 1, with the process pinned to one core, or 2, pinned to both.
    pub procs: usize,
    /// The link: gVisor's synchronous pipe, or a pair of channel endpoints with a goroutine in each
    /// direction.
    pub link: &'static str,
    /// gVisor's software segmentation: TCP passes down 64 KB at a time, which are cut to the MTU
    /// just above the link.
    pub gso: bool,
    /// Bytes of the send buffer and of the receive buffer.
    pub buffer: usize,
}

/// The combinations to try at an MTU on these cores. With a second processor gVisor always used
/// more CPU time, so only the best combinations are tried with two.
pub fn candidates(mtu: usize, cores: Cores) -> Vec<Settings> {
    let mut all = Vec::new();
    for kib in [128, 256, 512, 1024] {
        for (link, gso) in [("pipe", true), ("pipe", false), ("channel", true)] {
            all.push(Settings { mtu, procs: 1, link, gso, buffer: kib << 10 });
        }
    }
    if cores.second.is_some() {
        for link in ["pipe", "channel"] {
            all.push(Settings { mtu, procs: 2, link, gso: true, buffer: 256 << 10 });
        }
    }
    all
}

/// Moves bytes in one direction for `seconds` between two stacks in one process.
pub fn bulk(program: &Path, cores: Cores, settings: Settings, seconds: f64) -> Result<Measurement> {
    let mut command = Command::new(program);
    command
        .arg(format!("-mtu={}", settings.mtu))
        .arg(format!("-link={}", settings.link))
        .arg(format!("-gso={}", settings.gso))
        .arg(format!("-buffer={}", settings.buffer))
        .arg(format!("-seconds={seconds}"))
        .env("GOMAXPROCS", settings.procs.to_string());
    let cores = if settings.procs == 1 { vec![cores.first] } else { cores.both() };
    let child = spawn_pinned(command, cores)?;
    let output = finish(child, Duration::from_secs_f64(seconds * 3.0 + 20.0))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the gVisor program failed: {}", errors.trim());
    let mut measured: Measurement = serde_json::from_slice(&output.stdout)
        .context("reading what the gVisor program printed")?;
    measured.settings = format!("gVisor {}, {}", version(), measured.settings);
    Ok(measured)
}

/// Builds the program on these cores. Returns its path.
pub fn build(cores: Cores) -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("gvisor");
    let me = std::env::current_exe().context("finding this program's directory")?;
    let target = me.parent().context("this program has no directory")?.join("gvisor-bench");
    let mut command = Command::new("go");
    command.args(["build", "-buildvcs=false", "-o"]).arg(&target).arg(".").current_dir(&source);
    let output = match spawn_pinned(command, cores.both()) {
        Ok(child) => child.wait_with_output().context("waiting for `go build`")?,
        Err(why) if not_found(&why) => bail!("go not found"),
        Err(why) => return Err(why.context("starting `go build`")),
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    let reason: Vec<&str> = errors.lines().rev().take(3).collect();
    ensure!(
        output.status.success(),
        "`go build` failed in bench/gvisor ({}): it needs the Internet once, to download its \
         modules",
        reason.join("; ")
    );
    Ok(target)
}

/// The pinned version of gVisor, from the go.mod that built it.
fn version() -> &'static str {
    include_str!("../../gvisor/go.mod")
        .lines()
        .find_map(|line| line.split("gvisor.dev/gvisor ").nth(1))
        .unwrap_or("of unknown version")
        .trim()
}

/// Starts a program on the given cores. It inherits the affinity of the thread that starts it.
fn spawn_pinned(mut command: Command, cores: Vec<usize>) -> Result<Child> {
    let starter = thread::spawn(move || -> Result<Child> {
        pin(&cores)?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))
    });
    starter.join().map_err(|_| anyhow!("the thread that starts gVisor panicked"))?
}

/// Does the error mean that the program does not exist?
fn not_found(why: &anyhow::Error) -> bool {
    let io = why.downcast_ref::<std::io::Error>();
    io.is_some_and(|e| e.kind() == std::io::ErrorKind::NotFound)
}

/// Waits for the program, which prints one line. Kills it if it takes longer than `allowed`.
fn finish(mut child: Child, allowed: Duration) -> Result<Output> {
    let start = Instant::now();
    while child.try_wait().context("waiting for the gVisor program")?.is_none() {
        if start.elapsed() > allowed {
            child.kill().context("ending the gVisor program")?;
            child.wait().context("waiting for the gVisor program to end")?;
            bail!("the gVisor program took more than {} s and was ended", allowed.as_secs());
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().context("reading from the gVisor program")
}
