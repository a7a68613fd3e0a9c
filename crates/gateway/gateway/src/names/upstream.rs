//! The sockets of questions to servers: for each question one socket for each version of IP, on a
//! random port, and at most one connection.
//!
//! Called by: `names.rs`. `dns_in_flight` limits them all.

use core::net::{Ipv4Addr, SocketAddr};
use std::io::{IoSlice, IoSliceMut};

use base::IpVersion;
use host::dns::{QueryId, Send};
use slotmap::{Key, KeyData, new_key_type};

use super::Names;
use crate::around::Around;
use crate::datagrams::{FLOW, NAMES, SessionKey};
use crate::outside::{Ends, Outcome, Outgoing, Outside, Received, Stop, Token};
use crate::policy::Policy;

new_key_type! {
    /// The number of a question's socket; a removed one's is not used again.
    pub(crate) struct UpstreamId;
}

impl UpstreamId {
    fn token(self) -> Token {
        Token(self.data().as_ffi() & !FLOW | NAMES)
    }

    /// The socket of a token; `None` if it is something else's.
    pub(crate) fn of(token: Token) -> Option<UpstreamId> {
        let is_own = token.0 & (FLOW | NAMES) == NAMES;
        is_own.then(|| UpstreamId::from(KeyData::from_ffi(token.0 & !NAMES | FLOW)))
    }
}

/// Datagrams, errors or reads of one socket in a turn.
const A_TURN: usize = 16;
/// Hops of a datagram of ours (RFC 1700).
const TTL: u8 = 64;
/// The longest message.
const BUFFER_BYTES: usize = 65_535;

/// A socket of a question.
pub(super) struct Upstream<T, S> {
    query: QueryId,
    kind: Kind<T, S>,
    is_ready: bool,
}

enum Kind<T, S> {
    Datagrams(S),
    Connection { tcp: T, unsent: Vec<u8>, is_open: bool },
}

/// The sockets of a question.
#[derive(Default)]
pub(super) struct Query {
    /// For servers of each version.
    datagrams: [Option<UpstreamId>; 2],
    connection: Option<UpstreamId>,
    /// Which socket and which server it waits for.
    asks: Option<(UpstreamId, SocketAddr)>,
}

impl<T, S> Names<T, S> {
    /// The outside reports something about a socket.
    pub(crate) fn ready(&mut self, id: UpstreamId) {
        let Some(upstream) = self.upstream.get_mut(id) else { return };
        if !upstream.is_ready {
            upstream.is_ready = true;
            self.ready.push_back(id);
        }
    }

    /// Send a question to a server.
    pub(super) fn ask<O, P>(&mut self, query: QueryId, send: Send, around: &mut Around<'_, O, P>)
    where
        O: Outside<Tcp = T, Socket = S>,
    {
        let is_under_way = match send {
            Send::Udp(server, message) => self.send(query, server, &message, around),
            Send::Tcp(server, message) => self.connect(query, server, message, around),
        };
        if !is_under_way {
            self.forwarder.on_failure(around.now, query);
        }
    }

    fn send<O, P>(
        &mut self,
        id: QueryId,
        server: SocketAddr,
        message: &[u8],
        around: &mut Around<'_, O, P>,
    ) -> bool
    where
        O: Outside<Tcp = T, Socket = S>,
    {
        let version = IpVersion::of(&server.ip());
        let query = self.queries.entry(id).or_default();
        let known = &mut query.datagrams[usize::from(server.is_ipv6())];
        if known.is_none() {
            let made = self.upstream.try_insert_with_key(|own: UpstreamId| {
                let socket = around.outside.open(own.token(), &SessionKey::Names(version))?;
                let kind = Kind::Datagrams(socket);
                Ok::<_, crate::outside::Failure>(Upstream { query: id, kind, is_ready: false })
            });
            *known = made.ok();
        }
        let Some(own) = *known else { return false };
        query.asks = Some((own, server));
        let Some(Upstream { kind: Kind::Datagrams(socket), .. }) = self.upstream.get_mut(own)
        else {
            return false;
        };
        let (to, payload) = (server, message);
        let what = Outgoing { to, ttl: TTL, tos: 0, seq: 0, segment_size: 0, payload };
        around.outside.send(socket, &what).is_ok()
    }

    fn connect<O, P>(
        &mut self,
        id: QueryId,
        server: SocketAddr,
        unsent: Vec<u8>,
        around: &mut Around<'_, O, P>,
    ) -> bool
    where
        O: Outside<Tcp = T, Socket = S>,
    {
        let earlier = self.queries.entry(id).or_default().connection.take();
        earlier.into_iter().for_each(|own| self.close(own, around));
        let guest = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let ends = Ends { guest, remote: server };
        let made = self.upstream.try_insert_with_key(|own: UpstreamId| {
            let tcp = around.outside.tcp_connect(own.token(), &ends, server)?;
            let kind = Kind::Connection { tcp, unsent, is_open: false };
            Ok::<_, crate::outside::Failure>(Upstream { query: id, kind, is_ready: false })
        });
        let (Ok(own), Some(query)) = (made, self.queries.get_mut(&id)) else { return false };
        query.connection = Some(own);
        query.asks = Some((own, server));
        true
    }

    /// A question is over.
    pub(super) fn close_query<O, P>(&mut self, id: QueryId, around: &mut Around<'_, O, P>)
    where
        O: Outside<Tcp = T, Socket = S>,
    {
        let Some(query) = self.queries.remove(&id) else { return };
        let all = query.datagrams.into_iter().chain([query.connection]).flatten();
        all.for_each(|own| self.close(own, around));
    }

    fn close<O, P>(&mut self, own: UpstreamId, around: &mut Around<'_, O, P>)
    where
        O: Outside<Tcp = T, Socket = S>,
    {
        match self.upstream.remove(own).map(|upstream| upstream.kind) {
            None => {}
            Some(Kind::Datagrams(socket)) => around.outside.close(socket),
            Some(Kind::Connection { tcp, is_open: true, .. }) => around.outside.tcp_close(tcp),
            Some(Kind::Connection { tcp, .. }) => around.outside.tcp_abort(tcp),
        }
    }

    /// Take what has come from servers.
    pub(super) fn hear_all<O, P>(&mut self, around: &mut Around<'_, O, P>)
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        if self.ready.is_empty() {
            return;
        }
        let mut buffer = core::mem::take(&mut self.buffer);
        buffer.resize(BUFFER_BYTES, 0);
        for _ in 0..self.ready.len() {
            let Some(own) = self.ready.pop_front() else { break };
            let Some(upstream) = self.upstream.get_mut(own) else { continue };
            upstream.is_ready = false;
            let is_drained = match upstream.kind {
                Kind::Datagrams(_) => self.hear_datagrams(own, &mut buffer, around),
                Kind::Connection { .. } => self.hear_connection(own, &mut buffer, around),
            };
            if !is_drained {
                self.ready(own);
            }
        }
        self.buffer = buffer;
    }

    /// Returns whether nothing is left to take.
    fn hear_datagrams<O, P>(
        &mut self,
        own: UpstreamId,
        buffer: &mut [u8],
        around: &mut Around<'_, O, P>,
    ) -> bool
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        let (now, forwarder) = (around.now, &mut self.forwarder);
        let Some(Upstream { query, kind: Kind::Datagrams(socket), .. }) =
            self.upstream.get_mut(own)
        else {
            return true;
        };
        for _ in 0..A_TURN {
            if let Some(problem) = around.outside.take_error(socket) {
                // Not if the question waits for another server by now.
                let asks = self.queries.get(query).and_then(|query| query.asks);
                if asks == Some((own, problem.to)) {
                    forwarder.on_failure(now, *query);
                }
                continue;
            }
            let Some(got) = around.outside.receive(socket, buffer) else { return true };
            let payload = &buffer[..got.bytes.min(buffer.len())];
            let size = match usize::from(got.segment_size) {
                0 => payload.len().max(1),
                size => size,
            };
            for message in payload.chunks(size) {
                forwarder.on_datagram(now, *query, got.from, message, around.policy);
            }
        }
        false
    }

    /// The same for a connection, whose question is sent when it is open.
    fn hear_connection<O, P>(
        &mut self,
        own: UpstreamId,
        buffer: &mut [u8],
        around: &mut Around<'_, O, P>,
    ) -> bool
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        let Some(Upstream { query, kind, .. }) = self.upstream.get_mut(own) else { return true };
        let Kind::Connection { tcp, unsent, is_open } = kind else { return true };
        let id = *query;
        let mut step = || {
            if !*is_open {
                match around.outside.tcp_outcome(tcp) {
                    Ok(Outcome::Pending) => return Ok(true),
                    Ok(Outcome::Connected) => *is_open = true,
                    Err(why) => return Err(Stop::Failed(why)),
                }
            }
            while !unsent.is_empty() {
                match around.outside.tcp_send(tcp, &[IoSlice::new(unsent)]) {
                    Ok(count) => drop(unsent.drain(..count)),
                    Err(Stop::WouldBlock) => break,
                    Err(failed) => return Err(failed),
                }
            }
            for _ in 0..A_TURN {
                match around.outside.tcp_receive(tcp, &mut [IoSliceMut::new(buffer)]) {
                    // The server has closed: nothing more comes.
                    Ok(Received { bytes: 0, .. }) => {
                        return Err(Stop::Failed(crate::outside::Failure::Reset));
                    }
                    Ok(got) => {
                        let bytes = &buffer[..got.bytes.min(buffer.len())];
                        self.forwarder.on_bytes(around.now, id, bytes, around.policy);
                        if got.is_drained {
                            return Ok(true);
                        }
                    }
                    Err(Stop::WouldBlock) => return Ok(true),
                    Err(failed) => return Err(failed),
                }
            }
            Ok(false)
        };
        match step() {
            Ok(is_drained) => is_drained,
            Err(_) => {
                let asks = self.queries.get(&id).and_then(|query| query.asks);
                if asks.is_some_and(|(asked, _)| asked == own) {
                    self.forwarder.on_failure(around.now, id);
                }
                true
            }
        }
    }
}
