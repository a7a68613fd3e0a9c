//! One question until it has an answer: which server, by UDP or TCP, when to give up
//! (resolv.conf(5); RFC 5452 for what an answer must match, RFC 7766 for TCP).
//!
//! Called by: `lookup.rs`. Each try has a new id, a new source port and new letter cases. A server
//! that does not answer such a question, or that changes the case and has no TCP, gets the question
//! in **plain** form next: in lower case and without EDNS. Answers in plain form are believed when
//! two of them agree. Drops: `DnsMalformed`, `DnsNotAsked`, `DnsCase`.

use core::net::SocketAddr;

use base::{DropReason, Instant};

use super::limits::{COMPARED_MAX, FIRST_TIMEOUT, SERVERS_MAX, WRONG_MAX};
use super::message::{self, Answer, Found, Kind, Mismatch, Question, Reply};
use super::name::DomainName;
use super::resolver::Resolver;

/// A message to send, with its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Send {
    /// A datagram, from a source port that was not used before; the socket of the same question
    /// that was used before is no longer needed.
    Udp(SocketAddr, Vec<u8>),
    /// Bytes, over a new TCP connection.
    Tcp(SocketAddr, Vec<u8>),
}

/// Why no server answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Some server did not answer in time.
    TimedOut,
    /// All servers cannot or will not answer.
    Failed,
}

/// `None`: the question goes on.
pub(super) type Outcome = Option<Result<Answer, Failure>>;

pub(super) struct Exchange {
    name: DomainName,
    kind: Kind,
    /// The server of this try, by its index.
    at: usize,
    round: u32,
    /// Servers that have failed and are not asked again.
    failed: [bool; SERVERS_MAX],
    /// Servers that were silent to a datagram.
    silent: [bool; SERVERS_MAX],
    /// Servers that changed the case in a datagram.
    other_case: [bool; SERVERS_MAX],
    /// This try is in plain form, although the server is not known to need that.
    is_plain: bool,
    /// The answers of this server to such tries.
    compared: Vec<Answer>,
    question: Question,
    by_tcp: bool,
    /// This try has EDNS.
    edns: bool,
    /// This server did not understand EDNS a moment ago.
    plain: bool,
    /// Someone sends guessed answers: no more UDP.
    tcp_only: bool,
    wrong: u32,
    /// Bytes received over TCP.
    stream: Vec<u8>,
    pub(super) deadline: Instant,
    pub(super) send: Option<Send>,
    timed_out: bool,
}

impl Exchange {
    /// Ask the first server, of which there must be one.
    pub(super) fn new(r: &mut Resolver, name: DomainName, kind: Kind, now: Instant) -> Exchange {
        let mut exchange = Exchange {
            question: Question { id: 0, name: Vec::new(), kind },
            name,
            kind,
            at: 0,
            round: 0,
            failed: [false; SERVERS_MAX],
            silent: [false; SERVERS_MAX],
            other_case: [false; SERVERS_MAX],
            is_plain: false,
            compared: Vec::new(),
            by_tcp: false,
            edns: false,
            plain: false,
            tcp_only: r.config.tcp_only,
            wrong: 0,
            stream: Vec::new(),
            deadline: Instant::NEVER,
            send: None,
            timed_out: false,
        };
        exchange.ask(r, now);
        exchange
    }

    pub(super) fn name(&self) -> &DomainName {
        &self.name
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Ask the server `at`.
    fn ask(&mut self, r: &mut Resolver, now: Instant) {
        self.ask_by(r, self.tcp_only, now);
    }

    fn ask_by(&mut self, r: &mut Resolver, by_tcp: bool, now: Instant) {
        let Some(server) = r.servers.get(self.at) else {
            // Another resolver with fewer servers was passed in: go on with its first.
            self.deadline = now;
            return;
        };
        let (to, changes_case) = (server.address, server.changes_case);
        let (was_silent, other_case) = (self.silent[self.at], self.other_case[self.at]);
        self.edns = r.config.edns && !server.no_edns && !self.plain && (by_tcp || !was_silent);
        self.is_plain = !by_tcp && (was_silent || other_case) && !changes_case;
        r.counts.plain_fallbacks += u64::from(self.is_plain);
        self.by_tcp = by_tcp;
        self.stream.clear();
        self.question.id = r.draw() as u16;
        self.question.name = match changes_case || self.is_plain {
            true => self.name.wire().to_vec(),
            false => r.mixed_case(&self.name),
        };
        let message = message::query(&self.question, self.edns);
        let mut timeout = r.config.timeout;
        self.send = Some(if by_tcp {
            r.counts.tcp_queries += 1;
            if self.has_plain_form() {
                timeout = timeout.min(FIRST_TIMEOUT);
            }
            let mut bytes = (message.len() as u16).to_be_bytes().to_vec();
            bytes.extend(message);
            Send::Tcp(to, bytes)
        } else {
            r.counts.udp_queries += 1;
            if self.round + 1 < r.config.attempts {
                timeout = timeout.min(FIRST_TIMEOUT);
            }
            Send::Udp(to, message)
        });
        self.deadline = now + timeout;
    }

    /// May this server be asked in plain form if it has no TCP? Not while someone sends guessed
    /// answers.
    fn has_plain_form(&self) -> bool {
        self.other_case[self.at] && !self.tcp_only
    }

    /// Go on to the next server that has not failed.
    fn ask_next(&mut self, r: &mut Resolver, now: Instant) -> Outcome {
        self.plain = false;
        self.compared.clear();
        let count = r.servers.len();
        if (0..count).all(|i| self.failed[i]) {
            let why = if self.timed_out { Failure::TimedOut } else { Failure::Failed };
            return Some(Err(why));
        }
        loop {
            self.at += 1;
            if self.at >= count {
                (self.at, self.round) = (0, self.round + 1);
                if self.round >= r.config.attempts.max(1) {
                    return Some(Err(Failure::TimedOut));
                }
            }
            if !self.failed[self.at] {
                self.ask(r, now);
                return None;
            }
        }
    }

    /// The server cannot answer, or cannot be reached.
    pub(super) fn server_failed(&mut self, r: &mut Resolver, now: Instant) -> Outcome {
        if self.by_tcp && self.has_plain_form() {
            self.ask_by(r, false, now);
            return None;
        }
        r.counts.failures += 1;
        self.failed[self.at] = true;
        self.ask_next(r, now)
    }

    /// The deadline has come.
    pub(super) fn expired(&mut self, r: &mut Resolver, now: Instant) -> Outcome {
        r.counts.timeouts += 1;
        self.timed_out = true;
        if self.by_tcp && self.has_plain_form() {
            self.ask_by(r, false, now);
            return None;
        }
        self.silent[self.at] |= !self.by_tcp;
        // A server that did not answer over TCP in time has failed; after a lost datagram it is
        // asked again.
        self.failed[self.at] |= self.by_tcp;
        self.ask_next(r, now)
    }

    /// A datagram came to the socket of this try.
    pub(super) fn datagram(
        &mut self,
        r: &mut Resolver,
        from: SocketAddr,
        bytes: &[u8],
        now: Instant,
    ) -> Outcome {
        if self.by_tcp {
            return None;
        }
        let read = match r.servers.get(self.at) {
            Some(server) if server.address == from => message::reply(&self.question, bytes),
            _ => Err(Mismatch::OtherQuestion),
        };
        // If the question was in lower case, there is no case for a forger to guess, and none to
        // check.
        let asked_lower = self.question.name == self.name.wire();
        let reason = match read {
            Ok((reply, same_case)) if same_case || asked_lower => return self.take(r, reply, now),
            // Either the answer is forged, or the server does not keep the case: TCP will show
            // which.
            Ok(_) => {
                self.other_case[self.at] = true;
                DropReason::DnsCase
            }
            Err(Mismatch::Malformed) => DropReason::DnsMalformed,
            Err(Mismatch::OtherQuestion) => DropReason::DnsNotAsked,
        };
        r.drop_message(reason);
        self.wrong += 1;
        if self.wrong > WRONG_MAX {
            r.counts.guessed += 1;
            self.tcp_only = true;
        }
        if self.tcp_only || reason == DropReason::DnsCase {
            self.ask_by(r, true, now);
        }
        None
    }

    /// Bytes came over the connection of this try.
    pub(super) fn bytes(&mut self, r: &mut Resolver, bytes: &[u8], now: Instant) -> Outcome {
        if !self.by_tcp {
            return None;
        }
        // At most a message and the length in front of it.
        let room = (2 + usize::from(u16::MAX)).saturating_sub(self.stream.len());
        self.stream.extend(&bytes[..bytes.len().min(room)]);
        let (length, rest) = self.stream.split_first_chunk::<2>()?;
        let message = rest.get(..u16::from_be_bytes(*length).into())?;
        let reason = match message::reply(&self.question, message) {
            Ok((Reply::Truncated, _)) | Err(Mismatch::Malformed) => DropReason::DnsMalformed,
            Ok((reply, same_case)) => {
                // An answer over TCP is the server's, not a forger's.
                if let Some(server) = r.servers.get_mut(self.at) {
                    server.changes_case |= !same_case;
                }
                return self.take(r, reply, now);
            }
            Err(Mismatch::OtherQuestion) => DropReason::DnsNotAsked,
        };
        r.drop_message(reason);
        self.server_failed(r, now)
    }

    /// A message that matches the question.
    fn take(&mut self, r: &mut Resolver, reply: Reply, now: Instant) -> Outcome {
        match reply {
            Reply::Answer(answer) => {
                r.counts.answers += 1;
                if self.is_plain {
                    return self.compare(r, answer, now);
                }
                // Only an answer without EDNS confirms that the server does not understand it: the
                // refusal before could be one forged datagram.
                if let Some(server) = r.servers.get_mut(self.at) {
                    server.no_edns |= self.plain;
                    server.answered(false, false);
                }
                Some(Ok(answer))
            }
            Reply::Truncated => {
                r.counts.truncated += 1;
                self.ask_by(r, true, now);
                None
            }
            Reply::NotUnderstood if self.edns => {
                r.counts.edns_fallbacks += 1;
                self.plain = true;
                self.ask_by(r, self.by_tcp, now);
                None
            }
            Reply::NotUnderstood | Reply::Failed => self.server_failed(r, now),
        }
    }

    /// An answer to a question in plain form, in which a forger has fewer bits to guess: the
    /// part of it that another answer has as well is believed.
    fn compare(&mut self, r: &mut Resolver, answer: Answer, now: Instant) -> Outcome {
        if let Some(agreed) = self.compared.iter().find_map(|other| agreed(other, &answer)) {
            let was_silent = self.silent[self.at];
            if let Some(server) = r.servers.get_mut(self.at) {
                server.answered(true, was_silent);
            }
            return Some(Ok(agreed));
        }
        self.compared.push(answer);
        if self.compared.len() >= COMPARED_MAX {
            return self.server_failed(r, now);
        }
        self.ask_by(r, false, now);
        None
    }
}

/// The common part of two answers: addresses that both have, or anything else if it is equal.
fn agreed(one: &Answer, other: &Answer) -> Option<Answer> {
    let ttl = one.ttl.min(other.ttl);
    let found = match (&one.found, &other.found) {
        (Found::Addresses(known), Found::Addresses(addresses)) => {
            let both: Vec<_> = addresses.iter().filter(|a| known.contains(a)).copied().collect();
            (!both.is_empty()).then_some(Found::Addresses(both))?
        }
        (known, found) => (known == found).then(|| found.clone())?,
    };
    Some(Answer { found, ttl })
}
