//! TAP and TUN against the kernel of this machine, each case in a network namespace of its own.
//!
//! No harness: a case whose needs are not met is skipped with the reason (`testbed`). An argument
//! that is not an option selects cases by part of their name.

use std::process::ExitCode;

#[cfg(all(target_os = "linux", feature = "capture"))]
mod captured;
#[cfg(target_os = "linux")]
mod ends;
#[cfg(target_os = "linux")]
mod frames;
#[cfg(target_os = "linux")]
mod offloads;
#[cfg(target_os = "linux")]
mod troubles;
#[cfg(target_os = "linux")]
mod wire;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    let cases: &[&[testbed::Case]] = &[
        wire::CASES,
        offloads::CASES,
        troubles::CASES,
        #[cfg(feature = "capture")]
        captured::CASES,
    ];
    #[cfg(not(target_os = "linux"))]
    let cases: &[&[testbed::Case]] = &[];
    testbed::in_namespaces(cases)
}
