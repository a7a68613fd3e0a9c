//! The exporter of one observation domain: events go in, messages come out.
//!
//! Called by: the router, with the events of a shard. Messages wait here until they are taken, and
//! get their header then; the caller gives no more events while many wait. Templates go before the
//! first records and again when the caller says so. RFC 7011 sections 3.1, 8, 8.2, 8.4, 10.3.

use std::collections::VecDeque;

use filter::firewall::Event;
use filter::states::Direction;

use crate::message::{Builder, HEADER_LEN, SET_HEADER_LEN, head, set_of, template_len};
use crate::record::{self, Clock, Fields, interface};
use crate::template::Template;

/// A message that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The payload of a datagram.
    pub bytes: Vec<u8>,
    /// Data records in it.
    pub records: u32,
    /// It has templates: if it does not leave, records behind it cannot be read.
    pub has_templates: bool,
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
    /// Are all destinations named?
    destinations: bool,
    most: usize,
    /// Data records in all messages that were taken. RFC 7011 3.1-b.
    sequence: u32,
    /// The export time of the last message that was taken, in seconds since 1970.
    time_s: u64,
    open: Builder,
    /// The time of events.
    clock: Clock,
    /// The fields of one record.
    fields: Vec<u8>,
    messages: VecDeque<Message>,
}

impl Exporter {
    /// Bytes of the largest message for a path whose MTU is not known, with the headers of IPv6 and
    /// UDP. RFC 7011 10.3.3-b.
    pub const MOST_UNKNOWN: usize = 512 - 48;
    /// Bytes of a message with the largest record, a flow of IPv6 with its translation: messages
    /// cannot be bounded lower.
    pub const LEAST: usize = HEADER_LEN + SET_HEADER_LEN + 114;

    /// An exporter with this number of its observation domain. Without `destinations` no record
    /// names the destination of a flow whose source NAT translates (RFC 6888 REQ-12, RFC 8158
    /// 4.1-a).
    #[must_use]
    pub fn new(domain: u32, clock: Clock, destinations: bool) -> Exporter {
        Exporter {
            domain,
            destinations,
            most: Exporter::MOST_UNKNOWN,
            sequence: 0,
            time_s: 0,
            open: Builder::default(),
            clock,
            fields: Vec::new(),
            messages: VecDeque::new(),
        }
    }

    /// Make messages of at most this many bytes from now on: [`Exporter::LEAST`] to 65,507.
    pub fn set_most(&mut self, bytes: usize) {
        self.most = bytes.clamp(Exporter::LEAST, 65_507);
    }

    /// The time of the events that follow.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Another session begins: what waits is of the last one, and lost. Returns how many records
    /// that were. RFC 7011 3.1-b.
    pub fn restart(&mut self) -> u64 {
        self.finish();
        let lost = self.drop_waiting();
        self.sequence = 0;
        lost
    }

    /// Drop the messages that wait. Returns how many records they have, which sequence numbers
    /// count.
    pub fn drop_waiting(&mut self) -> u64 {
        let lost: u64 = self.messages.drain(..).map(|message| u64::from(message.records)).sum();
        self.sequence = self.sequence.wrapping_add(lost as u32);
        lost
    }

    /// Send all templates, in messages of their own. RFC 7011 8-c, 8.2-c, 8.4-a, 8.4-c,
    /// 8.4-d.
    pub fn templates(&mut self) {
        self.finish();
        let messages = self.template_messages();
        self.messages.extend(messages);
    }

    fn template_messages(&self) -> Vec<Message> {
        let (mut open, mut messages) = (Builder::default(), Vec::new());
        for template in Template::all(self.destinations) {
            if !open.fits(set_of(template), template_len(template), self.most) {
                messages.push(message(&mut open));
            }
            open.template(template);
        }
        messages.push(message(&mut open));
        messages
    }

    /// Send the names of interfaces.
    pub fn interfaces(&mut self, interfaces: &[Interface]) {
        let most = self.most - HEADER_LEN - SET_HEADER_LEN - size_of::<u32>() - 1;
        for Interface { port, name } in interfaces {
            let mut fields = Fields(&mut self.fields);
            fields.u32(interface(*port));
            fields.text(name, most);
            self.record(Template::Interface);
        }
    }

    /// Make records of an event.
    pub fn event(&mut self, event: &Event) {
        let (clock, destinations) = (self.clock, self.destinations);
        let what = (&clock, destinations);
        match event {
            Event::Flow(event) => {
                let session = record::session(event, what, &mut Fields(&mut self.fields));
                session.into_iter().for_each(|template| self.record(template));
                for direction in [Direction::Original, Direction::Reply] {
                    let fields = &mut Fields(&mut self.fields);
                    let flow = record::flow(event, direction, what, fields);
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
        if !self.open.is_empty() {
            self.messages.push_back(message(&mut self.open));
        }
    }

    /// The oldest message that was not taken, to be sent now. One that could not be sent is put
    /// back, or counts as lost: a collector sees that by the sequence numbers. If the clock was set
    /// back, templates go first: no data are in a message that is older than their templates. RFC
    /// 7011 5.1-a, 5.2-a, 8.2-b.
    pub fn next_message(&mut self, clock: &Clock) -> Option<Message> {
        let time_s = clock.unix_ms / 1_000;
        if time_s < self.time_s && !self.messages.is_empty() {
            for message in self.template_messages().into_iter().rev() {
                self.messages.push_front(message);
            }
        }
        let mut message = self.messages.pop_front()?;
        self.time_s = time_s;
        head(&mut message.bytes, time_s as u32, self.sequence, self.domain);
        self.sequence = self.sequence.wrapping_add(message.records);
        Some(message)
    }

    /// The message, which was taken last, is the next one again.
    pub fn put_back(&mut self, message: Message) {
        self.sequence = self.sequence.wrapping_sub(message.records);
        self.messages.push_front(message);
    }

    /// How many messages wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.messages.len()
    }
}

fn message(open: &mut Builder) -> Message {
    let (records, has_templates) = (open.records, open.has_templates);
    Message { bytes: open.finish(), records, has_templates }
}
