//! Clients of published ports, which have sent something to one: the address under which the guest
//! sees each, and the one that is forgotten when there are too many.
//!
//! Called by: `published.rs`, `up.rs`, `down.rs`. A client is forgotten when neither side has sent
//! anything for five minutes. Limit: `gateway_session_peers` for each port.

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeSet, HashMap};

use base::{Cidr, Duration, Instant};

use super::SessionId;
use super::session::LAG;
use crate::outside::Ends;

/// How long a client is remembered after the last datagram of either side (RFC 4787 REQ-5).
const LIFE: Duration = Duration::from_secs(300);
/// Ports of the gateway's address that stand for clients: the dynamic ones (RFC 6335 section 6).
const FIRST_PORT: u16 = 49_152;
const PORTS: u16 = 16_384;

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) session: SessionId,
    /// Its own address and port.
    pub(crate) address: SocketAddr,
    pub(crate) since: Instant,
    /// Bytes of payload to it and from it.
    pub(crate) bytes: (u64, u64),
    last: Instant,
    /// The time under which it is in the lists.
    listed: Instant,
}

/// All clients, by the ends that the guest sees.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    all: HashMap<Ends, Client>,
    /// How the guest sees each.
    seen: HashMap<(SessionId, SocketAddr), SocketAddr>,
    counts: HashMap<SessionId, usize>,
    /// The networks from which clients of a session may come, if not from all.
    from: HashMap<SessionId, Vec<Cidr>>,
    ages: BTreeSet<(Instant, Ends)>,
    of_session: BTreeSet<(SessionId, Instant, Ends)>,
    next_port: u16,
}

impl Clients {
    /// Clients of this session come from these networks; empty means all.
    pub(super) fn admit(&mut self, session: SessionId, from: Vec<Cidr>) {
        if !from.is_empty() {
            self.from.insert(session, from);
        }
    }

    /// May this be a client of the session?
    pub(super) fn admits(&self, session: SessionId, client: SocketAddr) -> bool {
        let ip = client.ip().to_canonical();
        let from = self.from.get(&session);
        from.is_none_or(|from| from.iter().any(|network| network.contains(ip)))
    }

    /// A session without clients has ended.
    pub(super) fn end(&mut self, session: SessionId) {
        self.from.remove(&session);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All, with the ends that the guest sees.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ends, &Client)> {
        self.all.iter().map(|(ends, client)| (*ends, client))
    }

    /// How many a session has.
    pub(crate) fn count(&self, session: SessionId) -> usize {
        self.counts.get(&session).copied().unwrap_or(0)
    }

    /// The session of a client, and the client's own address.
    pub(crate) fn get(&self, ends: &Ends) -> Option<(SessionId, SocketAddr)> {
        self.all.get(ends).map(|client| (client.session, client.address))
    }

    /// The address under which a guest sees a client.
    pub(crate) fn seen(&self, session: SessionId, client: SocketAddr) -> Option<SocketAddr> {
        self.seen.get(&(session, client)).copied()
    }

    pub(crate) fn add(&mut self, ends: Ends, session: SessionId, client: SocketAddr, now: Instant) {
        let (bytes, since, last, listed) = ((0, 0), now, now, now);
        self.all.insert(ends, Client { session, address: client, since, bytes, last, listed });
        self.seen.insert((session, client), ends.remote);
        *self.counts.entry(session).or_default() += 1;
        self.ages.insert((now, ends));
        self.of_session.insert((session, now, ends));
    }

    pub(crate) fn remove(&mut self, ends: &Ends) -> Option<Client> {
        let client = self.all.remove(ends)?;
        self.seen.remove(&(client.session, client.address));
        self.ages.remove(&(client.listed, *ends));
        self.of_session.remove(&(client.session, client.listed, *ends));
        if let Some(count) = self.counts.get_mut(&client.session) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&client.session);
            }
        }
        Some(client)
    }

    /// Bytes were carried to a client and from it.
    pub(crate) fn used(&mut self, ends: &Ends, (to, from): (u64, u64), now: Instant) {
        let Some(client) = self.all.get_mut(ends) else { return };
        client.bytes.0 += to;
        client.bytes.1 += from;
        client.last = now;
        if now.since(client.listed) >= LAG {
            self.renew(ends);
        }
    }

    /// List a client under its time.
    fn renew(&mut self, ends: &Ends) {
        let Some(client) = self.all.get_mut(ends) else { return };
        let before = core::mem::replace(&mut client.listed, client.last);
        self.ages.remove(&(before, *ends));
        self.ages.insert((client.last, *ends));
        self.of_session.remove(&(client.session, before, *ends));
        self.of_session.insert((client.session, client.last, *ends));
    }

    /// The client of a session that has been idle longest, to within a second.
    pub(crate) fn oldest(&self, session: SessionId) -> Option<Ends> {
        let none = SocketAddr::from(([0, 0, 0, 0], 0));
        let first = (session, Instant::ZERO, Ends { guest: none, remote: none });
        let &(of, _, ends) = self.of_session.range(first..).next()?;
        (of == session).then_some(ends)
    }

    /// A client whose life is over.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Ends> {
        while let Some(&(at, ends)) = self.ages.first()
            && at + LIFE <= now
        {
            let last = self.all.get(&ends).map_or(at, |client| client.last);
            if last + LIFE <= now {
                return Some(ends);
            }
            self.renew(&ends);
        }
        None
    }

    pub(crate) fn next_deadline(&self) -> Instant {
        self.ages.first().map_or(Instant::NEVER, |&(at, _)| at + LIFE)
    }

    /// The address under which a guest sees a client: its own, or a port of the gateway's address
    /// `ip`, the client's own port number if it is free. `None`: no port is free.
    pub(crate) fn name(
        &mut self,
        (own, ip): (Option<SocketAddr>, Option<IpAddr>),
        port: u16,
        guest: SocketAddr,
    ) -> Option<SocketAddr> {
        let is_free = |all: &HashMap<Ends, Client>, remote: SocketAddr| {
            !all.contains_key(&Ends { guest, remote })
        };
        if let Some(own) = own.filter(|own| is_free(&self.all, *own)) {
            return Some(own);
        }
        let ip = ip?;
        let kept = SocketAddr::new(ip, port);
        if port != host::dns::PORT && port != 0 && is_free(&self.all, kept) {
            return Some(kept);
        }
        for _ in 0..PORTS {
            let remote = SocketAddr::new(ip, FIRST_PORT + self.next_port);
            self.next_port = (self.next_port + 1) % PORTS;
            if is_free(&self.all, remote) {
                return Some(remote);
            }
        }
        None
    }
}
