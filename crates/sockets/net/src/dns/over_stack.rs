//! [`StackLookup`]: a lookup over sockets of a stack, one socket for each question.
//!
//! Called by: `dns`, and programs that poll a stack themselves.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::task::Poll;

use base::{Duration, Instant, Owner};
use host::dns::{Action, Kind, Lookup, LookupError, Resolver, Send};
use stack::{CallError, Stack, TcpHandle, UdpError, UdpHandle};

/// After this time a question is sent again that a full device did not take.
const FULL: Duration = Duration::from_millis(5);

/// The socket of a question.
enum Socket {
    None,
    Udp { handle: UdpHandle, to: SocketAddr, unsent: Option<Vec<u8>> },
    Tcp { handle: TcpHandle, unsent: Vec<u8> },
}

/// The result of a receive.
enum Received {
    Datagram(SocketAddr, Vec<u8>),
    Bytes(Vec<u8>),
    Failure,
    Nothing,
}

/// A lookup with its sockets. Call [`StackLookup::poll`] after each poll of the stack, and at
/// [`StackLookup::deadline`] at the latest.
pub struct StackLookup {
    lookup: Lookup,
    /// One socket for each kind of question (A, AAAA).
    sockets: [Socket; 2],
    /// When to send again what a full device did not take.
    again: Instant,
}

fn index(kind: Kind) -> usize {
    usize::from(kind == Kind::Aaaa)
}

impl StackLookup {
    /// Continues a lookup that a [`Resolver`] has begun.
    pub fn new(lookup: Lookup) -> StackLookup {
        StackLookup { lookup, sockets: [Socket::None, Socket::None], again: Instant::NEVER }
    }

    /// When to call [`StackLookup::poll`] at the latest, if nothing is received.
    pub fn deadline(&self) -> Instant {
        self.lookup.deadline().min(self.again)
    }

    /// Receive, and send messages that are due. Returns the addresses once they are known; the
    /// sockets are closed then. A program that stops before that calls [`StackLookup::close`].
    pub fn poll(
        &mut self,
        stack: &mut Stack,
        resolver: &mut Resolver,
        now: Instant,
    ) -> Poll<Result<Vec<IpAddr>, LookupError>> {
        if self.lookup.deadline() <= now {
            self.lookup.on_deadline(resolver, now);
        }
        loop {
            while let Some(action) = self.lookup.next_action() {
                match action {
                    Action::Close(kind) => self.close_one(stack, kind),
                    Action::Send(kind, send) => {
                        self.close_one(stack, kind);
                        match open(stack, send, now) {
                            Some(socket) => self.sockets[index(kind)] = socket,
                            None => self.lookup.on_failure(resolver, kind, now),
                        }
                    }
                }
            }
            if let Some(outcome) = self.lookup.outcome() {
                let outcome = outcome.clone();
                self.close(stack);
                return Poll::Ready(outcome);
            }
            self.again = Instant::NEVER;
            let mut any = false;
            for kind in [Kind::A, Kind::Aaaa] {
                any |= self.receive(stack, resolver, kind, now);
            }
            if !any {
                return Poll::Pending;
            }
        }
    }

    /// Receive once on the socket of a question; `true` if something was received.
    fn receive(
        &mut self,
        stack: &mut Stack,
        resolver: &mut Resolver,
        kind: Kind,
        now: Instant,
    ) -> bool {
        let received = match &mut self.sockets[index(kind)] {
            Socket::None => Received::Nothing,
            Socket::Udp { handle, to, unsent } => datagram(stack, *handle, *to, unsent, now),
            Socket::Tcp { handle, unsent } => bytes(stack, *handle, unsent),
        };
        if let Socket::Udp { unsent: Some(_), .. } = self.sockets[index(kind)] {
            self.again = now + FULL;
        }
        match received {
            Received::Nothing => return false,
            Received::Datagram(from, bytes) => {
                self.lookup.on_datagram(resolver, kind, from, &bytes, now);
            }
            Received::Bytes(bytes) => self.lookup.on_bytes(resolver, kind, &bytes, now),
            Received::Failure => {
                self.close_one(stack, kind);
                self.lookup.on_failure(resolver, kind, now);
            }
        }
        true
    }

    /// Close the sockets.
    pub fn close(&mut self, stack: &mut Stack) {
        self.close_one(stack, Kind::A);
        self.close_one(stack, Kind::Aaaa);
    }

    fn close_one(&mut self, stack: &mut Stack, kind: Kind) {
        match core::mem::replace(&mut self.sockets[index(kind)], Socket::None) {
            Socket::None => {}
            Socket::Udp { handle, .. } => stack.udp_close(handle),
            Socket::Tcp { handle, .. } => stack.tcp_close(handle),
        }
    }
}

/// Open a socket and send a question; `None` if one of the two failed.
fn open(stack: &mut Stack, send: Send, now: Instant) -> Option<Socket> {
    match send {
        Send::Udp(to, message) => {
            let mut ports = stack.ports_to_try();
            let handle = loop {
                let local = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), ports.next()?);
                match stack.udp_bind(local, Owner::program()) {
                    Ok(handle) => break handle,
                    Err(UdpError::AddressInUse) => {}
                    Err(_) => return None,
                }
            };
            let mut unsent = Some(message);
            let connected = stack.udp_connect(handle, to).is_ok();
            if !connected || !send_datagram(stack, handle, to, &mut unsent, now) {
                stack.udp_close(handle);
                return None;
            }
            Some(Socket::Udp { handle, to, unsent })
        }
        Send::Tcp(to, unsent) => {
            let config = tcp::Config::default();
            let handle = stack.tcp_connect(to, None, &config, Owner::program(), now).ok()?;
            Some(Socket::Tcp { handle, unsent })
        }
    }
}

/// Send a message that was not sent yet; `false` if it cannot be sent at all.
fn send_datagram(
    stack: &mut Stack,
    handle: UdpHandle,
    to: SocketAddr,
    unsent: &mut Option<Vec<u8>>,
    now: Instant,
) -> bool {
    let Some(message) = unsent.take() else { return true };
    match stack.udp_send(handle, to, &message, now) {
        Ok(()) => true,
        Err(UdpError::WouldBlock) => {
            *unsent = Some(message);
            true
        }
        Err(_) => false,
    }
}

fn datagram(
    stack: &mut Stack,
    handle: UdpHandle,
    to: SocketAddr,
    unsent: &mut Option<Vec<u8>>,
    now: Instant,
) -> Received {
    if !send_datagram(stack, handle, to, unsent, now) || stack.udp_take_error(handle).is_some() {
        return Received::Failure;
    }
    let Some(datagram) = stack.udp_receive(handle) else { return Received::Nothing };
    let (from, bytes) = (datagram.from, datagram.payload.as_slice().to_vec());
    stack.give_back(datagram.payload);
    Received::Datagram(from, bytes)
}

fn bytes(stack: &mut Stack, handle: TcpHandle, unsent: &mut Vec<u8>) -> Received {
    if !unsent.is_empty() {
        match stack.tcp_write(handle, unsent) {
            Ok(n) => drop(unsent.drain(..n)),
            Err(CallError::WouldBlock) => {}
            Err(_) => return Received::Failure,
        }
    }
    let mut room = [0; 4096];
    match stack.tcp_read(handle, &mut room) {
        Ok(n) if n > 0 => Received::Bytes(room[..n].to_vec()),
        Err(CallError::WouldBlock) => Received::Nothing,
        _ => Received::Failure,
    }
}
