//! [`Compiled`]: a small C program around a library of the system. It is compiled when it is
//! needed, and its file is gone when no process uses it any more.
//!
//! Called by: `elbow/libtirpc.rs`, the benchmarks. It needs a C compiler and the library's headers;
//! an error says which of them is missing.

use std::fmt;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use crate::Error;

fn failed(why: impl fmt::Display) -> Error {
    Error::Failed(why.to_string())
}

/// A directory that is removed on drop, with the files in it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, Error> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let nanos = now.map_or(0, |since| since.as_nanos());
        let name = format!("wirespeed-compiled-{}-{nanos}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // `create_dir` fails if the directory exists: so nobody else can have put a file into it.
        let made = fs::create_dir(&path).map(|()| Folder(path.clone()));
        made.map_err(|error| failed(format!("cannot make {}: {error}", path.display())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If it cannot be removed, a small file stays in the directory of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The compiled program. Its file has no name any more: the kernel removes it when no process uses
/// it, even if we are killed.
pub struct Compiled(File);

impl Compiled {
    /// Compile `source` with `options` as the compiler's last arguments. `package` is the package
    /// that has the library's headers, for the error.
    ///
    /// # Errors
    /// The compiler or the package is missing, or the directory of temporary files is full.
    pub fn new(source: &str, options: &[&str], package: &str) -> Result<Compiled, Error> {
        let folder = Folder::new()?;
        let at = folder.0.join("peer");
        compile(source, options, package, &at)?;
        File::open(at).map(Compiled).map_err(failed)
    }

    /// A command that starts the program. The child finds the file by our descriptor, which it
    /// inherits until the program runs.
    pub fn command(&self) -> Command {
        let mut command = Command::new(format!("/proc/self/fd/{}", self.0.as_raw_fd()));
        command.arg0("peer");
        command
    }
}

fn compile(source: &str, options: &[&str], package: &str, to: &Path) -> Result<(), Error> {
    let mut command = Command::new("cc");
    command.args(["-O2", "-x", "c", "-", "-x", "none"]).args(options).arg("-o").arg(to);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => failed("no C compiler: install the package gcc"),
        _ => failed(format!("cannot start cc: {error}")),
    })?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the compiler does not read the whole source, it refuses the program and says why
        // below.
        let _ = stdin.write_all(source.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let error = said.lines().find(|line| line.contains("error")).unwrap_or("cc failed");
    Err(failed(format!("cannot compile a peer: is the package {package} installed? ({error})")))
}
