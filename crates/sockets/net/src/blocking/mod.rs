//! Sockets for threads: the calls of `std::net`, with its time-outs and kinds of errors.
//!
//! Called by: programs. While a call waits and the driver sleeps, the waiting thread drives the
//! stack.
//!
//! ```
//! # mod wirespeed { pub use {stack::*, wirespeed_net as net}; }
//! use std::io::{Read, Write};
//! # use wirespeed::net::Net;
//! use wirespeed::net::blocking::{TcpListener, TcpStream, UdpSocket, lookup_host};
//! # use wirespeed::pair::{PairConfig, pair};
//! # let (client, server) = pair(&PairConfig::new([1, 2]));
//! # let at = std::net::SocketAddr::new(server.addr, 7);
//! # let (net, _driver) = Net::spawn_thread(client.stack)?;
//! # let (server, _other) = Net::spawn_thread(server.stack)?;
//!
//! let listener = TcpListener::bind(&server, at)?;
//! let mut stream = TcpStream::connect(&net, at)?;
//! let (mut accepted, _from) = listener.accept()?;
//! stream.write_all(b"hello")?;
//! let mut five = [0; 5];
//! accepted.read_exact(&mut five)?;
//!
//! let socket = UdpSocket::bind(&net, (std::net::Ipv4Addr::UNSPECIFIED, 0).into())?;
//! socket.set_read_timeout(Some(std::time::Duration::from_millis(1)))?;
//! assert!(socket.recv_from(&mut five).is_err(), "nobody sends to it");
//!
//! assert_eq!(lookup_host(&net, "192.0.2.7")?, ["192.0.2.7".parse::<std::net::IpAddr>()?]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod datagrams;
mod shards;
mod stream;

use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::task::Poll;
use core::time::Duration;
use std::io;
use std::time::Instant;

pub use datagrams::UdpSocket;
pub use shards::{ShardsListener, ShardsUdpSocket};
pub use stream::{TcpListener, TcpStream};

use crate::dns::{Families, Lookups, Step};
use crate::inner::{Inner, Shared};
use crate::waiting::Readiness;
use crate::{Net, error, wait};

/// How long a socket's calls wait: for ever, for a time, or not at all.
#[derive(Default)]
struct BlockingMode {
    /// Nanoseconds; 0 is no limit.
    read_timeout_ns: AtomicU64,
    write_timeout_ns: AtomicU64,
    nonblocking: AtomicBool,
}

fn set(timeout_ns: &AtomicU64, timeout: Option<Duration>) -> io::Result<()> {
    let ns = match timeout {
        None => 0,
        Some(Duration::ZERO) => {
            let text = "a time-out of zero: use `None` for none, or `set_nonblocking`";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Some(timeout) => u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX),
    };
    timeout_ns.store(ns, Ordering::Relaxed);
    Ok(())
}

fn value(timeout_ns: &AtomicU64) -> Option<Duration> {
    match timeout_ns.load(Ordering::Relaxed) {
        0 => None,
        ns => Some(Duration::from_nanos(ns)),
    }
}

impl BlockingMode {
    /// Wait for `readiness` up to the socket's timeout; then `WouldBlock`, as `std` on Unix.
    fn wait<T>(
        &self,
        shared: &Shared,
        readiness: Readiness,
        timeout_ns: &AtomicU64,
        mut look: impl FnMut(&mut Inner) -> Poll<io::Result<T>>,
    ) -> io::Result<T> {
        if self.nonblocking.load(Ordering::Relaxed) {
            return match look(&mut *shared.call_at(readiness)?) {
                Poll::Ready(answer) => answer,
                Poll::Pending => Err(error::would_block()),
            };
        }
        let until = value(timeout_ns).and_then(|timeout| Instant::now().checked_add(timeout));
        wait::block_on(shared, readiness, until, look)?.ok_or_else(error::would_block)
    }

    fn read<T>(
        &self,
        shared: &Shared,
        readiness: Readiness,
        look: impl FnMut(&mut Inner) -> Poll<io::Result<T>>,
    ) -> io::Result<T> {
        self.wait(shared, readiness, &self.read_timeout_ns, look)
    }

    fn write<T>(
        &self,
        shared: &Shared,
        readiness: Readiness,
        look: impl FnMut(&mut Inner) -> Poll<io::Result<T>>,
    ) -> io::Result<T> {
        self.wait(shared, readiness, &self.write_timeout_ns, look)
    }
}

/// [`Net::lookup_host`] for threads: the addresses of a host.
///
/// # Errors
/// As [`Net::lookup_host`].
pub fn lookup_host(net: &Net, host: &str) -> io::Result<Vec<IpAddr>> {
    let shared = net.shared();
    if shared.is_stepped()? {
        // The deadlines of the lookup are alarms, which each step rings.
        let found = wait::block_on_future(None, net.lookup_host(host))?;
        return found.ok_or_else(error::would_block);
    }
    let mut lookups = Lookups::new(net, host, Families::Both)?;
    loop {
        let until = shared.system_time(lookups.deadline());
        let look = |inner: &mut Inner| lookups.look(inner, shared.now());
        if let Some(Step::Found(addresses)) =
            wait::block_on(shared, Readiness::Lookup, until, look)?
        {
            return Ok(addresses);
        }
    }
}

impl TcpStream {
    /// Connect to a host by name. The host's addresses are tried one after the other, as
    /// `std::net::TcpStream::connect` does.
    ///
    /// # Errors
    /// As [`Net::lookup_host`]; if all addresses fail, the error of the last one.
    pub fn connect_host(net: &Net, host: &str, port: u16) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in lookup_host(net, host)? {
            match TcpStream::connect(net, SocketAddr::new(address, port)) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}
