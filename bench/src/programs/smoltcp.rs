//! The program that the crate netstack-smoltcp comes with: a forwarder between a TUN interface and
//! sockets of the kernel, not changed, over the original crate, which is built on smoltcp, and over
//! ours of the same interface. Called by `programs/mod.rs`. `xtask/netstack` builds and runs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::harness::{Bench, Better, Figure, Spec, spec};
use crate::measure::Measurement;

/// Its forwarder with the offloads of Linux's TUN, the faster one of its two.
const PROGRAM: &str = "forward-offload-linux";
/// Bytes in each direction of a run, and of one with `--quick`.
const BYTES: u64 = 500_000_000;
const QUICK_BYTES: u64 = 200_000_000;
/// `USER_HZ` of Linux on every architecture that Rust's tier 1 has.
const TICKS_PER_S: f64 = 100.0;

pub(super) const ROW: Spec = spec(
    "the program built on smoltcp: ours / smoltcp, Gb per CPU-second",
    Better::Higher,
    1.5,
    2.2,
    "x",
    forwarder,
);

fn forwarder(bench: &Bench) -> Result<Figure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    let (ours, theirs) = (build(root, "ours")?, build(root, "theirs")?);
    let bytes = if bench.is_quick { QUICK_BYTES } else { BYTES };
    let one = |program: &Path| forwarded(bench, root, program, bytes);
    // Interrupts of other guests of the machine make single pairs differ by half.
    let pairs = if bench.is_quick { 15 } else { 25 };
    bench.long_ratio(pairs, Measurement::gbit_per_cpu_s, |_| one(&ours), |_| one(&theirs))
}

fn build(root: &Path, who: &str) -> Result<PathBuf> {
    let status = Command::new(root.join("xtask/netstack/build.sh"))
        .args([who, "build", "--release", "--bin", PROGRAM])
        .status()
        .context("xtask/netstack/build.sh")?;
    ensure!(
        status.success(),
        "the program does not build: run xtask/netstack/build.sh {who} build"
    );
    Ok(root.join("target/netstack").join(who).join("release").join(PROGRAM))
}

/// One direction of a run.
struct Direction {
    bytes: u64,
    wall_s: f64,
    /// The program's own processor time, and the kernel's for it.
    own_s: f64,
    kernel_s: f64,
}

impl Direction {
    fn cpu_s(&self) -> f64 {
        self.own_s + self.kernel_s
    }

    fn shown(&self) -> String {
        let gbit = self.bytes as f64 * 8e-9;
        let (cpu, wall) = (gbit / self.cpu_s(), gbit / self.wall_s);
        let (own, kernel) = (self.own_s / gbit * 1e3, self.kernel_s / gbit * 1e3);
        format!(
            "{cpu:.2} Gb/CPU-s ({wall:.2} Gb/s; ms of CPU a Gb: {own:.0} its own, {kernel:.0} the \
             kernel's)"
        )
    }
}

/// The same number of bytes from the client and to it, and the program's processor time for both.
fn forwarded(bench: &Bench, root: &Path, program: &Path, bytes: u64) -> Result<Measurement> {
    let up = direction(bench, root, program, bytes, "")?;
    let down = direction(bench, root, program, bytes, "-R")?;
    Ok(Measurement {
        bytes: up.bytes + down.bytes,
        wall_s: up.wall_s + down.wall_s,
        cpu_s: up.cpu_s() + down.cpu_s(),
        units: 0,
        p50_ns: None,
        settings: format!(
            "{PROGRAM} of netstack-smoltcp 0.2.4 between kernel ends (iperf3, CUBIC, TUN, veth), \
             as many bytes up as down; last run: up {}, down {}",
            up.shown(),
            down.shown(),
        ),
    })
}

fn direction(
    bench: &Bench,
    root: &Path,
    program: &Path,
    bytes: u64,
    option: &str,
) -> Result<Direction> {
    let peer = bench.cores.second.unwrap_or(bench.cores.first);
    let output = Command::new(root.join("xtask/netstack/scene.sh"))
        .arg(program)
        .arg(format!("timeout 60 iperf3 -c 172.19.0.3 -p 5201 -C cubic -J -n {bytes} {option}"))
        .env("SERVERS", "exec iperf3 -s -p 5201")
        .env("PROGRAM_CORE", bench.cores.first.to_string())
        .env("PEER_CORE", peer.to_string())
        .output()
        .context("xtask/netstack/scene.sh")?;
    let (text, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let shown = || format!("it needs root, iperf3 (Debian package iperf3) and TUN: {text}{error}");
    ensure!(output.status.success(), shown());
    let (json, last) = text.trim_end().rsplit_once('\n').with_context(shown)?;
    let ticks = last.strip_prefix("forwarder ").with_context(shown)?;
    let (own, kernel) = ticks.split_once(' ').with_context(shown)?;
    let seconds = |ticks: &str| ticks.parse::<f64>().map(|ticks| ticks / TICKS_PER_S);
    let report: Value = serde_json::from_str(json).with_context(shown)?;
    let end = &report["end"]["sum_received"];
    Ok(Direction {
        bytes: end["bytes"].as_u64().with_context(shown)?,
        wall_s: end["seconds"].as_f64().with_context(shown)?,
        own_s: seconds(own)?,
        kernel_s: seconds(kernel)?,
    })
}
