//! Published ports of a running gateway come and go at any time.
//!
//! Called by: `machine.rs` for those of the command line; `obeying.rs` for those that other
//! programs want; `turns.rs` for those at which something listens inside. Limit: [`PORTS_MAX`]
//! sockets.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use ::gateway::{Around, Token};
use anyhow::{Context, Result, bail};
use base::{Cidr, Instant};
use outside::{Listen, Outlet};
use stack::Route;

use super::Machine;
use crate::listening::INTERVAL;
use crate::ports::{Open, Port};
use crate::publish::{Publish, Published};

/// Sockets of published ports at most.
const PORTS_MAX: usize = 4_096;

impl Machine {
    /// Open ports; returns their number.
    ///
    /// # Errors
    /// A port is taken or not permitted, or there are too many: then none of them is open.
    pub(super) fn open_ports(&mut self, publish: &Publish) -> Result<u64> {
        let sockets = publish.sockets()?;
        self.add_ports(sockets)
    }

    /// The same for sockets that are open.
    pub(super) fn add_ports(&mut self, sockets: Vec<(Published, OwnedFd)>) -> Result<u64> {
        self.ports.last += 1;
        let id = self.ports.last;
        for (what, fd) in sockets {
            if let Err(why) = self.add_port(id, what, fd) {
                self.close_ports(|port| port.id == id);
                return Err(why);
            }
        }
        Ok(id)
    }

    fn add_port(&mut self, id: u64, what: Published, fd: OwnedFd) -> Result<()> {
        if self.ports.all.len() >= PORTS_MAX {
            bail!("{PORTS_MAX} ports are published already: delete some");
        }
        let at = rustix::net::getsockname(&fd).context("a port cannot be used")?;
        let at = SocketAddr::try_from(at).context("a port is of no known protocol")?;
        if let Some(guest) = what.guest {
            self.route_to(guest);
        }
        let open = match what.udp {
            false => Open::Tcp(self.host.adopt(fd).context("a port cannot be used")?),
            true => Open::Udp(self.add_datagrams(&what, fd)?),
        };
        self.ports.all.push(Port { id, at, what, open });
        Ok(())
    }

    fn add_datagrams(&mut self, what: &Published, fd: OwnedFd) -> Result<Token> {
        let socket = self.host.adopt_udp(fd).context("a port cannot be used")?;
        let named = what.guest.map(|guest| SocketAddr::new(guest, what.to));
        let first = || self.of_guest(socket.local()?.ip(), what.to);
        let to = named.or_else(first).context("no guest is known to publish a UDP port of")?;
        let now = self.now();
        let (outside, policy) = (&mut self.host, &mut self.policy);
        let mut around = Around { stack: &mut self.stack, outside, policy, now };
        let token = self.engine.publish_udp(Outlet::Host(socket), to, what.networks(), &mut around);
        token.context("a UDP port cannot be published")
    }

    /// A guest behind a guest that forwards: containers on a bridge.
    fn route_to(&mut self, guest: IpAddr) {
        let is_near = self.networks.iter().any(|network| network.contains(guest));
        let via = self.program.iter().find(|ip| ip.is_ipv4() == guest.is_ipv4()).copied();
        let (Some(port), Some(via)) = (self.ports_of_stack.first(), via) else { return };
        if !is_near && via != guest {
            let prefix_len = if guest.is_ipv4() { 32 } else { 128 };
            let route = Route::new(Cidr { addr: guest, prefix_len }, Some(via), port.0);
            // Without room the guest does not answer.
            self.stack.add_route(route);
        }
    }

    /// Close ports; returns how many. Their connections go on.
    pub(super) fn close_ports(&mut self, is_one: impl Fn(&Port) -> bool) -> usize {
        let (closed, kept) = std::mem::take(&mut self.ports.all).into_iter().partition(is_one);
        self.ports.all = kept;
        let closed: Vec<Port> = closed;
        let now = self.now();
        for port in &closed {
            match port.open {
                Open::Tcp(id) => self.host.unlisten(id),
                Open::Udp(token) => {
                    let (outside, policy) = (&mut self.host, &mut self.policy);
                    let mut around = Around { stack: &mut self.stack, outside, policy, now };
                    self.engine.unpublish_udp(token, &mut around);
                }
            }
        }
        closed.len()
    }

    /// Publish new ports, and close those at which nothing listens any more.
    pub(super) fn follow_listeners(&mut self, now: Instant) {
        self.listening.next = now + INTERVAL;
        let program = self.program.clone();
        let found = self.listening.found(&|ip| ip.is_unspecified() || program.contains(&ip));
        let open = std::mem::take(&mut self.listening.open);
        for (port, id) in open {
            if found.contains(&port) {
                self.listening.open.push((port, id));
            } else {
                self.close_ports(|one| one.id == id);
            }
        }
        for port in found {
            if self.listening.open.iter().any(|&(known, _)| known == port) {
                continue;
            }
            let listen = Listen { address: None, interface: None, port: port.0 };
            // A port that the host uses itself, or does not permit, is not tried again.
            let id = self.open_ports(&Publish::one(listen, None, port.0, port.1)).unwrap_or(0);
            self.listening.open.push((port, id));
        }
    }
}
