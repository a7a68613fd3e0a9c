//! The exporter of one observation domain: events go in, messages come out.
//!
//! Called by: the router, with the events of a shard. Messages are queued here until they are
//! taken; the caller passes no more events while many are queued. Templates are sent before the
//! first records, and again when the caller asks for it. RFC 7011 sections 3.1, 8.1, 8.4, 10.3.

use std::collections::VecDeque;

use filter::firewall::Event;
use filter::states::Direction;

use crate::clock::Clock;
use crate::message::{Builder, set_of, template_len};
use crate::record::{self, Fields, interface};
use crate::template::Template;

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The payload of a datagram.
    pub bytes: Vec<u8>,
    /// The number of data records in the message.
    pub records: u32,
}

/// A port of the router, for the record that gives its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The port's number in the stack.
    pub port: u16,
    /// The port's name.
    pub name: String,
}

/// Makes the messages of one observation domain.
#[derive(Clone, Debug)]
pub struct Exporter {
    domain: u32,
    most: usize,
    /// The number of data records in all earlier messages. RFC 7011 3.1-b: this is the sequence
    /// number.
    sequence: u32,
    open: Builder,
    /// The time at which the open message was begun.
    clock: Clock,
    /// The encoded fields of the record that is being made.
    fields: Vec<u8>,
    messages: VecDeque<Message>,
}

impl Exporter {
    /// The largest message in bytes for a path whose MTU is not known. RFC 7011 10.3.3-b: a packet
    /// has at most 512 bytes, of which 48 are for the headers of IPv6 and UDP.
    pub const MOST_UNKNOWN: usize = 512 - 48;

    /// Make an exporter for the observation domain with this number.
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

    /// From now on, make messages of at most `bytes` bytes. The least is
    /// [`Exporter::MOST_UNKNOWN`], which any record fits; the most is 65,507 bytes.
    pub fn set_most(&mut self, bytes: usize) {
        self.most = bytes.clamp(Exporter::MOST_UNKNOWN, 65_507);
    }

    /// Set the time of the events that follow.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Append all templates, and the names of the interfaces if there are any. RFC 7011 8.1-a,
    /// 8.4-a: templates are sent before the first data that need them, and again regularly.
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

    /// Make the records of an event.
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

    /// Append the collected fields as a record.
    fn record(&mut self, template: Template) {
        let fields = core::mem::take(&mut self.fields);
        if !self.open.fits(template.id(), fields.len(), self.most) {
            self.finish();
        }
        self.open.record(template, &fields);
        self.fields = fields;
        self.fields.clear();
    }

    /// Complete the open message, if there is one.
    pub fn finish(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let records = self.open.records;
        let bytes = self.open.finish(self.clock.seconds(), self.sequence, self.domain);
        self.sequence = self.sequence.wrapping_add(records);
        self.messages.push_back(Message { bytes, records });
    }

    /// Take the oldest message. If it cannot be sent, the caller puts it back, or counts it as
    /// lost: the collector notices that from the sequence numbers.
    pub fn next_message(&mut self) -> Option<Message> {
        self.messages.pop_front()
    }

    /// Put a message back, so that it is the next one again.
    pub fn put_back(&mut self, message: Message) {
        self.messages.push_front(message);
    }

    /// How many complete messages are queued.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.messages.len()
    }
}
