//! The object behind a descriptor: a socket in one of its states, or an epoll instance.
//!
//! Called by: `world.rs`, which holds the table of files, and every call. Each file has the number
//! of a real descriptor (an eventfd), because packetdrill calls libc's `close` for descriptors that
//! a script leaves open.

use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::os::fd::RawFd;

use base::{Duration, Owner};
use stack::{IpSettings, ListenerHandle, TcpHandle, UdpHandle};
use tcp::Config;

use super::notifications::Notifications;
use super::shown::Usage;

/// The object behind one descriptor.
pub(super) enum File {
    /// A TCP or UDP socket.
    Socket(Box<Socket>),
    /// An epoll instance.
    Epoll(Epoll),
}

/// The state of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// TCP, neither connected nor listening.
    Fresh,
    /// TCP, listening.
    Listening(ListenerHandle),
    /// TCP, from the SYN on.
    Connection(TcpHandle),
    /// UDP, not bound to a port yet.
    Unbound,
    /// UDP, bound to a port.
    Datagram(UdpHandle),
}

/// A socket.
pub(super) struct Socket {
    /// `AF_INET` or `AF_INET6`.
    pub(super) domain: i32,
    pub(super) endpoint: Endpoint,
    /// `O_NONBLOCK`.
    pub(super) nonblocking: bool,
    /// The address given to `bind`.
    pub(super) local: Option<SocketAddr>,
    /// The address given to `connect`, for UDP.
    pub(super) peer: Option<SocketAddr>,
    /// The settings of the connection that exists or that will be made.
    pub(super) config: Config,
    pub(super) ip: IpSettings,
    /// Options of TCP Fast Open.
    pub(super) fast_open: FastOpen,
    /// Was `connect` called, without having returned its result yet?
    pub(super) connecting: bool,
    /// Was the connection's error reported? Sockets report it once.
    pub(super) error_reported: bool,
    /// Was `shutdown(SHUT_RD)` called? With the Linux profile, data that was received before stays
    /// readable.
    pub(super) shut_read: bool,
    /// `SO_LINGER` in seconds; `None` if it is off.
    pub(super) linger: Option<u32>,
    /// `SO_RCVTIMEO` and `SO_SNDTIMEO`; with `None` calls wait for ever.
    pub(super) timeouts: (Option<Duration>, Option<Duration>),
    /// The end of the urgent data whose last byte was read with `MSG_OOB`, in bytes of the stream.
    pub(super) urgent_taken: Option<u64>,
    /// Is `TCP_INQ` set? Then reads report how many bytes are left to read.
    pub(super) reports_unread: bool,
    /// Completions of `MSG_ZEROCOPY`.
    pub(super) notifications: Notifications,
    /// The times that `TCP_INFO` reports.
    pub(super) usage: Usage,
    /// Did the last write find no room in the send buffer?
    pub(super) write_blocked: bool,
    /// Counts events, for edge-triggered epoll.
    pub(super) edges: u64,
    /// Options that are only stored and returned, by level and name.
    pub(super) remembered: BTreeMap<(i32, i32), i32>,
}

impl Socket {
    /// A new socket.
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
            timeouts: (None, None),
            urgent_taken: None,
            reports_unread: false,
            notifications: Notifications::default(),
            usage: Usage::default(),
            write_blocked: false,
            edges: 0,
            remembered: BTreeMap::new(),
        }
    }

    /// A socket that a listener accepted. It inherits the listener's settings.
    pub(super) fn accepted(listener: &Socket, handle: TcpHandle) -> Socket {
        let mut socket =
            Socket::new(listener.domain, Endpoint::Connection(handle), listener.config);
        socket.ip = listener.ip;
        socket.linger = listener.linger;
        socket.timeouts = listener.timeouts;
        socket.remembered = listener.remembered.clone();
        socket
    }

    /// Return the socket to its state before `connect`, but keep its options: for `connect` with
    /// `AF_UNSPEC`.
    pub(super) fn disconnect(&mut self) {
        let fresh = Socket::new(self.domain, Endpoint::Fresh, self.config);
        let old = core::mem::replace(self, fresh);
        (self.nonblocking, self.local, self.ip) = (old.nonblocking, old.local, old.ip);
        (self.linger, self.timeouts) = (old.linger, old.timeouts);
        (self.fast_open, self.reports_unread) = (old.fast_open, old.reports_unread);
        self.fast_open.deferred = None;
        self.remembered = old.remembered;
        self.edges = old.edges;
    }

    /// How many bytes a blocking read of `len` bytes waits for: all with `MSG_WAITALL`, otherwise
    /// `SO_RCVLOWAT`; but no more than half the receive buffer, which the peer can always send.
    pub(super) fn least_read(&self, len: usize, flags: i32) -> usize {
        let low = (libc::SOL_SOCKET, libc::SO_RCVLOWAT);
        let asked = if flags & libc::MSG_WAITALL != 0 {
            len
        } else {
            self.remembered.get(&low).map_or(1, |&n| usize::try_from(n).unwrap_or(1))
        };
        asked.min(len).min(self.config.receive_buffer_bytes as usize / 2).max(1)
    }

    /// Whether `SO_ZEROCOPY` is set, which `MSG_ZEROCOPY` needs.
    pub(super) fn zero_copy(&self) -> bool {
        let option = (libc::SOL_SOCKET, libc::SO_ZEROCOPY);
        self.remembered.get(&option).is_some_and(|&n| n != 0)
    }

    /// The owner of every connection of the scripts.
    pub(super) fn owner() -> Owner {
        Owner::program()
    }
}

/// A socket's options for TCP Fast Open.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FastOpen {
    /// `TCP_FASTOPEN`.
    pub(super) queue: Option<usize>,
    /// `TCP_FASTOPEN_KEY`.
    pub(super) key: Option<[u8; 16]>,
    /// `TCP_FASTOPEN_NO_COOKIE`.
    pub(super) no_cookie: bool,
    /// `TCP_FASTOPEN_CONNECT`.
    pub(super) connects: bool,
    /// The address to which the first write will connect, if `connect` was called.
    pub(super) deferred: Option<SocketAddr>,
    /// Is a blocking write, which connects, waiting for the handshake?
    pub(super) waits: bool,
}

/// The events for which an epoll instance watches a descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interest {
    pub(super) events: u32,
    pub(super) data: u64,
    /// The socket's `edges` at the last report; `None` before the first one.
    pub(super) seen: Option<u64>,
}

/// An epoll instance.
#[derive(Default)]
pub(super) struct Epoll {
    pub(super) watched: BTreeMap<RawFd, Interest>,
}

impl Epoll {
    /// Stop watching a descriptor, which was closed.
    pub(super) fn forget(&mut self, fd: RawFd) {
        self.watched.remove(&fd);
    }
}
