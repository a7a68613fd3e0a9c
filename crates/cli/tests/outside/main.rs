//! The stack and the program against the kernel of this machine over a TAP, each case in a network
//! namespace of its own: neighbours found, echoes, ICMP errors, connections both ways.
//!
//! No harness: a case that lacks something is a skip with its reason (`testbed`). An argument that
//! is not an option picks cases by part of their name.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod dump;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod ping;
#[cfg(target_os = "linux")]
mod services;
#[cfg(target_os = "linux")]
mod sockets;
#[cfg(target_os = "linux")]
mod wire;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    let cases: &[&[testbed::Case]] =
        &[dump::CASES, ping::CASES, services::CASES, sockets::CASES, wire::CASES];
    #[cfg(not(target_os = "linux"))]
    let cases: &[&[testbed::Case]] = &[];
    testbed::in_namespaces(cases)
}
