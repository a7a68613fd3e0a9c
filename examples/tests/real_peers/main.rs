//! The example programs' parts against real peers, each case in a network namespace of its own:
//! curl and nginx over a TUN interface.
//!
//! No harness: a case that lacks something is a skip with its reason (`testbed`). An argument that
//! is not an option picks cases by part of their name.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod cases;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    let cases: &[&[testbed::Case]] = &[cases::CASES];
    #[cfg(not(target_os = "linux"))]
    let cases: &[&[testbed::Case]] = &[];
    testbed::in_namespaces(cases)
}
