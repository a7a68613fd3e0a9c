//! `ttcp -t` and `-r` against socat and the kernel's TCP over a TUN, each case in a namespace of
//! its own; `show` on a running one; what goes wrong.
//!
//! No harness: a case that lacks something is a skip with its reason (`testbed`). An argument that
//! is not an option picks cases by part of their name.

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod fixture;
#[cfg(target_os = "linux")]
mod streams;
#[cfg(target_os = "linux")]
mod trouble;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let cases = [cases::CASES, streams::CASES, trouble::CASES];
    testbed::run(&cases, |case| case(&fixture::Fixture::new()))
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    testbed::in_namespaces(&[])
}
