//! What a shard does at the beginning and the end of each turn: it takes over what the first one
//! published, and pins the FIB; the first one publishes what it changed, and wakes the others.
//!
//! Called by: [`super::Shard::enter`]; crate `net`, which keeps stacks behind locks of its own. A
//! stack alone has no turns, and pays nothing for them.

use core::task::Waker;
use std::sync::Arc;

use ::device::Doorbell;
use inet::route::Reader;

use super::published::{self, Published, Stamp};
use crate::stack::Stack;

/// What the shards of a group have in common.
pub(super) struct Group {
    published: Published,
    /// By shard: rung after the first one has published.
    bells: Vec<Doorbell>,
}

impl Group {
    pub(super) fn new(count: usize) -> Arc<Group> {
        let bells = (0..count).map(|_| Doorbell::new()).collect();
        Arc::new(Group { published: Published::default(), bells })
    }
}

/// The turns of one shard, beside its stack.
pub struct Turns {
    group: Arc<Group>,
    index: usize,
    /// The version that was last taken over.
    seen: u64,
    /// Of the first shard: what it last published.
    stamp: Option<Stamp>,
    /// Of the others: their place among the readers of the FIB.
    reader: Option<Reader>,
}

impl Turns {
    pub(super) fn new(group: Arc<Group>, index: usize, reader: Option<Reader>) -> Turns {
        Turns { group, index, seen: 0, stamp: None, reader }
    }

    /// A turn begins: before the stack is used.
    pub fn begin(&mut self, stack: &mut Stack) {
        let Some(reader) = &self.reader else { return };
        reader.begin();
        let version = self.group.published.version();
        if version != self.seen {
            self.seen = version;
            self.group.published.follow(stack);
        }
    }

    /// The turn ends.
    pub fn end(&mut self, stack: &mut Stack) {
        for outbox in stack.ports.iter().filter_map(|port| port.outbox.as_ref()) {
            outbox.count_drops(&mut stack.core.drops);
        }
        if let Some(reader) = &self.reader {
            return reader.end();
        }
        let stamp = published::stamp(stack);
        if self.stamp != Some(stamp) {
            self.stamp = Some(stamp);
            self.group.published.publish(stack);
            for bell in self.group.bells.iter().skip(1) {
                bell.ring();
            }
        }
    }

    /// Before the shard's driver sleeps: wake `waker` once the first shard has published something.
    /// `false`: it has already, so begin another turn.
    pub fn arm(&self, waker: &Waker) -> bool {
        // The first one changes what it publishes by itself.
        if self.index == 0 {
            return true;
        }
        self.group.bells[self.index].arm_waker(waker);
        let is_current = self.group.published.version() == self.seen;
        if !is_current {
            self.group.bells[self.index].disarm();
        }
        is_current
    }
}
