//! Guests and servers made by hand around a forwarder, in virtual time.

use core::net::{IpAddr, SocketAddr};

use base::{Instant, KeyedHash};

use crate::dns::forwarder::{
    Answered, Asked, Forwarder, ForwarderAction, ForwarderConfig, Learned, Policy, QueryId, Target,
    Transport, Verdict,
};
use crate::dns::{Hosts, Send};

pub(super) fn server(number: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::from([192, 0, 2, number as u8]), 53)
}

pub(super) fn wire(name: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in name.split('.') {
        wire.push(label.len() as u8);
        wire.extend(label.bytes());
    }
    wire.push(0);
    wire
}

/// A message being made.
#[derive(Clone)]
pub(super) struct Made {
    pub(super) bytes: Vec<u8>,
}

pub(super) fn question(id: u16, name: &str, rtype: u16) -> Made {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    bytes.extend(wire(name));
    bytes.extend(rtype.to_be_bytes());
    bytes.extend([0, 1]);
    Made { bytes }
}

impl Made {
    pub(super) fn edns(mut self, payload: u16, options: &[u8]) -> Made {
        self.bytes[11] = 1;
        self.bytes.extend([0, 0, 41]);
        self.bytes.extend(payload.to_be_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend((options.len() as u16).to_be_bytes());
        self.bytes.extend(options);
        self
    }

    pub(super) fn truncated(mut self) -> Made {
        self.bytes[2] |= 2;
        self
    }

    pub(super) fn code(mut self, code: u8) -> Made {
        self.bytes[3] = self.bytes[3] & 0xf0 | code;
        self
    }

    pub(super) fn record(mut self, owner: &str, rtype: u16, ttl: u32, value: &[u8]) -> Made {
        self.bytes[7] += 1;
        self.bytes.extend(wire(owner));
        self.bytes.extend(rtype.to_be_bytes());
        self.bytes.extend([0, 1]);
        self.bytes.extend(ttl.to_be_bytes());
        self.bytes.extend((value.len() as u16).to_be_bytes());
        self.bytes.extend(value);
        self
    }

    pub(super) fn a(self, owner: &str, address: [u8; 4], ttl: u32) -> Made {
        self.record(owner, 1, ttl, &address)
    }

    pub(super) fn cname(self, owner: &str, target: &str, ttl: u32) -> Made {
        self.record(owner, 5, ttl, &wire(target))
    }
}

/// A question as a server sees it.
pub(super) struct Query {
    pub(super) id: QueryId,
    pub(super) to: SocketAddr,
    pub(super) by: Transport,
    pub(super) message: Vec<u8>,
}

impl Query {
    pub(super) fn new(id: QueryId, send: Send) -> Query {
        match send {
            Send::Udp(to, message) => Query { id, to, by: Transport::Udp, message },
            Send::Tcp(to, bytes) => {
                assert_eq!(usize::from(bytes[0]) << 8 | usize::from(bytes[1]), bytes.len() - 2);
                Query { id, to, by: Transport::Tcp, message: bytes[2..].to_vec() }
            }
        }
    }

    /// An answer without records.
    pub(super) fn answer(&self) -> Made {
        let end = 12 + self.message[12..].iter().position(|&b| b == 0).expect("the root") + 5;
        let mut bytes = self.message[..end].to_vec();
        bytes[2] |= 0x80;
        bytes[3] = 0x80;
        bytes[11] = 0;
        Made { bytes }
    }
}

/// A policy that refuses a name or an address, and remembers what it saw.
#[derive(Default)]
pub(super) struct Watch {
    pub(super) refuses: Option<&'static str>,
    pub(super) refuses_address: Option<IpAddr>,
    pub(super) hides_ech: bool,
    /// The names of each answer, the one that was asked first, and its addresses.
    pub(super) seen: Vec<(Vec<String>, Vec<Learned>)>,
    /// The targets of each answer.
    pub(super) targets: Vec<Vec<Target>>,
}

impl Policy for Watch {
    fn question(&mut self, asked: &Asked<'_>) -> Verdict {
        let is_refused = self.refuses.is_some_and(|name| asked.name.to_string() == name);
        if is_refused { Verdict::Refuse } else { Verdict::Pass }
    }

    fn answer(&mut self, answer: &Answered<'_>) -> Verdict {
        let names = [answer.asked.name].into_iter().chain(answer.aliases);
        self.seen.push((names.map(ToString::to_string).collect(), answer.addresses.to_vec()));
        self.targets.push(answer.targets.to_vec());
        let is_refused = |learned: &Learned| Some(learned.address) == self.refuses_address;
        if answer.addresses.iter().any(is_refused) { Verdict::Refuse } else { Verdict::Pass }
    }

    fn keeps_ech(&mut self, _: &Asked<'_>) -> bool {
        !self.hides_ech
    }
}

pub(super) struct World {
    pub(super) forwarder: Forwarder<u16>,
    pub(super) watch: Watch,
    pub(super) now: Instant,
}

impl World {
    pub(super) fn new(servers: usize) -> World {
        let config = ForwarderConfig::new((1..=servers).map(server).collect());
        let forwarder = Forwarder::new(config, Hosts::default(), KeyedHash::new(1, 2));
        World { forwarder, watch: Watch::default(), now: Instant::from_nanos(1_000_000_000) }
    }

    pub(super) fn ask(&mut self, guest: u16, message: &[u8]) {
        self.ask_by(guest, Transport::Udp, message);
    }

    pub(super) fn ask_by(&mut self, guest: u16, by: Transport, message: &[u8]) {
        self.forwarder.question(self.now, guest, by, message, &mut self.watch);
    }

    pub(super) fn hear(&mut self, query: &Query, message: &[u8]) {
        self.hear_from(query, query.to, message);
    }

    pub(super) fn hear_from(&mut self, query: &Query, from: SocketAddr, message: &[u8]) {
        self.forwarder.on_datagram(self.now, query.id, from, message, &mut self.watch);
    }

    pub(super) fn bytes(&mut self, query: &Query, bytes: &[u8]) {
        self.forwarder.on_bytes(self.now, query.id, bytes, &mut self.watch);
    }

    pub(super) fn fail(&mut self, query: &Query) {
        self.forwarder.on_failure(self.now, query.id);
    }

    pub(super) fn poll(&mut self) -> Option<ForwarderAction<u16>> {
        self.forwarder.poll(self.now)
    }

    /// The next question that a server sees; time does not pass.
    pub(super) fn query(&mut self) -> Query {
        match self.poll() {
            Some(ForwarderAction::Send(id, send)) => Query::new(id, send),
            other => panic!("{other:?}"),
        }
    }

    /// The next answer that a guest gets; a question is closed before it.
    pub(super) fn answered(&mut self) -> (u16, Transport, Vec<u8>) {
        loop {
            match self.poll() {
                Some(ForwarderAction::Close(_)) => {}
                Some(ForwarderAction::Answer(to, by, message)) => return (to, by, message),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Is there nothing to do now?
    pub(super) fn idle(&mut self) -> bool {
        self.poll().is_none()
    }

    /// Let time pass until there is something to do; returns how long that took, in milliseconds.
    pub(super) fn wait(&mut self) -> u64 {
        assert!(self.idle());
        let deadline = self.forwarder.deadline();
        assert!(deadline > self.now && deadline < Instant::NEVER, "a deadline to wait for");
        let span = deadline.since(self.now);
        self.now = deadline;
        span.as_millis()
    }
}
