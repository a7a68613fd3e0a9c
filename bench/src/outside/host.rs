//! A network namespace that contains a TAP. Our stack is at the TAP's other end, so that the
//! namespace's kernel is the other host. Called by `tap.rs` and the rows about NFS. The namespace
//! and the TAP are removed on drop.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Instant as Clock;

use anyhow::{Context, Result, anyhow};
use base::{Instant, MacAddr, Mtu};
use device::Device;
use device::tap::{Config, Setup, Tap};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::sched_yield;
use stack::{PortConfig, Stack, StackConfig};

use crate::namespace::{enter_new_namespace, ip};

/// The addresses on the wire: the kernel's, and ours.
pub(crate) const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
pub(crate) const OURS: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 2);

const OUR_MAC: MacAddr = MacAddr([2, 0, 0, 0x98, 0, 2]);

/// The kernel's end: a namespace that threads can enter.
pub(super) struct Host {
    pub(super) namespace: File,
}

/// Our end: a stack over the TAP.
pub(super) struct End {
    pub(super) stack: Stack,
    /// A descriptor of the TAP, which is readable when frames have arrived.
    fd: OwnedFd,
    clock: Clock,
    /// How many polls have found no frames since the last poll that found some.
    idle_looks: u32,
}

/// After this many polls without frames, each of which yields the processor, our end sleeps. Waking
/// a sleeping thread delays the next frame; a poll after a yield finds several frames at once.
const IDLE_LOOKS: u32 = 3;

/// Both ends of a wire. With `offload` the wire handles checksums and super-segments.
pub(super) fn wire(offload: bool, mtu: usize) -> Result<(Host, End)> {
    let (namespace, tap) = host_with_tap(offload, mtu)?;
    let fd = tap.as_fd().context("the TAP is gone")?.try_clone_to_owned()?;
    let stack = stack_over(tap)?;
    Ok((Host { namespace }, End { stack, fd, clock: Clock::now(), idle_looks: 0 }))
}

/// Our end: a stack over the TAP, with the kernel's link address in its neighbour table.
pub(crate) fn stack_over(tap: Tap) -> Result<Stack> {
    let kernel_mac = tap.kernel_mac().context("the TAP has no hardware address")?;
    let mut stack = Stack::new(StackConfig::new([0x1988, 0x1989]));
    let addresses = vec![format!("{OURS}/24").parse().map_err(|e| anyhow!("{e:?}"))?];
    let port = stack
        .add_port(Box::new(tap), PortConfig { mac: OUR_MAC, addresses, ..PortConfig::default() });
    stack.add_neighbour(port, IpAddr::V4(KERNEL), kernel_mac);
    Ok(stack)
}

/// A namespace with a TAP in it. The TAP is up and has the kernel's address; our link address is in
/// the kernel's neighbour table.
pub(crate) fn host_with_tap(offload: bool, mtu: usize) -> Result<(File, Tap)> {
    in_new_namespace(move || {
        let config = Config { vnet_hdr: offload, ..Config::default() };
        let mut tap = Tap::open(&config)?;
        let addresses = vec![format!("{KERNEL}/24").parse().map_err(|e| anyhow!("{e:?}"))?];
        tap.configure(&Setup { addresses, mtu: Mtu::new(mtu), up: true, ..Setup::default() })?;
        ip(&format!("neigh add {OURS} lladdr {OUR_MAC} dev {}", tap.name()))?;
        Ok(tap)
    })
}

/// Runs `make` in a new namespace. Returns the namespace, and the result.
pub(crate) fn in_new_namespace<T: Send>(
    make: impl FnOnce() -> Result<T> + Send,
) -> Result<(File, T)> {
    thread::scope(|scope| {
        let made = scope.spawn(|| Ok((enter_new_namespace()?, make()?)));
        made.join().map_err(|_| anyhow!("making a namespace panicked"))?
    })
}

impl End {
    pub(super) fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.elapsed().as_nanos() as u64 + 1)
    }

    /// One turn of the stack. After a few turns without work the thread sleeps until a frame
    /// arrives or a timer expires.
    pub(super) fn turn(&mut self) -> Result<()> {
        let now = self.now();
        // A frame that arrives after this poll is found by the next poll, or ends the sleep on the
        // descriptor.
        if self.stack.poll(now) > 0 {
            self.idle_looks = 0;
            return Ok(());
        }
        if self.idle_looks < IDLE_LOOKS {
            self.idle_looks += 1;
            sched_yield();
            return Ok(());
        }
        let wait = self.stack.next_deadline().since(now).as_nanos().min(100_000_000);
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait as i64 };
        let mut asked = [PollFd::new(&self.fd, PollFlags::IN)];
        poll(&mut asked, Some(&timeout)).context("waiting for the TAP")?;
        Ok(())
    }
}

/// A socket address, of the kernel or of our stack.
pub(crate) fn at(address: Ipv4Addr, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(address), port)
}
