//! Names: all that guests send to port 53, to any address, is answered here, by a forwarder that
//! asks the servers of the host.
//!
//! Called by: `gateway.rs`, `tcp/begin.rs`, `datagrams/up.rs`. `serve.rs` has the gateway's calls,
//! `guests.rs` the connections over which guests ask, `upstream.rs` the sockets of questions to
//! servers. An answer comes from the address that was asked. RFC 1035, RFC 7766. Limits:
//! `dns_in_flight` (the guest gets SERVFAIL beyond it), `gateway_dns_connections`.

mod guests;
mod serve;
mod upstream;

use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};

use base::{Budget, Drops, Instant, Limit};
use host::dns::{DomainName, Forwarder, ForwarderAction, Kind, QueryId, Transport, question};
use slotmap::SlotMap;
use stack::{ForeignDatagram, IpSettings};

use crate::around::Around;
use crate::config::NamesConfig;
use crate::counts::Counts;
use crate::outside::Outside;
use crate::policy::Policy;
use crate::proxy::{ClientId, Said};
use guests::Guest;
pub(crate) use guests::GuestId;
pub(crate) use upstream::UpstreamId;
use upstream::{Query, Upstream};

/// The port of name servers (RFC 1035 section 4.2).
pub(crate) const NAMES_PORT: u16 = host::dns::PORT;

/// The guest that has asked, and gets the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    /// This address of a guest, by a datagram to that address.
    Datagram(SocketAddr, SocketAddr),
    /// A connection.
    Connection(GuestId),
    /// A client of the proxy, the number of its lookup, and for which addresses it asks.
    Client(ClientId, u32, Kind),
}

/// The resolver of a gateway.
pub(crate) struct Names<T, S> {
    forwarder: Forwarder<Asker>,
    guests: SlotMap<GuestId, Guest>,
    /// Connections of guests that have something to do, each once.
    awake: VecDeque<GuestId>,
    upstream: SlotMap<UpstreamId, Upstream<T, S>>,
    /// Sockets of questions that have something to do, each once.
    ready: VecDeque<UpstreamId>,
    /// The sockets of each question.
    queries: BTreeMap<QueryId, Query>,
    buffer: Vec<u8>,
    /// Answers for clients of the proxy.
    said: Vec<Said>,
}

impl<T, S> Names<T, S> {
    pub(crate) fn new(config: NamesConfig) -> Names<T, S> {
        let NamesConfig { forwarder, hosts, secret } = config;
        Names {
            forwarder: Forwarder::new(forwarder, hosts, secret),
            guests: SlotMap::with_key(),
            awake: VecDeque::new(),
            upstream: SlotMap::with_key(),
            ready: VecDeque::new(),
            queries: BTreeMap::new(),
            buffer: Vec::new(),
            said: Vec::new(),
        }
    }

    pub(crate) fn drops(&self) -> &Drops {
        self.forwarder.drops()
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.awake.is_empty() || !self.ready.is_empty()
    }

    pub(crate) fn next_deadline(&self) -> Instant {
        let idle = self.guests.values().map(Guest::deadline).min();
        self.forwarder.deadline().min(idle.unwrap_or(Instant::NEVER))
    }

    /// A datagram of a guest to port 53, or several of one size.
    pub(crate) fn question<O, P>(
        &mut self,
        datagram: &ForeignDatagram,
        around: &mut Around<'_, O, P>,
    ) where
        P: Policy,
    {
        let asker = Asker::Datagram(datagram.flow.src, datagram.flow.dst);
        let payload = datagram.payload.as_slice();
        let size = match usize::from(datagram.segment_size) {
            0 => payload.len().max(1),
            size => size,
        };
        for message in payload.chunks(size) {
            let by = Transport::Udp;
            self.forwarder.question(around.now, asker, by, message, around.policy);
        }
    }

    /// A client of the proxy asks for the addresses of a name; `false` if no answer will come.
    pub(crate) fn look_up<O, P>(
        &mut self,
        client: ClientId,
        lookup: u32,
        (name, kind, by): (&DomainName, Kind, Transport),
        around: &mut Around<'_, O, P>,
    ) -> bool
    where
        P: Policy,
    {
        let (asker, message) = (Asker::Client(client, lookup, kind), question(name, kind));
        self.forwarder.question(around.now, asker, by, &message, around.policy)
    }

    /// A client of the proxy takes no answer any more.
    pub(crate) fn forget_client(&mut self, id: ClientId) {
        self.forwarder.abandon(|asker| matches!(asker, Asker::Client(client, ..) if *client == id));
    }

    /// Answers for clients of the proxy.
    pub(crate) fn take_said(&mut self) -> Vec<Said> {
        core::mem::take(&mut self.said)
    }

    /// Do what the forwarder wants, until it wants nothing.
    fn act<O, P>(&mut self, around: &mut Around<'_, O, P>, counts: &mut Counts)
    where
        O: Outside<Tcp = T, Socket = S>,
    {
        while let Some(action) = self.forwarder.poll(around.now) {
            match action {
                ForwarderAction::Send(id, send) => self.ask(id, send, around),
                ForwarderAction::Close(id) => self.close_query(id, around),
                ForwarderAction::Answer(Asker::Connection(id), _, message) => {
                    self.answer_over(id, &message, around.now);
                }
                ForwarderAction::Answer(Asker::Client(client, lookup, kind), by, message) => {
                    self.said.push(Said { client, lookup, kind, by, message });
                }
                ForwarderAction::Answer(Asker::Datagram(guest, asked), _, message) => {
                    let (ip, now) = (IpSettings::default(), around.now);
                    match around.stack.udp_send_between(asked, guest, ip, &message, now) {
                        Ok(()) => counts.datagrams_down += 1,
                        Err(_) => counts.datagrams_lost += 1,
                    }
                }
            }
        }
    }

    /// A turn.
    fn turn<O, P>(
        &mut self,
        around: &mut Around<'_, O, P>,
        (budget, counts): (&Budget, &mut Counts),
    ) where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        let limit = Limit::DnsInFlight;
        self.forwarder.budget_mut().set(limit, budget.of(limit));
        self.hear_all(around);
        self.act(around, counts);
        self.serve_guests(around);
        self.act(around, counts);
    }

    /// End all connections of guests and all questions.
    pub(crate) fn end_all<O, P>(&mut self, around: &mut Around<'_, O, P>)
    where
        O: Outside<Tcp = T, Socket = S>,
    {
        for (_, guest) in self.guests.drain() {
            around.stack.tcp_abort(guest.handle);
        }
        self.forwarder.abandon(|_| true);
        self.act(around, &mut Counts::default());
    }
}
