//! Tests against real programs: suites of cases, each of which says what it needs.
//!
//! A case whose needs are not met is skipped and the skip names what is missing; `--install`
//! fetches the Debian packages first. The registry is [`SUITES`].

mod attacks;
mod case;
mod devices;
mod dump;
mod filter;
mod frr;
mod gateway;
mod guest;
mod host;
mod ip;
mod iperf;
mod needs;
mod outside;
mod programs;
mod router;
mod rpc;
mod soak;
mod soaking;
mod tcp;
mod telnet;
mod workbench;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
pub(crate) use case::{Asked, Case, Soak, Suite};
pub(crate) use needs::{Need, OF_TESTS};
use serde_json::Value;
pub(crate) use workbench::Workbench;

use crate::process;
use crate::report::{Tally, Usage, step};

/// Without a name, all suites that are not [`Suite::apart`]; else the suite of that name, and those
/// called NAME-SOMETHING except NAME-soak, which is run only by its whole name.
pub(crate) fn choose(name: Option<&str>) -> Result<Vec<&'static Suite>> {
    let is_meant = |suite: &&Suite| {
        let Some(name) = name else { return !suite.apart };
        let rest = suite.name.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-') && rest != "-soak")
    };
    let chosen: Vec<_> = SUITES.iter().filter(is_meant).collect();
    if let (Some(name), true) = (name, chosen.is_empty()) {
        let known: Vec<_> = SUITES.iter().map(|s| s.name).collect();
        let text = format!("no interop suite '{name}'; there are: {}", known.join(", "));
        bail!(Usage(text));
    }
    Ok(chosen)
}

/// Run every case of the suites whose needs are met, or those with `only` in their names.
pub(crate) fn run(
    root: &Path,
    suites: &[&Suite],
    asked: Asked<'_>,
    tally: &mut Tally,
) -> Result<()> {
    let Asked { only, install, .. } = asked;
    let chosen = |case: &&Case| only.is_none_or(|only| case.name.contains(only));
    if let (Some(only), None) = (only, suites.iter().flat_map(|s| s.cases).find(chosen)) {
        let known: Vec<_> = suites.iter().flat_map(|s| s.cases).map(|case| case.name).collect();
        bail!(Usage(format!("no case has '{only}' in its name; there are:\n{}", known.join("\n"))));
    }
    if install {
        install_step(suites, &[], tally)?;
    }
    for suite in suites {
        step(&format!("interop {}", suite.name), tally, |tally| {
            for case in suite.cases.iter().filter(chosen) {
                run_case(root, suite, case, asked, tally);
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn run_case(root: &Path, suite: &Suite, case: &Case, asked: Asked<'_>, tally: &mut Tally) {
    if process::interrupted() {
        return;
    }
    let name = format!("interop {}: {}", suite.name, case.name);
    let missing: Vec<_> = case.needs.iter().filter_map(|need| need.missing(root)).collect();
    if missing.is_empty() {
        let outcome = Workbench::new(root, asked).and_then(|bench| (case.run)(&bench));
        println!("{name}: {}", if outcome.is_ok() { "ok" } else { "FAILED" });
        tally.case(&name, outcome);
    } else {
        println!("{name}: skipped");
        tally.skip(&name, &missing.join(", "));
    }
}

/// Install the packages that the suites and `others` lack. A failure to install is one failed case,
/// and the rest of the tests still run.
pub(crate) fn install_step(suites: &[&Suite], others: &[Need], tally: &mut Tally) -> Result<()> {
    let packages = needs::packages(suites, others);
    if packages.is_empty() {
        return Ok(());
    }
    step("install", tally, |tally| {
        tally.case("install", install(&packages));
        Ok(())
    })
}

fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if !process::is_root() {
        bail!("--install needs root; run `sudo apt-get install {list}` and leave --install out");
    }
    if process::find("apt-get").is_none() {
        bail!("there is no apt-get here; install by other means: {list}");
    }
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    if let Err(e) = process::pass_on(apt().args(["update", "-qq"])) {
        // One unreachable mirror may not matter: the next command shows that.
        eprintln!("warning: {e:#}");
    }
    process::pass_on(apt().args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages))
}

#[cfg(test)]
mod tests;

// Suite `pages`: web pages in Debian's Chromium, without a window. The cases are test programs of
// the crates, which drive it by `wirespeed_testbed::Browser`.

const CHROMIUM: Need = Need::Program { program: "chromium", package: "chromium" };

const PAGES: &[Case] = &[
    Case {
        name: "the errors of a page reach the test",
        needs: &[CHROMIUM],
        run: |bench| bench.test_program("browser"),
    },
    Case {
        name: "the lab's report draws its plots, shows values, fits a phone and paper",
        needs: &[CHROMIUM],
        run: |bench| bench.test_program("in_browser"),
    },
    Case {
        name: "the live page follows a transfer, and says when its program is gone",
        needs: &[CHROMIUM],
        run: |bench| bench.test_program("live"),
    },
];

// The registry of interop suites: a suite is a line here and a function per case.
//
// A case names its needs; a missing one makes the case a skip that names it.

/// Every suite, in the order they run.
const SUITES: &[Suite] = &[
    Suite { name: "core", cases: CORE, apart: false },
    Suite { name: "outside", cases: outside::CASES, apart: false },
    Suite { name: "bpf", cases: BPF, apart: false },
    Suite { name: "devices", cases: devices::CASES, apart: false },
    Suite { name: "tcp", cases: tcp::CASES, apart: false },
    Suite { name: "ip", cases: ip::CASES, apart: false },
    Suite { name: "telnet", cases: telnet::CASES, apart: false },
    Suite { name: "rpc", cases: rpc::CASES, apart: false },
    Suite { name: "router", cases: router::CASES, apart: false },
    Suite { name: "frr", cases: frr::CASES, apart: false },
    Suite { name: "filter", cases: filter::CASES, apart: false },
    Suite { name: "gateway", cases: gateway::CASES, apart: false },
    Suite { name: "programs-c", cases: programs::C, apart: false },
    Suite { name: "programs-deb", cases: programs::DEB, apart: false },
    Suite { name: "programs-python", cases: programs::PYTHON, apart: false },
    Suite { name: "programs-smoltcp", cases: programs::SMOLTCP, apart: false },
    Suite { name: "programs-virtual-time", cases: programs::VIRTUAL_TIME, apart: false },
    Suite { name: "programs-packages", cases: programs::PACKAGES, apart: true },
    Suite { name: "programs-packages-c", cases: programs::C_PACKAGES, apart: true },
    Suite { name: "gateway-programs", cases: gateway::PROGRAMS, apart: true },
    Suite { name: "gateway-fence", cases: gateway::FENCE, apart: true },
    Suite { name: "gateway-containers", cases: gateway::CONTAINERS, apart: true },
    Suite { name: "pages", cases: PAGES, apart: false },
    Suite { name: "ip-transfers", cases: ip::TRANSFERS, apart: true },
    Suite { name: "attacks", cases: attacks::CASES, apart: true },
    Suite { name: "soak", cases: soak::CASES, apart: true },
    Suite { name: "router-soak", cases: router::SOAK, apart: true },
    Suite { name: "filter-soak", cases: filter::SOAK, apart: true },
    Suite { name: "frr-soak", cases: frr::SOAK, apart: true },
];

const SHA256SUM: Need = Need::Program { program: "sha256sum", package: "coreutils" };
const CLI: Need = Need::File("crates/top/cli/Cargo.toml");

const CORE: &[Case] = &[Case {
    name: "ttcp moves a file intact, as sha256sum shows",
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
