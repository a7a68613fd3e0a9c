//! An observation domain: the stream of a shard, and when its templates are due.
//!
//! Called by: `export.rs`. RFC 7011 sections 3.1, 8, 8.4.

use core::net::SocketAddr;

use base::{Duration, Instant};
use filter::firewall::Exported;
use ipfix::{Clock, Exporter, Interface, Message};

use super::reach::AGAIN;

/// Copies of templates before the first records that need them: one may be lost. RFC 7011 8.4-c.
const COPIES: usize = 2;

/// A shard's stream.
pub(super) struct Shard {
    pub(super) exporter: Exporter,
    pub(super) exported: Exported,
    /// When templates were made last, and when they are due.
    made_at: Option<Instant>,
    due: Instant,
    /// The collector has none of this session.
    is_new: bool,
    /// The last ones did not leave.
    is_lost: bool,
}

impl Shard {
    /// The stream of this domain; with `destinations` as in [`Exporter::new`].
    pub(super) fn new(
        collector: SocketAddr,
        domain: u32,
        destinations: bool,
        clock: Clock,
    ) -> Shard {
        let (records, datagrams, unsent, errors, failure) = (0, 0, 0, 0, None);
        let exported = Exported { collector, domain, records, datagrams, unsent, errors, failure };
        Shard {
            exporter: Exporter::new(domain, clock, destinations),
            exported,
            made_at: None,
            due: clock.now,
            is_new: true,
            is_lost: false,
        }
    }

    /// Another session begins, whose collector has no templates.
    pub(super) fn begin(&mut self, now: Instant) {
        self.exported.unsent += self.exporter.restart();
        (self.due, self.is_new, self.is_lost) = (now, true, false);
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// The collector may have lost its templates: they come again soon.
    pub(super) fn hurry(&mut self, now: Instant) {
        let soon = self.made_at.map_or(now, |at| at + AGAIN);
        self.due = self.due.min(soon);
    }

    /// A message has left.
    pub(super) fn sent(&mut self, message: &Message, now: Instant) {
        self.exported.datagrams += 1;
        self.exported.records += u64::from(message.records);
        if message.has_templates && self.is_lost {
            // What did not leave with those before follows.
            (self.due, self.is_lost) = (now, false);
        }
    }

    /// A message will not leave. If it has templates, records behind it could not be read: they are
    /// lost too, and templates are due before any others. RFC 7011 8-b.
    pub(super) fn lost(&mut self, message: &Message, now: Instant) {
        self.exported.unsent += u64::from(message.records);
        if message.has_templates {
            self.exported.unsent += self.exporter.drop_waiting();
            (self.due, self.is_new, self.is_lost) = (now, true, true);
        }
    }

    /// Make templates if they are due; while messages wait they stay due. Names of interfaces are
    /// records, and are not made while templates do not leave. `true`: they are to be sent at once;
    /// a repetition after a failure is not. RFC 7011 8-c, 8.4-a, 8.4-c, 8.4-e.
    pub(super) fn templates(
        &mut self,
        now: Instant,
        interval: Duration,
        interfaces: &[Interface],
    ) -> bool {
        if !self.is_due(now) || self.exporter.waiting() > 0 {
            return false;
        }
        let copies = if self.is_new { COPIES } else { 1 };
        (0..copies).for_each(|_| self.exporter.templates());
        if !self.is_lost {
            self.exporter.interfaces(interfaces);
        }
        (self.made_at, self.due, self.is_new) = (Some(now), now + interval, false);
        !self.is_lost
    }
}
