//! `ttcp -t` and `-r` against socat and the kernel's TCP over a TUN, each case in its own
//! namespace; names and addresses that servers give; `show` of a running transfer; failures.
//!
//! There is no harness, so that a case whose needs are not met is skipped with the reason
//! (`testbed`). An argument that is not an option selects cases by a part of their name.

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod dhcp;
#[cfg(target_os = "linux")]
mod dhcp6;
#[cfg(target_os = "linux")]
mod directions;
#[cfg(target_os = "linux")]
mod fixture;
#[cfg(target_os = "linux")]
mod names;
#[cfg(target_os = "linux")]
mod streams;
#[cfg(target_os = "linux")]
mod trouble;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let cases = [
        cases::CASES,
        dhcp::CASES,
        dhcp6::CASES,
        directions::CASES,
        names::CASES,
        streams::CASES,
        trouble::CASES,
    ];
    testbed::run(&cases, |case| case(&fixture::Fixture::new()))
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    testbed::in_namespaces(&[])
}
