//! Measures two costs of this stack without a peer: the memory of an idle endpoint, and the
//! instructions of a segment. Called by `ours.rs`, and by benches that count instructions. Each
//! cost is measured in a new process, so that earlier measurements do not change the figure.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use base::Switches;

use crate::drive::{Bulk, Drive};

/// Resident memory of this process in bytes, from /proc/self/statm.
pub(crate) fn resident_bytes() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/statm").context("reading /proc/self/statm")?;
    let pages: f64 = text
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .context("/proc/self/statm has no second number")?;
    Ok(pages * rustix::param::page_size() as f64)
}

/// Memory of an idle endpoint, in bytes: the growth of this process's resident memory, divided by
/// the number of endpoints, two for each connection. Between the two readings `connections` are
/// opened, each carries a message of 64 bytes from the client to the server, and all go idle. The
/// stacks' free buffers are included. The connections are IPv6's if `v6` is set, else IPv4's.
pub fn measure_idle_endpoints(connections: usize, v6: bool) -> Result<f64> {
    let one = Bulk { v6, ..Bulk::default() };
    let one = Drive::new(one, Switches::default(), tcp::Config::default())?;
    let before = resident_bytes()?;
    let shape = Bulk { flows: connections, v6, ..Bulk::default() };
    let mut drive = Drive::new(shape, Switches::default(), tcp::Config::default())?;
    drive.settle_all(64)?;
    let after = resident_bytes()?;
    drop((one, drive));
    Ok((after - before) / (2 * connections) as f64)
}

/// [`measure_idle_endpoints`] in a new process: runs this program again, with the command `idle`.
pub fn idle_endpoint_bytes(connections: usize, v6: bool) -> Result<f64> {
    let program = std::env::current_exe().context("finding this program")?;
    let out = Command::new(program)
        .args(["idle", &connections.to_string()])
        .args(v6.then_some("--v6"))
        .output()
        .context("starting this program again")?;
    ensure!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim().parse().context("reading the bytes that it printed")
}

/// Instructions at both ends for one predicted segment (one that header prediction handles) at MTU
/// 1500, without the instructions that copy or sum the payload.
pub fn predicted_segment_instructions() -> Result<f64> {
    instructions("predicted-segment-1500")
}

/// Instructions per unit (segment, write, round trip or ACK) of a case of `cargo xtask icount`,
/// which builds the program that it counts.
pub fn instructions(case: &str) -> Result<f64> {
    instructions_with(case, &[])
}

/// [`instructions`] with more options for icount, such as `--untapped`.
pub fn instructions_with(case: &str, options: &[&str]) -> Result<f64> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace's folder")?;
    let mut command = Command::new("cargo");
    command.args(icount_arguments(case, options)).current_dir(root);
    let out = command.output().context("running cargo xtask icount")?;
    // The exit status is not checked: an output without the count is an error below.
    instructions_in(&out.stdout, case)
        .with_context(|| format!("icount: {}", String::from_utf8_lossy(&out.stderr).trim()))
}

/// The arguments for cargo with which icount counts one case and prints JSON.
pub(crate) fn icount_arguments<'a>(case: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    [["xtask", "icount", "--json", "--case", case].as_slice(), options].concat()
}

/// The instructions of a case in the JSON document that icount printed.
pub(crate) fn instructions_in(document: &[u8], case: &str) -> Result<f64> {
    let rows: serde_json::Value =
        serde_json::from_slice(document).context("icount printed no JSON document")?;
    for row in rows.as_array().into_iter().flatten() {
        if row["case"] == case {
            return row["instructions"]
                .as_f64()
                .context("icount printed no number of instructions");
        }
    }
    bail!("icount has no case {case}")
}
