//! TAP and TUN with the kernel of this machine at the other end. Each case runs in a network
//! namespace of its own.
//!
//! The program has no test harness, so that it can skip a case whose needs are not met and report
//! the reason (`testbed`). An argument that is not an option selects the cases whose names contain
//! it.

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
