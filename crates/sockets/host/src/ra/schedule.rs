//! When a router advertises itself, and to whom.
//!
//! Called by: `ra.rs`. RFC 4861 sections 6.2.4 (unsolicited advertisements), 6.2.6 (answers) and 10
//! (constants). Advertisements to all nodes keep a distance of 3 s. A host that asks from an
//! address is answered by itself, which the RFC permits, so that it need not wait for that
//! distance; one without an address, and those beyond the limit, are answered by an advertisement
//! to all.

use core::net::Ipv6Addr;

use base::{Duration, Instant, KeyedHash};

use super::{ALL_NODES, Interval};
use crate::random::Random;

/// MAX_RA_DELAY_TIME.
const ANSWER_DELAY: Duration = Duration::from_millis(500);
/// MIN_DELAY_BETWEEN_RAS.
const DISTANCE: Duration = Duration::from_secs(3);
/// MAX_INITIAL_RTR_ADVERTISEMENTS, and the longest time between them.
const INITIAL: u32 = 3;
const INITIAL_INTERVAL: Duration = Duration::from_secs(16);

/// A host that has asked.
#[derive(Clone, Copy, Debug)]
struct Host {
    address: Ipv6Addr,
    /// When it is answered; [`Instant::NEVER`]: it has been.
    due: Instant,
}

#[derive(Clone, Debug)]
pub(super) struct Schedule {
    random: Random,
    /// When the next one to all nodes is due.
    all_at: Instant,
    /// Before this time none is sent to all nodes.
    not_before: Instant,
    /// Advertisements to all nodes that follow soon, because the router or its settings are new.
    soon: u32,
    /// The hosts that asked last.
    hosts: Vec<Host>,
}

impl Schedule {
    /// The first advertisement is due now.
    pub(super) fn new(secret: KeyedHash, now: Instant) -> Schedule {
        let random = Random::new(secret, 0x7261);
        Schedule { random, all_at: now, not_before: now, soon: INITIAL, hosts: Vec::new() }
    }

    #[cfg(test)]
    pub(super) fn hosts(&self) -> usize {
        self.hosts.len()
    }

    pub(super) fn deadline(&self) -> Instant {
        let one = self.hosts.iter().map(|host| host.due).min();
        self.all_at.max(self.not_before).min(one.unwrap_or(Instant::NEVER))
    }

    /// A host asks. `false`: there are `most` others, and all are answered together.
    pub(super) fn solicited(&mut self, now: Instant, source: Ipv6Addr, most: usize) -> bool {
        // RFC 4861 6.2.6-a: after a random delay.
        let due = now + self.random.span(ANSWER_DELAY);
        if let Some(host) = self.hosts.iter_mut().find(|host| host.address == source) {
            host.due = host.due.min(due);
            return true;
        }
        // An answered host makes room.
        if self.hosts.len() >= most
            && let Some(at) = self.hosts.iter().position(|host| host.due == Instant::NEVER)
        {
            self.hosts.remove(at);
        }
        if source.is_unspecified() || self.hosts.len() >= most {
            // RFC 4861 6.2.6-b: one that is due sooner answers too.
            self.all_at = self.all_at.min(due);
            return source.is_unspecified();
        }
        self.hosts.push(Host { address: source, due });
        true
    }

    /// Something has changed: all hosts learn it as soon as the distance permits, and those that
    /// have asked at once.
    pub(super) fn announce(&mut self, now: Instant) {
        self.all_at = now;
        self.soon = INITIAL;
        if self.not_before > now {
            self.hosts.iter_mut().for_each(|host| host.due = now);
        }
    }

    /// The destination of an advertisement that is due.
    pub(super) fn next(&mut self, now: Instant) -> Option<Ipv6Addr> {
        if self.all_at.max(self.not_before) <= now {
            // RFC 4861 6.2.6-c: it answers everybody.
            self.hosts.iter_mut().for_each(|host| host.due = Instant::NEVER);
            return Some(ALL_NODES);
        }
        let host = self.hosts.iter_mut().find(|host| host.due <= now)?;
        host.due = Instant::NEVER;
        Some(host.address)
    }

    /// One was sent to all nodes.
    pub(super) fn after_multicast(&mut self, now: Instant, interval: Interval) {
        // RFC 4861 6.2.6-d.
        self.not_before = now + DISTANCE;
        self.soon = self.soon.saturating_sub(1);
        // RFC 4861 6.2.4-a: at random between the two, sooner for the first ones.
        let span = match interval {
            Interval::Never if self.soon == 0 => {
                self.all_at = Instant::NEVER;
                return;
            }
            Interval::Never => INITIAL_INTERVAL,
            Interval::Between { min, max } => min + self.random.span(max.saturating_sub(min)),
        };
        let span = if self.soon > 0 { span.min(INITIAL_INTERVAL) } else { span };
        self.all_at = now + span;
    }

    /// Send another one as soon as the distance permits.
    pub(super) fn again(&mut self, now: Instant) {
        self.not_before = now + DISTANCE;
        self.all_at = self.not_before;
    }

    /// Send no more.
    pub(super) fn end(&mut self, now: Instant) {
        self.not_before = now + DISTANCE;
        self.all_at = Instant::NEVER;
        self.hosts.clear();
    }
}
