//! This machine's kernel as the guest of a stack that answers for every host: its ping, traceroute,
//! UDP and TCP sockets on one side of a TAP, on the other a stack that takes datagrams for other
//! hosts, holds SYNs and answers ARP and neighbour discovery for every address.
//!
//! No harness: what is missing makes a case a skip (`testbed`). Each case has a network namespace
//! of its own.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod gateway;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    let cases: &[&[testbed::Case]] = &[cases::CASES];
    #[cfg(not(target_os = "linux"))]
    let cases: &[&[testbed::Case]] = &[];
    testbed::in_namespaces(cases)
}
