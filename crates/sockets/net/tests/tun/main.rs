//! Sockets over TUN and TAP against the kernel of this machine, each case in its own network
//! namespace: drivers that sleep on descriptors, devices that disappear, options as they appear in
//! packets.
//!
//! There is no harness, so that a case whose needs are not met is skipped with the reason
//! (`testbed`). An argument that is not an option selects cases by a part of their name.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod autoconf;
#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod datagrams;
#[cfg(target_os = "linux")]
mod dhcp;
#[cfg(target_os = "linux")]
mod dhcp6;
#[cfg(target_os = "linux")]
mod ecn;
#[cfg(target_os = "linux")]
mod ends;
#[cfg(target_os = "linux")]
mod frag;
#[cfg(target_os = "linux")]
mod gone;
#[cfg(target_os = "linux")]
mod groups;
mod link;
#[cfg(target_os = "linux")]
mod names;
#[cfg(target_os = "linux")]
mod narrow;
#[cfg(target_os = "linux")]
mod urgent;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    let cases: &[&[testbed::Case]] = &[
        autoconf::CASES,
        cases::CASES,
        datagrams::CASES,
        dhcp6::CASES,
        dhcp::CASES,
        ecn::CASES,
        frag::CASES,
        gone::CASES,
        groups::CASES,
        link::CASES,
        names::CASES,
        narrow::CASES,
        urgent::CASES,
    ];
    #[cfg(not(target_os = "linux"))]
    let cases: &[&[testbed::Case]] = &[];
    testbed::in_namespaces(cases)
}
