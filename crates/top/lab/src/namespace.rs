//! Network namespaces of experiments with Linux, made with `ip` and `nft`. Their names are removed
//! at once, so that the kernel removes the namespaces when the run ends, however it ends.
//!
//! Called by: `real`, `forward`.

use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use device::namespace::Namespace;

use crate::Error;

/// A new network namespace.
pub(crate) fn new_namespace() -> Result<Namespace, Error> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("wslab-{}-{number}", std::process::id());
    ip(&["netns", "add", &name])?;
    let namespace = Namespace::named(&name).map_err(|error| Error::Failed(error.to_string()));
    ip(&["netns", "del", &name])?;
    namespace
}

/// Run `ip` in the calling thread's namespace.
pub(crate) fn ip(arguments: &[&str]) -> Result<(), Error> {
    ip_with(arguments, "")
}

/// Run commands of `ip`, one a line, in the calling thread's namespace.
pub(crate) fn ip_batch(commands: &str) -> Result<(), Error> {
    ip_with(&["-batch", "-"], commands)
}

fn ip_with(arguments: &[&str], input: &str) -> Result<(), Error> {
    run(("ip", "iproute2"), arguments, input)
}

/// Load rules of `nft` in the calling thread's namespace.
pub(crate) fn nft(rules: &str) -> Result<(), Error> {
    run(("nft", "nftables"), &["-f", "-"], rules)
}

/// Run a program; `package` is the package that has it, for the error.
fn run((program, package): (&str, &str), arguments: &[&str], input: &str) -> Result<(), Error> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let unable = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => {
            Error::Failed(format!("`{program}` is missing: install the package {package}"))
        }
        _ => Error::Failed(format!("`{program}` cannot be run: {error}")),
    };
    let mut child = command.spawn().map_err(unable)?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the program does not read all its input, it has refused a command, and says why below.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(unable)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::Failed(format!(
        "`{program} {}` failed ({}): hosts of Linux need root, or CAP_SYS_ADMIN and CAP_NET_ADMIN",
        arguments.join(" "),
        said.lines().next().unwrap_or_default()
    )))
}
