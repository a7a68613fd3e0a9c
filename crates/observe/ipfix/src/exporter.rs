//! The exporter of one observation domain: events go in, messages come out.
//!
//! Called by: the router, with the events of a shard. Messages wait here until they are taken; the
//! caller gives no more events while many wait. Templates go before the first records and again
//! when the caller says so. RFC 7011 sections 3.1, 8, 8.2, 8.4, 10.3.

use std::collections::VecDeque;

use filter::firewall::Event;
use filter::states::Direction;

use crate::clock::Clock;
use crate::message::{Builder, set_of, template_len};
use crate::record::{self, Fields, interface};
use crate::template::Template;

/// A message that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The payload of a datagram.
    pub bytes: Vec<u8>,
    /// Data records in it.
    pub records: u32,
}

/// A port of the router, for its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number in the stack.
    pub port: u16,
    /// Its name.
    pub name: String,
}

/// The stream of one observation domain.
#[derive(Clone, Debug)]
pub struct Exporter {
    domain: u32,
    most: usize,
    /// Data records in all messages before the open one. RFC 7011 3.1-b.
    sequence: u32,
    open: Builder,
    /// When the open message was begun.
    clock: Clock,
    /// The fields of one record.
    fields: Vec<u8>,
    messages: VecDeque<Message>,
}

impl Exporter {
    /// Bytes of the largest message for a path whose MTU is not known, with the headers of IPv6 and
    /// UDP. RFC 7011 10.3.3-b.
    pub const MOST_UNKNOWN: usize = 512 - 48;

    /// An exporter with this number of its observation domain.
    #[must_use]
    pub fn new(domain: u32, clock: Clock) -> Exporter {
        Exporter {
            domain,
            most: Exporter::MOST_UNKNOWN,
            sequence: 0,
            open: Builder::default(),
            clock,
            fields: Vec::new(),
            messages: VecDeque::new(),
        }
    }

    /// Make messages of at most this many bytes from now on. A record of any kind fits into
    /// [`Exporter::MOST_UNKNOWN`], which is the least; a message has 65,507 bytes at most.
    pub fn set_most(&mut self, bytes: usize) {
        self.most = bytes.clamp(Exporter::MOST_UNKNOWN, 65_507);
    }

    /// The time of the events that follow.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Send all templates, and the names of interfaces if there are any. RFC 7011 8-c, 8.2-c, 8.4-a,
    /// 8.4-d.
    pub fn templates(&mut self, interfaces: &[Interface]) {
        let is_used = |of: &Template| *of != Template::Interface || !interfaces.is_empty();
        for template in Template::all().filter(is_used) {
            if !self.open.fits(set_of(template), template_len(template), self.most) {
                self.finish();
            }
            self.open.template(template);
        }
        for Interface { port, name } in interfaces {
            let mut fields = Fields(&mut self.fields);
            fields.u32(interface(*port));
            fields.text(name);
            self.record(Template::Interface);
        }
    }

    /// Make records of an event.
    pub fn event(&mut self, event: &Event) {
        let clock = self.clock;
        match event {
            Event::Flow(event) => {
                let session = record::session(event, &clock, &mut Fields(&mut self.fields));
                session.into_iter().for_each(|template| self.record(template));
                for direction in [Direction::Original, Direction::Reply] {
                    let fields = &mut Fields(&mut self.fields);
                    let flow = record::flow(event, direction, &clock, fields);
                    flow.into_iter().for_each(|template| self.record(template));
                }
            }
            Event::Block(event) => {
                let template = record::block(event, &clock, &mut Fields(&mut self.fields));
                self.record(template);
            }
            Event::Refused(flow) => {
                let template = record::refused(flow, &clock, &mut Fields(&mut self.fields));
                self.record(template);
            }
        }
    }

    /// The fields that were collected are a record.
    fn record(&mut self, template: Template) {
        let fields = core::mem::take(&mut self.fields);
        if !self.open.fits(template.id(), fields.len(), self.most) {
            self.finish();
        }
        self.open.record(template, &fields);
        self.fields = fields;
        self.fields.clear();
    }

    /// The open message is complete, if there is one.
    pub fn finish(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let records = self.open.records;
        let bytes = self.open.finish(self.clock.seconds(), self.sequence, self.domain);
        self.sequence = self.sequence.wrapping_add(records);
        self.messages.push_back(Message { bytes, records });
    }

    /// The oldest message that was not sent. One that could not be sent is put back, or counts as
    /// lost: a collector sees that by the sequence numbers.
    pub fn next_message(&mut self) -> Option<Message> {
        self.messages.pop_front()
    }

    /// The message is the next one again.
    pub fn put_back(&mut self, message: Message) {
        self.messages.push_front(message);
    }

    /// How many messages wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.messages.len()
    }
}
