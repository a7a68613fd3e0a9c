//! TCP between two kernels, in super-segments: through our router between two TAPs, and through the
//! kernel's router between two veth pairs. Called by `filter`. CPU-seconds include everything: the
//! threads of both ends, the thread of our router, and the softirq daemons of all cores.

use std::fs::{File, read_dir, read_to_string, write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant as Clock;

use anyhow::{Context, Result, anyhow, ensure};
use base::{DropReason, Instant, MacAddr};
use device::Device;
use device::tap::{Config, Setup, Tap};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::sched_yield;
use stack::{PortConfig, Stack, StackConfig};

use super::rules::masqueraded;
use crate::harness::{Bench, Better, Figure, best_of};
use crate::measure::{Cores, Measurement, pin, thread_cpu_s};
use crate::namespace::{enter, ip};
use crate::outside::host::in_new_namespace;
use crate::peers::kernel::{Path, Placement, Settings, transfer};

/// The networks on both sides. In each, the router's address ends with 1 and the host's with 9.
const NETWORKS: [[u8; 3]; 2] = [[192, 0, 2], [192, 0, 3]];
const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 2]), MacAddr([2, 0, 0, 0, 0, 3])];
/// After this many polls without frames the router sleeps.
const IDLE_LOOKS: u32 = 3;

fn address(side: usize, host: u8) -> Ipv4Addr {
    let [a, b, c] = NETWORKS[side & 1];
    Ipv4Addr::new(a, b, c, host)
}

/// Sets the address and the default route of a host, in the calling thread's namespace.
fn settle_host(name: &str, side: usize) -> Result<()> {
    ip(&format!("addr add {}/24 dev {name}", address(side, 9)))?;
    ip(&format!("link set {name} up"))?;
    ip(&format!("route add default via {}", address(side, 1)))
}

/// Runs `work` on a thread in a namespace.
fn inside<T: Send>(namespace: &File, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| enter(namespace).and_then(|()| work()));
        thread.join().map_err(|_| anyhow!("work in a namespace panicked"))?
    })
}

/// The CPU time that the kernel's softirq daemons have used so far, in seconds.
fn softirq_daemons_s() -> Result<f64> {
    let mut all_ns = 0;
    for entry in read_dir("/proc").context("listing /proc")?.flatten() {
        let path = entry.path();
        let name = read_to_string(path.join("comm")).unwrap_or_default();
        if name.starts_with("ksoftirqd/") {
            let spent = read_to_string(path.join("schedstat")).context("reading schedstat")?;
            let ns = spent.split(' ').next().and_then(|ns| ns.parse::<u64>().ok());
            all_ns += ns.context("schedstat begins with no number")?;
        }
    }
    Ok(all_ns as f64 * 1e-9)
}

/// A transfer in one direction, from the host on side 0 to the host on side 1.
fn bulk(
    cores: Cores,
    placement: Placement,
    seconds: f64,
    hosts: &[File; 2],
    name: &'static str,
) -> Result<Measurement> {
    let path = Path { listen: IpAddr::V4(address(1, 9)), name };
    let [writer, reader] = hosts;
    let settings = Settings::bulk(placement);
    let before = softirq_daemons_s()?;
    let ends = transfer(cores, settings, seconds, &path, || enter(writer), || enter(reader))?;
    Ok(Measurement { cpu_s: ends.cpu_s + softirq_daemons_s()? - before, ..ends })
}

/// Two hosts with one TAP each, and our router between them.
struct Ours {
    hosts: [File; 2],
    stack: Stack,
    fds: [OwnedFd; 2],
    clock: Clock,
}

impl Ours {
    fn new() -> Result<Ours> {
        let host = |side: usize| {
            in_new_namespace(move || {
                let mut tap = Tap::open(&Config::default())?;
                tap.configure(&Setup { up: true, ..Setup::default() })?;
                settle_host(tap.name(), side)?;
                let (router, mac) = (address(side, 1), MACS[side]);
                ip(&format!("neigh add {router} lladdr {mac} dev {}", tap.name()))?;
                Ok(tap)
            })
        };
        let ((one, tap_one), (two, tap_two)) = (host(0)?, host(1)?);
        let mut stack = Stack::new(StackConfig::new([0x1624, 0x3022]));
        let descriptor = |tap: &Tap| -> Result<OwnedFd> {
            Ok(tap.as_fd().context("the TAP is gone")?.try_clone_to_owned()?)
        };
        let fds = [descriptor(&tap_one)?, descriptor(&tap_two)?];
        for (side, tap) in [tap_one, tap_two].into_iter().enumerate() {
            let kernel_mac = tap.kernel_mac().context("the TAP has no hardware address")?;
            let own = format!("{}/24", address(side, 1));
            let addresses = vec![own.parse().map_err(|why| anyhow!("{why:?}"))?];
            let port = stack.add_port(
                Box::new(tap),
                PortConfig { mac: MACS[side], addresses, ..PortConfig::default() },
            );
            stack.add_neighbour(port, IpAddr::V4(address(side, 9)), kernel_mac);
        }
        stack.set_forwarding(true);
        Ok(Ours { hosts: [one, two], stack, fds, clock: Clock::now() })
    }

    /// Forward on `core` until `done` is set. Returns the CPU seconds of the thread.
    fn forward(&mut self, core: usize, done: &AtomicBool) -> Result<f64> {
        pin(&[core])?;
        let (begun, mut idle_looks) = (thread_cpu_s(), 0);
        while !done.load(Ordering::Acquire) {
            let now = Instant::from_nanos(self.clock.elapsed().as_nanos() as u64 + 1);
            if self.stack.poll(now) > 0 {
                idle_looks = 0;
            } else if idle_looks < IDLE_LOOKS {
                idle_looks += 1;
                sched_yield();
            } else {
                let wait = self.stack.next_deadline().since(now).as_nanos().min(10_000_000);
                let timeout = Timespec { tv_sec: 0, tv_nsec: wait as i64 };
                let mut asked = self.fds.each_ref().map(|fd| PollFd::new(fd, PollFlags::IN));
                poll(&mut asked, Some(&timeout)).context("waiting for the TAPs")?;
            }
        }
        Ok(thread_cpu_s() - begun)
    }

    /// One transfer, while the router's thread runs on `core`.
    fn measure(
        &mut self,
        cores: Cores,
        (placement, core): (Placement, usize),
        seconds: f64,
    ) -> Result<Measurement> {
        let hosts = [self.hosts[0].try_clone()?, self.hosts[1].try_clone()?];
        let done = AtomicBool::new(false);
        let (ends, router_s) = thread::scope(|scope| {
            let router = scope.spawn(|| self.forward(core, &done));
            let ends = bulk(cores, placement, seconds, &hosts, "through our router and two TAPs");
            done.store(true, Ordering::Release);
            let router_s = router.join().map_err(|_| anyhow!("the router panicked"))?;
            Ok::<_, anyhow::Error>((ends?, router_s?))
        })?;
        let settings = format!("{}, the router on core {core}", ends.settings);
        Ok(Measurement { cpu_s: ends.cpu_s + router_s, settings, ..ends })
    }

    /// Finds the placement with the best figure.
    fn best(&mut self, b: &Bench) -> Result<(Placement, usize)> {
        let cores = b.cores;
        let of = |placement| cores.both().into_iter().map(move |core| (placement, core));
        let all: Vec<_> = Placement::all(cores).into_iter().flat_map(of).collect();
        best_of(&all, 2, Better::Higher, |placed| {
            self.measure(cores, placed, b.trial_s)?.gbit_per_cpu_s()
        })
    }

    /// Checks that no super-segment was dropped.
    fn check(&self) -> Result<()> {
        let lost = self.stack.drops().of(DropReason::IpSuperSegment);
        ensure!(lost == 0, "the router dropped {lost} super-segments: {}", self.stack.drops());
        Ok(())
    }
}

/// Two hosts, and between them a namespace whose kernel forwards.
struct Theirs {
    hosts: [File; 2],
    /// Keeps the router's namespace alive.
    _router: File,
}

impl Theirs {
    fn new() -> Result<Theirs> {
        let ((one, ()), (two, ())) = (in_new_namespace(|| Ok(()))?, in_new_namespace(|| Ok(()))?);
        let (router, ()) = in_new_namespace(|| {
            for (side, host) in [&one, &two].into_iter().enumerate() {
                let there = format!("/proc/{}/fd/{}", std::process::id(), host.as_raw_fd());
                ip(&format!("link add r{side} type veth peer name h{side} netns {there}"))?;
                ip(&format!("addr add {}/24 dev r{side}", address(side, 1)))?;
                ip(&format!("link set r{side} up"))?;
            }
            write("/proc/sys/net/ipv4/conf/all/forwarding", "1").context("letting it forward")
        })?;
        inside(&one, || settle_host("h0", 0))?;
        inside(&two, || settle_host("h1", 1))?;
        Ok(Theirs { hosts: [one, two], _router: router })
    }

    fn measure(&self, cores: Cores, placement: Placement, seconds: f64) -> Result<Measurement> {
        let name = "routed between two veth pairs with GSO and TSO";
        bulk(cores, placement, seconds, &self.hosts, name)
    }
}

/// The ratio of gigabits per CPU-second of everything, ours over the kernel's.
pub(super) fn beside_veths(b: &Bench) -> Result<Figure> {
    let (mut ours, theirs) = (Ours::new()?, Theirs::new()?);
    let placed = ours.best(b)?;
    let kernel = best_of(&Placement::all(b.cores), 2, Better::Higher, |placement| {
        theirs.measure(b.cores, placement, b.trial_s)?.gbit_per_cpu_s()
    })?;
    let figure = b.ratio(
        Measurement::gbit_per_cpu_s,
        |seconds| ours.measure(b.cores, placed, seconds),
        |seconds| theirs.measure(b.cores, kernel, seconds),
    )?;
    ours.check()?;
    Ok(figure)
}

/// The ratio of gigabits per CPU-second of everything through our router: with 100 rules, states
/// and source NAT over without a filter.
pub(super) fn with_filter(b: &Bench) -> Result<Figure> {
    let mut with = Ours::new()?;
    with.stack.set_filter(Some(masqueraded(100).published(1)?));
    let mut without = Ours::new()?;
    let placed = without.best(b)?;
    let figure = b.ratio(
        Measurement::gbit_per_cpu_s,
        |seconds| with.measure(b.cores, placed, seconds),
        |seconds| without.measure(b.cores, placed, seconds),
    )?;
    let states = with.stack.filter().map_or(0, |filter| filter.states().len());
    ensure!(states > 0, "the filter has seen no connection");
    with.check()?;
    Ok(figure)
}
