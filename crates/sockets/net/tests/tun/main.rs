//! Sockets over TUN and TAP with the kernel of this machine as the peer. Each case runs in a
//! network namespace of its own. The cases: drivers that sleep on descriptors, devices that
//! disappear, options as they appear in packets.
//!
//! The program has no test harness, so that it can skip a case whose needs are not met and report
//! the reason (`testbed`). An argument that is not an option selects the cases whose names contain
//! it.

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
