//! One question on its way: which server, by UDP or TCP, when to give up.
//!
//! Called by: `forwarder.rs`. A question keeps its id, its letter case and its socket while it is
//! repeated, so that a slow server's answer to an earlier try still counts. A server that changes
//! the case is asked by TCP: either it does not keep the case, or someone forges answers. RFC 5452
//! section 9, draft-vixie-dnsext-dns0x20. Drops: `dns_malformed`, `dns_not_asked`, `dns_case`.

use core::net::SocketAddr;

use base::{DropReason, Duration, Instant};

use super::answer::{self, Mismatch};
use super::framing::{Framing, framed};
use super::question::{HEADER, Question};
use super::{ForwarderConfig, Transport};
use crate::dns::Send;
use crate::dns::limits::{SERVERS_MAX, WRONG_MAX};
use crate::dns::name::mix_case;
use crate::random::Random;

/// A server, and what is known about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    /// It repeats questions in another letter case, over TCP too.
    pub(super) changes_case: bool,
}

/// What a question needs from outside.
pub(super) struct Context<'a> {
    pub(super) servers: &'a mut [Upstream],
    pub(super) config: &'a ForwarderConfig,
}

/// What became of a question.
#[derive(Debug)]
pub(super) enum Progress {
    /// It waits.
    Waits,
    /// Send this.
    Ask(Send),
    /// A message is dropped for this reason, and the question waits on.
    Dropped(DropReason),
    /// The same, and something is sent.
    DroppedAndAsk(DropReason, Send),
    /// The answer, with the id and the letter case of what was sent.
    Answered(Vec<u8>),
    /// No server answers.
    Failed,
}

/// A question on its way.
#[derive(Debug)]
pub(super) struct Flight<C> {
    pub(super) from: C,
    /// How the guest asked.
    pub(super) by: Transport,
    pub(super) question: Question,
    /// The question as it is sent.
    sent: Vec<u8>,
    /// The server of this try, by its index.
    at: usize,
    round: u32,
    /// How this try is made.
    upstream: Transport,
    /// Servers that were asked by UDP.
    asked: [bool; SERVERS_MAX],
    /// Servers that have failed and are not asked again.
    failed: [bool; SERVERS_MAX],
    /// The answer of a server that cannot or will not answer.
    refusal: Option<Vec<u8>>,
    wrong: u32,
    stream: Framing,
    pub(super) deadline: Instant,
}

impl<C> Flight<C> {
    /// A question that is sent by the next call of [`Flight::expired`].
    pub(super) fn new(
        from: C,
        by: Transport,
        question: Question,
        random: &mut Random,
    ) -> Flight<C> {
        let mut sent = question.message.clone();
        sent[..2].copy_from_slice(&(random.bits() as u16).to_be_bytes());
        let end = question.end;
        mix_case(&mut sent[HEADER..end - 4], || random.bits());
        Flight {
            from,
            by,
            question,
            sent,
            at: 0,
            round: 0,
            upstream: by,
            asked: [false; SERVERS_MAX],
            failed: [false; SERVERS_MAX],
            refusal: None,
            wrong: 0,
            stream: Framing::new(u16::MAX.into()),
            deadline: Instant::NEVER,
        }
    }

    /// Ask the first of these servers, which may be other ones than before.
    pub(super) fn begin(&mut self, cx: &mut Context<'_>, now: Instant) -> Progress {
        (self.at, self.round, self.wrong) = (0, 0, 0);
        self.asked = [false; SERVERS_MAX];
        self.failed = [false; SERVERS_MAX];
        self.refusal = None;
        self.upstream = self.first(cx);
        if cx.servers.is_empty() { Progress::Failed } else { self.ask(cx, now) }
    }

    /// How a server is asked first.
    fn first(&self, cx: &Context<'_>) -> Transport {
        if cx.config.tcp_only { Transport::Tcp } else { self.by }
    }

    fn ask(&mut self, cx: &mut Context<'_>, now: Instant) -> Progress {
        let Some(server) = cx.servers.get(self.at) else { return Progress::Failed };
        let (first, later) = (cx.config.timeout, cx.config.last_timeout);
        let is_last = self.round + 1 >= cx.config.rounds.max(1);
        let timeout = if is_last { later } else { first };
        let end = self.question.end;
        if server.changes_case && self.upstream == Transport::Udp {
            // It is asked in the case in which its answer is compared.
            self.sent[HEADER..end - 4].make_ascii_lowercase();
        }
        match self.upstream {
            Transport::Udp => {
                self.asked[self.at] = true;
                self.deadline = now + timeout;
                Progress::Ask(Send::Udp(server.address, self.sent.clone()))
            }
            Transport::Tcp => {
                self.stream = Framing::new(u16::MAX.into());
                // A handshake and an answer take two round trips.
                self.deadline = now + timeout.saturating_mul(2).max(Duration::from_secs(2));
                Progress::Ask(Send::Tcp(server.address, framed(&self.sent)))
            }
        }
    }

    /// Go on to the next server that has not failed.
    fn ask_next(&mut self, cx: &mut Context<'_>, now: Instant) -> Progress {
        self.upstream = if self.wrong > WRONG_MAX { Transport::Tcp } else { self.first(cx) };
        let count = cx.servers.len();
        for _ in 0..count * cx.config.rounds.max(1) as usize {
            self.at += 1;
            if self.at >= count {
                (self.at, self.round) = (0, self.round + 1);
            }
            if self.round >= cx.config.rounds.max(1) {
                break;
            }
            if !self.failed[self.at] {
                return self.ask(cx, now);
            }
        }
        self.refusal.take().map_or(Progress::Failed, Progress::Answered)
    }

    /// The server cannot answer, or cannot be reached.
    pub(super) fn server_failed(&mut self, cx: &mut Context<'_>, now: Instant) -> Progress {
        if let Some(failed) = self.failed.get_mut(self.at) {
            *failed = true;
        }
        self.ask_next(cx, now)
    }

    /// The deadline has come.
    pub(super) fn expired(&mut self, cx: &mut Context<'_>, now: Instant) -> Progress {
        match self.upstream {
            // After a lost datagram the server may be asked again.
            Transport::Udp => self.ask_next(cx, now),
            Transport::Tcp => self.server_failed(cx, now),
        }
    }

    /// A datagram came to the socket of this question.
    pub(super) fn datagram(
        &mut self,
        cx: &mut Context<'_>,
        from: SocketAddr,
        bytes: &[u8],
        now: Instant,
    ) -> Progress {
        let asked = |at: &usize| self.asked.get(*at).is_some_and(|&asked| asked);
        let at = cx.servers.iter().position(|server| server.address == from).filter(asked);
        let read = match at {
            Some(_) => answer::matches(&self.sent, self.question.end, bytes),
            None => Err(Mismatch::OtherQuestion),
        };
        let reason = match (read, at) {
            (Ok(()), Some(at)) => return self.take(cx, at, bytes, now),
            (Err(Mismatch::Malformed), _) => DropReason::DnsMalformed,
            (Err(Mismatch::Case), _) => DropReason::DnsCase,
            _ => DropReason::DnsNotAsked,
        };
        self.wrong += 1;
        let asks_by_tcp = self.wrong > WRONG_MAX || reason == DropReason::DnsCase;
        if !asks_by_tcp || self.upstream == Transport::Tcp {
            return Progress::Dropped(reason);
        }
        self.at = at.unwrap_or(self.at);
        self.upstream = Transport::Tcp;
        match self.ask(cx, now) {
            Progress::Ask(send) => Progress::DroppedAndAsk(reason, send),
            other => other,
        }
    }

    /// Bytes came over the connection of this question.
    pub(super) fn bytes(
        &mut self,
        cx: &mut Context<'_>,
        mut bytes: &[u8],
        now: Instant,
    ) -> Progress {
        if self.upstream == Transport::Udp {
            return Progress::Waits;
        }
        // An answer is never longer than the framing takes.
        let Ok(Some(message)) = self.stream.next(&mut bytes) else { return Progress::Waits };
        let read = answer::matches(&self.sent, self.question.end, &message);
        let reason = match read {
            Ok(()) => return self.take(cx, self.at, &message, now),
            Err(Mismatch::Case) => {
                // An answer over TCP is the server's, not a forger's.
                if let Some(server) = cx.servers.get_mut(self.at) {
                    server.changes_case = true;
                }
                return self.take(cx, self.at, &message, now);
            }
            Err(Mismatch::Malformed) => DropReason::DnsMalformed,
            Err(Mismatch::OtherQuestion) => DropReason::DnsNotAsked,
        };
        match self.server_failed(cx, now) {
            Progress::Ask(send) => Progress::DroppedAndAsk(reason, send),
            other => other,
        }
    }

    /// A message that matches the question, of the server `at`.
    fn take(&mut self, cx: &mut Context<'_>, at: usize, message: &[u8], now: Instant) -> Progress {
        if !answer::is_failure(message) {
            return Progress::Answered(message.to_vec());
        }
        if self.failed.get(at).is_some_and(|&failed| failed) {
            return Progress::Waits;
        }
        // Only an answer with the question in it can be passed on.
        if message.get(4..6) == Some(&[0, 1]) {
            self.refusal = Some(message.to_vec());
        }
        if let Some(failed) = self.failed.get_mut(at) {
            *failed = true;
        }
        // Another server may have been asked meanwhile, and still has its time.
        if at == self.at { self.ask_next(cx, now) } else { Progress::Waits }
    }

    /// The answer as the guest expects it: with its id and its letter case.
    pub(super) fn for_guest(&self, mut answer: Vec<u8>) -> Vec<u8> {
        let name = self.question.wire_name();
        if let Some(id) = answer.get_mut(..2) {
            id.copy_from_slice(&self.question.message[..2]);
        }
        // A failure may come without the question.
        let has_question = answer.get(4..6) == Some(&[0, 1]);
        if let Some(theirs) = answer.get_mut(HEADER..HEADER + name.len()).filter(|_| has_question) {
            theirs.copy_from_slice(name);
        }
        if answer.len() > self.question.bytes_max(self.by) {
            return self.question.truncated();
        }
        answer
    }
}
