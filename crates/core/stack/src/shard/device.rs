//! A shard's queue of a device. Frames that belong to other shards' flows are handed to those
//! shards; frames that other shards hand over are received together with the queue's own.
//!
//! Called by: `rx.rs`, once a burst, only on ports of shards; `forward/ingress.rs`, which takes the
//! queue's frames before they are steered, and steers those left for the host. Between two shards
//! there is a ring in each direction, with one producer and one consumer; order is kept. Where the
//! device spreads its frames by the same hash, the rings carry only the answers of neighbours.
//! Drop reasons: `shard_ring_full`, `mbuf_exhausted`. Limit: [`RING_FRAMES`].

use core::sync::atomic::{AtomicU64, Ordering};
use core::task::Waker;
use std::sync::{Arc, Mutex, PoisonError};

use arrayvec::ArrayVec;
use base::{DropReason, Drops, LinkKind};
use device::mitigation::Threshold;
use device::{BURST, Burst, Device, Doorbell};
use mbuf::{Mbuf, Pool};
use rtrb::{Consumer, Producer, RingBuffer};

use super::steering::{Home, Steering};

/// The most frames that wait between two shards, for each port and direction.
pub const RING_FRAMES: usize = 512;

/// How many bursts of its own queue one call takes, as long as all their frames belong to other
/// shards.
pub(crate) const ROUNDS_MAX: usize = 8;

/// The rings to the other shards, for one port of one shard.
pub(crate) struct Outbox {
    index: usize,
    link: LinkKind,
    steering: Steering,
    /// The rings, by shard. The entry of the shard that has the outbox is `None`. Only that shard's
    /// thread takes the lock.
    rings: Mutex<Vec<Option<Producer<Mbuf>>>>,
    bells: Vec<Doorbell>,
    full: AtomicU64,
    exhausted: AtomicU64,
}

impl Outbox {
    /// Hand a frame to another shard, and wake it.
    pub(super) fn send(&self, to: usize, frame: Mbuf, pool: &mut Pool) {
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        self.push(&mut rings, to, frame, pool);
        drop(rings);
        self.bells[to].ring();
    }

    fn push(&self, rings: &mut [Option<Producer<Mbuf>>], to: usize, frame: Mbuf, pool: &mut Pool) {
        let Some(ring) = rings.get_mut(to).and_then(Option::as_mut) else { return };
        if let Err(rtrb::PushError::Full(frame)) = ring.push(frame) {
            self.full.fetch_add(1, Ordering::Relaxed);
            pool.free(frame);
        }
    }

    /// The hash that assigns flows to shards.
    pub(super) fn steering(&self) -> &Steering {
        &self.steering
    }

    /// The shard to which a frame goes by the hash of its flow.
    pub(super) fn home(&self, frame: &[u8]) -> Home {
        self.steering.home(self.link, frame)
    }

    /// Does a frame belong to another shard's flow?
    pub(super) fn is_foreign(&self, frame: &[u8]) -> bool {
        matches!(self.home(frame), Home::Shard(to) if to != self.index)
    }

    /// Hand over the frames from index `from` on that belong to other shards. `false` if all of
    /// them are this shard's.
    #[inline(always)]
    pub(super) fn steer(&self, pool: &mut Pool, into: &mut Burst, from: usize) -> bool {
        self.steer_by(pool, into, from, |frame| self.home(frame))
    }

    /// [`Outbox::steer`] with another function that returns the home of a frame.
    #[inline(always)]
    pub(super) fn steer_by(
        &self,
        pool: &mut Pool,
        into: &mut Burst,
        from: usize,
        home: impl Fn(&[u8]) -> Home,
    ) -> bool {
        let mut homes: ArrayVec<Home, BURST> = ArrayVec::new();
        let mut is_foreign = false;
        for m in &into[from..] {
            let home = home(m.as_slice());
            is_foreign |= home != Home::Shard(self.index);
            homes.push(home);
        }
        if is_foreign {
            self.hand_over(pool, into, from, &homes);
        }
        is_foreign
    }

    #[inline(never)]
    fn hand_over(&self, pool: &mut Pool, into: &mut Burst, from: usize, homes: &[Home]) {
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let frames: Burst = into.drain(from..).collect();
        let mut touched: ArrayVec<usize, BURST> = ArrayVec::new();
        let mut all = false;
        for (m, &home) in frames.into_iter().zip(homes) {
            match home {
                Home::Shard(to) if to == self.index => into.push(m),
                Home::Shard(to) => {
                    if !touched.contains(&to) {
                        touched.push(to);
                    }
                    self.push(&mut rings, to, m, pool);
                }
                Home::All => {
                    all = true;
                    for to in (0..rings.len()).filter(|&to| to != self.index) {
                        match pool.copy_of(m.as_slice()) {
                            Some(copy) => self.push(&mut rings, to, copy, pool),
                            None => {
                                self.exhausted.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                    into.push(m);
                }
            }
        }
        drop(rings);
        for (to, bell) in self.bells.iter().enumerate() {
            if to != self.index && (all || touched.contains(&to)) {
                bell.ring();
            }
        }
    }

    /// Add the frames that were lost since the last call to `drops`.
    pub(super) fn count_drops(&self, drops: &mut Drops) {
        for (lost, reason) in
            [(&self.full, DropReason::ShardRingFull), (&self.exhausted, DropReason::MbufExhausted)]
        {
            if lost.load(Ordering::Relaxed) != 0 {
                drops.count_many(reason, lost.swap(0, Ordering::Relaxed));
            }
        }
    }
}

/// The queue of a device that belongs to one shard.
pub(super) struct Queue {
    device: Box<dyn Device>,
    inbox: Vec<Consumer<Mbuf>>,
    outbox: Arc<Outbox>,
    bell: Doorbell,
}

/// Join the queues of one port, a device for each shard. Returns each queue with its shard's
/// outbox.
pub(super) fn join(
    devices: Vec<Box<dyn Device>>,
    steering: Steering,
) -> Vec<(Box<dyn Device>, Arc<Outbox>)> {
    let bells: Vec<Doorbell> = devices.iter().map(|_| Doorbell::new()).collect();
    let mut inboxes: Vec<Vec<Consumer<Mbuf>>> = devices.iter().map(|_| Vec::new()).collect();
    let mut outboxes = Vec::new();
    for (index, device) in devices.iter().enumerate() {
        let ring = |(to, inbox): (usize, &mut Vec<Consumer<Mbuf>>)| {
            let (producer, consumer) = (to != index).then(|| RingBuffer::new(RING_FRAMES))?;
            inbox.push(consumer);
            Some(producer)
        };
        let rings = inboxes.iter_mut().enumerate().map(ring).collect();
        outboxes.push(Arc::new(Outbox {
            index,
            link: device.limits().link,
            steering,
            rings: Mutex::new(rings),
            bells: bells.clone(),
            full: AtomicU64::new(0),
            exhausted: AtomicU64::new(0),
        }));
    }
    let parts = devices.into_iter().zip(inboxes).zip(bells).zip(outboxes);
    let queue = |(((device, inbox), bell), outbox): (((_, _), _), Arc<Outbox>)| {
        let out = Arc::clone(&outbox);
        (Box::new(Queue { device, inbox, outbox, bell }) as Box<dyn Device>, out)
    };
    parts.map(queue).collect()
}

impl Queue {
    /// Receive the frames that other shards handed over.
    #[inline(always)]
    fn receive(&mut self, into: &mut Burst) {
        for ring in &mut self.inbox {
            if ring.is_empty() {
                continue;
            }
            let count = ring.slots().min(into.remaining_capacity());
            if let Ok(chunk) = ring.read_chunk(count) {
                into.extend(chunk);
            }
        }
    }

    fn has_received(&self) -> bool {
        self.inbox.iter().any(|ring| !ring.is_empty())
    }
}

// Not `inline`: a method table is made where the device is boxed, and a crate that is compiled for
// size would have its own copies.
impl Device for Queue {
    device::pass_through!();

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        let before = into.len();
        self.receive(into);
        for _ in 0..ROUNDS_MAX {
            let from = into.len();
            if into.is_full() || self.device.rx_burst(pool, into) == 0 {
                break;
            }
            if !self.outbox.steer(pool, into, from) {
                break;
            }
        }
        into.len() - before
    }

    /// The caller steers the frames that it does not forward by [`Outbox::steer`].
    fn rx_burst_unsteered(&mut self, pool: &mut Pool, into: &mut Burst) -> (usize, usize) {
        let before = into.len();
        self.receive(into);
        let handed_over = into.len() - before;
        (handed_over, handed_over + self.device.rx_burst(pool, into))
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        self.device.tx_burst(pool, from)
    }

    fn rx_ready(&self) -> bool {
        self.has_received() || self.device.rx_ready()
    }

    fn tx_ready(&self) -> bool {
        self.device.tx_ready()
    }

    fn drops(&self) -> Option<&Drops> {
        self.device.drops()
    }

    /// A frame from another shard wakes the driver at once, whatever the device waits for.
    fn arm(&mut self, waker: &Waker) -> bool {
        self.bell.arm_waker(waker);
        let is_armed = self.device.arm(waker);
        if self.has_received() {
            self.bell.disarm();
            return false;
        }
        is_armed
    }

    fn coalesce(&mut self, threshold: Threshold) -> bool {
        self.device.coalesce(threshold)
    }
}
