//! Servers made by hand: reads questions, makes answers byte by byte, and runs a lookup in virtual
//! time.

use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

use base::{Duration, Instant};

use crate::dns::{Action, Config, Families, Hosts, Kind, LookupError, Resolver, Send};

pub(crate) const START: Instant = Instant::from_nanos(1_000_000_000);
pub(crate) const TTL: u32 = 300;

pub(crate) fn server(number: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::from([192, 0, 2, number as u8]), 53)
}

pub(crate) fn config(servers: usize) -> Config {
    Config { servers: (1..=servers).map(server).collect(), ..Config::default() }
}

/// A question as a server sees it.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) to: SocketAddr,
    pub(crate) tcp: bool,
    pub(crate) id: u16,
    /// In lower case.
    pub(crate) name: String,
    /// As sent, in wire format.
    pub(crate) wire: Vec<u8>,
    pub(crate) kind: Kind,
    /// UDP payload size of the OPT record.
    pub(crate) edns: Option<u16>,
}

impl Query {
    fn read(to: SocketAddr, tcp: bool, bytes: &[u8]) -> Query {
        let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        assert_eq!(word(2), 0x0100, "a question, recursion desired");
        assert_eq!((word(4), word(6), word(8)), (1, 0, 0));
        let mut at = 12;
        let mut labels = Vec::new();
        while bytes[at] != 0 {
            let label = &bytes[at + 1..at + 1 + usize::from(bytes[at])];
            labels.push(String::from_utf8_lossy(&label.to_ascii_lowercase()).into_owned());
            at += 1 + label.len();
        }
        let wire = bytes[12..=at].to_vec();
        let kind = match word(at + 1) {
            1 => Kind::A,
            28 => Kind::Aaaa,
            other => panic!("type {other}"),
        };
        assert_eq!(word(at + 3), 1, "class IN");
        let edns = (word(10) == 1).then(|| {
            assert_eq!((bytes[at + 5], word(at + 6)), (0, 41), "an OPT record of the root");
            word(at + 8)
        });
        Query { to, tcp, id: word(0), name: labels.join("."), wire, kind, edns }
    }
}

pub(crate) fn wire(name: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        wire.push(label.len() as u8);
        wire.extend(label.bytes());
    }
    wire.push(0);
    wire
}

/// A message being made.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) bytes: Vec<u8>,
}

/// An answer without records.
pub(crate) fn respond(query: &Query) -> Made {
    let mut bytes = query.id.to_be_bytes().to_vec();
    bytes.extend([0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0]);
    bytes.extend(&query.wire);
    bytes.extend([0, if query.kind == Kind::A { 1 } else { 28 }, 0, 1]);
    Made { bytes }
}

impl Made {
    pub(crate) fn rcode(mut self, rcode: u8) -> Made {
        self.bytes[3] = self.bytes[3] & 0xf0 | rcode;
        self
    }

    pub(crate) fn truncated(mut self) -> Made {
        self.bytes[2] |= 2;
        self
    }

    fn count(&mut self, section: usize) {
        let at = 4 + 2 * section;
        let count = u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]) + 1;
        self.bytes[at..at + 2].copy_from_slice(&count.to_be_bytes());
    }

    pub(crate) fn record(
        mut self,
        section: usize,
        owner: &[u8],
        rtype: u16,
        ttl: u32,
        data: &[u8],
    ) -> Made {
        self.count(section);
        self.bytes.extend(owner);
        self.bytes.extend(rtype.to_be_bytes());
        self.bytes.extend([0, 1]);
        self.bytes.extend(ttl.to_be_bytes());
        self.bytes.extend((data.len() as u16).to_be_bytes());
        self.bytes.extend(data);
        self
    }

    pub(crate) fn address(self, owner: &str, address: &str, ttl: u32) -> Made {
        match address.parse().expect("an address") {
            IpAddr::V4(a) => self.record(1, &wire(owner), 1, ttl, &a.octets()),
            IpAddr::V6(a) => self.record(1, &wire(owner), 28, ttl, &a.octets()),
        }
    }

    pub(crate) fn alias(self, owner: &str, target: &str, ttl: u32) -> Made {
        self.record(1, &wire(owner), 5, ttl, &wire(target))
    }

    pub(crate) fn soa(self, zone: &str, ttl: u32, minimum: u32) -> Made {
        let mut data = [0, 0].to_vec();
        for number in [1, 3_600, 600, 86_400, minimum] {
            data.extend(u32::to_be_bytes(number));
        }
        self.record(2, &wire(zone), 6, ttl, &data)
    }
}

/// What a server does with a question.
pub(crate) enum Answer {
    Silence,
    Bytes(Vec<u8>),
    /// Several datagrams, or parts of a stream, with their senders.
    Several(Vec<(SocketAddr, Vec<u8>)>),
    /// The port is closed.
    Refusal,
}

/// A resolver, its time, and the questions that were asked.
pub(crate) struct Fixture {
    pub(crate) r: Resolver,
    pub(crate) now: Instant,
    pub(crate) families: Families,
    pub(crate) asked: Vec<Query>,
}

impl Fixture {
    pub(crate) fn new(config: Config) -> Fixture {
        let r = Resolver::new(config, Hosts::default(), [3, 14]);
        Fixture { r, now: START, families: Families::Both, asked: Vec::new() }
    }

    /// Run a lookup to its end; `answer` is the servers.
    pub(crate) fn run(
        &mut self,
        host: &str,
        mut answer: impl FnMut(&Query) -> Answer,
    ) -> Result<Vec<IpAddr>, LookupError> {
        let mut lookup = self.r.lookup(host, self.families, self.now);
        let began = self.now;
        loop {
            let mut arrivals: VecDeque<(Query, Answer)> = VecDeque::new();
            while let Some(action) = lookup.next_action() {
                let Action::Send(kind, send) = action else { continue };
                let query = match send {
                    Send::Udp(to, bytes) => Query::read(to, false, &bytes),
                    Send::Tcp(to, bytes) => {
                        let length = usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
                        assert_eq!(length, bytes.len() - 2);
                        Query::read(to, true, &bytes[2..])
                    }
                };
                assert_eq!(query.kind, kind);
                self.asked.push(query.clone());
                assert!(self.asked.len() < 10_000, "it asks without end");
                let given = answer(&query);
                arrivals.push_back((query, given));
            }
            if let Some(outcome) = lookup.outcome() {
                return outcome.clone();
            }
            let quiet = arrivals.iter().all(|(_, answer)| matches!(answer, Answer::Silence));
            for (query, answer) in arrivals {
                let parts = match answer {
                    Answer::Silence => continue,
                    Answer::Refusal => {
                        lookup.on_failure(&mut self.r, query.kind, self.now);
                        continue;
                    }
                    Answer::Bytes(bytes) => vec![(query.to, bytes)],
                    Answer::Several(parts) => parts,
                };
                for (from, bytes) in parts {
                    let (r, kind, now) = (&mut self.r, query.kind, self.now);
                    if query.tcp {
                        let length = (bytes.len() as u16).to_be_bytes();
                        // In two parts, the first of which ends inside the length.
                        lookup.on_bytes(r, kind, &length[..1], now);
                        lookup.on_bytes(r, kind, &[&length[1..], &bytes].concat(), now);
                    } else {
                        lookup.on_datagram(r, kind, from, &bytes, now);
                    }
                }
            }
            if quiet {
                let deadline = lookup.deadline();
                assert!(deadline > self.now && deadline != Instant::NEVER, "it waits for nothing");
                self.now = deadline;
                assert!(self.now.since(began) < Duration::from_secs(600), "it waits without end");
                lookup.on_deadline(&mut self.r, self.now);
            }
        }
    }
}
