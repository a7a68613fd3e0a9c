//! The registry of interop suites: a suite is a line here and a function per case.
//!
//! A case names its needs; a missing one makes the case a skip that names it.

use super::{
    Case, Need, Suite, Workbench, attacks, devices, ip, outside, pages, router, rpc, soak, tcp,
    telnet,
};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// Every suite, in the order they run.
pub(super) const SUITES: &[Suite] = &[
    Suite { name: "core", cases: CORE, apart: false },
    Suite { name: "outside", cases: outside::CASES, apart: false },
    Suite { name: "bpf", cases: BPF, apart: false },
    Suite { name: "devices", cases: devices::CASES, apart: false },
    Suite { name: "tcp", cases: tcp::CASES, apart: false },
    Suite { name: "ip", cases: ip::CASES, apart: false },
    Suite { name: "telnet", cases: telnet::CASES, apart: false },
    Suite { name: "rpc", cases: rpc::CASES, apart: false },
    Suite { name: "router", cases: router::CASES, apart: false },
    Suite { name: "pages", cases: pages::CASES, apart: false },
    Suite { name: "ip-transfers", cases: ip::TRANSFERS, apart: true },
    Suite { name: "attacks", cases: attacks::CASES, apart: true },
    Suite { name: "soak", cases: soak::CASES, apart: true },
    Suite { name: "router-soak", cases: router::SOAK, apart: true },
];

const SHA256SUM: Need = Need::Program { program: "sha256sum", package: "coreutils" };
const CLI: Need = Need::File("crates/top/cli/Cargo.toml");

const CORE: &[Case] = &[Case {
    name: "ttcp moves a file whole, by the word of sha256sum",
    needs: &[CLI, SHA256SUM],
    run: ttcp_file,
}];

const LIBPCAP: Need = Need::Library { file: "libpcap.so.0.8", package: "libpcap0.8" };

const BPF: &[Case] = &[Case {
    name: "interpreter = JIT = libpcap over filter texts and packets",
    needs: &[Need::File("crates/core/bpf/tests/libpcap/main.rs"), LIBPCAP],
    run: filters,
}];

/// The crate's own cases: a skip among them is a failure here, because their needs are met.
fn filters(bench: &Workbench) -> Result<()> {
    let mut cases = Command::new("cargo");
    let features = ["--features", "jit,libpcap", "--test", "libpcap"];
    cases.args(["test", "-p", "wirespeed-bpf"]).args(features);
    let printed = bench.run(cases.current_dir(bench.root()), Duration::from_secs(600))?;
    ensure!(printed.contains(" 0 failed; 0 ignored"), "{printed}");
    Ok(())
}

/// 64 MB through two stacks in one process; the checksums of both ends equal that of coreutils.
fn ttcp_file(bench: &Workbench) -> Result<()> {
    let limit = Duration::from_secs(60);
    let file = bench.file("file", 64 << 20)?;
    let expected = bench.run(Command::new("sha256sum").arg(&file), limit)?;
    let expected = expected.split_whitespace().next().context("sha256sum printed nothing")?;
    let mut ttcp = Command::new(bench.wirespeed()?);
    let text = bench.run(ttcp.arg("ttcp").arg("--file").arg(&file).arg("--json"), limit)?;
    let report: Value = serde_json::from_str(&text).context("ttcp --json printed no JSON")?;
    for key in ["sha256_sent", "sha256_received"] {
        let sum = report[key].as_str().with_context(|| format!("the report has no {key}"))?;
        ensure!(sum == expected, "{key} is {sum}, sha256sum says {expected}");
    }
    Ok(())
}
