//! [`Network`]: makes the hosts and links of a run.
//!
//! Called by: the main future.

use core::time::Duration;
use std::io;
use std::sync::Arc;

use crate::host::Host;
use crate::link::{self, Link};
use crate::state::{Core, Machine, Paths};

/// The most hosts of a world: their addresses end with 16 bits that are not zero.
const HOSTS_MAX: u16 = u16::MAX;

/// The hosts and links of a run. Cheap to clone.
#[derive(Clone)]
pub struct Network(Arc<Core>);

impl Network {
    pub(crate) fn new(core: Arc<Core>) -> Network {
        Network(core)
    }

    /// A new host, without a link. Its addresses are 10.0.0.1 and fd00::1, those of the next host
    /// 10.0.0.2 and fd00::2, and so on.
    ///
    /// # Errors
    /// There are 65,535 hosts.
    pub fn host(&self, name: &str) -> io::Result<Host> {
        let mut state = self.0.state();
        let number = state.machines.len();
        let Some(of_address) = u16::try_from(number).ok().filter(|&n| n < HOSTS_MAX) else {
            let text = "a world has at most 65,535 hosts: divide them into several worlds";
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, text));
        };
        let machine = Machine::new(name, of_address);
        let station = self.0.boot(number, &machine);
        state.machines.push(machine);
        state.stations.push(Some(station));
        drop(state);
        self.0.idle.wake();
        Ok(Host::new(self.0.clone(), number))
    }

    /// Join two hosts by a link: `path` is a [`crate::Path`] for both directions, or one for each.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`]: the hosts are one host, or are joined already.
    /// [`io::ErrorKind::HostUnreachable`]: one of them has crashed.
    /// A capture file cannot be made; [`io::ErrorKind::AlreadyExists`]: it has the name of another
    /// link's file.
    pub fn link(&self, a: &Host, b: &Host, path: impl Into<Paths>) -> io::Result<Link> {
        let number = link::join(&self.0, [a.number(), b.number()], path.into())?;
        Ok(Link::new(self.0.clone(), number))
    }

    /// Two new hosts, called `client` and `server`, and a link between them.
    ///
    /// # Errors
    /// As [`Network::host`] and [`Network::link`].
    pub fn pair(&self, path: impl Into<Paths>) -> io::Result<(Host, Host)> {
        let (client, server) = (self.host("client")?, self.host("server")?);
        self.link(&client, &server, path)?;
        Ok((client, server))
    }

    /// New hosts with these names, each joined to each other one by a link of its own.
    ///
    /// # Errors
    /// As [`Network::host`] and [`Network::link`].
    pub fn mesh(&self, names: &[&str], path: impl Into<Paths>) -> io::Result<Vec<Host>> {
        let path = path.into();
        let hosts: Vec<Host> =
            names.iter().map(|name| self.host(name)).collect::<Result<_, _>>()?;
        for (index, a) in hosts.iter().enumerate() {
            for b in &hosts[index + 1..] {
                self.link(a, b, path.clone())?;
            }
        }
        Ok(hosts)
    }

    /// The link between two hosts.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]: there is none.
    pub fn between(&self, a: &Host, b: &Host) -> io::Result<Link> {
        let number = self.0.state().cable_between([a.number(), b.number()]);
        let text = "no link between these hosts: call `Network::link` first";
        let number = number.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, text))?;
        Ok(Link::new(self.0.clone(), number))
    }

    /// The virtual time since the run began.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.0.clock.now().as_nanos() - 1)
    }
}
