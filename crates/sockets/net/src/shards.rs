//! [`Shards`]: a host of several stacks, one for each core. Each stack has its own lock and its own
//! driver, so that threads which use different shards do not wait for each other.
//!
//! Called by: programs. A connection belongs to one shard for its life, and its calls lock no other
//! shard. [`ShardsListener`] and [`ShardsUdpSocket`] are bound at all shards. Code that locks
//! several shards takes the locks in the shards' order. docs/decisions/0081.

mod listener;
mod udp;

use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::Waker;
use std::io;
use std::sync::Arc;

use base::{Counters, Drops, Instant};
use device::Device;
use stack::shard::{self, Shard, Steering};
use stack::{PortConfig, PortId, Stack};

use crate::clock::Clock;
use crate::driver::{Driver, DriverThread};
use crate::inner::{Call, Shared};
use crate::{Net, TcpSocket, TcpStream, error};

pub use listener::ShardsListener;
pub use udp::ShardsUdpSocket;

/// How many port numbers are tried, if a port number that is free at one shard is in use at another
/// one.
const PORTS_TRIED: usize = 16;

/// The shards of one host, with sockets. Cheap to clone.
///
/// Two shards, each with a device of its own. Here the program itself feeds the devices with
/// packets.
/// ```
/// # mod wirespeed { pub use {device, stack::*, wirespeed_net as net}; }
/// use wirespeed::device::{Device, channel};
/// use wirespeed::net::{Shards, ShardsListener};
/// use wirespeed::shard::Shard;
/// use wirespeed::{PortConfig, StackConfig};
///
/// let mut shards = Shard::group(&StackConfig::new([1, 2]), 2);
/// let (mut devices, mut ends) = (Vec::<Box<dyn Device>>::new(), Vec::new());
/// for _ in 0..2 {
///     let (device, end) = channel::pair(&channel::Config::default());
///     devices.push(Box::new(device));
///     ends.push(end);
/// }
/// let addresses = vec!["192.0.2.1/24".parse()?];
/// Shard::add_port(&mut shards, devices, &PortConfig { addresses, ..PortConfig::default() });
/// let (host, _drivers) = Shards::spawn_threads(shards, &[])?; // on cores that the system chooses
/// let _listener = ShardsListener::bind(&host, "192.0.2.1:80".parse()?)?; // at both
/// assert_eq!(host.nets().len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Shards(Arc<All>);

struct All {
    nets: Vec<Net>,
    steering: Steering,
    /// The number of the shard that gets the next connection.
    turn: AtomicUsize,
}

impl Shards {
    /// Share all shards of a group, in the group's order. Nothing happens until all drivers run.
    /// The stacks' clocks start again at zero, so none of the stacks may have been polled before.
    ///
    /// # Panics
    /// If these are not all shards of one group, in their order.
    pub fn new(shards: Vec<Shard>) -> (Shards, Vec<Driver>) {
        let steering = shards.first().map(Shard::steering).expect("a host has at least one shard");
        assert_eq!(steering.count(), shards.len(), "all shards of a group are shared together");
        let clock = Clock::from_now(Instant::ZERO);
        let (mut nets, mut drivers) = (Vec::<Net>::new(), Vec::new());
        for (index, shard) in shards.into_iter().enumerate() {
            assert_eq!(shard.index(), index, "the shards of a group are in their order");
            let (stack, turns) = shard.into_parts();
            let shared = Shared::new(stack, Some(Box::new(turns)), clock.clone());
            let (net, driver) = Net::of(shared, nets.first().cloned());
            nets.push(net);
            drivers.push(driver);
        }
        (Shards(Arc::new(All { nets, steering, turn: AtomicUsize::new(0) })), drivers)
    }

    /// Share a group of shards, and drive each of them from a thread. Thread `n` is pinned to core
    /// `cores[n]`; if `cores` is shorter, the system chooses the core. A thread that waits in a
    /// blocking call may drive the shard that it waits for, on whatever core that thread runs.
    ///
    /// # Errors
    /// The system cannot start a thread, or does not let it run on that core. The threads that were
    /// started then end.
    pub fn spawn_threads(
        shards: Vec<Shard>,
        cores: &[usize],
    ) -> io::Result<(Shards, Vec<DriverThread>)> {
        let (shards, drivers) = Shards::new(shards);
        let spawn = |(index, driver): (usize, Driver)| {
            let core = cores.get(index).copied();
            driver.spawn(format!("wirespeed-{index}"), move || core.map_or(Ok(()), pin))
        };
        let threads: io::Result<Vec<DriverThread>> =
            drivers.into_iter().enumerate().map(spawn).collect();
        if threads.is_err() {
            shards.shut_down();
        }
        Ok((shards, threads?))
    }

    /// The shards as stacks with sockets of their own. The first shard represents the host: routes,
    /// addresses, neighbours and groups are changed there.
    pub fn nets(&self) -> &[Net] {
        &self.0.nets
    }

    /// The shard to which a flow belongs.
    pub fn of_flow(&self, local: SocketAddr, remote: SocketAddr) -> &Net {
        &self.0.nets[self.index_of(local, remote)]
    }

    fn index_of(&self, local: SocketAddr, remote: SocketAddr) -> usize {
        self.0.steering.of_flow(local, remote)
    }

    /// A shard for the next connection: each call returns the next shard in turn.
    pub fn any(&self) -> &Net {
        &self.0.nets[self.next()]
    }

    fn next(&self) -> usize {
        self.0.turn.fetch_add(1, Ordering::Relaxed) % self.0.nets.len()
    }

    /// Connect, with the default settings. Shards get connections in turn; the local port is chosen
    /// so that replies come to that shard.
    ///
    /// # Errors
    /// As [`TcpStream::connect`].
    pub async fn connect(&self, remote: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(self.any(), remote).await
    }

    /// The settings `socket` at the shard for a connection to `remote`: the shard of the flow if
    /// the local port is already set, else the next shard in turn. Use them with
    /// [`TcpSocket::connect`] and [`crate::blocking::TcpStream::connect_with`].
    ///
    /// # Errors
    /// There is no route to `remote`; the driver is gone.
    pub fn towards(&self, socket: &TcpSocket, remote: SocketAddr) -> io::Result<TcpSocket> {
        let Some(mut local) = socket.local().filter(|local| local.port() != 0) else {
            return Ok(socket.at(self.any()));
        };
        if local.ip().is_unspecified() {
            let source = self.0.nets[0].with_stack(|stack| stack.source_for(remote))?;
            local.set_ip(source.ok_or(io::ErrorKind::NetworkUnreachable)?);
        }
        Ok(socket.at(self.of_flow(local, remote)))
    }

    /// Listen at all shards, with the settings of `socket`.
    ///
    /// # Errors
    /// As [`TcpSocket::listen`].
    pub fn listen(&self, socket: &TcpSocket, backlog: usize) -> io::Result<ShardsListener> {
        ShardsListener::new(self, socket, backlog)
    }

    /// Read or change the state of all shards. `f` gets their stacks while all locks are held, so
    /// it should be quick, and it must not call a socket.
    ///
    /// # Errors
    /// A driver is gone.
    pub fn with_stacks<T>(&self, f: impl FnOnce(&mut [&mut Stack]) -> T) -> io::Result<T> {
        let (mut calls, mut gone) = (Vec::new(), None);
        for net in &self.0.nets {
            match net.shared().call() {
                Ok(call) => calls.push(call),
                Err(why) => gone = Some(why),
            }
        }
        let done = match gone {
            None => {
                let stacks = calls.iter_mut().map(|call: &mut Call<'_>| &mut call.stack);
                Ok(f(&mut stacks.collect::<Vec<_>>()))
            }
            Some(why) => Err(why),
        };
        let (mut wakers, mut trash) = (Vec::new(), Vec::new());
        calls.into_iter().for_each(|call| call.release(&mut wakers, &mut trash));
        // Waking and dropping a waker may run any code, also code that takes a lock.
        drop(trash);
        wakers.into_iter().for_each(Waker::wake);
        done
    }

    /// Add a port while the shards run, with a device for each: [`shard::add_port`].
    ///
    /// # Errors
    /// A driver is gone.
    ///
    /// # Panics
    /// If there is not one device for each shard.
    pub fn add_port(
        &self,
        devices: Vec<Box<dyn Device>>,
        config: &PortConfig,
    ) -> io::Result<PortId> {
        self.with_stacks(|stacks| shard::add_port(stacks, devices, config))
    }

    /// Remove a port from all shards. Connections over it fail with
    /// [`io::ErrorKind::NetworkDown`].
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`], or a driver is gone.
    pub fn remove_port(&self, port: PortId) -> io::Result<()> {
        let is_removed = self.with_stacks(|stacks| shard::remove_port(stacks, port))?;
        if is_removed { Ok(()) } else { Err(error::no_port()) }
    }

    /// The counters of all shards together, and their drops.
    ///
    /// # Errors
    /// A driver is gone.
    pub fn counters(&self) -> io::Result<(Counters, Drops)> {
        let (mut counters, mut drops) = (Counters::default(), Drops::default());
        for net in &self.0.nets {
            net.with_stack(|stack| {
                counters.include(stack.counters());
                drops.include(stack.drops());
            })?;
        }
        Ok((counters, drops))
    }

    /// Shut the host down: the drivers end, and all sockets fail from then on.
    pub fn shut_down(&self) {
        self.0.nets.iter().for_each(Net::shut_down);
    }
}

/// A single stack, as a host with one shard.
impl From<Net> for Shards {
    fn from(net: Net) -> Shards {
        let steering = Steering::alone();
        Shards(Arc::new(All { nets: vec![net], steering, turn: AtomicUsize::new(0) }))
    }
}

/// Let the calling thread run on this core only.
#[cfg(target_os = "linux")]
fn pin(core: usize) -> io::Result<()> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let mut set = CpuSet::new();
    if core >= CpuSet::MAX_CPU {
        return Err(no_core(core));
    }
    set.set(core);
    // The core does not exist, or this process may not run on it.
    sched_setaffinity(None, &set).map_err(|_| no_core(core))
}

#[cfg(not(target_os = "linux"))]
fn pin(core: usize) -> io::Result<()> {
    Err(no_core(core))
}

fn no_core(core: usize) -> io::Error {
    let what = format!("a thread cannot be pinned to core {core}: choose another, or none");
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
