//! Virtual machines of QEMU as clients: the same load runs inside a machine, and is told what to do
//! by the machine's second serial port. Called by `world.rs`, which makes
//! the machines' files once, and by `contestant.rs`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};
use testbed::GuestKernel;

/// What the machine does with the load, whose name is `bench`: commands and answers are lines of
/// the second serial port.
const SCRIPT: &str = "stty -F /dev/ttyS1 raw -echo
exec /bench load < /dev/ttyS1 > /dev/ttyS1
";

/// Runs a program until the end of standard input, which it gets, too.
pub(super) const UNTIL_END: [&str; 4] = ["sh", "-c", "{ cat; kill 0; } | \"$@\"", "sh"];

/// Kernel and files of the machines.
pub(super) struct Image {
    kernel: GuestKernel,
    files: PathBuf,
}

impl Image {
    /// Makes the files, with `program` as the load.
    ///
    /// # Errors
    /// There is no kernel, no busybox or no `strip`.
    pub(super) fn new(program: &Path, folder: &Path) -> Result<Image> {
        let kernel = GuestKernel::find().map_err(|why| anyhow!(why))?;
        let small = folder.join("load");
        let stripped = Command::new("strip").arg("-o").arg(&small).arg(program).status();
        ensure!(stripped.context("starting strip")?.success(), "the load cannot be stripped");
        let files = kernel.files(&folder.join("machine"), SCRIPT, &[("bench", &small)]);
        Ok(Image { kernel, files: files.context("making the files of a machine")? })
    }

    /// The command line of a machine at `socket`.
    pub(super) fn client(&self, socket: &Path) -> Vec<String> {
        let netdev =
            format!("stream,id=n,server=off,addr.type=unix,addr.path={}", socket.display());
        let own = ["-chardev", "stdio,id=load,signal=off", "-serial", "null", "-serial"];
        let own = own.into_iter().chain(["chardev:load", "-monitor", "none", "-netdev", &netdev]);
        let mut command = UNTIL_END.map(str::to_owned).to_vec();
        command.extend(self.kernel.qemu(&self.files));
        command.extend(own.map(str::to_owned));
        command
    }
}
