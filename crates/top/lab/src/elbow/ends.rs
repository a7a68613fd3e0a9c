//! The two ends of a call over stacks of ours: a client and a server of crate rpc, each over the
//! socket calls of its stack.
//!
//! Called by: `wire.rs`, `memory.rs`, `tap.rs`. A call is the null procedure (RFC 5531 section
//! 12.1) with an argument, which the server skips.

use std::net::SocketAddr;

use base::{Counter, Duration, Instant, KeyedHash, Owner};
use rpc::client::{Config, DatagramClient, StreamClient};
use rpc::limits::RECORD_BYTES;
use rpc::server::{Server, Session};
use rpc::xdr::Opaque;
use stack::{CallError, ListenConfig, ListenerHandle, Stack, TcpHandle, UdpHandle};

use super::point::{Causes, Transport};
use crate::Error;

/// The port at which the server listens.
pub(super) const PORT: u16 = 5_111;
/// A program number from the range that anybody may use (RFC 5531 section 8.4.1).
pub(super) const PROGRAM: u32 = 0x2000_1989;

pub(super) fn failed(what: impl std::fmt::Display) -> Error {
    Error::Failed(what.to_string())
}

/// The settings of a connection: small segments leave at once, as in `wirespeed rpcinfo`.
fn tcp_config() -> tcp::Config {
    tcp::Config { no_delay: true, ..tcp::Config::default() }
}

enum Calls {
    Tcp(Box<StreamClient>, TcpHandle),
    Udp(Box<DatagramClient>, UdpHandle, SocketAddr),
}

/// The client.
pub(super) struct Caller {
    calls: Calls,
    /// When the present call began to wait for room in the send buffer.
    blocked: Option<Instant>,
    pub(super) blocked_ns: u64,
}

impl Caller {
    /// A client of the server at an address; `keys` seed the client's random numbers. The handshake
    /// is part of the first call.
    pub(super) fn new(
        stack: &mut Stack,
        transport: Transport,
        to: SocketAddr,
        keys: (u64, u64),
        now: Instant,
    ) -> Result<Caller, Error> {
        let config = Config::new(PROGRAM, 1);
        let calls = match transport {
            Transport::Tcp => {
                let opened = stack.tcp_connect(to, None, &tcp_config(), Owner::program(), now);
                let handle = opened.map_err(|error| failed(format!("connect: {error:?}")))?;
                Calls::Tcp(Box::new(StreamClient::new(config, 1)), handle)
            }
            Transport::Udp => {
                let any = SocketAddr::from(([0; 4], 0));
                let bound = stack.udp_bind(any, Owner::program());
                let socket = bound.map_err(|error| failed(format!("bind: {error:?}")))?;
                let client = DatagramClient::new(config, KeyedHash::new(keys.0, keys.1));
                Calls::Udp(Box::new(client), socket, to)
            }
        };
        Ok(Caller { calls, blocked: None, blocked_ns: 0 })
    }

    /// Begin a call.
    pub(super) fn call(&mut self, argument: &[u8], now: Instant) -> Result<(), Error> {
        let argument = Opaque(argument);
        let begun = match &mut self.calls {
            Calls::Tcp(client, _) => client.call(0, &argument, now),
            Calls::Udp(client, ..) => client.call(0, &argument, now),
        };
        begun.map(drop).map_err(failed)
    }

    /// Write as much of the call as there is room for, and read what has arrived. Returns the
    /// number of complete replies.
    #[inline]
    pub(super) fn go_on(&mut self, stack: &mut Stack, now: Instant) -> Result<u32, Error> {
        let mut replies = 0;
        match &mut self.calls {
            Calls::Tcp(client, handle) => {
                write_all(stack, *handle, client.output().len(), |stack, handle| {
                    let written = stack.tcp_write(handle, client.output());
                    written.inspect(|&bytes| client.written(bytes))
                })?;
                let waits = !client.output().is_empty();
                self.blocked_ns += match (self.blocked, waits) {
                    (Some(since), false) => now.since(since).as_nanos(),
                    _ => 0,
                };
                self.blocked = if waits { self.blocked.or(Some(now)) } else { None };
                loop {
                    while let Some((_, results)) = client.next_reply().map_err(failed)? {
                        results.map_err(failed)?;
                        replies += 1;
                    }
                    if replies > 0 && client.waiting() == 0 {
                        return Ok(replies);
                    }
                    match stack.tcp_read(*handle, client.room()) {
                        Ok(0) => return Err(failed("the server has closed the connection")),
                        Ok(bytes) => client.filled(bytes),
                        Err(CallError::WouldBlock) => return Ok(replies),
                        Err(error) => return Err(failed(format!("read: {error:?}"))),
                    }
                }
            }
            Calls::Udp(client, socket, to) => {
                if client.next_expired(now).is_some() {
                    return Err(failed("a call over UDP timed out"));
                }
                while let Some(datagram) = client.next_datagram(now) {
                    let sent = stack.udp_send(*socket, *to, datagram, now);
                    sent.map_err(|error| failed(format!("send: {error:?}")))?;
                }
                while let Some(datagram) = stack.udp_receive(*socket) {
                    if let Some((_, results)) = client.on_datagram(datagram.payload.as_slice(), now)
                    {
                        results.map_err(failed)?;
                        replies += 1;
                    }
                    stack.give_back(datagram.payload);
                }
                Ok(replies)
            }
        }
    }

    /// When the client has to run even if nothing arrives.
    pub(super) fn deadline(&self) -> Instant {
        match &self.calls {
            Calls::Tcp(..) => Instant::NEVER,
            Calls::Udp(client, ..) => client.deadline(),
        }
    }

    /// Asked when nothing happens until a timer expires: does Nagle's algorithm hold a short
    /// segment until an ACK, although the windows have room?
    pub(super) fn is_held(&self, stack: &Stack) -> bool {
        let Calls::Tcp(_, handle) = &self.calls else { return false };
        let Some(info) = stack.tcp_info(*handle) else { return false };
        let room = info.cwnd.min(u64::from(info.snd_wnd));
        let fits = u64::from(info.in_flight) + info.unsent as u64 <= room;
        let is_short = info.unsent > 0 && info.unsent < info.snd_mss;
        is_short && fits && info.in_flight > 0 && info.due.pacing == Instant::NEVER
    }

    /// Calls that were sent again.
    pub(super) fn repeats(&self) -> u64 {
        match &self.calls {
            Calls::Tcp(..) => 0,
            Calls::Udp(client, ..) => client.counts().retransmits,
        }
    }
}

/// Write until all data is written or there is no room.
#[inline]
fn write_all(
    stack: &mut Stack,
    handle: TcpHandle,
    mut left: usize,
    mut write: impl FnMut(&mut Stack, TcpHandle) -> Result<usize, CallError>,
) -> Result<(), Error> {
    while left > 0 {
        match write(stack, handle) {
            Ok(bytes) => left -= bytes.min(left),
            Err(CallError::WouldBlock) => break,
            Err(error) => return Err(failed(format!("write: {error:?}"))),
        }
    }
    Ok(())
}

enum Answers {
    Listens(ListenerHandle),
    Tcp(Box<Session>, TcpHandle),
    Udp(UdpHandle, Vec<u8>),
}

/// The server.
pub(super) struct Answerer {
    server: Server,
    answers: Answers,
}

impl Answerer {
    /// A server at an address.
    pub(super) fn new(
        stack: &mut Stack,
        transport: Transport,
        at: SocketAddr,
    ) -> Result<Answerer, Error> {
        let mut server = Server::new(KeyedHash::new(19, 90));
        server.add(NullProgram);
        let answers = match transport {
            Transport::Tcp => {
                let listen = ListenConfig { tcp: tcp_config(), ..ListenConfig::default() };
                let listener = stack.tcp_listen(at, listen);
                Answers::Listens(listener.map_err(|error| failed(format!("listen: {error:?}")))?)
            }
            Transport::Udp => {
                let socket = stack.udp_bind(at, Owner::program());
                let socket = socket.map_err(|error| failed(format!("bind: {error:?}")))?;
                Answers::Udp(socket, Vec::new())
            }
        };
        Ok(Answerer { server, answers })
    }

    /// Answer the calls that have arrived.
    #[inline]
    pub(super) fn go_on(&mut self, stack: &mut Stack, now: Instant) -> Result<(), Error> {
        let server = &mut self.server;
        match &mut self.answers {
            Answers::Listens(listener) => {
                if let Some(handle) = stack.tcp_accept(*listener) {
                    let from = stack.tcp_addresses(handle).map(|(_, remote)| remote);
                    let from = from.ok_or_else(|| failed("the connection is gone"))?;
                    let session = Session::new(from, RECORD_BYTES, now);
                    self.answers = Answers::Tcp(Box::new(session), handle);
                }
            }
            Answers::Tcp(session, handle) => loop {
                match stack.tcp_read(*handle, session.room()) {
                    Ok(0) => return Err(failed("the client has closed the connection")),
                    Ok(bytes) => session.filled(bytes, server, now).map_err(failed)?,
                    Err(CallError::WouldBlock) => return Ok(()),
                    Err(error) => return Err(failed(format!("read: {error:?}"))),
                }
                write_all(stack, *handle, session.output().len(), |stack, handle| {
                    let written = stack.tcp_write(handle, session.output());
                    written.inspect(|&bytes| session.written(bytes))
                })?;
            },
            Answers::Udp(socket, reply) => {
                while let Some(datagram) = stack.udp_receive(*socket) {
                    reply.clear();
                    let (payload, from) = (datagram.payload.as_slice(), datagram.from);
                    let answers = server.answer_datagram(payload, from, now, reply);
                    stack.give_back(datagram.payload);
                    if answers {
                        let sent = stack.udp_send(*socket, from, reply, now);
                        sent.map_err(|error| failed(format!("send: {error:?}")))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Asked when nothing happens until a timer expires: is it the timer of a delayed ACK?
    pub(super) fn delays_ack(&self, stack: &Stack, until: Instant) -> bool {
        let Answers::Tcp(_, handle) = &self.answers else { return false };
        let due = stack.tcp_info(*handle).map_or(Instant::NEVER, |info| info.due.delayed_ack);
        due <= until && due != Instant::NEVER
    }
}

/// A program whose null procedure the server answers.
struct NullProgram;

impl rpc::server::Service for NullProgram {
    fn program(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> std::ops::RangeInclusive<u32> {
        1..=1
    }

    fn call(
        &mut self,
        _: &rpc::server::Request<'_>,
        _: &mut Vec<u8>,
    ) -> Result<(), rpc::server::Refusal> {
        Err(rpc::server::Refusal::ProcedureUnavailable)
    }
}

/// Segments and fragments that a stack has sent.
pub(super) fn packets(stack: &Stack) -> u64 {
    let of = |counter| stack.counters().of(counter);
    of(Counter::TcpSegmentsOut) + of(Counter::UdpOut) + of(Counter::FragmentsOut)
        - of(Counter::DatagramsFragmented)
}

/// The counts of both ends so far.
pub(super) fn counted(stacks: [&Stack; 2], caller: &Caller) -> Causes {
    let segments = stacks.into_iter().map(packets).sum();
    Causes { segments, blocked_ns: caller.blocked_ns, ..Causes::default() }
}

/// The difference of two counts.
pub(super) fn since(now: Causes, before: Causes) -> Causes {
    Causes {
        segments: now.segments - before.segments,
        delayed_acks: now.delayed_acks - before.delayed_acks,
        nagle_holds: now.nagle_holds - before.nagle_holds,
        blocked_ns: now.blocked_ns - before.blocked_ns,
    }
}

/// Longer than any call takes.
pub(super) const LONGEST: Duration = Duration::from_secs(20);
