//! The address at which zebra connects: who may, and which interfaces its routes name.
//!
//! Called by: `parent.rs`. This process accepts connections and reads nothing from them; the worker
//! gets them. On loopback the user of the other end counts, by proc_net(5); elsewhere its address.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::unistd::User;
use rustix::net::sockopt;

use crate::config::{Config, Frr, Link, cidr};

use super::kernel::within;
use super::report::warning;

/// The user of FRR's daemons.
const FRR: &str = "frr";
/// The most that is read of a table of the system's connections, in bytes.
const TABLE_MAX: u64 = 64 << 20;
/// Bytes of a connection that the system holds for the worker, about half of them data. zebra waits
/// for a second whenever its own buffer of 1 MB is full, so 100,000 routes (6 MB) find room here.
const ROOM: usize = 16 << 20;
/// A peer on another machine that does not answer for this time, and four times the next, is gone.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(10), Duration::from_secs(5), 4);

/// A listener.
pub(super) struct Door {
    of: Frr,
    listener: TcpListener,
}

impl Door {
    /// Listen.
    ///
    /// `None`: there is nothing to listen for.
    ///
    /// # Errors
    /// Why that cannot be, and what to do.
    pub(super) fn open(of: Frr) -> Result<Option<Door>, String> {
        let Some(at) = of.fpm else { return Ok(None) };
        let listen = || {
            let listener = TcpListener::bind(at)?;
            listener.set_nonblocking(true)?;
            // Connections inherit it. It needs CAP_NET_ADMIN; without it zebra waits more often.
            let _ = sockopt::set_socket_recv_buffer_size_force(&listener, ROOM);
            Ok(listener)
        };
        let why = |why| format!("frr: cannot listen at {at} ({why}): give another address");
        let listener = within(of.namespace.as_deref(), listen).map_err(why)?;
        Ok(Some(Door { of, listener }))
    }

    /// The section that it was opened for.
    pub(super) fn of(&self) -> &Frr {
        &self.of
    }

    /// The next connection, if its other end may connect.
    pub(super) fn admit(&self) -> Option<(TcpStream, SocketAddr)> {
        let (socket, from) = self.listener.accept().ok()?;
        if let Err(why) = self.may(&socket, from) {
            warning(&format!("frr: a connection from {from} is refused: {why}"));
            return None;
        }
        // Without them a peer that vanished keeps the next one out; that is all.
        let (idle, between, count) = KEEPALIVE;
        let _ = sockopt::set_socket_keepalive(&socket, true);
        let _ = sockopt::set_tcp_keepidle(&socket, idle);
        let _ = sockopt::set_tcp_keepintvl(&socket, between);
        let _ = sockopt::set_tcp_keepcnt(&socket, count);
        Some((socket, from))
    }

    fn may(&self, socket: &TcpStream, from: SocketAddr) -> Result<(), String> {
        if !self.of.fpm.is_some_and(|at| at.ip().is_loopback()) {
            let is_in =
                self.of.allow.iter().any(|net| cidr(*net).contains(from.ip().to_canonical()));
            return if is_in { Ok(()) } else { Err("[frr] allow does not name it".to_owned()) };
        }
        let ours = socket.local_addr().map_err(|why| why.to_string())?;
        let found = within(self.of.namespace.as_deref(), || Ok(uid_of(from, ours)))?;
        let uid = found.ok_or("its user is not known")?;
        let frr = User::from_name(FRR).ok().flatten().map(|user| user.uid.as_raw());
        let is_known = [Some(0), Some(rustix::process::geteuid().as_raw()), frr];
        if is_known.contains(&Some(uid)) {
            return Ok(());
        }
        Err(format!("user {uid} is neither root nor {FRR} nor the router's own"))
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// The user of the end `from` of a connection of this machine with `to`.
fn uid_of(from: SocketAddr, to: SocketAddr) -> Option<u32> {
    let name = if from.is_ipv4() { "tcp" } else { "tcp6" };
    let table = File::open(format!("/proc/thread-self/net/{name}")).ok()?;
    find(BufReader::new(table.take(TABLE_MAX)), from, to)
}

/// The user in the row of a connection. A row has a number, both addresses, the state, queues, the
/// timer, retransmissions, and the user.
fn find(table: impl BufRead, from: SocketAddr, to: SocketAddr) -> Option<u32> {
    let (from, to) = (written(from), written(to));
    let mut lines = table.lines().map_while(Result::ok);
    lines.find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let is_it = words.next()? == from && words.next()? == to;
        is_it.then(|| words.nth(4)?.parse().ok()).flatten()
    })
}

/// An address as the table has it: words of four bytes in this machine's order, and the port.
fn written(at: SocketAddr) -> String {
    let octets = match at.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (words, _) = octets.as_chunks::<4>();
    let words = words.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word)));
    format!("{}:{:04X}", words.collect::<String>(), at.port())
}

/// The ports by the numbers of their interfaces in the daemons' namespace: of the interface that
/// has the port's name, and of the one that the port has opened.
pub(super) fn interfaces(config: &Config) -> BTreeMap<u32, String> {
    let namespace = config.frr.as_ref().and_then(|frr| frr.namespace.as_deref());
    within(namespace, || Ok(interfaces_here(config))).unwrap_or_default()
}

fn interfaces_here(config: &Config) -> BTreeMap<u32, String> {
    let Ok(socket) = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)) else {
        return BTreeMap::new();
    };
    let index = |name: &str| rustix::net::netdevice::name_to_index(&socket, name).ok();
    let mut all = BTreeMap::new();
    for (name, port) in &config.ports {
        let opened = match &port.link {
            Link::Device(device) => Some(device.name.as_str()),
            Link::Vlan { .. } => None,
        };
        let names: BTreeSet<&str> = opened.into_iter().chain([name.as_str()]).collect();
        all.extend(names.into_iter().filter_map(index).map(|index| (index, name.clone())));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_a_connection_is_found_in_both_tables() {
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(at) else { continue };
            let to = listener.local_addr().expect("it listens");
            let client = TcpStream::connect(to).expect("it listens");
            let from = client.local_addr().expect("it is connected");
            assert_eq!(uid_of(from, to), Some(rustix::process::geteuid().as_raw()), "{at}");
            assert_eq!(uid_of(SocketAddr::new(from.ip(), 1), to), None);
        }
    }
}
