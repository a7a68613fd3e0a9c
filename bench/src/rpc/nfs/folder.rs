//! A directory in memory, for a server of NFS. Called by `rpc/nfs.rs`. Needs root and util-linux.
//!
//! It is a tmpfs of huge pages, because the small pages of `/dev/shm` halve what a core writes to a
//! file, and what is measured is not the file. Only a process that does nothing has it mounted; it
//! ends with this one, and everything is gone.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::{THERE, WRITTEN};
use crate::measure::pattern;

/// Where the process has it; a directory that every system has.
pub(super) const MOUNTED: &str = "/mnt";
/// What a server exports, seen by that process.
pub(super) const SERVED: &str = "/mnt/served";

const SCRIPT: &str = "
    mount -t tmpfs -o huge=always none /mnt 2>/dev/null || mount -t tmpfs none /mnt || exit 1
    echo mounted
    exec sleep infinity";

/// The process that has it mounted.
pub(super) struct Folder(Child);

impl Folder {
    /// With both files, `bytes` long.
    pub(super) fn new(bytes: usize) -> Result<Folder> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "unshare", "--mount", "sh", "-c", SCRIPT]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("starting setpriv (install util-linux)")?;
        let said = child.stdout.take().context("it has a pipe")?;
        let folder = Folder(child);
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        ensure!(line.trim() == "mounted", "a tmpfs cannot be mounted: run as root");
        fs::create_dir(folder.served())?;
        // Both as long as they get: the memory for what is written is there.
        for name in [THERE, WRITTEN] {
            let made = fs::write(folder.served().join(name), pattern(bytes));
            made.context("making a file in memory")?;
        }
        Ok(folder)
    }

    /// A path below `MOUNTED`, seen from here.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{MOUNTED}/{name}", self.0.id()))
    }

    /// What a server exports, seen from here.
    pub(super) fn served(&self) -> PathBuf {
        self.path("served")
    }

    /// For nsenter(1): where a process sees `MOUNTED`.
    pub(super) fn namespace(&self) -> String {
        format!("--mount=/proc/{}/ns/mnt", self.0.id())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
