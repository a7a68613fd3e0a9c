//! The session with the partner: how it begins and ends, and which datagrams are due.
//!
//! Called by: the router, which gives what has come ([`Session::receive`]), sends what is due
//! ([`Session::next_datagram`]), and takes copies from its firewalls as long as there is room. A
//! session is up once the partner has answered our session from one of its own. A recording of an
//! earlier session proves nothing: it answers no late hello of ours, and its other datagrams are
//! sealed for another session.

mod incoming;

use std::collections::VecDeque;

use base::{Duration, Instant};
use core::ops::Range;
use filter::Tuple;
use filter::firewall::{Copied, Copy};

use crate::counts::Counts;
use crate::hello::Hello;
use crate::ports::{Own, Theirs};
use crate::receive::Inbound;
use crate::records::Record;
use crate::seal::{Header, Key, Kind, Seal, SessionId};
use crate::send::{Outbound, With};

/// The time between two hellos, and after which a silent partner is gone.
const HELLO_EVERY: Duration = Duration::from_millis(250);
const GONE_AFTER: Duration = Duration::from_secs(3);
/// Answers to hellos of unknown sessions, and lists of names, come again after this.
const ANSWER_EVERY: Duration = Duration::from_millis(50);
const NAMES_EVERY: Duration = Duration::from_millis(200);
/// All states are asked for again after this at the earliest.
const REQUEST_EVERY: Duration = Duration::from_secs(2);
/// An answer names one of our last datagrams with a hello, names or questions: the recording of an
/// older one is no answer.
const LATE: u64 = 64;
/// Numbers of datagrams in a version.
const NUMBER_BITS: u32 = 48;

/// What the partner says. Versions are for [`filter::Firewall::import`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// One of its states is so now; ports have our numbers.
    State(Copied, u64),
    /// Its state with this original tuple has ended.
    Ended(Tuple, u64),
    /// All of its states were named since the last of these versions: states of this session with
    /// one of them are no more.
    AllNamed(Range<u64>),
}

/// A session with the partner.
pub struct Session {
    seal: Seal,
    own: SessionId,
    ports: Own,
    out: Outbound,
    counts: Counts,
    /// Number of the last datagram without states.
    control: u64,
    /// Datagrams without states that wait.
    urgent: VecDeque<Vec<u8>>,
    partner: Option<Partner>,
    /// The session of a partner that has gone, and what was heard of it.
    last: Option<(SessionId, Heard)>,
    /// Sessions of the partner so far.
    epoch: u64,
    /// An unknown session that has said hello, and the number of that hello.
    stranger: Option<(SessionId, u64)>,
    stranger_at: Instant,
    hello_at: Instant,
    names_at: Instant,
    /// Our request for all states, and when there may be another one.
    request: u32,
    request_at: Instant,
    is_lacking: bool,
    /// The partner's request that was served last.
    served: u32,
    /// Our own states changed more than was noted.
    is_incomplete: bool,
    since: Instant,
}

#[derive(Clone, Copy, Default)]
struct Heard {
    control: u64,
    expected: u64,
}

struct Partner {
    id: SessionId,
    control: u64,
    heard_at: Instant,
    inbound: Inbound,
    theirs: Theirs,
    /// Our list of names that it has.
    names_heard: u32,
    /// Its request for all states.
    request: u32,
    /// Versions begin here.
    first_version: u64,
    /// All of its states are being named since this version.
    all_since: Option<u64>,
}

impl Partner {
    fn version(&self, number: u64) -> u64 {
        self.first_version | number & ((1 << NUMBER_BITS) - 1)
    }
}

impl Session {
    /// A session with the partner that has the same key. `own` is random; `datagram` is the most
    /// bytes of a datagram, [`crate::DATAGRAM_MIN`] at least.
    #[must_use]
    pub fn new(key: &Key, own: SessionId, datagram: usize, now: Instant) -> Session {
        Session {
            seal: Seal::new(key),
            own,
            ports: Own::default(),
            out: Outbound::new(datagram.max(crate::DATAGRAM_MIN)),
            counts: Counts::default(),
            control: 0,
            urgent: VecDeque::new(),
            partner: None,
            last: None,
            epoch: 0,
            stranger: None,
            stranger_at: now,
            hello_at: now,
            names_at: now,
            request: 0,
            request_at: now,
            is_lacking: false,
            served: 0,
            is_incomplete: false,
            since: now,
        }
    }

    /// Set the ports of this router: number and name.
    pub fn set_ports(&mut self, ports: &[(u16, String)]) {
        if self.ports.set(ports) {
            self.is_incomplete = true;
        }
    }

    /// Is the partner there?
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.partner.is_some()
    }

    /// Was it ever there?
    #[must_use]
    pub fn was_up(&self) -> bool {
        self.epoch > 0
    }

    /// Since when it is there, or is not.
    #[must_use]
    pub fn since(&self) -> Instant {
        self.since
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Can the partner take states?
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let partner = self.partner.as_ref();
        partner.is_some_and(|partner| partner.names_heard == self.ports.generation)
    }

    /// How many copies may be added now at least; 0 while the partner takes none.
    #[must_use]
    pub fn room(&self) -> usize {
        if self.is_ready() { self.out.room() } else { 0 }
    }

    /// Are all states to be sent?
    #[must_use]
    pub fn wants_all(&self) -> bool {
        let asks = |partner: &Partner| partner.request != self.served;
        self.is_ready() && (self.is_incomplete || self.partner.as_ref().is_some_and(asks))
    }

    /// All states are to be sent, because changes were lost, or states begin anew.
    pub fn send_all(&mut self) {
        self.is_incomplete = true;
    }

    /// All states of the partner are wanted, because those here were lost.
    pub fn ask_for_all(&mut self) {
        self.is_lacking = true;
    }

    /// All states follow. Copies that came from the partner with versions from
    /// [`Session::first_version`] on are left out.
    pub fn begin_all(&mut self, now: Instant) {
        self.is_incomplete = false;
        self.served = self.partner.as_ref().map_or(self.served, |partner| partner.request);
        self.push_record(&Record::AllBegin(self.served), now);
    }

    /// They are all sent.
    pub fn end_all(&mut self, now: Instant) {
        self.push_record(&Record::AllEnd(self.served), now);
        self.counts.bulks_sent += 1;
    }

    /// The least version of the partner's present session.
    #[must_use]
    pub fn first_version(&self) -> u64 {
        self.epoch << NUMBER_BITS
    }

    /// Add a copy, if there is room. `false`: its port has no name, or the partner is not there.
    pub fn push(&mut self, copy: &Copy, now: Instant) -> bool {
        let copy = match copy {
            Copy::Ended(_) => *copy,
            Copy::State(copied) => {
                let places = [copied.in_port, copied.out_port].map(|port| self.ports.place(port));
                let [Some(in_port), Some(out_port)] = places else { return false };
                Copy::State(Copied { in_port, out_port, ..*copied })
            }
        };
        let is_pushed = self.push_record(&Record::Copy(copy), now);
        self.counts.sent += u64::from(is_pushed);
        is_pushed
    }

    fn push_record(&mut self, record: &Record, now: Instant) -> bool {
        let Some(partner) = &self.partner else { return false };
        let with = With { seal: &self.seal, own: self.own, to: partner.id };
        self.out.push(record, self.ports.generation, &with, now);
        true
    }

    /// Take a datagram; `each` gets what it and those that waited for it say, in order.
    pub fn receive(&mut self, datagram: &[u8], now: Instant, each: impl FnMut(Event)) {
        match self.take(datagram, now) {
            Ok(()) => self.counts.datagrams_received += 1,
            Err(why) => self.counts.refuse(why),
        }
        self.deliver(each);
    }

    /// The next datagram that is due; `None`: nothing is. Bounded: what is added by
    /// [`Session::push`] bounds it.
    pub fn next_datagram(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.look(now);
        let datagram = self.due(now);
        self.counts.datagrams_sent += u64::from(datagram.is_some());
        datagram
    }

    /// What time brings.
    fn look(&mut self, now: Instant) {
        let is_gone = |partner: &Partner| now.since(partner.heard_at) >= GONE_AFTER;
        if self.partner.as_ref().is_some_and(is_gone) {
            self.leave(now);
        }
        let lost = self.partner.as_mut().map_or(0, |partner| partner.inbound.give_up(now));
        self.lose(lost);
        if self.is_lacking && now >= self.request_at {
            self.request = self.request.wrapping_add(1).max(1);
            (self.request_at, self.is_lacking) = (now + REQUEST_EVERY, false);
            self.hello_at = now;
        }
    }

    fn due(&mut self, now: Instant) -> Option<Vec<u8>> {
        if let Some(stranger) = self.stranger.take() {
            return self.say_hello(stranger);
        }
        if now >= self.hello_at {
            self.hello_at = now + HELLO_EVERY;
            let partner = self.partner.as_ref().map(|partner| (partner.id, partner.control));
            return self.say_hello(partner.unwrap_or_default());
        }
        let partner = self.partner.as_mut()?;
        let to = partner.id;
        let missing = partner.inbound.missing(now);
        let has_names = partner.names_heard == self.ports.generation;
        if !missing.is_empty() {
            self.counts.gaps += missing.len() as u64;
            let body: Vec<u8> = missing.iter().flat_map(|number| number.to_be_bytes()).collect();
            return self.seal_control(Kind::Missing, to, &body);
        }
        if !has_names && now >= self.names_at && self.urgent.is_empty() {
            self.names_at = now + NAMES_EVERY;
            for body in self.ports.bodies(self.out.most()) {
                let datagram = self.seal_control(Kind::Names, to, &body);
                self.urgent.extend(datagram);
            }
        }
        if let Some(datagram) = self.urgent.pop_front() {
            return Some(datagram);
        }
        let with = With { seal: &self.seal, own: self.own, to };
        self.out.pop(&with, now)
    }

    fn say_hello(&mut self, (answers, answered): (SessionId, u64)) -> Option<Vec<u8>> {
        let theirs = self.partner.as_ref().map(|partner| partner.theirs.generation);
        let hello = Hello {
            answers,
            answered,
            names: self.ports.generation,
            names_heard: theirs.unwrap_or_default(),
            next: self.out.next,
            request: self.request,
        };
        self.seal_control(Kind::Hello, SessionId::default(), &hello.body())
    }

    fn seal_control(&mut self, kind: Kind, to: SessionId, body: &[u8]) -> Option<Vec<u8>> {
        self.control += 1;
        let header = Header { kind, session: self.own, number: self.control };
        self.seal.seal(&header, to, body)
    }

    /// The number of the partner's next datagram with states.
    #[cfg(feature = "internals")]
    #[must_use]
    pub fn expected(&self) -> u64 {
        self.partner.as_ref().map_or(0, |partner| partner.inbound.expected)
    }

    /// A datagram with any body, as no session sends it: kind 1 to 4.
    #[cfg(any(test, feature = "internals"))]
    pub fn with_body(&mut self, kind: u8, number: u64, body: &[u8]) -> Option<Vec<u8>> {
        let kinds = [Kind::Hello, Kind::Names, Kind::States, Kind::Missing];
        let kind = kinds.into_iter().find(|known| *known as u8 == kind)?;
        let partner = self.partner.as_ref().map(|partner| partner.id).unwrap_or_default();
        let to = if kind == Kind::Hello { SessionId::default() } else { partner };
        self.seal.seal(&Header { kind, session: self.own, number }, to, body)
    }
}
