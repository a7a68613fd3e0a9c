//! Network namespaces without a name. They exist as long as this process has them open; when the
//! process ends, however it ends, the kernel removes them with their contents. The machine's own
//! network does not change. Called by `peers/mod.rs` and `outside`. It needs CAP_SYS_ADMIN and
//! iproute2.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::isolate::unshare_network;

/// Moves the calling thread into a namespace for the rest of the thread's life.
pub fn enter(namespace: &File) -> Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .context("entering a network namespace")
}

/// Moves the calling thread into a new namespace. Returns a file that keeps the namespace alive.
pub fn enter_new_namespace() -> Result<File> {
    unshare_network().context(
        "making a network namespace needs CAP_SYS_ADMIN: run as root, or in a container \
         with --cap-add SYS_ADMIN",
    )?;
    File::open("/proc/thread-self/ns/net").context("opening /proc/thread-self/ns/net")
}

/// Runs `ip` in the calling thread's namespace.
pub fn ip(arguments: &str) -> Result<()> {
    let output = match Command::new("ip").args(arguments.split(' ')).output() {
        Ok(output) => output,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            bail!("ip not found (install the package iproute2)")
        }
        Err(e) => return Err(anyhow!("starting `ip`: {e}")),
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`ip {arguments}` failed: {}", errors.trim());
    Ok(())
}
