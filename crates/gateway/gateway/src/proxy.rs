//! Clients of a proxy: connections that the outside has accepted, whose requests by SOCKS5 or HTTP
//! become flows to the outside, by the same policy, names and limits as those of guests.
//!
//! Called by: `gateway.rs`, in its turn; the owner of listeners. `protocol.rs` has what is said
//! first; `greet.rs` brings a client from its first byte to its request, `begin.rs` from there to a
//! connection, `pump.rs` moves bytes, `datagrams.rs` is UDP ASSOCIATE. RFC 1928, RFC 9110 section
//! 9.3.6. Limits: `gateway_flows` and `gateway_pending`, which clients and guests share.

mod begin;
mod client;
mod datagrams;
mod greet;
mod lookup;
mod protocol;
mod pump;

use core::net::SocketAddr;
use std::collections::{BTreeSet, VecDeque};

use base::{Instant, Limit};
use slotmap::{Key, KeyData, SlotMap, new_key_type};

use crate::around::Around;
use crate::datagrams::{FLOW, NAMES};
use crate::gateway::Gateway;
use crate::outside::{Outside, Ready, Token};
use crate::policy::{Policy, Verdict};
use crate::report::{End, Report};
use client::{Client, State};
pub(crate) use lookup::Said;
pub use protocol::{Credentials, datagram_from, header as datagram_header};

new_key_type! {
    /// The number of a client; a removed one's is not used again.
    pub(crate) struct ClientId;
    /// The number of a client's connection or socket; a removed one's is not used again.
    pub(crate) struct LegId;
}

/// The bit that tells tokens of clients from those of sessions and of the resolver: no table is so
/// long that a key has it.
pub(crate) const PROXY: u64 = 1 << 30;

impl LegId {
    fn token(self) -> Token {
        Token(self.data().as_ffi() & !FLOW | PROXY)
    }

    /// The connection of a token; `None` if it is something else's.
    pub(crate) fn of(token: Token) -> Option<LegId> {
        let is_own = token.0 & (FLOW | NAMES | PROXY) == PROXY;
        is_own.then(|| LegId::from(KeyData::from_ffi(token.0 & !PROXY | FLOW)))
    }
}

/// A connection or a socket.
struct Leg {
    client: ClientId,
    ready: Ready,
}

/// All clients.
pub(crate) struct Proxies<T, S> {
    credentials: Option<Credentials>,
    /// `None` while a client has its turn.
    clients: SlotMap<ClientId, Option<Box<Client<T, S>>>>,
    legs: SlotMap<LegId, Leg>,
    /// Clients that have something to do, in turn; each is there once.
    queue: VecDeque<ClientId>,
    deadlines: BTreeSet<(Instant, ClientId)>,
    /// Where bytes are received.
    buffer: Vec<u8>,
}

impl<T, S> Proxies<T, S> {
    pub(crate) fn new(credentials: Option<Credentials>) -> Proxies<T, S> {
        Proxies {
            credentials,
            clients: SlotMap::with_key(),
            legs: SlotMap::with_key(),
            queue: VecDeque::new(),
            deadlines: BTreeSet::new(),
            buffer: Vec::new(),
        }
    }

    /// Clients.
    pub(crate) fn len(&self) -> usize {
        self.clients.len()
    }

    /// Flows of clients, as if they ended now.
    pub(crate) fn flows(&self) -> impl Iterator<Item = Report> {
        self.clients.values().flatten().flat_map(|client| client.flows())
    }

    /// The outside reports something about a connection or a socket.
    pub(crate) fn ready(&mut self, id: LegId, ready: Ready) {
        let Some(leg) = self.legs.get_mut(id) else { return };
        leg.ready = leg.ready.and(ready);
        let client = leg.client;
        self.wake(client);
    }

    fn wake(&mut self, id: ClientId) {
        let Some(Some(client)) = self.clients.get_mut(id) else { return };
        if !client.is_queued {
            client.is_queued = true;
            self.queue.push_back(id);
        }
    }

    /// A new connection or socket of a client.
    fn leg(&mut self, client: ClientId) -> LegId {
        self.legs.insert(Leg { client, ready: Ready::default() })
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    pub(crate) fn next_deadline(&self) -> Instant {
        self.deadlines.first().map_or(Instant::NEVER, |&(at, _)| at)
    }

    fn set_deadline(&mut self, id: ClientId, client: &mut Client<T, S>, at: Instant) {
        if client.deadline != at {
            self.deadlines.remove(&(client.deadline, id));
            client.deadline = at;
            if at != Instant::NEVER {
                self.deadlines.insert((at, id));
            }
        }
    }
}

impl<T, S> Gateway<T, S> {
    /// Clients of [`Gateway::accept_client`] need this name and password from now on.
    pub fn set_credentials(&mut self, credentials: Option<Credentials>) {
        self.proxies.credentials = credentials;
    }

    /// Clients of the proxy.
    pub fn client_count(&self) -> usize {
        self.proxies.len()
    }

    /// Somebody has connected to the proxy: do what the client asks for by SOCKS5 or HTTP, if the
    /// policy allows that; its flows have the client's address as the guest's. Beyond the limits
    /// the connection is reset.
    pub fn accept_client<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        mut near: T,
        from: SocketAddr,
        around: &mut Around<'_, O, P>,
    ) {
        let pending = self.waiting.deadlines.len() + self.proxies.deadlines.len();
        let all = self.flows.len() + self.proxies.len();
        let budget = &mut self.config.budget;
        if !budget.admits(Limit::GatewayPending, pending)
            || !budget.admits(Limit::GatewayFlows, all)
        {
            self.counts.unanswered += 1;
            return around.outside.tcp_abort(near);
        }
        self.counts.clients += 1;
        let id = self.proxies.clients.insert(None);
        let leg = self.proxies.leg(id);
        around.outside.tcp_adopt(leg.token(), &mut near);
        let mut client = Box::new(Client::new(near, leg, from));
        self.proxies.set_deadline(id, &mut client, around.now + client::GREETING);
        self.proxies.clients[id] = Some(client);
        self.proxies.wake(id);
    }

    /// Let clients do what they can.
    pub(crate) fn serve_clients<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        around: &mut Around<'_, O, P>,
    ) {
        let said = self.names.as_mut().map(|names| names.take_said());
        said.into_iter().flatten().for_each(|said| self.heard(said, around));
        while let Some(&(at, id)) = self.proxies.deadlines.first()
            && at <= around.now
        {
            self.proxies.deadlines.remove(&(at, id));
            if let Some(Some(client)) = self.proxies.clients.get_mut(id) {
                client.deadline = Instant::NEVER;
                client.is_late = true;
            }
            self.proxies.wake(id);
        }
        for _ in 0..self.proxies.queue.len() {
            let Some(id) = self.proxies.queue.pop_front() else { break };
            let Some(mut client) = self.proxies.clients.get_mut(id).and_then(Option::take) else {
                continue;
            };
            client.is_queued = false;
            match self.serve(id, &mut client, around) {
                true => self.put_back(id, client),
                false => self.end_client(id, *client, around),
            }
        }
    }

    fn put_back(&mut self, id: ClientId, client: Box<Client<T, S>>) {
        let has_more = client.has_more;
        if let Some(place) = self.proxies.clients.get_mut(id) {
            *place = Some(client);
        }
        if has_more {
            self.proxies.wake(id);
        }
    }

    /// Decide about a client's flow for which [`Policy::tcp`] said [`Verdict::Ask`]; `false` if
    /// none waits.
    pub(crate) fn decide_client(&mut self, ends: &crate::outside::Ends, verdict: Verdict) -> bool {
        let waits = |client: &&mut Box<Client<T, S>>| match &client.state {
            State::Asking(attempt) => attempt.ends == *ends,
            _ => false,
        };
        let all = self.proxies.clients.iter_mut();
        let mut all = all.filter_map(|(id, client)| Some((id, client.as_mut().filter(waits)?)));
        let Some((id, client)) = all.next() else { return false };
        client.verdict = Some(verdict);
        self.proxies.wake(id);
        true
    }

    /// End all clients.
    pub(crate) fn end_clients<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        around: &mut Around<'_, O, P>,
    ) {
        let all: Vec<ClientId> = self.proxies.clients.keys().collect();
        for id in all {
            let Some(mut client) = self.proxies.clients.get_mut(id).and_then(Option::take) else {
                continue;
            };
            client.end = End::ShutDown;
            self.end_client(id, *client, around);
        }
    }
}
