//! Packet and AF_XDP sockets on the ends of a veth pair, with each other and with the kernel of
//! this machine as peers. Each case runs in a network namespace of its own.
//!
//! The program has no test harness, so that it can skip a case whose needs are not met and report
//! the reason (`testbed`). An argument that is not an option selects the cases whose names contain
//! it.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
#[path = "../tap/frames.rs"]
mod frames;
#[cfg(target_os = "linux")]
mod pair;
#[cfg(target_os = "linux")]
mod troubles;
#[cfg(target_os = "linux")]
mod watch;
#[cfg(target_os = "linux")]
mod wire;
#[cfg(target_os = "linux")]
mod xdp;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    let cases: &[&[testbed::Case]] = &[wire::CASES, troubles::CASES, watch::CASES, xdp::CASES];
    #[cfg(not(target_os = "linux"))]
    let cases: &[&[testbed::Case]] = &[];
    testbed::in_namespaces(cases)
}
