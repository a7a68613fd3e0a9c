//! A client of the proxy: its connection, what it wants, and how far that is.
//!
//! Called by: `proxy.rs` and the files beside this one.

use core::net::SocketAddr;
use std::collections::VecDeque;

use base::{Duration, Instant};

use super::association::Association;
use super::ids::{Leg, LegId};
use super::lookup::Lookup;
use super::protocol::{Handshake, No, Speaks};
use crate::outside::{Ends, Ready};
use crate::policy::Verdict;
use crate::report::{End, Protocol, Report};

/// How long a client may take to say what it wants.
pub(super) const GREETING: Duration = Duration::from_secs(30);
/// How long a refused client may take to read why.
pub(super) const ENDING: Duration = Duration::from_secs(2);

/// A client.
pub(super) struct Client<T, S> {
    pub(super) from: SocketAddr,
    pub(super) near: Side<T>,
    pub(super) state: State<T, S>,
    pub(super) speaks: Speaks,
    /// What the client has sent and nobody has taken.
    pub(super) up: Vec<u8>,
    /// What the client has not taken.
    pub(super) down: Vec<u8>,
    /// [`Instant::NEVER`]: it may take its time.
    pub(super) deadline: Instant,
    /// Its deadline has passed.
    pub(super) is_late: bool,
    pub(super) is_queued: bool,
    /// Its turn was cut short.
    pub(super) has_more: bool,
    /// Somebody's answer to a question about its flow.
    pub(super) verdict: Option<Verdict>,
    /// How it ends.
    pub(super) end: End,
}

/// How far a client is.
pub(super) enum State<T, S> {
    /// It has not said what it wants yet.
    Greeting(Handshake),
    /// It has given a name.
    Resolving(Lookup, u16),
    /// Somebody is asked about its flow.
    Asking(Attempt),
    /// The outside connects.
    Connecting(Attempt, Side<T>),
    /// Bytes pass.
    Open(Attempt, Side<T>),
    /// Datagrams pass.
    Associated(Box<Association<S>>),
    /// It hears why it does not get what it wants.
    Ending,
}

/// What becomes of a client's turn.
pub(super) enum Next<T, S> {
    /// It waits for something.
    Waits(State<T, S>),
    /// It goes on at once.
    Goes(State<T, S>),
    /// It ends.
    Over(State<T, S>, End),
}

/// A connection and what was reported of it.
pub(super) struct Side<T> {
    pub(super) tcp: T,
    pub(super) leg: LegId,
    pub(super) is_readable: bool,
    pub(super) is_writable: bool,
    /// The end of its stream was read.
    pub(super) has_ended: bool,
    /// That end was passed on.
    pub(super) is_over: bool,
    /// An error was reported, or the result of a connect.
    pub(super) has_news: bool,
}

impl<T> Side<T> {
    pub(super) fn new(tcp: T, leg: LegId) -> Side<T> {
        Side {
            tcp,
            leg,
            is_readable: false,
            is_writable: false,
            has_ended: false,
            is_over: false,
            has_news: false,
        }
    }

    /// Take what was reported.
    pub(super) fn note(&mut self, leg: Option<&mut Leg>) {
        let Some(leg) = leg else { return };
        let ready = core::mem::take(&mut leg.ready);
        let has_error = ready.has(Ready::ERROR);
        self.is_readable |= has_error || ready.has(Ready::READABLE);
        self.is_writable |= has_error || ready.has(Ready::WRITABLE);
        self.has_news |= ready != Ready::default();
    }
}

/// A flow that a client wants: the addresses of its target, one tried after the other.
pub(super) struct Attempt {
    /// Those that are left.
    pub(super) left: VecDeque<SocketAddr>,
    /// The one that is tried now.
    pub(super) ends: Ends,
    pub(super) since: Instant,
    pub(super) bytes_up: u64,
    pub(super) bytes_down: u64,
    /// The policy wants to see the first bytes.
    pub(super) wants_hello: bool,
    /// Why the ones before failed.
    pub(super) no: No,
}

impl Attempt {
    /// What the log hears of its end.
    pub(super) fn report(&self, end: End) -> Report {
        let &Attempt { ends, since, bytes_up, bytes_down, .. } = self;
        Report { protocol: Protocol::Tcp, ends, end, since, bytes_up, bytes_down }
    }
}

impl<T, S> Client<T, S> {
    pub(super) fn new(near: T, leg: LegId, from: SocketAddr) -> Client<T, S> {
        Client {
            from,
            near: Side::new(near, leg),
            state: State::Greeting(Handshake::default()),
            speaks: Speaks::Socks,
            up: Vec::new(),
            down: Vec::new(),
            deadline: Instant::NEVER,
            is_late: false,
            is_queued: false,
            has_more: false,
            verdict: None,
            end: End::Finished,
        }
    }

    /// Flows that are to be reported when they end.
    pub(super) fn flows(&self) -> Vec<Report> {
        let end = End::ShutDown;
        match &self.state {
            State::Asking(attempt) | State::Connecting(attempt, _) | State::Open(attempt, _) => {
                vec![attempt.report(end)]
            }
            State::Associated(association) => association.reports(end),
            State::Greeting(_) | State::Resolving(..) | State::Ending => Vec::new(),
        }
    }
}
