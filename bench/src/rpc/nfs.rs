//! Compares NFS over a TAP with a plain TCP connection over the same TAP, with the same stack,
//! sockets of ours and cores. The client of our server is libnfs, and the server of our client is
//! nfs-ganesha. Both use the kernel's TCP. All files are in memory. Called by `rpc.rs`.

mod ganesha;
mod libnfs;
mod path;

use std::fs;
use std::future::Future;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use ganesha::Ganesha;
use libnfs::Libnfs;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use path::{Flow, PIECE, Path};

use crate::harness::{Bench, Figure, paired};
use crate::measure::{median, pattern};

/// What is done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Read,
    Write,
}

/// Which end is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ours {
    /// The server; the client is libnfs.
    Server,
    /// The client; the server is nfs-ganesha.
    Client,
}

/// The names of the file that is read, and of the file that is overwritten.
const THERE: &str = "there";
const WRITTEN: &str = "written";
/// The number of READs or WRITEs in flight.
const IN_FLIGHT: usize = nfs::limits::IN_FLIGHT;

/// GB/s, and the share of the time in which our process used the processor.
type Measured = (f64, f64);

/// One transfer of the file over NFS.
type Carry<'a> = Box<dyn FnMut(Flow, usize) -> Result<Measured> + 'a>;

/// Measures a row in pairs: a transfer over NFS, and a transfer over a connection without NFS.
pub(super) fn row(b: &Bench, ours: Ours, action: Action) -> Result<Figure> {
    let (bytes, pairs) = if b.is_quick { (64 << 20, 5) } else { (1 << 30, 9) };
    let path = Path::new(b)?;
    let folder = Folder::new(bytes)?;
    let (mut libnfs, ganesha);
    let (flow, mut carry): (_, Carry<'_>) = match ours {
        Ours::Server => {
            libnfs = Libnfs::new(&path, &folder, bytes)?;
            let flow = if action == Action::Read { Flow::Out } else { Flow::In };
            (flow, Box::new(|flow, bytes| libnfs.carry(flow, bytes)))
        }
        Ours::Client => {
            ganesha = Ganesha::new(&path, &folder)?;
            let flow = if action == Action::Read { Flow::In } else { Flow::Out };
            (flow, Box::new(|flow, bytes| ganesha.carry(flow, bytes)))
        }
    };
    // The first transfer does not count: it makes the connection, opens the windows, and touches
    // memory for the first time.
    carry(flow, bytes)?;
    path.alone(flow, bytes)?;
    let (mut nfs, mut busy, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    let samples = paired(
        pairs,
        || {
            let (rate, share) = carry(flow, bytes)?;
            nfs.push(rate);
            busy.push(share);
            Ok(rate)
        },
        || {
            alone.push(path.alone(flow, bytes)?);
            Ok(alone[alone.len() - 1])
        },
    )?;
    let ends = match ours {
        Ours::Server => "our server, tokio, one core; libnfs with its calls in flight",
        Ours::Client => "our client, tokio, one core; nfs-ganesha",
    };
    let what = match action {
        Action::Read => "READs",
        Action::Write => "unstable WRITEs and a COMMIT",
    };
    let note = format!(
        "{} MB, wall time; {:.2} GB/s [{ends}, {what} of {} KB, {IN_FLIGHT} in flight, {:.0} % of \
         our core; the file in a tmpfs of huge pages] over {:.2} GB/s [the same sockets of ours; a \
         thread with a blocking socket]; TAP with vnet_hdr, MTU 1500, kernel cubic, {}",
        bytes >> 20,
        median(&nfs),
        PIECE >> 10,
        100.0 * median(&busy),
        median(&alone),
        path.placement.words()
    );
    Ok(Figure { value: median(&samples), samples, note })
}

/// The rate of a transfer, and the share of its time in which our process used the processor.
async fn measured(transfer: impl Future<Output = Result<f64>>) -> Result<Measured> {
    let (start, before) = (std::time::Instant::now(), process_cpu_s()?);
    let rate = transfer.await?;
    Ok((rate, (process_cpu_s()? - before) / start.elapsed().as_secs_f64()))
}

/// The processor time that this process has used so far, in seconds.
fn process_cpu_s() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).context("asking for processor time")?;
    let us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(us as f64 * 1e-6)
}

// A directory in memory for an NFS server. It needs root and util-linux.
//
// It is a tmpfs of huge pages, because with the small pages of `/dev/shm` a core writes to a file
// half as fast, and the file should not be the limit. The tmpfs is mounted in the mount namespace
// of a process that does nothing else. When this process ends, that process ends too, and the
// kernel removes the tmpfs.

/// The directory at which that process mounts the tmpfs; every system has it.
const MOUNTED: &str = "/mnt";
/// The exported directory, as that process sees it.
const SERVED: &str = "/mnt/served";

const SCRIPT: &str = "
    mount -t tmpfs -o huge=always none /mnt 2>/dev/null || mount -t tmpfs none /mnt || exit 1
    echo mounted
    exec sleep infinity";

/// The process in whose mount namespace the tmpfs is.
struct Folder(Child);

impl Folder {
    /// Makes the directory and both files, each `bytes` long.
    fn new(bytes: usize) -> Result<Folder> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "unshare", "--mount", "sh", "-c", SCRIPT]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("starting setpriv (install util-linux)")?;
        let said = child.stdout.take().context("its standard output is not a pipe")?;
        let folder = Folder(child);
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        ensure!(line.trim() == "mounted", "a tmpfs cannot be mounted: run as root");
        fs::create_dir(folder.served())?;
        // Both files have their full length from the start, so that writes need no new memory.
        for name in [THERE, WRITTEN] {
            let made = fs::write(folder.served().join(name), pattern(bytes));
            made.context("making a file in memory")?;
        }
        Ok(folder)
    }

    /// The path of a file below `MOUNTED`, as this process sees it.
    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{MOUNTED}/{name}", self.0.id()))
    }

    /// The exported directory, as this process sees it.
    fn served(&self) -> PathBuf {
        self.path("served")
    }

    /// The option of nsenter(1) that enters the mount namespace with the tmpfs.
    fn namespace(&self) -> String {
        format!("--mount=/proc/{}/ns/mnt", self.0.id())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
