//! The servers of a gateway against clients that are not ours, each case in its own namespace, the
//! client in another one behind a veth: busybox's udhcpc and ISC's dhclient, the kernel's
//! autoconfiguration and rdisc6, dig with dnsmasq behind the forwarder. The servers have the
//! kernel's sockets here.
//!
//! There is no harness, so that a case whose needs are not met is skipped with the reason
//! (`testbed`). An argument that is not an option selects cases by a part of their name.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod advertised;
#[cfg(target_os = "linux")]
mod leased;
#[cfg(target_os = "linux")]
mod link;
#[cfg(target_os = "linux")]
mod named;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    let cases: &[&[testbed::Case]] = &[leased::CASES, advertised::CASES, named::CASES];
    #[cfg(not(target_os = "linux"))]
    let cases: &[&[testbed::Case]] = &[];
    testbed::in_namespaces(cases)
}
