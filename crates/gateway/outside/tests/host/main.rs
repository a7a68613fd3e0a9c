//! The engine with a guest in memory on one side, and sockets of this machine's kernel on the
//! other: servers of the standard library, each case in a network namespace of its own.
//!
//! The program has no test harness, so that it can skip a case whose needs are not met and report
//! the reason (`testbed`). An argument that is not an option selects the cases whose names contain
//! it.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod datagrams;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod proxied;
#[cfg(target_os = "linux")]
mod published;
#[cfg(target_os = "linux")]
mod tcp_flows;
#[cfg(target_os = "linux")]
mod tunnel;
#[cfg(target_os = "linux")]
mod via;
#[cfg(target_os = "linux")]
mod world;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    let cases: &[&[testbed::Case]] = &[
        tcp_flows::CASES,
        datagrams::CASES,
        published::CASES,
        proxied::CASES,
        via::CASES,
        tunnel::CASES,
        limits::CASES,
    ];
    #[cfg(not(target_os = "linux"))]
    let cases: &[&[testbed::Case]] = &[];
    testbed::in_namespaces(cases)
}
