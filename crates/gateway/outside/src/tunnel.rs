//! A WireGuard tunnel as the way out: a stack of ours whose device are datagrams to peers.
//!
//! Called by: `egress.rs`. `config.rs` reads the file, `peers.rs` encrypts. TCP, datagrams and
//! echoes are those of [`gateway::beyond`]; the peers' sockets are in the host's epoll. What is
//! behind no peer is not reached, and no packet leaves the tunnel.

mod config;
mod peers;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use base::{Duration, Instant, LinkKind};
use device::channel::{self, End};
use gateway::beyond::{Beyond, Tokens};
use gateway::{Failure, Ready, Token};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recvfrom, sendto, sockopt,
};
use stack::{PortConfig, Route, Stack, StackConfig, TcpHandle, Unreachable};

pub use config::{TunnelConfig, TunnelParseError};
use peers::{Comes, OVERHEAD, Peers};

/// Datagrams, and packets, of a turn at most.
const A_TURN: usize = 256;
/// Packets between our stack and the peers.
const LINK_FRAMES: usize = 1_024;
/// The longest datagram.
const DATAGRAM_MAX: usize = 65_535;
/// Bytes that datagrams of peers may wait in, in the kernel.
const SOCKET_BYTES: usize = 4 << 20;
/// The most that a connection's buffers may grow to, in each direction.
const BUFFER_BYTES_MAX: u32 = 4 << 20;

const NO_ROUTE: &str = "an address is behind no peer of the tunnel, so it is not reached: add its \
                        network to AllowedIPs of a peer, 0.0.0.0/0 and ::/0 for all";
const SILENT: &str = "the peer of the tunnel does not answer handshakes: check Endpoint, the keys, \
                      and whether UDP gets through";

/// Tells the time.
pub type Clock = Box<dyn Fn() -> Instant + Send>;

/// A tunnel.
pub struct Tunnel {
    clock: Clock,
    stack: Stack,
    tokens: Tokens,
    tcp: tcp::Config,
    link: End,
    peers: Peers,
    /// For peers at IPv4 and at IPv6 addresses.
    sockets: [Option<OwnedFd>; 2],
    /// Connects that are under way, and where they lead.
    connecting: Vec<(TcpHandle, Token, IpAddr)>,
    wakes: VecDeque<(Token, Ready)>,
    notice: Option<&'static str>,
    /// The socket had more than a turn takes.
    has_more: bool,
    buffer: Vec<u8>,
    frame: Vec<u8>,
}

impl Tunnel {
    /// Open the tunnel of a configuration, with its peers at `endpoints`
    /// ([`TunnelConfig::resolve`]). `secret` has to be random; `clock` is that of the owner's loop.
    ///
    /// # Errors
    /// There is no socket, or `ListenPort` is taken.
    pub fn open(
        config: &TunnelConfig,
        endpoints: &[Option<SocketAddr>],
        secret: [u64; 2],
        clock: Clock,
    ) -> io::Result<Tunnel> {
        let link = channel::Config { link: LinkKind::Ip, mtu: config.mtu, depth: LINK_FRAMES };
        let (device, link) = channel::pair(&link);
        let mut stack = Stack::new(StackConfig::new(secret));
        let addresses = config.addresses.clone();
        let port = PortConfig { addresses, ..PortConfig::default() };
        let port = stack.add_port(Box::new(device), port);
        for (any, is_v4) in
            [(IpAddr::from(Ipv4Addr::UNSPECIFIED), true), (Ipv6Addr::UNSPECIFIED.into(), false)]
        {
            if config.addresses.iter().any(|own| own.addr.is_ipv4() == is_v4) {
                stack.add_route(Route::new(base::Cidr { addr: any, prefix_len: 0 }, None, port.0));
            }
        }
        let tcp = tcp::Config {
            no_delay: true,
            receive_buffer_max_bytes: BUFFER_BYTES_MAX,
            send_buffer_max_bytes: BUFFER_BYTES_MAX,
            ..tcp::Config::default()
        };
        Ok(Tunnel {
            clock,
            stack,
            tokens: Tokens::default(),
            tcp,
            link,
            peers: Peers::new(config, endpoints),
            sockets: sockets(config.listen_port)?,
            connecting: Vec::new(),
            wakes: VecDeque::new(),
            notice: None,
            has_more: false,
            buffer: vec![0; DATAGRAM_MAX + OVERHEAD],
            frame: vec![0; DATAGRAM_MAX],
        })
    }

    /// How long a peer may leave handshakes without an answer until flows through it fail: 12 s,
    /// unless this is called.
    pub fn set_patience(&mut self, patience: Duration) {
        self.peers.patience = patience;
    }

    /// The sockets, to wait for them.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = &OwnedFd> {
        self.sockets.iter().flatten()
    }

    fn now(&self) -> Instant {
        (self.clock)()
    }

    /// The stack as an outside.
    pub(crate) fn beyond(&mut self) -> Beyond<'_> {
        let now = self.now();
        Beyond { stack: &mut self.stack, tokens: &mut self.tokens, tcp: &self.tcp, now }
    }

    /// May something be sent to this address?
    ///
    /// # Errors
    /// No peer has it, or the peer does not answer.
    pub(crate) fn admit(&mut self, ip: IpAddr) -> Result<(), Failure> {
        if !self.peers.has(ip) {
            self.notice = Some(NO_ROUTE);
            return Err(Failure::Unreachable(Unreachable::Net));
        }
        let now = self.now();
        if self.peers.is_silent(ip, now) {
            let mut buffer = core::mem::take(&mut self.buffer);
            let comes = self.peers.ask(ip, &mut buffer, now);
            self.send(comes);
            self.buffer = buffer;
            return Err(Failure::Unreachable(Unreachable::Host));
        }
        Ok(())
    }

    /// A connect has begun: it fails if its peer does not answer.
    pub(crate) fn connects(&mut self, handle: TcpHandle, token: Token, to: IpAddr) {
        self.connecting.push((handle, token, to));
    }

    /// Has a connect failed because its peer does not answer?
    pub(crate) fn is_given_up(&self, handle: TcpHandle) -> bool {
        let now = self.now();
        let own = self.connecting.iter().find(|(own, ..)| *own == handle);
        own.is_some_and(|(_, _, to)| self.peers.is_silent(*to, now))
    }

    /// A connect is over.
    pub(crate) fn connected(&mut self, handle: TcpHandle) {
        self.connecting.retain(|(own, ..)| *own != handle);
    }

    pub(crate) fn take_notice(&mut self) -> Option<&'static str> {
        self.notice.take()
    }

    /// Take what came from peers, and let the stack act on it.
    pub(crate) fn receive(&mut self) {
        let (mut buffer, now) = (core::mem::take(&mut self.buffer), self.now());
        self.has_more = false;
        for number in 0..self.sockets.len() {
            let Some(taken) = self.take(number, &mut buffer, now) else { continue };
            self.has_more |= taken == A_TURN;
        }
        if self.peers.due() <= now {
            for number in 0..self.peers.len() {
                let comes = self.peers.tick(number, &mut buffer, now);
                self.send(comes);
            }
            self.peers.ticked(now);
            if self.peers.has_silent(now) {
                self.notice = Some(SILENT);
                let silent = |(_, _, to): &&(_, _, IpAddr)| self.peers.is_silent(*to, now);
                let late = self.connecting.iter().filter(silent);
                self.wakes.extend(late.map(|&(_, token, _)| (token, Ready::ERROR)));
            }
        }
        self.buffer = buffer;
        self.stack.poll_before_flush(now);
        self.take_events();
    }

    fn take_events(&mut self) {
        while let Some(event) = self.stack.next_event() {
            self.wakes.extend(self.tokens.ready(&event));
        }
    }

    /// Take datagrams of a socket; returns how many.
    fn take(&mut self, number: usize, buffer: &mut [u8], now: Instant) -> Option<usize> {
        let mut datagram = core::mem::take(&mut self.frame);
        let mut count = 0;
        while count < A_TURN {
            let socket = self.sockets.get(number)?.as_ref();
            let Some(socket) = socket else { break };
            let flags = RecvFlags::DONTWAIT;
            let got = retry_on_intr(|| recvfrom(socket, &mut datagram[..], flags));
            let (bytes, from) = match got {
                Ok((_, bytes, from)) => (bytes, from.and_then(|from| from.try_into().ok())),
                Err(Errno::AGAIN) => break,
                // An error about an earlier datagram.
                Err(_) => (0, None),
            };
            count += 1;
            if let Some(from) = from {
                self.decrypt(datagram.get(..bytes).unwrap_or(&[]), from, buffer, now);
            }
        }
        self.frame = datagram;
        Some(count)
    }

    fn decrypt(&mut self, mut datagram: &[u8], from: SocketAddr, buffer: &mut [u8], now: Instant) {
        let mut last = None;
        // After an answer more may be left to send.
        while let Some(comes) = self.peers.decrypt((datagram, from), &mut last, buffer, now) {
            match comes {
                Comes::Packet(packet) => {
                    // A full queue drops, as any link does.
                    let _ = self.link.try_send(packet);
                    return;
                }
                comes => self.send(Some(comes)),
            }
            datagram = &[];
        }
    }

    /// Send a datagram. What the kernel does not take is lost, as on any link.
    fn send(&self, comes: Option<Comes<'_>>) {
        let Some(Comes::Datagram(datagram, to)) = comes else { return };
        let Some(socket) = &self.sockets[usize::from(to.is_ipv6())] else { return };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        for _ in 0..2 {
            // The first call may report an error about an earlier datagram.
            match retry_on_intr(|| sendto(socket, datagram, flags, &to)) {
                Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS) => return,
                Err(_) => {}
            }
        }
    }

    /// Send what the stack wants to send.
    pub(crate) fn flush(&mut self) {
        self.stack.flush();
        let (mut buffer, mut frame) =
            (core::mem::take(&mut self.buffer), core::mem::take(&mut self.frame));
        let now = self.now();
        let mut count = 0;
        while let Ok(bytes) = self.link.try_recv(&mut frame) {
            count += 1;
            let packet = frame.get(..bytes).unwrap_or(&[]);
            let comes = self.peers.encrypt(packet, &mut buffer, now);
            self.send(comes);
        }
        (self.buffer, self.frame) = (buffer, frame);
        // Its queue was full, so the stack may have more.
        self.has_more |= count >= LINK_FRAMES;
        self.take_events();
    }

    /// The next report for the engine.
    pub(crate) fn next_wake(&mut self) -> Option<(Token, Ready)> {
        self.wakes.pop_front()
    }

    /// When something is to be done although nothing happens.
    pub(crate) fn deadline(&self) -> Instant {
        match self.has_more || !self.wakes.is_empty() || self.stack.has_input() {
            true => Instant::ZERO,
            false => self.stack.next_deadline().min(self.peers.due()),
        }
    }
}

/// The sockets for peers; one of a version that the host has not is missing.
fn sockets(port: u16) -> io::Result<[Option<OwnedFd>; 2]> {
    let mut both = [None, None];
    let any = [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()];
    for (place, ip) in both.iter_mut().zip(any) {
        match socket(SocketAddr::new(ip, port)) {
            Ok(fd) => *place = Some(fd),
            Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(both)
}

fn socket(at: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
    if at.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, true)?;
    }
    // Smaller buffers lose more in bursts.
    let _ = sockopt::set_socket_recv_buffer_size(&fd, SOCKET_BYTES);
    let _ = sockopt::set_socket_send_buffer_size(&fd, SOCKET_BYTES);
    rustix::net::bind(&fd, &at)?;
    Ok(fd)
}
