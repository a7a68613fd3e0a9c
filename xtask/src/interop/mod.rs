//! Tests against real programs: suites of cases, each of which says what it needs.
//!
//! A case whose needs are not met is skipped and the skip names what is missing; `--install`
//! fetches the Debian packages first. The registry is `suites.rs`.

mod attacks;
mod case;
mod devices;
mod dump;
mod guest;
mod host;
mod ip;
mod iperf;
mod needs;
mod outside;
mod pages;
mod router;
mod rpc;
mod soak;
mod suites;
mod tcp;
mod telnet;
mod workbench;

use crate::report::{Tally, Usage, step};
use crate::{cargo, process};
use anyhow::{Result, bail};
pub(crate) use case::{Case, Soak, Suite};
pub(crate) use needs::{Need, OF_TESTS};
use std::path::Path;
use std::process::Command;
pub(crate) use workbench::Workbench;

/// What a run is asked for beside its suites.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asked<'a> {
    /// Only the cases with this in their names.
    pub(crate) only: Option<&'a str>,
    /// Install what is missing first.
    pub(crate) install: bool,
    pub(crate) soak: Soak,
}

/// The suite of that name and those called NAME-SOMETHING, or all that need not be named. One that
/// soaks is run by its whole name alone.
pub(crate) fn choose(name: Option<&str>) -> Result<Vec<&'static Suite>> {
    let is_meant = |suite: &&Suite| {
        let Some(name) = name else { return !suite.apart };
        let rest = suite.name.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-') && rest != "-soak")
    };
    let chosen: Vec<_> = suites::SUITES.iter().filter(is_meant).collect();
    if let (Some(name), true) = (name, chosen.is_empty()) {
        let known: Vec<_> = suites::SUITES.iter().map(|s| s.name).collect();
        let text = format!("no interop suite '{name}'; there are: {}", known.join(", "));
        bail!(Usage(text));
    }
    Ok(chosen)
}

/// The command that builds what most suites run.
pub(crate) fn build(root: &Path) -> Command {
    cargo::building(root, "wirespeed-cli", "wirespeed", "interop")
}

/// Run every case of the suites whose needs are met, or those with `only` in their names.
pub(crate) fn run(
    root: &Path,
    suites: &[&Suite],
    asked: Asked<'_>,
    tally: &mut Tally,
) -> Result<()> {
    let Asked { only, install, soak } = asked;
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
                run_case(root, suite, case, soak, tally);
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn run_case(root: &Path, suite: &Suite, case: &Case, soak: Soak, tally: &mut Tally) {
    if process::interrupted() {
        return;
    }
    let name = format!("interop {}: {}", suite.name, case.name);
    let missing: Vec<_> = case.needs.iter().filter_map(|need| need.missing(root)).collect();
    if missing.is_empty() {
        let outcome = Workbench::new(root, soak).and_then(|bench| (case.run)(&bench));
        println!("{name}: {}", if outcome.is_ok() { "ok" } else { "FAILED" });
        tally.case(&name, outcome);
    } else {
        println!("{name}: skipped");
        tally.skip(&name, &missing.join(", "));
    }
}

/// Install what the suites and `others` lack; what cannot be installed is one failed case, and the
/// rest of the tests still run.
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
