//! What the system calls of a TAP cost by themselves: writes and reads of 64 KB, and a wire of
//! plain reads and writes between two hosts.
//! Called by `outside`. No stack of ours is in any of this.

use std::fs::{self, File};
use std::io::{IoSlice, IoSliceMut};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use base::LinkKind;
use device::Device;
use device::tap::{Config, Setup, Tap};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, readv, write, writev};

use super::host::in_new_namespace;
use crate::measure::{Cores, Measurement, pin, thread_cpu_s};
use crate::namespace::{enter, ip};
use crate::peers::kernel::{Path, Placement, Settings, transfer};

/// Payload of a TCP segment of the 64 KB frames below, and of each of the parts they are cut into.
const SEGMENT: usize = 1448;
const PARTS: usize = 44;

/// Frames written, and then read, between two looks at the clock; fewer than a TAP's queue holds.
const BATCH: usize = 64;

/// An IPv4 packet with a TCP segment of `PARTS` parts, behind a virtio header that says so.
fn super_segment(link: &[u8]) -> ([u8; 10], Vec<u8>) {
    let headers = link.len() + 40;
    let mut frame = vec![0; headers + PARTS * SEGMENT];
    frame[..link.len()].copy_from_slice(link);
    let ip = &mut frame[link.len()..];
    let total = ip.len() as u16;
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip[6] = 0x40;
    ip[8] = 64;
    ip[9] = 6;
    ip[12..16].copy_from_slice(&[10, 97, 0, 2]);
    ip[16..20].copy_from_slice(&[10, 96, 0, 2]);
    let sum: u32 = ip[..20].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip[32] = 5 << 4;
    ip[33] = 0x10;
    let [len0, len1] = (headers as u16).to_le_bytes();
    let [gso0, gso1] = (SEGMENT as u16).to_le_bytes();
    let [at0, at1] = ((link.len() + 20) as u16).to_le_bytes();
    // NEEDS_CSUM, TCPV4, the headers' length, the parts' size, where the sum starts and goes.
    ([1, 1, len0, len1, gso0, gso1, at0, at1, 16, 0], frame)
}

/// Writes of 64 KB that the kernel copies and drops: they are for another station.
pub(super) fn writes(cores: Cores, seconds: f64) -> Result<Measurement> {
    pin(&[cores.first])?;
    let (_namespace, tap) = super::host::host_with_tap(true)?;
    let fd = descriptor(&tap)?;
    let mut link = [0; 14];
    link[..6].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    link[12] = 8;
    let (header, frame) = super_segment(&link);
    let (start, cpu) = (Instant::now(), thread_cpu_s());
    let mut units = 0;
    while start.elapsed().as_secs_f64() < seconds {
        for _ in 0..BATCH {
            let sent = writev(&fd, &[IoSlice::new(&header), IoSlice::new(&frame)])?;
            ensure!(sent == header.len() + frame.len(), "a short write");
        }
        units += BATCH as u64;
    }
    let cpu_s = thread_cpu_s() - cpu;
    Ok(figures(units, start.elapsed(), cpu_s, "raw writes of 64 KB, dropped by the kernel"))
}

/// Reads of 64 KB frames, which the kernel has forwarded from one TUN to the other.
pub(super) fn reads(cores: Cores, seconds: f64) -> Result<Measurement> {
    pin(&[cores.first])?;
    let (_namespace, (into, out)) = in_new_namespace(|| {
        fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("turning forwarding on")?;
        Ok((tun("10.97.0.1/24")?, tun("10.96.0.1/24")?))
    })?;
    let (into, out) = (descriptor(&into)?, descriptor(&out)?);
    let (header, frame) = super_segment(&[]);
    let (mut got, mut bytes) = ([0; 10], vec![0; 1 << 16]);
    let (start, mut cpu_s, mut units) = (Instant::now(), 0.0, 0);
    while start.elapsed().as_secs_f64() < seconds {
        for _ in 0..BATCH {
            writev(&into, &[IoSlice::new(&header), IoSlice::new(&frame)])?;
        }
        let cpu = thread_cpu_s();
        loop {
            match readv(&out, &mut [IoSliceMut::new(&mut got), IoSliceMut::new(&mut bytes)]) {
                Ok(n) => units += u64::from(n > 60_000),
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        cpu_s += thread_cpu_s() - cpu;
    }
    ensure!(units > 0, "the kernel forwarded no frame of 64 KB");
    Ok(figures(units, start.elapsed(), cpu_s, "raw reads of 64 KB"))
}

fn tun(address: &str) -> Result<Tap> {
    let mut tun = Tap::open(&Config { link: LinkKind::Ip, ..Config::default() })?;
    let addresses = vec![address.parse().map_err(|e| anyhow!("{e:?}"))?];
    tun.configure(&Setup { addresses, up: true, ..Setup::default() })?;
    Ok(tun)
}

fn descriptor(tap: &Tap) -> Result<OwnedFd> {
    Ok(tap.as_fd().context("the TAP is gone")?.try_clone_to_owned()?)
}

fn figures(units: u64, wall: Duration, cpu_s: f64, settings: &str) -> Measurement {
    let bytes = units * (64 << 10);
    let settings = settings.to_owned();
    Measurement { bytes, wall_s: wall.as_secs_f64(), cpu_s, units, settings, p50_ns: None }
}

/// Two hosts, each with a TAP without offloads, and a thread that carries frames between them by
/// plain reads and writes, as whoever has no stack would.
pub(super) struct Wire {
    hosts: [File; 2],
    ends: [OwnedFd; 2],
}

impl Wire {
    /// The hosts are 10.95.0.1 and 10.95.0.2.
    pub(super) fn new() -> Result<Wire> {
        let host = |number: u8| {
            in_new_namespace(move || {
                let mut tap = Tap::open(&Config { vnet_hdr: false, ..Config::default() })?;
                let address = format!("10.95.0.{number}/24");
                let addresses = vec![address.parse().map_err(|e| anyhow!("{e:?}"))?];
                tap.configure(&Setup { addresses, up: true, ..Setup::default() })?;
                let mac = tap.kernel_mac().context("no hardware address")?;
                Ok((tap.name().to_owned(), mac, descriptor(&tap)?))
            })
        };
        let (one, (name1, mac1, fd1)) = host(1)?;
        let (two, (name2, mac2, fd2)) = host(2)?;
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
        Ok(Wire { hosts: [one, two], ends: [fd1, fd2] })
    }

    /// The kernel's TCP over it; the carrying thread runs on `core`.
    pub(super) fn bulk(
        &self,
        cores: Cores,
        (settings, core): (Settings, usize),
        seconds: f64,
    ) -> Result<Measurement> {
        let done = AtomicBool::new(false);
        let [writer, reader] = &self.hosts;
        let path =
            Path { listen: IpAddr::from([10, 95, 0, 2]), name: "a wire of reads and writes" };
        thread::scope(|scope| {
            let carrier = scope.spawn(|| {
                pin(&[core])?;
                carry(&self.ends, &done)
            });
            let moved =
                transfer(cores, settings, seconds, &path, || enter(writer), || enter(reader));
            done.store(true, Ordering::Release);
            carrier.join().map_err(|_| anyhow!("the carrying thread panicked"))??;
            moved
        })
    }

    /// Where the kernel's ends may run, and the carrying thread.
    pub(super) fn candidates(cores: Cores) -> Vec<(Settings, usize)> {
        let placements = Placement::all(cores).into_iter().map(Settings::bulk);
        placements.flat_map(|s| cores.both().into_iter().map(move |core| (s, core))).collect()
    }
}

fn carry(ends: &[OwnedFd; 2], done: &AtomicBool) -> Result<()> {
    let mut frame = vec![0; 2048];
    while !done.load(Ordering::Acquire) {
        let mut moved = 0;
        for (from, to) in [(0, 1), (1, 0)] {
            for _ in 0..BATCH {
                match read(&ends[from], &mut frame) {
                    Ok(n) => match write(&ends[to], &frame[..n]) {
                        // What the other kernel has no room for is lost, as on any wire.
                        Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS) => moved += 1,
                        Err(errno) => return Err(errno.into()),
                    },
                    Err(Errno::AGAIN) => break,
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        if moved == 0 {
            let wait = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
            let mut asked = ends.each_ref().map(|fd| PollFd::new(fd, PollFlags::IN));
            poll(&mut asked, Some(&wait))?;
        }
    }
    Ok(())
}
