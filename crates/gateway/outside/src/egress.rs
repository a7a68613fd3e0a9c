//! The ways out of a gateway: sockets of the host, directly or through a proxy, and a tunnel.
//!
//! Called by: programs with an event loop, in the place of a [`Host`] alone. With a tunnel all that
//! guests send goes through it, except to loopback addresses, which are this host's; the resolver's
//! questions do if [`Host::ask_through`] says so.

mod relayed;

use core::net::SocketAddr;
use core::ops::{Deref, DerefMut};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};

use base::Instant;
use gateway::beyond;
use gateway::{
    Ends, Failure, Incoming, Outcome, Outgoing, Outside, Problem, Ready, Received, SessionKey,
    Stop, Token,
};
use stack::{TcpHandle, Unreachable};

use crate::datagrams::Socket;
use crate::host::{Host, Wake};
use crate::tcp::Tcp;
use crate::tunnel::Tunnel;
use crate::via::{RELAYS, Relays};

/// The number with which sockets of a tunnel are watched: owners have smaller ones.
const TUNNEL: u32 = (1 << 31) - 1;

/// Something of the host, of a tunnel, or of a proxy's relay.
#[derive(Debug)]
pub enum Outlet<H, T> {
    /// The host's.
    Host(H),
    /// The tunnel's.
    Tunnel(T),
    /// A session whose datagrams a proxy relays, by its number.
    Relayed(usize),
}

impl<H, T> Outlet<H, T> {
    /// The host's.
    pub fn host(&self) -> Option<&H> {
        match self {
            Outlet::Host(own) => Some(own),
            Outlet::Tunnel(_) | Outlet::Relayed(_) => None,
        }
    }
}

/// A connection by one of the ways.
pub type EgressTcp = Outlet<Tcp, TcpHandle>;
/// A socket for datagrams or echoes by one of the ways.
pub type EgressSocket = Outlet<Socket, beyond::Socket>;

/// The ways out. Methods of [`Host`] are there, too.
pub struct Egress {
    host: Host,
    tunnel: Option<Box<Tunnel>>,
    relays: Relays,
    /// Reports of relays.
    wakes: VecDeque<(Token, Ready)>,
    /// The tunnel was polled in this turn.
    is_polled: bool,
}

impl Deref for Egress {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.host
    }
}

impl DerefMut for Egress {
    fn deref_mut(&mut self) -> &mut Host {
        &mut self.host
    }
}

impl From<Host> for Egress {
    /// The host's sockets alone.
    fn from(host: Host) -> Egress {
        let (relays, wakes) = (Relays::default(), VecDeque::new());
        Egress { host, tunnel: None, relays, wakes, is_polled: false }
    }
}

impl Egress {
    /// What guests send goes through a tunnel from now on.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn set_tunnel(&mut self, tunnel: Tunnel) -> io::Result<()> {
        tunnel.sockets().try_for_each(|fd| self.host.watch(fd, TUNNEL, Ready::READABLE))?;
        self.tunnel = Some(Box::new(tunnel));
        Ok(())
    }

    /// As [`Host::wait`].
    ///
    /// # Errors
    /// As [`Host::wait`].
    pub fn wait(&mut self, now: Instant, until: Instant) -> io::Result<()> {
        self.is_polled = false;
        let deadline = self.tunnel.as_ref().map_or(Instant::NEVER, |tunnel| tunnel.deadline());
        let until = until.min(deadline.max(now));
        self.host.wait(now, until)
    }

    /// As [`Host::next_wake`].
    pub fn next_wake(&mut self) -> Option<Wake> {
        loop {
            match self.host.next_wake() {
                // What it has is taken below.
                Some(Wake::Own(TUNNEL, _)) => {}
                Some(Wake::Own(number, ready)) if number >= RELAYS => {
                    self.relay_ready((number - RELAYS) as usize, ready);
                }
                Some(wake) => return Some(wake),
                None => break,
            }
        }
        if let Some((token, ready)) = self.wakes.pop_front() {
            return Some(Wake::Outside(token, ready));
        }
        let tunnel = self.tunnel.as_mut()?;
        if !core::mem::replace(&mut self.is_polled, true) {
            tunnel.receive();
        }
        tunnel.next_wake().map(|(token, ready)| Wake::Outside(token, ready))
    }

    /// As [`Host::take_notice`].
    pub fn take_notice(&mut self) -> Option<&'static str> {
        if let Some(notice) = self.tunnel.as_mut().and_then(|tunnel| tunnel.take_notice()) {
            self.host.notify(notice);
        }
        self.host.take_notice()
    }

    /// The tunnel, if this leads through it; `is_own`: it is a question of the resolver.
    fn through(&mut self, is_own: bool) -> Option<&mut Tunnel> {
        let is_through = !is_own || self.host.asks_through;
        self.tunnel.as_deref_mut().filter(|_| is_through)
    }
}

/// A tunnel's thing is there only with the tunnel.
const GONE: Failure = Failure::Reset;

impl Outside for Egress {
    type Tcp = EgressTcp;
    type Socket = EgressSocket;

    fn tcp_connect(
        &mut self,
        token: Token,
        ends: &Ends,
        to: SocketAddr,
    ) -> Result<EgressTcp, Failure> {
        let is_local = to.ip().to_canonical().is_loopback();
        let tunnel = self.through(ends.guest.ip().is_unspecified());
        let Some(tunnel) = tunnel.filter(|_| !is_local) else {
            return self.host.tcp_connect(token, ends, to).map(Outlet::Host);
        };
        tunnel.admit(to.ip())?;
        let handle = tunnel.beyond().tcp_connect(token, ends, to)?;
        tunnel.connects(handle, token, to.ip());
        Ok(Outlet::Tunnel(handle))
    }

    fn tcp_outcome(&mut self, tcp: &mut EgressTcp) -> Result<Outcome, Failure> {
        match (tcp, &mut self.tunnel) {
            (Outlet::Host(tcp), _) => self.host.tcp_outcome(tcp),
            (Outlet::Tunnel(tcp), Some(tunnel)) => match tunnel.beyond().tcp_outcome(tcp) {
                Ok(Outcome::Pending) if tunnel.is_given_up(*tcp) => {
                    Err(Failure::Unreachable(Unreachable::Host))
                }
                Ok(Outcome::Pending) => Ok(Outcome::Pending),
                decided => {
                    tunnel.connected(*tcp);
                    decided
                }
            },
            (Outlet::Tunnel(_) | Outlet::Relayed(_), _) => Err(GONE),
        }
    }

    fn tcp_adopt(&mut self, token: Token, tcp: &mut EgressTcp) {
        match (tcp, &mut self.tunnel) {
            (Outlet::Host(tcp), _) => self.host.tcp_adopt(token, tcp),
            (Outlet::Tunnel(tcp), Some(tunnel)) => tunnel.beyond().tcp_adopt(token, tcp),
            (Outlet::Tunnel(_) | Outlet::Relayed(_), _) => {}
        }
    }

    fn tcp_send(&mut self, tcp: &mut EgressTcp, parts: &[IoSlice<'_>]) -> Result<usize, Stop> {
        match (tcp, &mut self.tunnel) {
            (Outlet::Host(tcp), _) => self.host.tcp_send(tcp, parts),
            (Outlet::Tunnel(tcp), Some(tunnel)) => tunnel.beyond().tcp_send(tcp, parts),
            (Outlet::Tunnel(_) | Outlet::Relayed(_), _) => Err(Stop::Failed(GONE)),
        }
    }

    fn tcp_send_urgent(&mut self, tcp: &mut EgressTcp, byte: u8) -> Result<(), Stop> {
        match (tcp, &mut self.tunnel) {
            (Outlet::Host(tcp), _) => self.host.tcp_send_urgent(tcp, byte),
            (Outlet::Tunnel(tcp), Some(tunnel)) => tunnel.beyond().tcp_send_urgent(tcp, byte),
            (Outlet::Tunnel(_) | Outlet::Relayed(_), _) => Err(Stop::Failed(GONE)),
        }
    }

    fn tcp_receive(
        &mut self,
        tcp: &mut EgressTcp,
        parts: &mut [IoSliceMut<'_>],
    ) -> Result<Received, Stop> {
        match (tcp, &mut self.tunnel) {
            (Outlet::Host(tcp), _) => self.host.tcp_receive(tcp, parts),
            (Outlet::Tunnel(tcp), Some(tunnel)) => tunnel.beyond().tcp_receive(tcp, parts),
            (Outlet::Tunnel(_) | Outlet::Relayed(_), _) => Err(Stop::Failed(GONE)),
        }
    }

    fn tcp_at_mark(&mut self, tcp: &mut EgressTcp) -> Option<bool> {
        match (tcp, &mut self.tunnel) {
            (Outlet::Host(tcp), _) => self.host.tcp_at_mark(tcp),
            (Outlet::Tunnel(tcp), Some(tunnel)) => tunnel.beyond().tcp_at_mark(tcp),
            (Outlet::Tunnel(_) | Outlet::Relayed(_), _) => None,
        }
    }

    fn tcp_shutdown(&mut self, tcp: &mut EgressTcp) {
        match (tcp, &mut self.tunnel) {
            (Outlet::Host(tcp), _) => self.host.tcp_shutdown(tcp),
            (Outlet::Tunnel(tcp), Some(tunnel)) => tunnel.beyond().tcp_shutdown(tcp),
            (Outlet::Tunnel(_) | Outlet::Relayed(_), _) => {}
        }
    }

    fn tcp_close(&mut self, tcp: EgressTcp) {
        match (tcp, &mut self.tunnel) {
            (Outlet::Host(tcp), _) => self.host.tcp_close(tcp),
            (Outlet::Tunnel(tcp), Some(tunnel)) => {
                tunnel.connected(tcp);
                tunnel.beyond().tcp_close(tcp);
            }
            (Outlet::Tunnel(_) | Outlet::Relayed(_), _) => {}
        }
    }

    fn tcp_abort(&mut self, tcp: EgressTcp) {
        match (tcp, &mut self.tunnel) {
            (Outlet::Host(tcp), _) => self.host.tcp_abort(tcp),
            (Outlet::Tunnel(tcp), Some(tunnel)) => {
                tunnel.connected(tcp);
                tunnel.beyond().tcp_abort(tcp);
            }
            (Outlet::Tunnel(_) | Outlet::Relayed(_), _) => {}
        }
    }

    fn open(&mut self, token: Token, key: &SessionKey) -> Result<EgressSocket, Failure> {
        match self.through(matches!(key, SessionKey::Names(_))) {
            Some(tunnel) => tunnel.beyond().open(token, key).map(Outlet::Tunnel),
            None => match self.open_relayed(token, key) {
                Some(opened) => opened,
                None => self.host.open(token, key).map(Outlet::Host),
            },
        }
    }

    fn open_beside(
        &mut self,
        token: Token,
        tcp: &mut EgressTcp,
    ) -> Result<(EgressSocket, SocketAddr), Failure> {
        match tcp {
            Outlet::Host(tcp) => {
                self.host.open_beside(token, tcp).map(|(socket, at)| (Outlet::Host(socket), at))
            }
            Outlet::Tunnel(_) | Outlet::Relayed(_) => {
                Err(Failure::Unreachable(Unreachable::Prohibited))
            }
        }
    }

    fn adopt(&mut self, token: Token, key: &SessionKey, socket: &mut EgressSocket) -> Option<bool> {
        match socket {
            // What a guest sends to others goes through the tunnel.
            Outlet::Host(socket) => {
                let is_for_all = Outside::adopt(&mut self.host, token, key, socket)?;
                Some(is_for_all && self.tunnel.is_none())
            }
            Outlet::Tunnel(_) | Outlet::Relayed(_) => None,
        }
    }

    fn send(&mut self, socket: &mut EgressSocket, what: &Outgoing<'_>) -> Result<(), Failure> {
        let is_local = what.to.ip().to_canonical().is_loopback();
        match (socket, &mut self.tunnel) {
            (Outlet::Host(socket), _) => self.host.send(socket, what),
            (Outlet::Tunnel(_) | Outlet::Relayed(_), _) if is_local => {
                Err(Failure::Unreachable(Unreachable::Prohibited))
            }
            (Outlet::Tunnel(socket), Some(tunnel)) => {
                tunnel.admit(what.to.ip())?;
                tunnel.beyond().send(socket, what)
            }
            (Outlet::Relayed(number), _) => {
                let host = &mut self.host;
                let relayed = self.relays.all.get_mut(*number).ok_or(GONE)?;
                relayed.send(what, |socket, what| host.send(socket, what))
            }
            (Outlet::Tunnel(_), None) => Err(GONE),
        }
    }

    fn receive(&mut self, socket: &mut EgressSocket, into: &mut [u8]) -> Option<Incoming> {
        match (socket, &mut self.tunnel) {
            (Outlet::Host(socket), _) => self.host.receive(socket, into),
            (Outlet::Tunnel(socket), Some(tunnel)) => tunnel.beyond().receive(socket, into),
            (Outlet::Relayed(number), _) => {
                let mut buffer = self.relays.buffer();
                let relayed = self.relays.all.get_mut(*number);
                let got = relayed.and_then(|r| self.host.receive_relayed(r, into, &mut buffer));
                self.relays.keep(buffer);
                got
            }
            (Outlet::Tunnel(_), None) => None,
        }
    }

    fn take_error(&mut self, socket: &mut EgressSocket) -> Option<Problem> {
        match (socket, &mut self.tunnel) {
            (Outlet::Host(socket), _) => self.host.take_error(socket),
            (Outlet::Tunnel(socket), Some(tunnel)) => tunnel.beyond().take_error(socket),
            (Outlet::Relayed(number), _) => self.relays.all.get_mut(*number)?.take_error(),
            (Outlet::Tunnel(_), None) => None,
        }
    }

    fn close(&mut self, socket: EgressSocket) {
        match (socket, &mut self.tunnel) {
            (Outlet::Host(socket), _) => self.host.close(socket),
            (Outlet::Tunnel(socket), Some(tunnel)) => tunnel.beyond().close(socket),
            (Outlet::Relayed(number), _) => {
                if let Some(relayed) = self.relays.all.try_remove(number) {
                    let _ = self.host.unwatch(relayed.control());
                    self.host.close(relayed.end());
                }
            }
            (Outlet::Tunnel(_), None) => {}
        }
    }

    fn flush(&mut self) {
        self.host.flush();
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.flush();
        }
    }
}
