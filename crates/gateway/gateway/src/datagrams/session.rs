//! A session of datagrams: the peers that its guest has sent something to, how long it lives, and
//! the one that goes first when the table is full.
//!
//! Called by: `up.rs`, `down.rs`. RFC 4787 REQ-5 (two minutes at least), REQ-6 (what a guest sends
//! refreshes), REQ-8 (filtering).

use core::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::collections::{BTreeMap, BTreeSet};

use base::{Duration, Instant};
use slotmap::{Key, KeyData, new_key_type};

use super::SessionKey;
use crate::outside::Token;

new_key_type! {
    /// The number of a session; a removed one's is not used again.
    pub(crate) struct SessionId;
}

/// The bit that tells tokens of flows from others: the keys of all have it set.
pub(crate) const FLOW: u64 = 1 << 32;
/// The bit that tells tokens of the resolver's sockets from those of sessions: no table is so long
/// that a key has it.
pub(crate) const NAMES: u64 = 1 << 31;
/// The bit that tells tokens of clients of a proxy from those of sessions and of the resolver.
pub(crate) const PROXY: u64 = 1 << 30;
/// A session that was active so lately never makes room for another.
const SAFE: Duration = Duration::from_secs(10);
/// Peers up to here are looked up in a row.
const FEW: usize = 4;

impl SessionId {
    pub(crate) fn token(self) -> Token {
        Token(self.data().as_ffi() & !FLOW)
    }

    /// The session of a token; `None` if it is something else's.
    pub(crate) fn of(token: Token) -> Option<SessionId> {
        let is_session = token.0 & (FLOW | NAMES | PROXY) == 0;
        is_session.then(|| SessionId::from(KeyData::from_ffi(token.0 | FLOW)))
    }
}

/// The hosts that may answer a guest: RFC 4787 section 5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filtering {
    /// Peers that the guest has sent something to, from the same port: address and port-dependent
    /// filtering.
    #[default]
    AddressAndPort,
    /// Peers that the guest has sent something to, from any port: address-dependent filtering.
    Address,
    /// Everybody: endpoint-independent filtering.
    Endpoint,
}

/// How long a session lives after its guest has last sent something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Questions to port 53 alone.
    Names,
    /// One datagram, and at most one answer.
    Single,
    /// Anything else.
    Other,
    /// Echoes.
    Echo,
    /// A published port: it is in no list.
    Published,
}

impl Class {
    const ALL: [Class; 4] = [Class::Names, Class::Single, Class::Other, Class::Echo];

    fn life(self) -> Duration {
        Duration::from_secs(match self {
            Class::Names => 10,
            Class::Single | Class::Echo => 30,
            Class::Other => 300,
            Class::Published => return Duration::from_nanos(u64::MAX),
        })
    }
}

/// A peer that a guest has sent something to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// The address to which the guest's one leads.
    pub(crate) to: SocketAddr,
    pub(crate) since: Instant,
    /// Bytes of payload to it and from it.
    pub(crate) bytes: (u64, u64),
    /// The policy sees what the guest sends to it.
    pub(crate) is_watched: bool,
}

impl Peer {
    pub(crate) fn new(to: SocketAddr, since: Instant) -> Peer {
        Peer { to, since, bytes: (0, 0), is_watched: false }
    }
}

/// Peers that a guest has sent something to, by the address that it used.
#[derive(Debug)]
pub(crate) enum Peers {
    Few(Vec<(SocketAddr, Peer)>),
    Many(BTreeMap<SocketAddr, Peer>),
}

impl Peers {
    pub(crate) fn len(&self) -> usize {
        match self {
            Peers::Few(all) => all.len(),
            Peers::Many(all) => all.len(),
        }
    }

    pub(crate) fn get_mut(&mut self, remote: SocketAddr) -> Option<&mut Peer> {
        match self {
            Peers::Few(all) => all.iter_mut().find(|(own, _)| *own == remote).map(|(_, peer)| peer),
            Peers::Many(all) => all.get_mut(&remote),
        }
    }

    /// The one of an address.
    pub(crate) fn get(&self, remote: SocketAddr) -> Option<&Peer> {
        match self {
            Peers::Few(all) => all.iter().find(|(own, _)| *own == remote).map(|(_, peer)| peer),
            Peers::Many(all) => all.get(&remote),
        }
    }

    pub(crate) fn add(&mut self, remote: SocketAddr, peer: Peer) {
        match self {
            Peers::Few(all) if all.len() < FEW => all.push((remote, peer)),
            Peers::Few(all) => {
                let mut many: BTreeMap<_, _> = all.drain(..).collect();
                many.insert(remote, peer);
                *self = Peers::Many(many);
            }
            Peers::Many(all) => {
                all.insert(remote, peer);
            }
        }
    }

    pub(crate) fn remove(&mut self, remote: SocketAddr) -> Option<Peer> {
        match self {
            Peers::Few(all) => {
                let at = all.iter().position(|(own, _)| *own == remote)?;
                Some(all.swap_remove(at).1)
            }
            Peers::Many(all) => all.remove(&remote),
        }
    }

    /// Take all.
    pub(crate) fn take(&mut self) -> Vec<(SocketAddr, Peer)> {
        match core::mem::replace(self, Peers::Few(Vec::new())) {
            Peers::Few(all) => all,
            Peers::Many(all) => all.into_iter().collect(),
        }
    }

    /// All, with the address that the guest has used.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SocketAddr, &Peer)> {
        let (few, many) = match self {
            Peers::Few(all) => (Some(all.iter()), None),
            Peers::Many(all) => (None, Some(all.iter())),
        };
        let few = few.into_iter().flatten().map(|(remote, peer)| (*remote, peer));
        few.chain(many.into_iter().flatten().map(|(remote, peer)| (*remote, peer)))
    }

    /// The address that the guest used for what leads to `from`.
    fn used_for(&self, from: SocketAddr) -> Option<SocketAddr> {
        let leads = |(remote, peer): (&SocketAddr, &Peer)| (peer.to == from).then_some(*remote);
        match self {
            Peers::Few(all) => all.iter().find_map(|(remote, peer)| leads((remote, peer))),
            Peers::Many(all) => all.iter().find_map(leads),
        }
    }

    fn has_address(&self, ip: IpAddr) -> bool {
        let (first, last): (SocketAddr, SocketAddr) = match ip {
            IpAddr::V4(ip) => (SocketAddrV4::new(ip, 0).into(), SocketAddrV4::new(ip, !0).into()),
            IpAddr::V6(ip) => {
                (SocketAddrV6::new(ip, 0, 0, 0).into(), SocketAddrV6::new(ip, !0, !0, !0).into())
            }
        };
        match self {
            Peers::Few(all) => all.iter().any(|(_, peer)| peer.to.ip() == ip),
            Peers::Many(all) => all.range(first..=last).next().is_some(),
        }
    }
}

/// A session.
pub(crate) struct Session<S> {
    pub(crate) key: SessionKey,
    pub(crate) socket: S,
    pub(crate) peers: Peers,
    /// A peer's address leads elsewhere.
    pub(crate) is_rewritten: bool,
    pub(crate) is_queued: bool,
    pub(crate) class: Class,
    /// Datagrams sent and received, up to 2.
    pub(crate) exchanged: (u8, u8),
    /// Bytes of payload sent and received.
    pub(crate) bytes: (u64, u64),
    pub(crate) since: Instant,
    /// When the guest last sent something, and the time under which the session is listed.
    pub(crate) last: Instant,
    pub(crate) listed: Instant,
}

impl<S> Session<S> {
    pub(crate) fn new(key: SessionKey, socket: S, class: Class, now: Instant) -> Session<S> {
        Session {
            key,
            socket,
            peers: Peers::Few(Vec::new()),
            is_rewritten: false,
            is_queued: false,
            class,
            exchanged: (0, 0),
            bytes: (0, 0),
            since: now,
            last: now,
            listed: now,
        }
    }

    /// The source that the guest sees for a datagram from `from`; `None` if it is filtered.
    pub(crate) fn seen_as(&self, from: SocketAddr, filtering: Filtering) -> Option<SocketAddr> {
        if self.peers.get(from).is_some_and(|peer| peer.to == from) {
            return Some(from);
        }
        if self.is_rewritten
            && let Some(remote) = self.peers.used_for(from)
        {
            return Some(remote);
        }
        let passes = match filtering {
            Filtering::AddressAndPort => false,
            Filtering::Address => self.peers.has_address(from.ip()),
            Filtering::Endpoint => true,
        };
        passes.then_some(from)
    }

    /// The class that its exchanges make it.
    pub(crate) fn class_now(&self, sends_to_names: bool) -> Class {
        match (self.key, self.class) {
            (SessionKey::Echo(..), _) => Class::Echo,
            (_, Class::Published) => Class::Published,
            (_, Class::Names) if sends_to_names => Class::Names,
            (_, Class::Other) => Class::Other,
            _ if self.exchanged.0 > 1 || self.exchanged.1 > 1 => Class::Other,
            _ => Class::Single,
        }
    }
}

/// Sessions by age, each class in a list of its own. A session that is used keeps its place for up
/// to a second, so that a datagram rarely moves it.
#[derive(Debug, Default)]
pub(crate) struct Ages {
    lists: [BTreeSet<(Instant, SessionId)>; Class::ALL.len()],
}

/// How far a session's place in its list may be behind.
pub(crate) const LAG: Duration = Duration::from_secs(1);

impl Ages {
    pub(crate) fn add(&mut self, class: Class, at: Instant, id: SessionId) {
        if let Some(list) = self.lists.get_mut(class as usize) {
            list.insert((at, id));
        }
    }

    pub(crate) fn remove(&mut self, class: Class, at: Instant, id: SessionId) {
        if let Some(list) = self.lists.get_mut(class as usize) {
            list.remove(&(at, id));
        }
    }

    /// A session was used, and is of this class now.
    pub(crate) fn renew<S>(&mut self, session: &mut Session<S>, id: SessionId, class: Class) {
        if class == session.class && session.last.since(session.listed) < LAG {
            return;
        }
        self.remove(session.class, session.listed, id);
        (session.class, session.listed) = (class, session.last);
        self.add(class, session.listed, id);
    }

    /// The first session whose life may be over.
    pub(crate) fn due(&self, now: Instant) -> Option<SessionId> {
        let first = |class: Class| {
            let &(at, id) = self.lists[class as usize].first()?;
            (at + class.life() <= now).then_some(id)
        };
        Class::ALL.into_iter().find_map(first)
    }

    pub(crate) fn next_deadline(&self) -> Instant {
        let first = |class: Class| {
            let first = self.lists[class as usize].first();
            first.map_or(Instant::NEVER, |&(at, _)| at + class.life())
        };
        Class::ALL.into_iter().map(first).min().unwrap_or(Instant::NEVER)
    }

    /// The session that makes room: the oldest of those with a single exchange, then of the others;
    /// none that was active in the last ten seconds.
    pub(crate) fn oldest(&self, is_echo: bool, now: Instant) -> Option<SessionId> {
        let classes: &[Class] =
            if is_echo { &[Class::Echo] } else { &[Class::Names, Class::Single, Class::Other] };
        let old = |class: &Class| {
            let &(at, id) = self.lists[*class as usize].first()?;
            // Its place may be behind.
            (at + LAG + SAFE <= now).then_some(id)
        };
        classes.iter().find_map(old)
    }
}

/// Is the life of a session over?
pub(crate) fn is_over<S>(session: &Session<S>, now: Instant) -> bool {
    session.last + session.class.life() <= now
}
