//! Steps that cases share: programs that run, and their output.
//!
//! Called by: the cases beside this file, and other suites.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::interop::Workbench;
use crate::interop::host::{Host, Running};
use crate::interop::outside::{same, shown, sum_of};
use crate::process;

/// The time limit of any one program.
pub(in crate::interop) const LIMIT: Duration = Duration::from_secs(60);

/// `wirespeed COMMAND` in a host's namespace, over its TAP, with these addresses.
pub(in crate::interop) fn ours(
    bench: &Workbench,
    host: &Host<'_>,
    command: &str,
    addresses: &[&str],
) -> Result<Command> {
    let mut ours = host.command(shown(&bench.wirespeed()?)?);
    ours.args([command, "--dev", "tap:ws0"]);
    ours.args(addresses.iter().flat_map(|addr| ["--addr", addr]));
    Ok(ours)
}

/// The output of `wirespeed show SECTION --json` for the first stack of the program that runs.
pub(in crate::interop) fn show(bench: &Workbench, host: &Host<'_>, section: &str) -> Result<Value> {
    let program = bench.wirespeed()?;
    let text = host.until(|| {
        let mut show = host.command(shown(&program)?);
        show.args(["show", section, "--json"]);
        Ok(show)
    })?;
    let mut document: Value = serde_json::from_str(&text).context("show printed no JSON")?;
    let found = document.pointer_mut(&format!("/stacks/0/{section}")).map(Value::take);
    found.with_context(|| format!("show has no {section}: {text}"))
}

/// The folder in which `show` finds the control socket.
pub(in crate::interop) fn with_control(bench: &Workbench) -> Result<()> {
    std::fs::create_dir_all(bench.path("run")).context("cannot make a folder")
}

/// Repeat `is_so` until it returns true, at most for `limit`; `what` names the condition in the
/// error.
pub(in crate::interop) fn until(
    what: &str,
    limit: Duration,
    mut is_so: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !is_so()? {
        ensure!(!process::interrupted(), "interrupted");
        ensure!(Instant::now() < deadline, "not within {} s: {what}", limit.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Set a sysctl of a host's kernel, below /proc/sys/net.
pub(in crate::interop) fn sysctl(
    bench: &Workbench,
    host: &Host<'_>,
    name: &str,
    value: &str,
) -> Result<()> {
    let mut command = host.command("sh");
    command.args(["-c", &format!("echo {value} > /proc/sys/net/{name}")]);
    bench.run(&mut command, LIMIT).map(drop)
}

/// A socat that writes what comes to port 5001 into `received`; `tcp` is TCP4 or TCP6.
pub(in crate::interop) fn sink(bench: &Workbench, host: &Host<'_>, tcp: &str) -> Result<Running> {
    let to = format!("CREATE:{}", shown(&bench.path("received"))?);
    let mut socat = host.command("socat");
    socat.args(["-u", "-b", "131072", &format!("{tcp}-LISTEN:5001,reuseaddr"), &to]);
    let socat = host.start("socat", &mut socat)?;
    host.until_listening()?;
    Ok(socat)
}

/// Check that the files `sent` and `received` are the same.
pub(in crate::interop) fn arrived(bench: &Workbench) -> Result<()> {
    same(&sum_of(bench, &bench.path("sent"))?, &sum_of(bench, &bench.path("received"))?)
}

/// A counter of the document that `ttcp --json` printed.
pub(in crate::interop) fn counter(report: &str, name: &str) -> Result<u64> {
    let report: Value = serde_json::from_str(report).context("ttcp --json printed no JSON")?;
    let count = report["counters"][name].as_u64();
    count.with_context(|| format!("ttcp counts no {name}: {}", report["counters"]))
}
