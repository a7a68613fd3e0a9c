//! A device whose other end is a script. It carries bare IP packets, and stamps each packet that
//! leaves the stack with the virtual time.
//!
//! Called by: the stack, and `world.rs`, which holds the other end. Limit: [`DEPTH`] packets in
//! each direction; a full queue exerts backpressure.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{DropReason, Drops, Instant, LinkKind, Mtu};
use device::{Burst, Device, Limits, Offloads};
use mbuf::Pool;

/// Maximum packets queued in each direction: more than any window of a script's connections.
const DEPTH: usize = 16_384;

#[derive(Default)]
struct Queues {
    now: Instant,
    to_stack: VecDeque<Vec<u8>>,
    from_stack: VecDeque<(Instant, Vec<u8>)>,
}

/// The script's end.
#[derive(Clone, Default)]
pub(super) struct End(Arc<Mutex<Queues>>);

impl End {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Set the virtual time.
    pub(super) fn set_now(&self, now: Instant) {
        self.lock().now = now;
    }

    /// Queue a packet for the stack; `false` if the queue is full.
    pub(super) fn send(&self, packet: &[u8]) -> bool {
        let mut queues = self.lock();
        let fits = queues.to_stack.len() < DEPTH;
        if fits {
            queues.to_stack.push_back(packet.to_vec());
        }
        fits
    }

    /// The oldest packet that the stack has sent, and the time at which it was sent.
    pub(super) fn receive(&self) -> Option<(Instant, Vec<u8>)> {
        self.lock().from_stack.pop_front()
    }

    /// Makes the stack's end.
    pub(super) fn device(&self, mtu: Mtu, tso_max_bytes: usize) -> Wire {
        let limits = Limits {
            link: LinkKind::Ip,
            mtu,
            max_frame: mtu.bytes().max(tso_max_bytes),
            max_segments: 1,
            tx_depth: DEPTH,
            offloads: Offloads { tso_max_bytes, ..Offloads::default() },
        };
        Wire { end: self.clone(), limits, drops: Drops::default() }
    }
}

/// The stack's end.
pub(super) struct Wire {
    end: End,
    limits: Limits,
    drops: Drops,
}

impl Device for Wire {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        let before = into.len();
        let mut queues = self.end.lock();
        while !into.is_full()
            && let Some(packet) = queues.to_stack.pop_front()
        {
            match pool.copy_of(&packet) {
                Some(mbuf) => into.push(mbuf),
                None => self.drops.count(DropReason::MbufExhausted),
            }
        }
        into.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        let mut queues = self.end.lock();
        let now = queues.now;
        let taken = from.len().min(DEPTH - queues.from_stack.len());
        for frame in from.drain(..taken) {
            if frame.len() > self.limits.max_frame {
                self.drops.count(DropReason::DeviceFrameTooBig);
            } else {
                queues.from_stack.push_back((now, frame.as_slice().to_vec()));
            }
            pool.free(frame);
        }
        taken
    }

    fn rx_ready(&self) -> bool {
        !self.end.lock().to_stack.is_empty()
    }

    fn tx_ready(&self) -> bool {
        self.end.lock().from_stack.len() < DEPTH
    }

    fn link_up(&self) -> bool {
        true
    }

    fn drops(&self) -> Option<&Drops> {
        Some(&self.drops)
    }
}
