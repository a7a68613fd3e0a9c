//! The cost of a TAP's system calls without a stack of ours: plain reads and writes carry frames
//! between two hosts of Linux, whose TCP sends as much as the wire carries. Called by `outside`.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, anyhow};
use device::Device;
use device::tap::{Config, Setup, Tap};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};

use super::host::in_new_namespace;
use crate::measure::{Cores, Measurement, pin, thread_cpu_s};
use crate::namespace::{enter, ip};
use crate::peers::kernel::{Path, Placement, Settings, transfer};

/// How many frames are read and then written between two readings of the clock, with offloads and
/// without.
const BATCH_64K: usize = 4;
const BATCH_1500: usize = 64;

/// CPU time of the system calls that carried data in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Carried {
    bytes: u64,
    reads_s: f64,
    writes_s: f64,
}

impl Carried {
    /// The CPU time of the reads. `units` of the result counts pieces of 64 KB.
    pub(super) fn reads(self) -> Measurement {
        self.calls(self.reads_s, "raw TAP reads of what a kernel's TCP sends")
    }

    /// The CPU time of the writes. `units` of the result counts pieces of 64 KB.
    pub(super) fn writes(self) -> Measurement {
        self.calls(self.writes_s, "raw TAP writes to a kernel's TCP")
    }

    fn calls(self, cpu_s: f64, settings: &str) -> Measurement {
        let units = self.bytes / (64 << 10);
        Measurement {
            bytes: self.bytes,
            cpu_s,
            units,
            settings: settings.to_owned(),
            ..Measurement::default()
        }
    }
}

/// Two hosts, each with a TAP, and a thread that carries frames between them by plain reads and
/// writes, without any stack of ours.
pub(crate) struct Wire {
    hosts: [File; 2],
    ends: [OwnedFd; 2],
    offload: bool,
}

/// Two hosts, 10.95.0.1 and 10.95.0.2, each with a TAP and with the other's link address in its
/// neighbour table. Returns the namespaces, and the other ends of the TAPs.
pub(crate) fn hosts(offload: bool) -> Result<([File; 2], [Tap; 2])> {
    let host = |number: u8| {
        in_new_namespace(move || {
            let mut tap = Tap::open(&Config { vnet_hdr: offload, ..Config::default() })?;
            let address = format!("10.95.0.{number}/24");
            let addresses = vec![address.parse().map_err(|e| anyhow!("{e:?}"))?];
            tap.configure(&Setup { addresses, up: true, ..Setup::default() })?;
            let mac = tap.kernel_mac().context("no hardware address")?;
            Ok((tap.name().to_owned(), mac, tap))
        })
    };
    let (one, (name1, mac1, tap1)) = host(1)?;
    let (two, (name2, mac2, tap2)) = host(2)?;
    let (in_one, in_two) = (&one, &two);
    thread::scope(|scope| {
        let know = |namespace: &File, address: u8, mac, name: &str| {
            enter(namespace)?;
            ip(&format!("neigh add 10.95.0.{address} lladdr {mac} dev {name}"))
        };
        let first = scope.spawn(move || know(in_one, 2, mac2, &name1));
        let second = scope.spawn(move || know(in_two, 1, mac1, &name2));
        first.join().map_err(|_| anyhow!("setting a neighbour panicked"))??;
        second.join().map_err(|_| anyhow!("setting a neighbour panicked"))?
    })?;
    Ok(([one, two], [tap1, tap2]))
}

impl Wire {
    /// Makes the hosts 10.95.0.1 and 10.95.0.2.
    pub(crate) fn new(offload: bool) -> Result<Wire> {
        let (hosts, taps) = hosts(offload)?;
        let [one, two] = &taps;
        Ok(Wire { ends: [descriptor(one)?, descriptor(two)?], hosts, offload })
    }

    /// Transfer with the kernel's TCP over the wire. The thread that carries frames runs on `core`.
    pub(crate) fn bulk(
        &self,
        cores: Cores,
        (settings, core): (Settings, usize),
        seconds: f64,
    ) -> Result<(Measurement, Carried)> {
        let done = AtomicBool::new(false);
        let [writer, reader] = &self.hosts;
        let path =
            Path { listen: IpAddr::from([10, 95, 0, 2]), name: "a wire of reads and writes" };
        thread::scope(|scope| {
            let carrier = scope.spawn(|| {
                pin(&[core])?;
                carry(&self.ends, self.offload, &done)
            });
            let moved =
                transfer(cores, settings, seconds, &path, || enter(writer), || enter(reader));
            done.store(true, Ordering::Release);
            let carried = carrier.join().map_err(|_| anyhow!("the carrying thread panicked"))??;
            Ok((moved?, carried))
        })
    }

    /// The settings to try: the cores of the kernel's ends, and for each of them a core for the
    /// thread that carries frames.
    pub(crate) fn candidates(cores: Cores) -> Vec<(Settings, usize)> {
        let placements = Placement::all(cores).into_iter().map(Settings::bulk);
        placements.flat_map(|s| cores.both().into_iter().map(move |core| (s, core))).collect()
    }
}

fn descriptor(tap: &Tap) -> Result<OwnedFd> {
    Ok(tap.as_fd().context("the TAP is gone")?.try_clone_to_owned()?)
}

fn carry(ends: &[OwnedFd; 2], offload: bool, done: &AtomicBool) -> Result<Carried> {
    let (batch, room) = if offload { (BATCH_64K, 65_664) } else { (BATCH_1500, 2048) };
    let mut frames = vec![(vec![0; room], 0); batch];
    let mut carried = Carried::default();
    while !done.load(Ordering::Acquire) {
        let there = relay(&ends[0], &ends[1], &mut frames, &mut carried)?;
        let back = relay(&ends[1], &ends[0], &mut frames, &mut Carried::default())?;
        if there + back == 0 {
            let wait = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
            let mut asked = ends.each_ref().map(|fd| PollFd::new(fd, PollFlags::IN));
            poll(&mut asked, Some(&wait))?;
        }
    }
    Ok(carried)
}

/// Reads the frames that wait, at most a batch, then writes them. Returns how many there were.
fn relay(
    from: &OwnedFd,
    to: &OwnedFd,
    frames: &mut [(Vec<u8>, usize)],
    carried: &mut Carried,
) -> Result<usize> {
    let start = thread_cpu_s();
    let mut count = 0;
    while let Some((frame, len)) = frames.get_mut(count) {
        match read(from, &mut frame[..]) {
            Ok(n) => *len = n,
            Err(Errno::AGAIN) => break,
            Err(errno) => return Err(errno.into()),
        }
        count += 1;
    }
    let middle = thread_cpu_s();
    for (frame, len) in &frames[..count] {
        match write(to, &frame[..*len]) {
            // If the other kernel has no room for a frame, the frame is lost, as on any wire.
            Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS) => carried.bytes += *len as u64,
            Err(errno) => return Err(errno.into()),
        }
    }
    carried.reads_s += middle - start;
    carried.writes_s += thread_cpu_s() - middle;
    Ok(count)
}
