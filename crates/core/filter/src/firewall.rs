//! The firewall of one shard: rules, states and translation joined.
//!
//! Called by: the stack. A packet that arrives is matched with its flow ([`Firewall::arrive`]). The
//! first packet of a flow is routed by its translated destination, then rules decide
//! ([`Firewall::decide`]), and translation is the last thing before it leaves
//! ([`Firewall::change`]): so an ICMP error of ours quotes the packet as its sender knows it. A
//! state is judged again when rules were published after it ([`Firewall::publish`]).
//! docs/filter.md. Counters: every `filter_*` and `nat_*` drop.

mod alone;
mod arrive;
mod change;
mod copies;
mod counts;
mod decide;
mod elsewhere;
mod error;
mod export;
mod log;
mod nats;
mod opened;
mod own;
mod paired;
mod quick;
mod reflect;
mod reload;

use std::sync::Arc;

use base::{Budget, Duration, Instant, KeyedHash};

pub use arrive::{Arrival, Beginning, Known, Local};
pub use change::Change;
pub use copies::Copy;
pub use counts::Counts;
pub use decide::{Passed, Refusal, Route};
pub use elsewhere::Directed;
pub use export::{Event, Exported, RefusedFlow, Shortage};
pub use log::Line;
pub use paired::Paired;
pub use quick::Tally;

pub use crate::exchange::redirected;
pub use crate::states::{
    Copied, CopiedMapping, CopiedSide, CopiedTcp, FirstBucket, Flow, Guess, Imported, NotImported,
    Which,
};

use crate::homes::Homes;
use crate::nat::{Mappings, PoolUse, Shards};
use crate::published::Published;
use crate::states::{self, Cursor, Fragments, States};
use counts::Counters;
use export::Export;
use log::Log;
use nats::Nats;
use opened::Opened;

/// Rules, states and mappings of one shard.
pub struct Firewall {
    published: Arc<Published>,
    /// Grows when states have to be judged again.
    generation: u32,
    states: States,
    fragments: Fragments,
    /// Where the fragments of a datagram go, if there are several shards.
    directed: Fragments,
    mappings: Mappings,
    nats: Nats,
    opened: Opened,
    /// Where packets go, if there are several shards.
    homes: Option<Arc<Homes>>,
    counters: Counters,
    log: Log,
    /// Keys the identifications of translated datagrams.
    key: KeyedHash,
    /// Where the sweep is that judges idle states again after a reload.
    sweep: Option<Cursor>,
    /// When held mappings are looked at next.
    mappings_due: Instant,
    /// Changes for the partner that found no room and whose limit was counted.
    lost_copies: u64,
    paired: Option<Box<Paired>>,
    /// Somebody exports flows.
    export: Option<Box<Export>>,
    /// Nothing is due before this time, except what a reload leaves to the sweep.
    idle_until: Instant,
}

impl Firewall {
    /// A firewall without states. `secret` has 256 bits that no other host knows.
    #[must_use]
    pub fn new(
        published: Arc<Published>,
        shards: Shards,
        secret: [u64; 4],
        budget: &Budget,
        now: Instant,
    ) -> Firewall {
        let [a, b, c, d] = secret;
        let mut mappings = Mappings::new(shards, [c, d], budget);
        let nats = Nats::of(&published.rules, &mut mappings);
        Firewall {
            counters: Counters::of(&published.rules),
            states: States::new(&published.timeouts, [a, b], now),
            fragments: Fragments::new([b ^ c, a ^ d]),
            directed: Fragments::new([b ^ d, a ^ c]),
            mappings,
            nats,
            opened: Opened::default(),
            homes: None,
            log: Log::default(),
            generation: 0,
            key: KeyedHash::new(a ^ c, b ^ d),
            sweep: None,
            mappings_due: now,
            lost_copies: 0,
            paired: None,
            export: None,
            idle_until: now,
            published,
        }
    }

    /// The rules.
    #[must_use]
    pub fn published(&self) -> &Arc<Published> {
        &self.published
    }

    /// The generation of states that the present rules have judged; rules of others may have other
    /// numbers.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Do rules give flows other source ports, of addresses that may be the router's own?
    #[must_use]
    pub fn translates(&self) -> bool {
        self.nats.has_pools()
    }

    /// May a packet of no known flow be translated?
    #[inline]
    #[must_use]
    pub fn may_translate(&self) -> bool {
        !self.published.rules.nat.is_empty() || !self.mappings.is_empty()
    }

    /// The states, for tools.
    #[must_use]
    pub fn states(&self) -> &States {
        &self.states
    }

    /// The mappings of NAT, for tools.
    #[must_use]
    pub fn mappings(&self) -> &Mappings {
        &self.mappings
    }

    /// How much the pool of a rule of NAT is used; `None` for rules without one.
    #[must_use]
    pub fn pool_use(&self, rule: u16) -> Option<PoolUse> {
        self.nats.pool(rule).map(|id| self.mappings.pool_use(id))
    }

    /// Counters of the filter's rules in order; the last ones are those of the default.
    #[must_use]
    pub fn counts(&self) -> &[Counts] {
        self.counters.all()
    }

    /// The next line of the log, if there is one.
    pub fn next_line(&mut self) -> Option<Line> {
        self.log.next()
    }

    /// Lines that the rate of the log has refused.
    #[must_use]
    pub fn lines_refused(&self) -> u64 {
        self.log.refused()
    }

    /// When [`Firewall::advance`] is due.
    #[must_use]
    pub fn next_deadline(&self, budget: &Budget, now: Instant) -> Instant {
        if self.sweep.is_some() {
            return now;
        }
        let states = self.states.next_deadline(now, budget).unwrap_or(Instant::NEVER);
        states.min(self.opened.next_deadline()).max(self.idle_until)
    }

    /// End what is over, and judge some idle states again: bounded work, once a turn.
    pub fn advance(&mut self, budget: &mut Budget, now: Instant) {
        const STATES_A_TURN: usize = 64;
        const MAPPINGS_EVERY: Duration = Duration::from_secs(1);
        if self.export.is_some() {
            self.count_lost_events(budget);
        }
        if self.states.copies() {
            self.count_lost_copies(budget);
        }
        if now < self.idle_until && self.sweep.is_none() {
            return;
        }
        let visited = self.states.advance(now, STATES_A_TURN, budget);
        self.sweep_stale(budget, now);
        self.give_back_mappings(now);
        self.opened.expire(&mut self.mappings, now);
        if now >= self.mappings_due && !self.mappings.sweep(now, STATES_A_TURN) {
            self.mappings_due = now + MAPPINGS_EVERY;
        }
        let is_done = visited < STATES_A_TURN && now < self.mappings_due;
        self.idle_until = if is_done { states::next_tick(now) } else { now };
    }

    /// Mappings of states that ended.
    fn give_back_mappings(&mut self, now: Instant) {
        while let Some(tag) = self.states.next_freed() {
            if let Some((id, remote)) = self.nats.give_back(tag) {
                self.mappings.release(id, remote, now);
            }
        }
    }
}
