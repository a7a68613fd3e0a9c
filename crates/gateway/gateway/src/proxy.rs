//! Clients of a proxy: connections that the outside has accepted, whose requests by SOCKS5 or HTTP
//! become flows to the outside, by the same policy, names and limits as those of guests.
//!
//! Called by: `gateway.rs`, in its turn; the owner of listeners. Read `serve.rs` first;
//! `protocol.rs` has what is said first; `greet.rs` brings a client from its first byte to its
//! request, `begin.rs` from there to a connection, `pump.rs` moves bytes, `datagrams.rs` is UDP
//! ASSOCIATE. RFC 1928, RFC 9110 section 9.3.6. Limits: `gateway_flows` and `gateway_pending`,
//! which clients and guests share.

mod association;
mod begin;
mod client;
mod datagrams;
mod greet;
mod ids;
mod lookup;
mod protocol;
mod pump;
mod resolve;
mod serve;

use std::collections::{BTreeSet, VecDeque};

use base::Instant;
use slotmap::SlotMap;

use crate::outside::Ready;
use crate::report::Report;
use client::Client;
use ids::Leg;
pub(crate) use ids::{ClientId, LegId, Said};
pub use protocol::{Credentials, datagram_from, header as datagram_header};

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
