//! Our clients with Debian's rpcbind, and Debian's rpcinfo with our port mapper, over the kernel's
//! sockets. Each case runs in a network namespace of its own.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod cases;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    return testbed::in_namespaces(&[cases::CASES]);
    #[cfg(not(target_os = "linux"))]
    testbed::in_namespaces(&[])
}
