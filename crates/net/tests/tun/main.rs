//! Sockets over TUN and TAP against the kernel of this machine, each case in a network namespace
//! of its own: drivers that sleep at descriptors, devices that disappear, options as packets have
//! them.
//!
//! No harness: a case that lacks something is a skip with its reason (`testbed`). An argument that
//! is not an option picks cases by part of their name.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod ecn;
#[cfg(target_os = "linux")]
mod ends;
#[cfg(target_os = "linux")]
mod frag;
#[cfg(target_os = "linux")]
mod gone;
#[cfg(target_os = "linux")]
mod narrow;
#[cfg(target_os = "linux")]
mod urgent;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    let cases: &[&[testbed::Case]] =
        &[cases::CASES, ecn::CASES, frag::CASES, gone::CASES, narrow::CASES, urgent::CASES];
    #[cfg(not(target_os = "linux"))]
    let cases: &[&[testbed::Case]] = &[];
    testbed::in_namespaces(cases)
}
