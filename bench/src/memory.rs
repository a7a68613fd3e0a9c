//! Rows about our own cost: memory of an idle endpoint, instructions of a predicted segment. Called
//! by `ours.rs`. A fresh process takes each, so that the figures contain nothing else.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use base::Switches;

use crate::drive::{Bulk, Drive};

/// Resident bytes of this process, from the kernel.
pub(crate) fn resident_bytes() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/statm").context("reading /proc/self/statm")?;
    let pages: f64 = text
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .context("/proc/self/statm has no second figure")?;
    Ok(pages * rustix::param::page_size() as f64)
}

/// Memory of an idle endpoint, in bytes: the growth of this process while `connections` were
/// opened, each of which then carried a message in each direction, over two ends each. Free buffers
/// are included. With `v6` they are IPv6's.
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

/// [`measure_idle_endpoints`] in a process of its own.
pub fn idle_endpoint_bytes(connections: usize, v6: bool) -> Result<f64> {
    let program = std::env::current_exe().context("finding this program")?;
    let out = Command::new(program)
        .args(["idle", &connections.to_string()])
        .args(v6.then_some("--v6"))
        .output()
        .context("starting this program again")?;
    ensure!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim().parse().context("reading its figure")
}

/// Both ends' instructions for one predicted segment, without byte passes.
pub fn predicted_segment_instructions() -> Result<f64> {
    instructions("predicted-segment-1500")
}

/// Instructions of one unit of a case of `cargo xtask icount`, which builds what it counts.
pub fn instructions(case: &str) -> Result<f64> {
    instructions_with(case, &[])
}

/// The same with options of icount.
pub fn instructions_with(case: &str, options: &[&str]) -> Result<f64> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace's folder")?;
    let mut command = Command::new("cargo");
    command.args(icount_arguments(case, options)).current_dir(root);
    let out = command.output().context("running cargo xtask icount")?;
    // A count that changed makes icount fail; the row uses the count all the same.
    instructions_in(&out.stdout, case)
        .with_context(|| format!("icount: {}", String::from_utf8_lossy(&out.stderr).trim()))
}

/// The arguments of cargo that count one case.
pub(crate) fn icount_arguments<'a>(case: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    [["xtask", "icount", "--json", "--case", case].as_slice(), options].concat()
}

/// The instructions of a case in the document of icount.
pub(crate) fn instructions_in(document: &[u8], case: &str) -> Result<f64> {
    let rows: serde_json::Value = serde_json::from_slice(document).context("no document")?;
    for row in rows.as_array().into_iter().flatten() {
        if row["case"] == case {
            return row["instructions"].as_f64().context("instructions is no number");
        }
    }
    bail!("icount has no case {case}")
}
