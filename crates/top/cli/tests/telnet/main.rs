//! `wirespeed telnetd` and `wirespeed telnet` with each other and with programs on terminals, each
//! case in its own network namespace: over the kernel's sockets, and over our stack on a TAP.
//!
//! There is no harness, so that a case whose needs are not met is skipped with the reason
//! (`testbed`). An argument that is not an option selects cases by a part of their name.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod ends;
#[cfg(target_os = "linux")]
mod fixture;
#[cfg(target_os = "linux")]
mod modes;
#[cfg(target_os = "linux")]
mod stacks;
#[cfg(target_os = "linux")]
#[allow(dead_code, reason = "each test program uses a part")]
#[path = "../terminal/mod.rs"]
mod terminal;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    let cases: &[&[testbed::Case]] = &[ends::CASES, modes::CASES, stacks::CASES];
    #[cfg(not(target_os = "linux"))]
    let cases: &[&[testbed::Case]] = &[];
    testbed::in_namespaces(cases)
}
