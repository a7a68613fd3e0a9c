//! Published ports: listeners of the host. The engine connects their clients to a guest.
//!
//! Called by: the owner of the event loop, through `host.rs`. `parse.rs` reads how a listener is
//! written.

mod parse;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;

use nix::sys::socket::{setsockopt, sockopt as option};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::host::{Host, LISTENERS, own_token};
use crate::tcp::Tcp;

pub use parse::ListenParseError;

/// Clients that are taken in a turn.
const CLIENTS_A_TURN: usize = 64;
/// Clients that wait for it.
const BACKLOG: i32 = 1_024;
/// Listeners at most.
const LISTENERS_MAX: usize = 4_096;

/// Where to listen: `[ADDR[%IF]/]PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address; `None` for all of both versions.
    pub address: Option<IpAddr>,
    /// The interface, by its name; `None` for all.
    pub interface: Option<String>,
    /// The port; 0 for any that is free.
    pub port: u16,
}

/// A listener of a [`Host`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(u32);

/// A client of a published port.
#[derive(Debug)]
pub struct Accepted {
    /// Where it has connected.
    pub listener: ListenerId,
    /// Its connection.
    pub tcp: Tcp,
    /// Its address and port; a client of IPv4 has an IPv4 address.
    pub client: SocketAddr,
}

#[derive(Debug)]
struct Listener {
    fd: OwnedFd,
    /// Clients may wait.
    is_ready: bool,
}

/// All listeners, by number.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    all: Vec<Option<Listener>>,
    /// Clients that this turn may still take.
    left: usize,
    /// The kernel had no descriptor for a client: the next turn tries again.
    is_starved: bool,
}

/// A socket at a port of the host, before a [`Host`] has it.
#[derive(Debug)]
pub struct Bound(OwnedFd);

impl Bound {
    /// A listening socket.
    ///
    /// # Errors
    /// As [`Host::listen`].
    pub fn tcp(what: &Listen) -> io::Result<Bound> {
        let fd = open(what, SocketType::STREAM)?;
        rustix::net::listen(&fd, BACKLOG)?;
        Ok(Bound(fd))
    }

    /// A socket for datagrams.
    ///
    /// # Errors
    /// As [`Host::listen`].
    pub fn udp(what: &Listen) -> io::Result<Bound> {
        Ok(Bound(open(what, SocketType::DGRAM)?))
    }

    /// The descriptor, to pass it to another process.
    pub fn into_fd(self) -> OwnedFd {
        self.0
    }
}

impl Host {
    /// Listen at a port of the host. Clients come from [`Host::accept`].
    ///
    /// # Errors
    /// As bind(2): the port is used (EADDRINUSE) or not permitted (EACCES, below
    /// `net.ipv4.ip_unprivileged_port_start`), the address is not the host's (EADDRNOTAVAIL), there
    /// is no such interface (ENODEV).
    pub fn listen(&mut self, what: &Listen) -> io::Result<ListenerId> {
        self.adopt(Bound::tcp(what)?.into_fd())
    }

    /// Take clients of a socket that listens already: one of [`Bound::tcp`], which another process
    /// may have made.
    ///
    /// # Errors
    /// As epoll_ctl(2); EMFILE for more than 4,096 listeners.
    pub fn adopt(&mut self, fd: OwnedFd) -> io::Result<ListenerId> {
        let free = self.listeners.all.iter().position(Option::is_none);
        let number = free.unwrap_or(self.listeners.all.len());
        if number >= LISTENERS_MAX {
            return Err(Errno::MFILE.into());
        }
        let id = ListenerId(number as u32);
        let data = EventData::new_u64(own_token(LISTENERS + id.0).0);
        epoll::add(self.epoll_fd(), &fd, data, EventFlags::IN | EventFlags::ET)?;
        let listener = Some(Listener { fd, is_ready: false });
        match self.listeners.all.get_mut(number) {
            Some(slot) => *slot = listener,
            None => self.listeners.all.push(listener),
        }
        Ok(id)
    }

    /// Stop listening. Clients that were not accepted yet are reset.
    pub fn unlisten(&mut self, listener: ListenerId) {
        if let Some(slot) = self.listeners.all.get_mut(listener.0 as usize) {
            *slot = None;
        }
    }

    /// The address and the port at which a listener listens.
    pub fn listens_at(&self, listener: ListenerId) -> Option<SocketAddr> {
        let listener = self.listeners.all.get(listener.0 as usize)?.as_ref()?;
        SocketAddr::try_from(rustix::net::getsockname(&listener.fd).ok()?).ok()
    }
}

impl Listeners {
    pub(crate) fn ready(&mut self, number: u32) {
        if let Some(Some(listener)) = self.all.get_mut(number as usize) {
            listener.is_ready = true;
        }
    }

    /// May clients wait for which there is a descriptor?
    pub(crate) fn has_work(&self) -> bool {
        !self.is_starved && self.all.iter().flatten().any(|listener| listener.is_ready)
    }

    /// A turn begins.
    pub(crate) fn begin_turn(&mut self) {
        self.left = CLIENTS_A_TURN;
        self.is_starved = false;
    }

    /// The next client.
    pub(crate) fn accept(&mut self) -> Option<(ListenerId, OwnedFd, SocketAddr)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        for (number, listener) in self.all.iter_mut().enumerate() {
            let Some(listener) = listener else { continue };
            while listener.is_ready && self.left > 0 && !self.is_starved {
                self.left -= 1;
                match rustix::net::acceptfrom_with(&listener.fd, flags) {
                    Ok((fd, client)) => {
                        let client = client.and_then(|client| SocketAddr::try_from(client).ok());
                        // A client without an address has gone already.
                        let Some(client) = client else { continue };
                        let ip = client.ip().to_canonical();
                        let client = match ip {
                            IpAddr::V4(_) => SocketAddr::new(ip, client.port()),
                            IpAddr::V6(_) => client,
                        };
                        return Some((ListenerId(number as u32), fd, client));
                    }
                    Err(Errno::AGAIN) => listener.is_ready = false,
                    Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                        self.is_starved = true;
                    }
                    // An error of the client's connection, which is gone: accept(2).
                    Err(_) => {}
                }
            }
        }
        None
    }
}

/// Open a socket and bind it.
fn open(what: &Listen, kind: SocketType) -> Result<OwnedFd, Errno> {
    let address = match what.address {
        Some(ip) => SocketAddr::new(ip, what.port),
        None => SocketAddr::from((Ipv6Addr::UNSPECIFIED, what.port)),
    };
    match (open_at(what, kind, address), what.address) {
        // A host without IPv6.
        (Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL), None) => {
            open_at(what, kind, SocketAddr::from((Ipv4Addr::UNSPECIFIED, what.port)))
        }
        (opened, _) => opened,
    }
}

fn open_at(what: &Listen, kind: SocketType, mut address: SocketAddr) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let fd = rustix::net::socket_with(family, kind, flags, None)?;
    if let SocketAddr::V6(_) = address {
        sockopt::set_ipv6_v6only(&fd, what.address.is_some())?;
    }
    if let Some(name) = &what.interface {
        let index = rustix::net::netdevice::name_to_index(&fd, name)?;
        match &mut address {
            SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => {
                *v6 = SocketAddrV6::new(*v6.ip(), v6.port(), 0, index);
            }
            _ => setsockopt(&fd, option::BindToDevice, &OsString::from(name))
                .map_err(crate::errors::errno)?,
        }
    }
    if kind == SocketType::STREAM {
        // A listener that has ended a moment ago is no obstacle.
        sockopt::set_socket_reuseaddr(&fd, true)?;
    }
    rustix::net::bind(&fd, &address)?;
    Ok(fd)
}
