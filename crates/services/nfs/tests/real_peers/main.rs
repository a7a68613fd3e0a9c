//! Our server and client over the kernel's sockets, with libnfs's tools and nfs-ganesha as peers.
//! Each case runs in a network namespace of its own.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod rig;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    return testbed::in_namespaces(&[cases::CASES]);
    #[cfg(not(target_os = "linux"))]
    testbed::in_namespaces(&[])
}
