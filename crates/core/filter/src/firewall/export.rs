//! Flow export: what an exporter hears of flows, blocks of ports, and flows that NAT refused.
//!
//! Called by: the exporter's thread, which turns it on and takes events, a bounded number at a
//! time. Without an exporter nothing is queued. The firewall does not know where events go; the
//! exporter leaves its counts here for tools. RFC 7011, RFC 8158. Limit: `filter_events`.

use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

use base::{Budget, DropReason, Duration, Instant, Limit};

use super::Firewall;
use crate::nat::{BlockEvent, PoolId, Refused};
use crate::packet::Tuple;
use crate::states::{self, Cursor, Key, Wanted};

/// Flows that NAT refused: so many events a second, the rest is counted as lost. Under attack each
/// packet is refused, and RFC 8158 asks for a limit (5.2-a).
const REFUSED_PER_SECOND: usize = 100;

/// States that are looked at together, and the pause between two such looks at least.
const LOOKED: usize = 1_024;
const PAUSE: Duration = Duration::from_millis(10);

/// An event for an exporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A flow began, lasts or ended.
    Flow(states::Event),
    /// A source got a block of ports, or lost it.
    Block(BlockEvent),
    /// NAT refused a flow.
    Refused(RefusedFlow),
}

/// A flow that NAT refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedFlow {
    /// When.
    pub at: Instant,
    /// Why.
    pub why: Shortage,
    /// Its first packet, its destination already translated.
    pub tuple: Tuple,
    /// The rule of NAT, from 1; 0 for flows that go back by the port that they came by.
    pub rule: u32,
}

/// What NAT had too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The table of states is full; its limit.
    States(u32),
    /// The table of mappings is full; its limit.
    Mappings(u32),
    /// The source has as many ports as it may; the limit.
    PortsOfSource(u32),
    /// The source has as many states as it may, in all or by its rule; the limit.
    StatesOfSource(u32),
    /// No port of an outside address is free; the address, if it is known.
    Ports(Option<IpAddr>),
    /// The pool has no address for the flow.
    Addresses,
}

/// What an exporter has done, for tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The collector.
    pub collector: SocketAddr,
    /// The observation domain.
    pub domain: u32,
    /// Records of flows and of events in the datagrams that were sent.
    pub records: u64,
    /// Datagrams that were sent.
    pub datagrams: u64,
    /// Records in datagrams that could not be sent.
    pub unsent: u64,
    /// ICMP errors that came back.
    pub errors: u64,
    /// Why datagrams do not reach the collector, as far as that is known.
    pub failure: Option<String>,
}

/// The state of export.
pub(super) struct Export {
    active: Duration,
    most: usize,
    refused: VecDeque<RefusedFlow>,
    second: Instant,
    in_second: usize,
    lost: u64,
    /// Events of flows and of blocks that were lost before.
    lost_before: u64,
    /// Lost events whose limit was counted.
    counted: u64,
    /// The walk through all states.
    cursor: Cursor,
    walk_at: Instant,
    exported: Option<Exported>,
}

impl Export {
    /// RFC 8158 5.2-a.
    fn refuse(&mut self, flow: RefusedFlow) {
        if flow.at.since(self.second) >= Duration::from_secs(1) {
            (self.second, self.in_second) = (flow.at, 0);
        }
        if self.in_second >= REFUSED_PER_SECOND || self.refused.len() >= REFUSED_PER_SECOND {
            self.lost += 1;
            return;
        }
        self.in_second += 1;
        self.refused.push_back(flow);
    }
}

impl Firewall {
    /// Queue events for an exporter from now on, and report flows that last longer than `active`
    /// each time that it has passed; `None`: no longer.
    pub fn export(&mut self, active: Option<Duration>, budget: &Budget, now: Instant) {
        let most = budget.of(Limit::FilterEvents);
        let Some(active) = active else {
            if self.export.take().is_some() {
                self.states.want(Wanted::default(), 0);
            }
            return;
        };
        if let Some(export) = &mut self.export {
            export.active = active;
            return;
        }
        self.states.want(Wanted { begun: true, ended: true }, most);
        while self.mappings.next_event().is_some() {}
        self.export = Some(Box::new(Export {
            active,
            most,
            refused: VecDeque::new(),
            second: now,
            in_second: 0,
            lost: 0,
            lost_before: self.queues_lost(),
            counted: 0,
            cursor: Cursor::default(),
            walk_at: now,
            exported: None,
        }));
    }

    /// The active timeout, while events are queued.
    #[must_use]
    pub fn exports(&self) -> Option<Duration> {
        self.export.as_ref().map(|export| export.active)
    }

    /// Take up to `most` events, and as many of flows that last. `true`: there may be more.
    pub fn take_events(&mut self, most: usize, now: Instant, mut each: impl FnMut(Event)) -> bool {
        let Some(export) = &mut self.export else { return false };
        let mut room = most;
        while room > 0
            && let Some(event) = self.states.next_event()
        {
            each(Event::Flow(event));
            room -= 1;
        }
        while let Some(flow) = export.refused.pop_front() {
            each(Event::Refused(flow));
        }
        while room > 0
            && let Some(event) = self.mappings.next_event()
        {
            each(Event::Block(event));
            room -= 1;
        }
        if now >= export.walk_at {
            let (looked, period) = (most.min(LOOKED), export.active);
            let times = (period, now);
            let next = self.states.report_lasting(export.cursor, looked, times, |event| {
                each(Event::Flow(*event));
            });
            // All states are looked at four times within the active timeout.
            let looks = (self.states.len() / looked.max(1) + 1) as u64;
            let pause = Duration::from_nanos(period.as_nanos() / 4 / looks);
            export.walk_at = now + pause.max(PAUSE);
            export.cursor = next.unwrap_or_default();
        }
        room == 0
    }

    /// Events that nobody will hear of: the queue was full, or there were too many in a second.
    #[must_use]
    pub fn events_lost(&self) -> u64 {
        let Some(export) = &self.export else { return 0 };
        export.lost + self.queues_lost() - export.lost_before
    }

    fn queues_lost(&self) -> u64 {
        self.states.events_lost() + self.mappings.counters().events_lost
    }

    /// What the exporter has done.
    #[must_use]
    pub fn exported(&self) -> Option<&Exported> {
        self.export.as_ref()?.exported.as_ref()
    }

    /// The exporter says what it has done.
    pub fn note_exported(&mut self, exported: &Exported) {
        if let Some(export) = &mut self.export {
            export.exported = Some(exported.clone());
        }
    }

    /// Count the limit if events were lost; once a turn.
    pub(super) fn count_lost_events(&mut self, budget: &mut Budget) {
        let Some(export) = &self.export else { return };
        let (lost, most) = (self.events_lost(), export.most);
        if let Some(export) = &mut self.export
            && lost > export.counted
        {
            export.counted = lost;
            // Its value may have changed since, so that this is a hit whatever it is.
            budget.admits(Limit::FilterEvents, most.max(budget.of(Limit::FilterEvents)));
        }
    }

    /// NAT gave a flow no mapping. RFC 6888 REQ-11C.
    #[cold]
    pub(super) fn note_unmapped(
        &mut self,
        why: Refused,
        pool: PoolId,
        (tuple, address): (&Tuple, Option<IpAddr>),
        budget: &Budget,
        now: Instant,
    ) {
        let Some(export) = &mut self.export else { return };
        let limit = |limit| u32::try_from(budget.of(limit)).unwrap_or(u32::MAX);
        let why = match why {
            Refused::Mappings => Shortage::Mappings(limit(Limit::NatMappings)),
            Refused::PortsPerSource => Shortage::PortsOfSource(limit(Limit::NatPortsPerSource)),
            Refused::Ports => {
                Shortage::Ports(self.mappings.outside_of(pool, tuple.src).or(address))
            }
            Refused::Addresses | Refused::Address => Shortage::Addresses,
        };
        let rule = self.nats.rule_of(pool);
        export.refuse(RefusedFlow { at: now, why, tuple: *tuple, rule });
    }

    /// A flow that NAT was to translate got no state.
    #[cold]
    pub(super) fn note_stateless(
        &mut self,
        why: DropReason,
        rule: Option<u16>,
        (from, to): (&Key, &Tuple),
        budget: &Budget,
        now: Instant,
    ) {
        let Some(export) = &mut self.export else { return };
        let tuple = from.tuple();
        if tuple == *to {
            return;
        }
        let limit = |limit| u32::try_from(budget.of(limit)).unwrap_or(u32::MAX);
        let why = match why {
            DropReason::FilterStateLimit => Shortage::States(limit(Limit::FilterStates)),
            // RFC 8158 4.6.7-c.
            DropReason::FilterSourceLimit => {
                let most = limit(Limit::FilterStatesPerSource);
                let rules = &self.published.rules.filter;
                let rule = rule.and_then(|rule| rules.get(usize::from(rule)));
                let of_rule = rule.and_then(|rule| rule.states_per_source);
                let is_full = self.states.states_of(from) >= most as usize;
                Shortage::StatesOfSource(of_rule.filter(|_| !is_full).unwrap_or(most))
            }
            _ => return,
        };
        export.refuse(RefusedFlow { at: now, why, tuple, rule: 0 });
    }
}
