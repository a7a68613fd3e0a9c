//! The loop of `rpcbind`: one thread, poll(2) over all sockets.
//!
//! Called by: `rpcbind.rs`. Limits: `--most` connections, records of 64 KB; a connection that
//! is idle or sends half a record for too long is closed.

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, Result};
use rpc::limits::DATAGRAM_BYTES;
use rpc::portmap::{PORT, PortMapper};
use rpc::server::{Server, Session};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseaddr};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, listen, recv, send,
    socket_with,
};

use super::Args;
use super::local::{self, Local};
use crate::clock::{Interrupt, since_1970};
use crate::rpcinfo::clock;

/// Bytes of a record: no call to a port mapper is longer.
const RECORD_BYTES: usize = 65_536;
/// Datagrams or connections that are taken of one socket before the next one's turn.
const TURN: usize = 64;
/// How often deadlines of connections are looked at.
const TICK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

struct Connection {
    stream: OwnedFd,
    session: Session,
    is_over: bool,
}

pub(super) struct Mapper {
    pub(super) server: Server,
    sockets: Vec<UdpSocket>,
    listeners: Vec<TcpListener>,
    local: Option<Local>,
    connections: Vec<Connection>,
    most: usize,
    room: Vec<u8>,
}

impl Mapper {
    /// Open the sockets.
    pub(super) fn open(args: &Args) -> Result<Mapper> {
        let mut server = Server::new(crate::rpcinfo::secret().context("no random numbers")?);
        let netids = args.bind.iter().flat_map(|ip| match ip {
            IpAddr::V4(_) => ["udp", "tcp"],
            IpAddr::V6(_) => ["udp6", "tcp6"],
        });
        let netids: Vec<&str> = netids.collect();
        let mut mapper = PortMapper::new(&netids, || since_1970().as_secs() as u32);
        let (mut sockets, mut listeners) = (Vec::new(), Vec::new());
        for &ip in &args.bind {
            let at = SocketAddr::new(ip, PORT);
            let refused = || {
                format!("cannot listen at {at}: run it as root, and end the port mapper that runs")
            };
            let (socket, listener) = bound(at).with_context(refused)?;
            sockets.push(socket);
            listeners.push(listener);
        }
        // This comes last: a program that finds the socket may use the port at once.
        let local = if args.no_socket { None } else { local::open(args.socket.as_deref())? };
        if let Some(path) = local.as_ref().and_then(Local::path) {
            mapper = mapper.at_socket(path);
        }
        server.add(mapper);
        let (connections, most) = (Vec::new(), args.most as usize);
        let room = vec![0; DATAGRAM_BYTES];
        Ok(Mapper { server, sockets, listeners, local, connections, most, room })
    }

    /// The path of the socket of this machine, if it is served.
    pub(super) fn socket(&self) -> Option<&str> {
        self.local.as_ref().and_then(Local::path)
    }

    /// Serve until Ctrl-C.
    pub(super) fn serve(&mut self, interrupt: &Interrupt) -> Result<()> {
        while !interrupt.noted() {
            let (descriptor, flags) = interrupt.descriptor();
            let mut asked = vec![PollFd::from_borrowed_fd(descriptor, flags)];
            let read = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
            asked.extend(self.sockets.iter().map(|s| read(s.as_fd())));
            asked.extend(self.listeners.iter().map(|l| read(l.as_fd())));
            asked.extend(self.local.iter().map(|l| read(l.listener.as_fd())));
            asked.extend(self.connections.iter().map(|c| {
                let owes = !c.session.output().is_empty();
                let flags = if owes { PollFlags::OUT } else { PollFlags::IN };
                PollFd::from_borrowed_fd(c.stream.as_fd(), flags)
            }));
            match poll(&mut asked, Some(&TICK)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("cannot wait for calls"),
            }
            let ready: Vec<bool> = asked.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(asked);
            self.turn(&ready[1..]);
        }
        Ok(())
    }

    /// Serve the sockets that are ready, in the order in which they were polled.
    fn turn(&mut self, ready: &[bool]) {
        let (sockets, rest) = ready.split_at(self.sockets.len());
        let (listeners, rest) = rest.split_at(self.listeners.len());
        let (local, connections) = rest.split_at(usize::from(self.local.is_some()));
        for n in (0..sockets.len()).filter(|&n| sockets[n]) {
            self.datagrams(n);
        }
        let now = clock();
        for (connection, &is_ready) in self.connections.iter_mut().zip(connections) {
            if is_ready {
                connection.go_on(&mut self.server);
            }
            connection.is_over |= connection.session.deadline() <= now;
        }
        self.connections.retain(|connection| !connection.is_over);
        for n in (0..listeners.len()).filter(|&n| listeners[n]) {
            self.accept(n);
        }
        if local == [true] {
            self.accept_local();
        }
    }

    fn datagrams(&mut self, n: usize) {
        let mut reply = Vec::new();
        for _ in 0..TURN {
            let Ok((bytes, from)) = self.sockets[n].recv_from(&mut self.room) else { return };
            reply.clear();
            if self.server.answer_datagram(&self.room[..bytes], from, clock(), &mut reply) {
                // A reply that does not leave is like a lost one: the caller asks again.
                let _ = self.sockets[n].send_to(&reply, from);
            }
        }
    }

    fn accept(&mut self, n: usize) {
        for _ in 0..TURN {
            let Ok((stream, from)) = self.listeners[n].accept() else { return };
            if stream.set_nonblocking(true).is_ok() {
                self.begin(stream.into(), Session::new(from, RECORD_BYTES, clock()));
            }
        }
    }

    fn accept_local(&mut self) {
        for _ in 0..TURN {
            let accepted = self.local.as_ref().map(Local::accept);
            let Some(Ok((stream, is_root))) = accepted else { return };
            self.begin(stream, Session::local(is_root, RECORD_BYTES, clock()));
        }
    }

    fn begin(&mut self, stream: OwnedFd, session: Session) {
        if self.connections.len() < self.most {
            self.connections.push(Connection { stream, session, is_over: false });
        }
    }
}

/// Both sockets of an address. Sockets of IPv6 take only IPv6, so that IPv4 can have its own.
fn bound(at: SocketAddr) -> std::io::Result<(UdpSocket, TcpListener)> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let open = |kind| -> std::io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, kind, flags, None)?;
        if at.is_ipv6() {
            set_ipv6_v6only(&socket, true)?;
        }
        set_socket_reuseaddr(&socket, kind == SocketType::STREAM)?;
        bind(&socket, &at)?;
        Ok(socket)
    };
    let listener = open(SocketType::STREAM)?;
    listen(&listener, 128)?;
    Ok((open(SocketType::DGRAM)?.into(), listener.into()))
}

impl Connection {
    /// Write the replies that wait, or read calls and carry them out.
    fn go_on(&mut self, server: &mut Server) {
        if self.session.output().is_empty() {
            match recv(&self.stream, self.session.room(), RecvFlags::empty()) {
                Ok((0, _)) => self.is_over = true,
                Ok((bytes, _)) => {
                    self.is_over = self.session.filled(bytes, server, clock()).is_err();
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => self.is_over = true,
            }
        }
        while !self.session.output().is_empty() {
            match send(&self.stream, self.session.output(), SendFlags::NOSIGNAL) {
                Ok(bytes) => self.session.written(bytes),
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => {
                    self.is_over = true;
                    return;
                }
            }
        }
        self.is_over |= self.session.go_on(server, clock()).is_err();
    }
}
