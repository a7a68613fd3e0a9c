//! [`Net`]: a stack that many threads and tasks share, and the calls that make its sockets.
//!
//! Called by: programs. One lock guards the stack; a socket call takes it once. Each socket holds a
//! clone of `Net`, so a stack lives as long as its last socket.

use std::io;
use std::sync::Arc;

use core::net::SocketAddr;
use core::task::Waker;
use core::time::Duration;

use base::{Cidr, Limit, Owner};
use device::Device;
use stack::{
    FastConnect, GapError, IpSettings, ListenConfig, ListenError, ListenerHandle, PortConfig,
    PortId, Stack, TcpHandle,
};

use crate::clock::Clock;
use crate::driver::{Driver, DriverThread};
use crate::error;
use crate::inner::{Inner, Shared};
use crate::waiting::{Socket, WaitQueue};

/// A stack with sockets. Cheap to clone.
///
/// ```
/// # mod wirespeed { pub use {stack::*, wirespeed_net as net}; }
/// use wirespeed::net::{Net, blocking};
/// use wirespeed::pair::{PairConfig, pair};
///
/// let (end, _other) = pair(&PairConfig::new([1, 2])); // two stacks, joined in memory
/// let (net, _driver) = Net::spawn_thread(end.stack)?;
/// let socket = blocking::UdpSocket::bind(&net, "0.0.0.0:0".parse()?)?;
/// assert_ne!(socket.local_addr()?.port(), 0);
/// let connections = net.with_stack(|stack| stack.connection_count())?;
/// assert_eq!(connections, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Net(Arc<Users>);

/// Shared by all clones of a `Net`. When the last clone is dropped, the driver may end.
struct Users {
    shared: Arc<Shared>,
}

impl Drop for Users {
    fn drop(&mut self) {
        if let Ok(mut call) = self.shared.call() {
            call.driver.abandoned = true;
            call.wake_driver();
        }
    }
}

impl Net {
    /// Share a stack. Nothing happens until the driver runs. If the stack was polled before, its
    /// clock goes on from there.
    pub fn new(stack: Stack) -> (Net, Driver) {
        let clock = Clock::from_now(stack.now());
        Net::of(Shared::new(stack, None, clock), None)
    }

    /// A stack; if it is a shard but not the first one of its group, with the first one.
    pub(crate) fn of(shared: Shared, first: Option<Net>) -> (Net, Driver) {
        let shared = Arc::new(shared);
        (Net(Arc::new(Users { shared: shared.clone() })), Driver::new(shared, first))
    }

    /// Share a stack and drive it from a thread.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn spawn_thread(stack: Stack) -> io::Result<(Net, DriverThread)> {
        let (net, driver) = Net::new(stack);
        Ok((net, driver.spawn_thread()?))
    }

    /// Share a stack and drive it from a tokio task; must be called inside the runtime.
    #[cfg(feature = "tokio")]
    pub fn spawn_tokio(stack: Stack) -> (Net, tokio::task::JoinHandle<()>) {
        let (net, driver) = Net::new(stack);
        (net, tokio::spawn(driver.with_tokio()))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    /// Read or change state that belongs to no socket: routes, neighbours, counters, limits. `f`
    /// runs under the stack's lock, so it should be quick and must not call a socket of this stack.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn with_stack<T>(&self, f: impl FnOnce(&mut Stack) -> T) -> io::Result<T> {
        Ok(f(&mut self.shared().call()?.stack))
    }

    /// Does the driver wait for the stack's lock? The lock is not fair: a thread that calls
    /// [`Net::with_stack`] again and again can keep the driver, and so all packets, waiting. Such a
    /// thread calls this between two calls, and yields while it is `true`.
    pub fn driver_waits(&self) -> bool {
        self.shared().driver_waits()
    }

    /// Let `waker` be woken whenever there is news for a socket that a program opened on the stack
    /// itself by [`Net::with_stack`], echo sockets included. These sockets have no wait queues.
    /// `waker` may also be woken without news. It stays until another waker replaces it.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn wake_for_polled(&self, waker: Waker) -> io::Result<()> {
        let mut call = self.shared().call()?;
        let old = call.polled.replace(waker);
        call.discard(old);
        Ok(())
    }

    /// Add a port while the stack runs; see [`Stack::add_port`].
    ///
    /// # Errors
    /// The driver is gone.
    pub fn add_port(&self, device: Box<dyn Device>, config: PortConfig) -> io::Result<PortId> {
        self.with_stack(|stack| stack.add_port(device, config))
    }

    /// Remove a port while the stack runs, and return its device; see [`Stack::remove_port`].
    /// Connections that lose their port fail with [`io::ErrorKind::NetworkDown`].
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`], or the driver is gone.
    pub fn remove_port(&self, port: PortId) -> io::Result<Box<dyn Device>> {
        self.with_stack(|stack| stack.remove_port(port))?.ok_or_else(error::no_port)
    }

    /// Replace a port's device by another of the same link kind while the stack runs, and return
    /// the old device. If the old device was gone, its connections have failed with
    /// [`io::ErrorKind::NetworkDown`]. New connections use the new device.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if there is no such port, the link kind differs, or the
    /// receive queue is too short for the port's interrupt mitigation (the new device is dropped);
    /// the driver is gone.
    pub fn replace_port(
        &self,
        port: PortId,
        device: Box<dyn Device>,
    ) -> io::Result<Box<dyn Device>> {
        let replaced = self.with_stack(|stack| stack.replace_port(port, device))?;
        replaced.map_err(|(why, _)| error::not_replaceable(why))
    }

    /// Let frames that carry datagrams to destinations in `to` leave at least `gap` apart; see
    /// [`Stack::set_burst_gap`].
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] with a [`GapError`]; the driver is gone.
    pub fn set_burst_gap(&self, to: Cidr, gap: Option<Duration>) -> io::Result<()> {
        // A time that does not fit 64 bits of nanoseconds is too long for a gap.
        let ns = |gap: Duration| u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX);
        let gap = gap.map(|gap| base::Duration::from_nanos(ns(gap)));
        self.with_stack(|stack| stack.set_burst_gap(to, gap))?
            .map_err(|why: GapError| io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    /// Shut the stack down: its driver ends, and all sockets fail from then on.
    pub fn shut_down(&self) {
        if let Ok(mut call) = self.shared().call() {
            call.driver.stop = true;
            call.wake_driver();
        }
    }
}

impl Inner {
    /// Begin a connection.
    pub(crate) fn connect(
        &mut self,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        config: &tcp::Config,
        owner: Owner,
        ip: IpSettings,
    ) -> io::Result<TcpHandle> {
        self.check_address(local.filter(|_| !ip.transparent))?;
        let bound = local.is_some_and(|local| local.port() != 0);
        // The stack's clock was set when the call began.
        let handle = self
            .stack
            .tcp_connect_with(remote, local, config, owner, ip, base::Instant::ZERO)
            .map_err(|e| error::connect(e, bound))?;
        self.tcp.insert(handle, Socket::default());
        Ok(handle)
    }

    /// Begin a connection with data in the SYN. Also returns the number of bytes that the SYN
    /// carries.
    pub(crate) fn connect_first(
        &mut self,
        connect: &FastConnect<'_>,
    ) -> io::Result<(TcpHandle, usize)> {
        self.check_address(connect.local.filter(|_| !connect.ip.transparent))?;
        let bound = connect.local.is_some_and(|local| local.port() != 0);
        let opened = self.stack.tcp_connect_first(connect, base::Instant::ZERO);
        let (handle, carried) = opened.map_err(|e| error::connect(e, bound))?;
        self.tcp.insert(handle, Socket::default());
        Ok((handle, carried))
    }

    /// Listen; port 0 stands for any free port.
    pub(crate) fn listen(
        &mut self,
        mut local: SocketAddr,
        config: ListenConfig,
        reuse_address: bool,
    ) -> io::Result<(ListenerHandle, SocketAddr)> {
        self.check_address(Some(local).filter(|_| !config.ip.transparent))?;
        if local.port() != 0 {
            if !reuse_address && self.stack.tcp_port_is_used(local) {
                return Err(error::listen(ListenError::AddressInUse));
            }
            let handle = self.stack.tcp_listen(local, config).map_err(error::listen)?;
            self.listeners.insert(handle, WaitQueue::default());
            return Ok((handle, local));
        }
        for port in self.stack.ports_to_try() {
            local.set_port(port);
            if !reuse_address && self.stack.tcp_port_is_used(local) {
                continue;
            }
            match self.stack.tcp_listen(local, config.clone()) {
                Err(ListenError::AddressInUse) => {}
                Err(other) => return Err(error::listen(other)),
                Ok(handle) => {
                    self.listeners.insert(handle, WaitQueue::default());
                    return Ok((handle, local));
                }
            }
        }
        Err(error::listen(ListenError::AddressInUse))
    }

    /// Close a listener.
    pub(crate) fn unlisten(&mut self, handle: ListenerHandle) {
        self.stack.tcp_unlisten(handle);
        if let Some(wait_queue) = self.listeners.remove(handle) {
            self.forget(wait_queue);
        }
    }

    /// Check that a local address is one of the stack's, or unspecified.
    pub(crate) fn check_address(&self, local: Option<SocketAddr>) -> io::Result<()> {
        match local {
            Some(a)
                if !a.ip().is_unspecified()
                    && !a.ip().is_loopback()
                    && !self.stack.has_address(a.ip()) =>
            {
                Err(error::no_address())
            }
            _ => Ok(()),
        }
    }

    /// Make the socket of a connection that the stack has accepted.
    pub(crate) fn adopt(&mut self, handle: TcpHandle, forwarded: bool) {
        self.forwarded += usize::from(forwarded);
        self.tcp.insert(handle, Socket { forwarded, ..Socket::default() });
    }

    /// Check that another connection of the forwarder is within the limit `forwarded`.
    pub(crate) fn may_forward(&mut self) -> io::Result<()> {
        let used = self.forwarded;
        match self.stack.admits(Limit::Forwarded, used) {
            true => Ok(()),
            false => Err(error::limit(Limit::Forwarded.name())),
        }
    }

    /// Close the connection of a socket that is dropped.
    pub(crate) fn close_tcp(&mut self, handle: TcpHandle) {
        let Some(socket) = self.tcp.remove(handle) else { return };
        self.forwarded -= usize::from(socket.forwarded);
        if socket.linger.time() == Some(Duration::ZERO) {
            self.stack.tcp_abort(handle);
        } else {
            self.stack.tcp_close(handle);
        }
        self.forget(socket.read);
        self.forget(socket.write);
    }
}
