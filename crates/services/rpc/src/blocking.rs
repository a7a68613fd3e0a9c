//! Clients and servers whose calls block, over anything that implements `Read` and `Write`, or that
//! sends and receives datagrams.
//!
//! Called by: programs, which also pass the clock: a [`Clock`] is a function. A stream must have a
//! read time-out, after which `read` fails with `WouldBlock` or `TimedOut`; then the deadline of
//! the call is checked.

use core::net::SocketAddr;
use std::io::{self, ErrorKind, Read, Write};

use base::{Duration, Instant, KeyedHash};

use crate::client::{CallError, CallId, Config, DatagramClient, StreamClient};
use crate::limits::DATAGRAM_BYTES;
use crate::server::{Server, Session};
use crate::xdr::{Decode, Decoder, Encode};

/// A program's function that returns the time.
pub type Clock = fn() -> Instant;

/// A client that makes a call and waits for its results. The clients that [`crate::program!`]
/// defines use it.
pub trait Caller {
    /// Call a procedure and wait for its results.
    ///
    /// # Errors
    /// There are no results.
    fn call<A: Encode + ?Sized, R: for<'a> Decode<'a>>(
        &mut self,
        procedure: u32,
        args: &A,
    ) -> Result<R, CallError>;
}

/// A client over a stream. When the stream has ended, `connect` makes another one.
pub struct Tcp<S, C> {
    client: StreamClient,
    stream: Option<S>,
    connect: C,
    clock: Clock,
}

impl<S: Read + Write, C: FnMut() -> io::Result<S>> Tcp<S, C> {
    /// Connect.
    ///
    /// # Errors
    /// The errors of `connect`.
    pub fn connect(
        config: Config,
        first_xid: u32,
        clock: Clock,
        mut connect: C,
    ) -> io::Result<Self> {
        let stream = Some(connect()?);
        Ok(Tcp { client: StreamClient::new(config, first_xid), stream, connect, clock })
    }

    /// The state of the calls.
    pub fn client(&self) -> &StreamClient {
        &self.client
    }

    /// Begin a call. [`Tcp::flush`] or [`Tcp::reply`] writes it together with others.
    ///
    /// # Errors
    /// Too many calls wait, the call is too long, or the transport failed.
    pub fn send<A: Encode + ?Sized>(
        &mut self,
        procedure: u32,
        args: &A,
    ) -> Result<CallId, CallError> {
        let id = self.client.call(procedure, args, (self.clock)())?;
        if self.client.should_write() {
            self.flush()?;
        }
        Ok(id)
    }

    /// Call a procedure that sends no reply (RFC 5531 section 10). The call is written together
    /// with others.
    ///
    /// # Errors
    /// The call is too long, or the transport failed.
    pub fn batch<A: Encode + ?Sized>(&mut self, procedure: u32, args: &A) -> Result<(), CallError> {
        self.client.batch(procedure, args)?;
        if self.client.should_write() { self.flush() } else { Ok(()) }
    }

    /// Write all calls that were begun.
    ///
    /// # Errors
    /// The transport failed. All calls that wait are forgotten.
    pub fn flush(&mut self) -> Result<(), CallError> {
        self.write().map_err(|error| self.lost(error.into()))
    }

    fn write(&mut self) -> io::Result<()> {
        if self.stream.is_none() {
            self.stream = Some((self.connect)()?);
        }
        let Some(stream) = &mut self.stream else { return Ok(()) };
        while !self.client.output().is_empty() {
            match stream.write(self.client.output()) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => self.client.written(bytes),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        stream.flush()
    }

    /// Forget the connection and the calls.
    fn lost(&mut self, error: CallError) -> CallError {
        self.stream = None;
        self.client.disconnected();
        error
    }

    /// Wait for the next reply to any call; its results go to `take`.
    ///
    /// # Errors
    /// The connection has ended, or its stream cannot go on: all calls are forgotten. If a call
    /// times out, the connection is ended too, because the calls after it would wait as long.
    pub fn reply<T>(
        &mut self,
        take: impl FnOnce(CallId, Result<&[u8], CallError>) -> T,
    ) -> Result<T, CallError> {
        self.flush()?;
        loop {
            match self.client.next_reply() {
                Ok(Some((id, results))) => return Ok(take(id, results)),
                Ok(None) => {}
                Err(error) => return Err(self.lost(error)),
            }
            // Check the time even if bytes came: a peer may send a reply byte by byte.
            if (self.clock)() >= self.client.deadline() {
                return Err(self.lost(CallError::TimedOut));
            }
            let Some(stream) = &mut self.stream else { return Err(CallError::Disconnected) };
            match stream.read(self.client.room()) {
                Ok(0) => return Err(self.lost(CallError::Disconnected)),
                Ok(bytes) => self.client.filled(bytes),
                Err(error) if is_wait(&error) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return Err(self.lost(CallError::Disconnected));
                }
                Err(error) => return Err(self.lost(error.into())),
            }
        }
    }
}

/// Does the error only mean that nothing has arrived yet?
fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

impl<S: Read + Write, C: FnMut() -> io::Result<S>> Caller for Tcp<S, C> {
    /// Replies to earlier calls of [`Tcp::send`] that arrive first are lost, so wait for those
    /// calls before.
    fn call<A: Encode + ?Sized, R: for<'a> Decode<'a>>(
        &mut self,
        procedure: u32,
        args: &A,
    ) -> Result<R, CallError> {
        let id = self.send(procedure, args)?;
        loop {
            let found = self
                .reply(|replied, results| (replied == id).then(|| Ok(Decoder::whole(results?)?)))?;
            if let Some(results) = found {
                return results;
            }
        }
    }
}

/// A datagram socket that is connected to a server.
pub trait Datagrams {
    /// Send a datagram.
    ///
    /// # Errors
    /// The errors of the socket.
    fn send(&mut self, datagram: &[u8]) -> io::Result<()>;
    /// Receive a datagram within a time; `None` if none came.
    ///
    /// # Errors
    /// The errors of the socket.
    fn receive(&mut self, room: &mut [u8], within: Duration) -> io::Result<Option<usize>>;
}

impl Datagrams for std::net::UdpSocket {
    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        std::net::UdpSocket::send(self, datagram).map(drop)
    }

    fn receive(&mut self, room: &mut [u8], within: Duration) -> io::Result<Option<usize>> {
        self.set_read_timeout(Some(within.max(Duration::from_micros(1)).into()))?;
        match self.recv(room) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if is_wait(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A client over datagrams.
pub struct Udp<D> {
    client: DatagramClient,
    socket: D,
    room: Vec<u8>,
    clock: Clock,
}

impl<D: Datagrams> Udp<D> {
    /// A client over a connected socket; `secret` as for [`DatagramClient::new`].
    pub fn new(config: Config, secret: KeyedHash, clock: Clock, socket: D) -> Udp<D> {
        let client = DatagramClient::new(config, secret);
        Udp { client, socket, room: vec![0; DATAGRAM_BYTES], clock }
    }

    /// The state of the calls.
    pub fn client(&self) -> &DatagramClient {
        &self.client
    }
}

impl<D: Datagrams> Caller for Udp<D> {
    fn call<A: Encode + ?Sized, R: for<'a> Decode<'a>>(
        &mut self,
        procedure: u32,
        args: &A,
    ) -> Result<R, CallError> {
        let id = self.client.call(procedure, args, (self.clock)())?;
        loop {
            let now = (self.clock)();
            while let Some(expired) = self.client.next_expired(now) {
                if expired == id {
                    return Err(CallError::TimedOut);
                }
            }
            while let Some(datagram) = self.client.next_datagram(now) {
                self.socket.send(datagram)?;
            }
            let within = self.client.deadline().since(now);
            let Some(bytes) = self.socket.receive(&mut self.room, within)? else { continue };
            let reply = self.client.on_datagram(&self.room[..bytes], (self.clock)());
            if let Some((replied, results)) = reply
                && replied == id
            {
                return Ok(Decoder::whole(results?)?);
            }
        }
    }
}

/// Serve one connection until it ends.
///
/// # Errors
/// The stream's error, or `InvalidData` or `TimedOut` with the reason why the connection was ended.
pub fn serve<S: Read + Write>(
    server: &mut Server,
    stream: &mut S,
    from: SocketAddr,
    record_max: usize,
    clock: Clock,
) -> io::Result<()> {
    let mut session = Session::new(from, record_max, clock());
    loop {
        let ended = match stream.read(session.room()) {
            Ok(0) => return Ok(()),
            Ok(bytes) => session.filled(bytes, server, clock()),
            Err(error) if is_wait(&error) => Ok(()),
            Err(error) => return Err(error),
        };
        loop {
            stream.write_all(session.output())?;
            let bytes = session.output().len();
            session.written(bytes);
            ended.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            session
                .go_on(server, clock())
                .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            if session.output().is_empty() {
                break;
            }
        }
        // Check the time even if bytes came: a peer may send a record byte by byte.
        if clock() >= session.deadline() {
            return Err(io::Error::new(ErrorKind::TimedOut, "idle, or half a record"));
        }
    }
}
