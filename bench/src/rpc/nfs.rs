//! NFS over a TAP beside a plain TCP connection on the same TAP, stack, sockets of ours and cores.
//! Our server has a client of libnfs, and our client a server of nfs-ganesha. Both of these are
//! behind the kernel's TCP. All files are in memory. Called by `rpc.rs`.

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

/// The action on a file.
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

/// The file that is read, and the one that is written over.
const THERE: &str = "there";
const WRITTEN: &str = "written";
/// READs or WRITEs in flight.
const IN_FLIGHT: usize = nfs::limits::IN_FLIGHT;

/// GB/s, and the part of the time in which our process had work.
type Measured = (f64, f64);

/// One transfer of the file over NFS.
type Carry<'a> = Box<dyn FnMut(Flow, usize) -> Result<Measured> + 'a>;

/// A row: pairs of NFS and a connection alone.
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
    // One transfer does not count: it opens the connection and its windows, and uses memory for the
    // first time.
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

/// A rate, and the part of the time in which our process had work meanwhile.
async fn measured(transfer: impl Future<Output = Result<f64>>) -> Result<Measured> {
    let (start, before) = (std::time::Instant::now(), process_cpu_s()?);
    let rate = transfer.await?;
    Ok((rate, (process_cpu_s()? - before) / start.elapsed().as_secs_f64()))
}

/// Processor time of this process so far, seconds.
fn process_cpu_s() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).context("asking for processor time")?;
    let us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(us as f64 * 1e-6)
}

// A directory in memory, for a server of NFS. Needs root and util-linux.
//
// It is a tmpfs of huge pages, because with the small pages of `/dev/shm` a core writes to a file
// half as fast, and the file is not what is measured. Only a process that does nothing has it
// mounted; it ends with this one, and everything is gone.

/// Where that process mounts it: a directory that every system has.
const MOUNTED: &str = "/mnt";
/// The exported directory, seen by that process.
const SERVED: &str = "/mnt/served";

const SCRIPT: &str = "
    mount -t tmpfs -o huge=always none /mnt 2>/dev/null || mount -t tmpfs none /mnt || exit 1
    echo mounted
    exec sleep infinity";

/// The process that has it mounted.
struct Folder(Child);

impl Folder {
    /// Make the directory and both files, `bytes` long.
    fn new(bytes: usize) -> Result<Folder> {
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
        // Both have their full length from the start, so that writes need no new memory.
        for name in [THERE, WRITTEN] {
            let made = fs::write(folder.served().join(name), pattern(bytes));
            made.context("making a file in memory")?;
        }
        Ok(folder)
    }

    /// A path below `MOUNTED`, seen from here.
    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{MOUNTED}/{name}", self.0.id()))
    }

    /// The exported directory, seen from here.
    fn served(&self) -> PathBuf {
        self.path("served")
    }

    /// For nsenter(1): where a process sees `MOUNTED`.
    fn namespace(&self) -> String {
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
