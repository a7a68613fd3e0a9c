//! The queue of punted packets: those of routing protocols first.
//!
//! Called by: `ingress.rs` and `calls.rs`. Frames are copies in buffers of their own size: a device
//! gets its buffers back at once, however long the program takes. Limits: [`super::PuntConfig`],
//! `punt_bytes`; at them a packet of a routing protocol evicts the newest of the others. Drops:
//! `punt_queue_full`, `punt_no_mirror`.

use std::collections::VecDeque;

use base::{DropReason, Limit};
use mbuf::Mbuf;

use super::PuntClass;
use crate::handles::PortId;
use crate::shared::Core;

/// A packet for the mirror of a port, as [`crate::Stack::punted`] returns it.
pub struct Punted {
    /// The port that it came by.
    pub port: PortId,
    /// Its class.
    pub class: PuntClass,
    /// The frame as it came, with its Ethernet header; of a port without link addresses the packet.
    /// A datagram that came in fragments is one frame, longer than the port's MTU, whose source
    /// address is not the sender's. A super-segment came as several frames.
    pub frame: Mbuf,
}

/// The frames that wait for the program.
#[derive(Default)]
pub(super) struct Queue {
    routing: VecDeque<Punted>,
    other: VecDeque<Punted>,
    /// Bytes of buffers that both hold.
    bytes: usize,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.routing.len() + self.other.len()
    }

    /// Keep a frame, if fewer than `most` wait.
    ///
    /// # Errors
    /// [`DropReason::PuntQueueFull`].
    pub(super) fn push(
        &mut self,
        punted: Punted,
        most: usize,
        core: &mut Core,
    ) -> Result<(), DropReason> {
        let held = punted.frame.held_bytes();
        while !self.has_room(held, most, core) {
            let evicted = match punted.class {
                PuntClass::Routing => self.other.pop_back(),
                PuntClass::Other => None,
            };
            let Some(evicted) = evicted else {
                core.cx.pool.free(punted.frame);
                return Err(DropReason::PuntQueueFull);
            };
            self.bytes -= evicted.frame.held_bytes();
            core.drops.count(DropReason::PuntQueueFull);
            core.cx.pool.free(evicted.frame);
        }
        self.bytes += held;
        match punted.class {
            PuntClass::Routing => self.routing.push_back(punted),
            PuntClass::Other => self.other.push_back(punted),
        }
        Ok(())
    }

    fn has_room(&self, held: usize, most: usize, core: &mut Core) -> bool {
        // `admits` counts a hit if the last byte has no room.
        let last = (self.bytes + held).saturating_sub(1);
        self.len() < most && core.cx.budget.admits(Limit::PuntBytes, last)
    }

    pub(super) fn pop(&mut self) -> Option<Punted> {
        let punted = self.routing.pop_front().or_else(|| self.other.pop_front())?;
        self.bytes -= punted.frame.held_bytes();
        if self.len() == 0 && self.routing.capacity() + self.other.capacity() > 64 {
            // After a flood the queue gives its memory back.
            *self = Queue::default();
        }
        Some(punted)
    }

    /// Drop the frames of a port that has no mirror any more.
    pub(super) fn forget(&mut self, port: PortId, core: &mut Core) {
        for queue in [&mut self.routing, &mut self.other] {
            let (gone, kept) = queue.drain(..).partition(|punted| punted.port == port);
            *queue = kept;
            let gone: VecDeque<Punted> = gone;
            core.drops.count_many(DropReason::PuntNoMirror, gone.len() as u64);
            for punted in gone {
                self.bytes -= punted.frame.held_bytes();
                core.cx.pool.free(punted.frame);
            }
        }
    }
}
