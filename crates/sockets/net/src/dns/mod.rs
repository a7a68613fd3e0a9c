//! Addresses of hosts by name: the resolver of crate `host` asks name servers over the stack's own
//! sockets.
//!
//! Called by: programs. [`Net::set_resolver`] sets the servers to ask; until then, only addresses
//! and `localhost` can be looked up. [`StackLookup`] is for programs that poll a stack themselves.
//! Decision: docs/decisions/0065-dns.md.
//!
//! ```
//! # mod wirespeed { pub use {stack::*, wirespeed_net as net}; }
//! use wirespeed::net::{Net, TcpSocket, dns};
//! # use wirespeed::net::TcpListener;
//! # use wirespeed::pair::{PairConfig, pair};
//! # let (client, server) = pair(&PairConfig::new([1, 2]));
//! # let at = std::net::SocketAddr::new(server.addr, 7);
//! # let (net, _driver) = Net::spawn_thread(client.stack)?;
//! # let (server, _other) = Net::spawn_thread(server.stack)?;
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! # let _listener = TcpListener::bind(&server, at)?;
//! let (config, notes) = dns::Config::from_resolv_conf("nameserver 192.0.2.53\nsearch example");
//! assert!(notes.is_empty(), "every line was understood");
//! let mut hosts = dns::Hosts::default(); // names that no server is asked for
//! # let address = at.ip();
//! hosts.add("server.example", address).map_err(std::io::Error::other)?;
//! net.set_resolver(config, hosts)?;
//! assert_eq!(net.lookup_host("server.example").await?, [address]);
//! let _stream = TcpSocket::new(&net).connect_host("server.example", at.port()).await?;
//! # Ok::<(), std::io::Error>(())
//! # })?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod over_stack;

use core::future::{Future, poll_fn};
use core::net::{IpAddr, SocketAddr};
use core::pin::pin;
use core::task::Poll;
use std::io;

use base::Instant;
pub use host::dns::{
    Config, Counts, Families, Hosts, Lookup, LookupError, NameError, Note, PORT, Resolver, limits,
};

use crate::inner::{Inner, RESOLVER, Shared};
use crate::wait::{Alarm, wait};
use crate::waiting::Readiness;
use crate::{Net, TcpSocket, TcpStream};
pub use over_stack::StackLookup;

/// The result of one attempt of a lookup.
pub(crate) enum Step {
    Found(Vec<IpAddr>),
    /// The lookup's deadline is earlier now: the caller has to wait with the new deadline.
    Earlier,
}

/// A lookup of a name over the sockets of a [`Net`]; dropping it closes them.
pub(crate) struct Lookups<'a> {
    shared: &'a Shared,
    lookup: StackLookup,
}

impl<'a> Lookups<'a> {
    pub(crate) fn new(net: &'a Net, host: &str, families: Families) -> io::Result<Lookups<'a>> {
        let shared = net.shared();
        let mut call = shared.call()?;
        let now = call.stack.now();
        let lookup = StackLookup::new(call.resolver.lookup(host, families, now));
        Ok(Lookups { shared, lookup })
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.lookup.deadline()
    }

    pub(crate) fn look(&mut self, inner: &mut Inner, now: Instant) -> Poll<io::Result<Step>> {
        let before = self.lookup.deadline();
        match self.lookup.poll(&mut inner.stack, &mut inner.resolver, now) {
            Poll::Ready(Ok(addresses)) => Poll::Ready(Ok(Step::Found(addresses))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(failed(error))),
            Poll::Pending if self.lookup.deadline() < before => Poll::Ready(Ok(Step::Earlier)),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for Lookups<'_> {
    fn drop(&mut self) {
        if let Ok(mut call) = self.shared.call() {
            self.lookup.close(&mut call.stack);
        }
    }
}

fn failed(error: LookupError) -> io::Error {
    let kind = match error {
        LookupError::Name(..) => io::ErrorKind::InvalidInput,
        LookupError::NoName(_) | LookupError::NoAddress(_) => io::ErrorKind::NotFound,
        LookupError::TimedOut(_) => io::ErrorKind::TimedOut,
        LookupError::Failed(_) | LookupError::AliasLoop(_) | LookupError::NoServers(_) => {
            io::ErrorKind::Other
        }
    };
    io::Error::new(kind, error)
}

impl Net {
    /// Set the name servers to ask and the names that need no server. Cached answers are forgotten.
    /// [`Config::from_resolv_conf`] and [`Hosts::from_text`] read the system's files.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn set_resolver(&self, config: Config, hosts: Hosts) -> io::Result<()> {
        let mut call = self.shared().call()?;
        // Each resolver has a secret of its own, so that a new resolver does not repeat the message
        // ids of the last one.
        let drawn = call.stack.ports_to_try().next().unwrap_or(0);
        let [a, b] = call.stack.derived_secret(RESOLVER + (u64::from(drawn) << 32));
        call.resolver = Resolver::new(config, hosts, [a, b ^ call.stack.now().as_nanos()]);
        Ok(())
    }

    /// Read or change the resolver: its counters, its cache. `f` runs under the stack's lock.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn with_resolver<T>(&self, f: impl FnOnce(&mut Resolver) -> T) -> io::Result<T> {
        Ok(f(&mut self.shared().call()?.resolver))
    }

    /// The addresses of `host`, which is a name, or an address as text. IPv6 addresses come first.
    /// Dropping the future ends the lookup.
    ///
    /// # Errors
    /// An error that contains a [`LookupError`]. Its kind is [`io::ErrorKind::NotFound`] (the name
    /// does not exist or has no addresses), [`io::ErrorKind::InvalidInput`] (`host` is not a name),
    /// [`io::ErrorKind::TimedOut`] or [`io::ErrorKind::Other`].
    pub async fn lookup_host(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.lookup_host_of(host, Families::Both).await
    }

    /// [`Net::lookup_host`] for addresses of one family.
    ///
    /// # Errors
    /// As `lookup_host`.
    pub async fn lookup_host_of(&self, host: &str, families: Families) -> io::Result<Vec<IpAddr>> {
        let shared = self.shared();
        let mut lookups = Lookups::new(self, host, families)?;
        loop {
            let mut alarm = Alarm::new(shared, Some(lookups.deadline()));
            let look = |inner: &mut Inner| lookups.look(inner, inner.stack.now());
            let mut looked = pin!(wait(shared, Readiness::Lookup, look));
            let step = poll_fn(|cx| match looked.as_mut().poll(cx) {
                Poll::Pending => alarm.poll(cx).map(|at| at.map(|()| Step::Earlier)),
                ready => ready,
            });
            if let Step::Found(addresses) = step.await? {
                return Ok(addresses);
            }
        }
    }
}

impl TcpSocket {
    /// Connect to a host by name: [`TcpSocket::connect_any`] with the addresses that
    /// [`Net::lookup_host`] finds.
    ///
    /// # Errors
    /// As [`Net::lookup_host`] and [`TcpSocket::connect_any`].
    pub async fn connect_host(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let addresses = self.net().lookup_host(host).await?;
        let remotes: Vec<_> = addresses.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
        self.connect_any(&remotes).await
    }
}
