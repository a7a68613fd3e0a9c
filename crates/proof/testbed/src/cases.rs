//! Runs the cases of a test program and prints them in libtest's format, so that tools can parse
//! the output. A case whose needs are not met is reported as ignored, with the need that is
//! missing.
//!
//! Called by: the `main` of test programs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::needs::{Need, missing_for_all};

/// A case: its name as a sentence, its needs (root and TUN are always needed), and the function to
/// run. A case fails by panicking.
pub type Case<F = fn()> = (&'static str, &'static [Need], F);

/// The environment variable for the directory in which wirespeed's programs have their control
/// sockets.
const RUN_TIME: &str = "WIRESPEED_RUNTIME_DIR";

/// Run this test program again with a run-time directory of its own, so that its cases do not find
/// other wirespeed programs of the machine. A case may use another directory.
fn with_a_run_time_folder() -> ExitCode {
    let name = format!("wstest-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).expect("room for a folder");
    let program = std::env::current_exe().expect("it runs");
    let mut again = Command::new(program);
    again.args(std::env::args_os().skip(1)).env(RUN_TIME, &folder);
    let status = again.status().expect("it ran a moment ago");
    // Files that a case has left in the directory are removed with it. If that fails, it does not
    // matter.
    let _ = std::fs::remove_dir_all(&folder);
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Run each case on its own thread in its own network namespace. An argument that is not an option
/// selects the cases whose names contain it; `--list` prints the names.
pub fn in_namespaces(cases: &[&[Case]]) -> ExitCode {
    run(cases, |case| inside(*case))
}

#[cfg(target_os = "linux")]
fn inside(case: fn()) {
    let namespace = crate::Namespace::new().expect("it could be made a moment ago");
    if let Err(panic) = namespace.inside(case) {
        std::panic::resume_unwind(panic);
    }
}

#[cfg(not(target_os = "linux"))]
fn inside(_: fn()) {
    unreachable!("every case is ignored");
}

/// Run each case in the current namespace, and check only the needs that the case names. Arguments
/// are as for [`in_namespaces`].
pub fn in_place(cases: &[&[Case]]) -> ExitCode {
    run_lacking(None, cases, |case| case())
}

/// Run each case by `each`, which sets up the case's environment. Arguments are as for
/// [`in_namespaces`].
pub fn run<F>(cases: &[&[Case<F>]], each: impl Fn(&F)) -> ExitCode {
    run_lacking(missing_for_all(), cases, each)
}

fn run_lacking<F>(missing: Option<String>, cases: &[&[Case<F>]], each: impl Fn(&F)) -> ExitCode {
    if std::env::var_os(RUN_TIME).is_none() {
        return with_a_run_time_folder();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let picked = arguments.iter().find(|a| !a.starts_with('-'));
    let cases: Vec<&Case<F>> = cases
        .iter()
        .copied()
        .flatten()
        .filter(|(name, ..)| picked.is_none_or(|p| name.contains(p.as_str())))
        .collect();
    if arguments.iter().any(|a| a == "--list") {
        cases.iter().for_each(|(name, ..)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    println!("running {} tests", cases.len());
    let began = Instant::now();
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    for (name, needs, case) in cases {
        let lacks = || needs.iter().find_map(|need| need.missing());
        if let Some(missing) = missing.clone().or_else(lacks) {
            println!("test {name} ... ignored, {missing}");
            ignored += 1;
        } else if catch_unwind(AssertUnwindSafe(|| each(case))).is_ok() {
            println!("test {name} ... ok");
            passed += 1;
        } else {
            println!("test {name} ... FAILED");
            failed += 1;
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "test result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; \
         0 filtered out; finished in {:.2}s",
        began.elapsed().as_secs_f64()
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
