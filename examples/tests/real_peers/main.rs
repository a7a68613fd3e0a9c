//! The example programs' parts against real peers, each case in a network namespace of its own:
//! curl and nginx over a TUN interface, the program `wirespeed` and a browser.
//!
//! No harness: a case that lacks something is a skip with its reason (`testbed`). An argument that
//! is not an option picks cases by part of their name.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod embedded;

/// Set for a process of this program that is to be `wirespeed`.
const AS_WIRESPEED: &str = "EXAMPLES_AS_WIRESPEED";

fn main() -> ExitCode {
    if std::env::var_os(AS_WIRESPEED).is_some() {
        return wirespeed_cli::main();
    }
    #[cfg(target_os = "linux")]
    let cases: &[&[testbed::Case]] = &[cases::CASES, embedded::CASES];
    #[cfg(not(target_os = "linux"))]
    let cases: &[&[testbed::Case]] = &[];
    testbed::in_namespaces(cases)
}
