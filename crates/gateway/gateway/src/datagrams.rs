//! Datagrams and echoes of guests: sessions, one for each address and port of a guest (RFC 4787
//! REQ-1, endpoint-independent mapping), each with a socket of the outside.
//!
//! Called by: `gateway.rs`, in its turn. `up.rs` sends what guests sent, `down.rs` brings answers
//! and errors, `session.rs` says how long a session lives and which one makes room. Sockets of
//! published ports are in `published.rs`, those who send to them in `clients.rs`.
//! Limits: `gateway_sessions`, `gateway_session_peers`, `gateway_echoes`.

mod clients;
mod down;
mod published;
mod session;
mod up;
mod watched;

use core::net::{IpAddr, SocketAddr};
use std::collections::{HashMap, VecDeque};

use base::{Instant, IpVersion};
use slotmap::SlotMap;
use stack::ForeignDatagram;

use clients::Clients;
use session::Class;
pub use session::Filtering;
pub(crate) use session::{Ages, FLOW, NAMES, PROXY, Session, SessionId};

/// Datagrams that a turn takes from guests, and as many from the outside.
const DATAGRAMS_A_TURN: usize = 256;
/// Datagrams that a session brings from the outside before the next one has its turn.
const A_SESSION: usize = 32;
/// The longest that a call of the outside receives.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionKey {
    /// Datagrams of this address and port of a guest.
    Udp(SocketAddr),
    /// Echo requests of a guest with this identifier.
    Echo(IpAddr, u16),
    /// A question of the gateway's resolver to servers with addresses of this version: a socket for
    /// datagrams on a random port.
    Names(IpVersion),
}

/// All sessions.
pub(crate) struct Sessions<S> {
    pub(crate) slots: SlotMap<SessionId, Session<S>>,
    pub(crate) by_key: HashMap<SessionKey, SessionId>,
    pub(crate) ages: Ages,
    pub(crate) echoes: usize,
    /// Sessions of published ports, and those who send to them.
    pub(crate) published: usize,
    pub(crate) clients: Clients,
    /// Sessions whose socket has something, each once.
    pub(crate) queue: VecDeque<SessionId>,
    /// The stack has datagrams of guests.
    pub(crate) has_input: bool,
    /// Where datagrams of the outside are received, and those of guests wait; kept for their
    /// memory.
    buffer: Vec<u8>,
    input: Vec<ForeignDatagram>,
}

impl<S> Default for Sessions<S> {
    fn default() -> Sessions<S> {
        Sessions {
            slots: SlotMap::with_key(),
            by_key: HashMap::new(),
            ages: Ages::default(),
            echoes: 0,
            published: 0,
            clients: Clients::default(),
            queue: VecDeque::new(),
            has_input: false,
            buffer: Vec::new(),
            input: Vec::new(),
        }
    }
}

impl<S> Sessions<S> {
    /// The socket of a session has something to receive, or an error.
    pub(crate) fn ready(&mut self, id: SessionId) {
        let Some(session) = self.slots.get_mut(id) else { return };
        if !session.is_queued {
            session.is_queued = true;
            self.queue.push_back(id);
        }
    }

    pub(crate) fn has_work(&self) -> bool {
        self.has_input || !self.queue.is_empty()
    }

    pub(crate) fn next_deadline(&self) -> Instant {
        self.ages.next_deadline().min(self.clients.next_deadline())
    }

    /// Take a session out of all tables but that of clients.
    fn remove(&mut self, id: SessionId) -> Option<Session<S>> {
        let session = self.slots.remove(id)?;
        // A published port may have another session for the same address and port of the guest.
        if self.by_key.get(&session.key) == Some(&id) {
            self.by_key.remove(&session.key);
        }
        self.ages.remove(session.class, session.listed, id);
        self.echoes -= usize::from(matches!(session.key, SessionKey::Echo(..)));
        self.published -= usize::from(session.class == Class::Published);
        Some(session)
    }
}
