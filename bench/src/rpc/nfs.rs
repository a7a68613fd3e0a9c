//! NFS over a TAP beside the bytes alone, on the same TAP, stack, sockets of ours and cores: our
//! server with a client of libnfs, and our client with nfs-ganesha, both behind the kernel's TCP,
//! with their files in memory. Called by `rpc.rs`.

mod folder;
mod ganesha;
mod libnfs;
mod path;

use std::future::Future;

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::harness::{Bench, Figure, paired};
use crate::measure::median;
use folder::Folder;
use ganesha::Ganesha;
use libnfs::Libnfs;
use path::{Flow, PIECE, Path};

/// What is done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Read,
    Write,
}

/// The end of ours.
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
    // The connection, its windows, and memory that is used for the first time.
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
