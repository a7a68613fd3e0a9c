//! `cargo xtask packetdrill DIR`: every packetdrill script below a folder, against this stack.
//!
//! Called by: `main.rs`. packetdrill loads the shared object of crate capi and compares. Each
//! script runs in a network namespace of its own, under a time limit, as many at once as there are
//! processors. Scripts and packetdrill are GPL and not part of this project; docs/packetdrill.md
//! says how to get both.

mod notes;
mod run;
mod scripts;
mod tools;

use crate::report::{Tally, Usage, step};
use crate::{cargo, process};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use run::Outcome;
use scripts::Script;

/// The options of the command line.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The folder with scripts, e.g. packetdrill/gtests/net/tcp
    dir: PathBuf,
    /// Whose defaults and option semantics: linux or freebsd
    #[arg(long, default_value = "linux", value_parser = ["linux", "freebsd"])]
    profile: String,
    /// Only the scripts with this in their paths
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Over IPv6
    #[arg(long)]
    v6: bool,
    /// The packetdrill program; looked for beside the scripts and on PATH
    #[arg(long, value_name = "FILE")]
    packetdrill: Option<PathBuf>,
    /// Seconds of real time that a script may take
    #[arg(long, default_value_t = 30)]
    timeout: u64,
    /// Print all that packetdrill said of each script that fails
    #[arg(long, short)]
    verbose: bool,
}

/// Shared by all scripts of a run.
pub(crate) struct Bench {
    packetdrill: PathBuf,
    object: PathBuf,
    tools: tools::Tools,
    options: Options,
}

/// Run them all; a script is a case.
pub(crate) fn run(root: &Path, options: Options, tally: &mut Tally) -> Result<()> {
    let dir = options.dir.canonicalize().map_err(|e| {
        let dir = options.dir.display();
        Usage(format!("cannot read {dir}: {e}; clone google/packetdrill, see docs/packetdrill.md"))
    })?;
    let mut found = scripts::below(&dir)?;
    if let Some(only) = &options.only {
        found.retain(|script| script.name.contains(only));
    }
    if found.is_empty() {
        bail!(Usage(format!("no script (*.pkt) to run below {}", dir.display())));
    }
    if let Some(missing) = missing() {
        for script in &found {
            tally.skip(&script.name, &missing);
        }
        return Ok(());
    }
    let packetdrill = program(&dir, options.packetdrill.as_deref())?;
    let object = object(root)?;
    let tools = tools::Tools::new(&dir)?;
    let bench = Bench { packetdrill, object, tools, options };
    step(&format!("packetdrill, {} scripts", found.len()), tally, |tally| {
        let outcomes = all(&bench, &found);
        report(&bench, &found, &outcomes, tally);
        Ok(())
    })
}

/// What every script needs.
fn missing() -> Option<String> {
    if !process::is_root() {
        return Some("root, for network namespaces".to_owned());
    }
    ["unshare", "python3"].iter().find(|p| process::find(p).is_none()).map(|p| (*p).to_owned())
}

/// The packetdrill program.
fn program(dir: &Path, named: Option<&Path>) -> Result<PathBuf> {
    if let Some(named) = named {
        return named.canonicalize().with_context(|| format!("cannot run {}", named.display()));
    }
    let beside = dir.ancestors().map(|a| a.join("packetdrill/packetdrill"));
    let found = beside.into_iter().find(|file| file.is_file());
    found.or_else(|| process::find("packetdrill")).context(
        "there is no packetdrill: install bison and flex, then in gtests/net/packetdrill of \
         google/packetdrill run ./configure && make packetdrill, or name one with --packetdrill",
    )
}

/// Build the shared object and return its path.
fn object(root: &Path) -> Result<PathBuf> {
    let metadata = cargo::Metadata::read(root)?;
    process::pass_on(cargo::cargo(root).args(["build", "-p", "wirespeed-capi"]))?;
    Ok(metadata.target_directory.join("debug/libcapi.so"))
}

/// Run every script, on all processors.
fn all(bench: &Bench, scripts: &[Script]) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes: Vec<_> = scripts.iter().map(|_| Mutex::new(None)).collect();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let (next, outcomes) = (&next, &outcomes);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(script) = scripts.get(index) else { return };
                    if process::interrupted() {
                        return;
                    }
                    let outcome = run::script(bench, script, worker);
                    if let Ok(mut place) = outcomes[index].lock() {
                        *place = Some(outcome);
                    }
                }
            });
        }
    });
    let unless = || Outcome::NotRun("interrupted".to_owned());
    outcomes.into_iter().map(|o| o.into_inner().ok().flatten().unwrap_or_else(unless)).collect()
}

/// The table by folder, and a line for each script that did not pass.
fn report(bench: &Bench, scripts: &[Script], outcomes: &[Outcome], tally: &mut Tally) {
    let mut folders: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for (script, outcome) in scripts.iter().zip(outcomes) {
        let (passed, all) = folders.entry(&script.folder).or_default();
        *all += 1;
        match outcome {
            Outcome::Passed => {
                *passed += 1;
                tally.pass();
            }
            Outcome::Failed { reason, output } => {
                let note = notes::note(&script.name).map(|n| format!(" ({n})")).unwrap_or_default();
                tally.fail(&script.name, &format!("{reason}{note}"));
                if bench.options.verbose {
                    println!("---- {}\n{output}", script.name);
                }
            }
            Outcome::NotRun(why) => tally.skip(&script.name, why),
        }
    }
    println!("{:<32} passed   of", "folder");
    for (folder, (passed, all)) in folders {
        println!("{folder:<32} {passed:>6} {all:>4}");
    }
}
