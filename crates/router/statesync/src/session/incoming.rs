//! What comes from the partner: each datagram is proven, hellos begin a session, states wait for
//! their turn.
//!
//! Called by: `session.rs`.

use base::Instant;
use filter::firewall::{Copied, Copy};

use super::{ANSWER_EVERY, Event, Heard, LATE, NUMBER_BITS, Partner, REQUEST_EVERY, Session};
use crate::codec::Reader;
use crate::counts::{Counts, Refused};
use crate::hello::Hello;
use crate::ports::{Own, Theirs};
use crate::receive::{Inbound, MISSING_MAX, Put};
use crate::records::Record;
use crate::seal::{Header, Kind, SessionId};

impl Session {
    pub(super) fn take(&mut self, datagram: &[u8], now: Instant) -> Result<(), Refused> {
        let header = Header::of(datagram)?;
        if header.session == self.own {
            return Err(Refused::Session);
        }
        if header.kind == Kind::Hello {
            let body = self.seal.open(&header, SessionId::default(), datagram)?;
            return self.hello(&header, &Hello::read(&body)?, now);
        }
        let partner = self.partner.as_mut().filter(|partner| partner.id == header.session);
        let partner = partner.ok_or(Refused::Session)?;
        let is_repeated = match header.kind {
            Kind::States => partner.inbound.has(header.number),
            _ => header.number <= partner.control,
        };
        if is_repeated {
            return Err(Refused::Repeated);
        }
        let body = self.seal.open(&header, self.own, datagram)?;
        partner.heard_at = now;
        if header.kind == Kind::States {
            if let Put::Skipped(lost) = partner.inbound.put(header.number, body) {
                self.lose(lost);
            }
            return Ok(());
        }
        partner.control = header.number;
        match header.kind {
            Kind::Names => {
                let before = partner.theirs.generation;
                partner.theirs.take(&body)?;
                if partner.theirs.generation != before {
                    // It waits for that.
                    self.hello_at = now;
                }
                Ok(())
            }
            _ => self.send_again(&body),
        }
    }

    /// A hello of the present session, of an unknown one, or of the next one.
    fn hello(&mut self, header: &Header, hello: &Hello, now: Instant) -> Result<(), Refused> {
        let is_answer =
            hello.answers == self.own && self.control.saturating_sub(hello.answered) <= LATE;
        let partner = self.partner.as_ref().filter(|partner| partner.id == header.session);
        let heard = match (partner, &self.last) {
            (Some(partner), _) => Heard { control: partner.control, expected: 0 },
            (None, Some((id, heard))) if *id == header.session => *heard,
            _ => Heard::default(),
        };
        if header.number <= heard.control {
            return Err(Refused::Repeated);
        }
        if !is_answer {
            // It may be a recording: the answer to ours will tell.
            if now >= self.stranger_at {
                self.stranger = Some((header.session, header.number));
                self.stranger_at = now + ANSWER_EVERY;
            }
            return Ok(());
        }
        if partner.is_none() {
            self.adopt(header.session, hello.next.max(heard.expected), now);
        }
        if let Some(partner) = &mut self.partner {
            partner.control = header.number;
            partner.heard_at = now;
            partner.names_heard = hello.names_heard;
            partner.request = hello.request;
            partner.inbound.note_sent(hello.next);
        }
        Ok(())
    }

    /// A session of the partner begins.
    fn adopt(&mut self, id: SessionId, next: u64, now: Instant) {
        self.leave(now);
        self.epoch += 1;
        self.partner = Some(Partner {
            id,
            control: 0,
            heard_at: now,
            inbound: Inbound::new(next, now),
            theirs: Theirs::default(),
            names_heard: 0,
            request: 0,
            first_version: self.epoch << NUMBER_BITS,
            all_since: None,
        });
        (self.served, self.is_incomplete) = (0, false);
        self.request = self.request.wrapping_add(1).max(1);
        (self.request_at, self.is_lacking) = (now + REQUEST_EVERY, false);
        (self.hello_at, self.names_at, self.since) = (now, now, now);
    }

    /// The partner's session is over.
    pub(super) fn leave(&mut self, now: Instant) {
        if let Some(partner) = self.partner.take() {
            let heard = Heard { control: partner.control, expected: partner.inbound.expected };
            self.last = Some((partner.id, heard));
            self.since = now;
        }
        self.out.clear();
        self.urgent.clear();
    }

    /// Datagrams of the partner's never came.
    pub(super) fn lose(&mut self, lost: u64) {
        self.counts.lost += lost;
        self.is_lacking |= lost > 0;
        if let Some(partner) = self.partner.as_mut().filter(|_| lost > 0) {
            partner.all_since = None;
        }
    }

    /// The partner misses these.
    fn send_again(&mut self, body: &[u8]) -> Result<(), Refused> {
        let mut from = Reader(body);
        for _ in 0..MISSING_MAX {
            if from.is_empty() {
                return Ok(());
            }
            let number = from.long()?;
            self.counts.repeated += u64::from(self.out.again(number));
        }
        if from.is_empty() { Ok(()) } else { Err(Refused::Malformed) }
    }

    /// What is next in order.
    pub(super) fn deliver(&mut self, mut each: impl FnMut(Event)) {
        let Session { partner, ports, counts, is_lacking, .. } = self;
        let Some(partner) = partner else { return };
        while let Some((number, body)) = partner.inbound.next() {
            let read = records(partner, ports, counts, (number, &body), &mut each);
            if let Err(why) = read {
                counts.refuse(why);
                (*is_lacking, partner.all_since) = (true, None);
            }
        }
    }
}

/// The records of a datagram with states.
fn records(
    partner: &mut Partner,
    ports: &Own,
    counts: &mut Counts,
    (number, body): (u64, &[u8]),
    each: &mut impl FnMut(Event),
) -> Result<(), Refused> {
    let version = partner.version(number);
    let mut from = Reader(body);
    if from.word()? != partner.theirs.generation {
        return Err(Refused::Names);
    }
    while !from.is_empty() {
        match Record::read(&mut from)? {
            Record::AllBegin(_) => partner.all_since = Some(version),
            Record::AllEnd(_) => {
                if let Some(since) = partner.all_since.take() {
                    counts.bulks_received += 1;
                    each(Event::AllNamed(partner.first_version..since));
                }
            }
            Record::Copy(Copy::Ended(tuple)) => {
                counts.received += 1;
                each(Event::Ended(tuple, version));
            }
            Record::Copy(Copy::State(copied)) => {
                counts.received += 1;
                let numbers = [copied.in_port, copied.out_port]
                    .map(|place| ports.number(partner.theirs.name(place)?));
                match numbers {
                    [Some(in_port), Some(out_port)] => {
                        each(Event::State(Copied { in_port, out_port, ..copied }, version));
                    }
                    _ => counts.refuse(Refused::NoPort),
                }
            }
        }
    }
    Ok(())
}
