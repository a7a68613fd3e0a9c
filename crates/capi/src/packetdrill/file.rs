//! What is behind a descriptor's number: a socket in one of its states, or an epoll instance.
//!
//! Called by: `world.rs`, which holds the table, and every call. Each number is that of a real
//! descriptor (an eventfd), because packetdrill closes with libc's `close` what a script leaves
//! open.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use base::Owner;
use stack::{IpSettings, ListenerHandle, TcpHandle, UdpHandle};
use tcp::Config;

use super::epoll::Epoll;
use super::fast_open::FastOpen;
use super::notifications::Notifications;
use super::usage::Usage;

/// Behind one number.
pub(super) enum File {
    /// A TCP or UDP socket.
    Socket(Box<Socket>),
    /// What `epoll_create` made.
    Epoll(Epoll),
}

/// Where a socket stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// TCP, neither connected nor listening.
    Fresh,
    /// TCP, listening.
    Listening(ListenerHandle),
    /// TCP, from the SYN on.
    Connection(TcpHandle),
    /// UDP without a port yet.
    Unbound,
    /// UDP.
    Datagram(UdpHandle),
}

/// A socket.
pub(super) struct Socket {
    /// `AF_INET` or `AF_INET6`.
    pub(super) domain: i32,
    pub(super) endpoint: Endpoint,
    /// `O_NONBLOCK`.
    pub(super) nonblocking: bool,
    /// What `bind` said.
    pub(super) local: Option<SocketAddr>,
    /// What `connect` said, UDP.
    pub(super) peer: Option<SocketAddr>,
    /// Settings of the connection to be made, or made.
    pub(super) config: Config,
    pub(super) ip: IpSettings,
    /// What was said of TCP Fast Open.
    pub(super) fast_open: FastOpen,
    /// `connect` was called and has not told how it went.
    pub(super) connecting: bool,
    /// How the connection ended was told once, as sockets do.
    pub(super) error_reported: bool,
    /// `shutdown(SHUT_RD)`, and the profile has it as Linux does: what came can still be read.
    pub(super) shut_read: bool,
    /// `SO_LINGER`: on, seconds.
    pub(super) linger: Option<u32>,
    /// `TCP_INQ`: reads tell what is left.
    pub(super) reports_unread: bool,
    /// `MSG_ZEROCOPY`.
    pub(super) notifications: Notifications,
    /// What its time was spent on.
    pub(super) usage: Usage,
    /// A writer found no room.
    pub(super) write_blocked: bool,
    /// Moves with each event: what edge-triggered epoll goes by.
    pub(super) edges: u64,
    /// Options that are only remembered, by level and name.
    pub(super) remembered: BTreeMap<(i32, i32), i32>,
}

impl Socket {
    /// A new one.
    pub(super) fn new(domain: i32, endpoint: Endpoint, config: Config) -> Socket {
        Socket {
            domain,
            endpoint,
            nonblocking: false,
            local: None,
            peer: None,
            config,
            ip: IpSettings::default(),
            fast_open: FastOpen::default(),
            connecting: false,
            error_reported: false,
            shut_read: false,
            linger: None,
            reports_unread: false,
            notifications: Notifications::default(),
            usage: Usage::default(),
            write_blocked: false,
            edges: 0,
            remembered: BTreeMap::new(),
        }
    }

    /// One that a listener accepted: it inherits what the listener was told.
    pub(super) fn accepted(listener: &Socket, handle: TcpHandle) -> Socket {
        let mut socket =
            Socket::new(listener.domain, Endpoint::Connection(handle), listener.config);
        socket.ip = listener.ip;
        socket.linger = listener.linger;
        socket.remembered = listener.remembered.clone();
        socket
    }

    /// `SO_ZEROCOPY`: `MSG_ZEROCOPY` means something.
    pub(super) fn zero_copy(&self) -> bool {
        let option = (libc::SOL_SOCKET, libc::SO_ZEROCOPY);
        self.remembered.get(&option).is_some_and(|&n| n != 0)
    }

    /// Whose its connections are.
    pub(super) fn owner() -> Owner {
        Owner::program()
    }
}
