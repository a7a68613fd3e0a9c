//! A wrapper that puts the model of a path in front of any device: what the stack sends, and what
//! it receives, is queued, sent at a rate, delayed, lost, reordered, duplicated and damaged as
//! [`Settings`] say, each direction by its own.
//!
//! Called by: programs, around a device that a stack gets (`netns --link`). Counters: [`Shape`].
//! The inner device's own drops stay its own.
//!
//! Two stacks over [`crate::Bridge`] need a thread for the path; here the stack that owns the port
//! moves the packets, whenever it polls. Between polls nothing runs: [`Device::wakes_at`] is the
//! time of the next arrival in either direction, and results do not depend on how often the stack
//! polls. The clock is a function, as for [`device::nic`], because a device is not passed the time;
//! it has to be the clock of the stack. Packets in flight are buffers of the stack's pool.
//!
//! A queue that is full loses packets, as that of a path does; it does not push back. So the limit
//! that counts is `queue_bytes`, and the stack's own queue stays empty.
//!
//! ```
//! # mod wirespeed { pub use {base::*, wirespeed_link as link, device}; }
//! use std::sync::Arc;
//!
//! use wirespeed::device::{Device, mem};
//! use wirespeed::link::{Settings, Shaped};
//! use wirespeed::{Duration, Instant};
//!
//! let (device, _other) = mem::pair(&mem::Config::default());
//! let slow = Settings { rate_bps: Some(10_000_000), ..Settings::default() };
//! let far = Settings { delay: Duration::from_millis(50), ..Settings::default() };
//! let began = std::time::Instant::now();
//! let clock = Arc::new(move || Instant::ZERO + Duration::from(began.elapsed()));
//! // What the stack sends is limited to 10 Mbit/s, what it receives is 50 ms late.
//! let (device, shape) = Shaped::new(device, [slow, far], 7, clock);
//! // `device` goes to `Stack::add_port`; `shape` may be read and changed from any thread.
//! assert!(device.link_up() && shape.counts()[0].sent == 0);
//! ```

use core::task::Waker;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{Drops, Instant, LinkKind};
use device::mitigation::Threshold;
use device::nic::Clock;
use device::{Burst, Device, Limits};
use mbuf::{Mbuf, Pool};

use crate::{Counts, Direction, Settings, cut};

/// XORed into the seed of the second direction.
const OTHER_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// What the owner of a [`Shape`] and the device share.
#[derive(Debug, Default)]
struct Shared {
    counts: [Counts; 2],
    /// Frames and segments lost because they could not be cut.
    uncut: [u64; 2],
    wanted: [Option<Settings>; 2],
}

/// The counters and the settings of a [`Shaped`], from any thread: those of the direction that the
/// stack sends first. Clones share them, and they outlive the device.
#[derive(Clone, Debug, Default)]
pub struct Shape(Arc<Mutex<Shared>>);

impl Shape {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counters as of the last burst: sent by the stack, received by it.
    pub fn counts(&self) -> [Counts; 2] {
        self.shared().counts
    }

    /// Frames and segments lost in [`cut()`]: not TCP or UDP over IP, or no memory.
    pub fn uncut(&self) -> [u64; 2] {
        self.shared().uncut
    }

    /// Change the settings of a direction, 0 for what the stack sends and 1 for what it receives,
    /// from the next poll on. Packets in flight are not affected.
    pub fn set(&self, direction: usize, settings: Settings) {
        if let Some(wanted) = self.shared().wanted.get_mut(direction) {
            *wanted = Some(settings);
        }
    }
}

/// A device behind a path.
pub struct Shaped<D> {
    device: D,
    link: LinkKind,
    clock: Clock,
    tx: Direction,
    rx: Direction,
    /// Packets that have arrived at the device, which had no room for them.
    held: Burst,
    uncut: [u64; 2],
    shape: Shape,
    /// Set by the last [`Device::arm`].
    wakes_at: Instant,
    /// The sleeper until `wakes_at`, which has to wake earlier if a packet sent meanwhile arrives
    /// earlier.
    sleeper: Option<Waker>,
}

impl<D: Device> Shaped<D> {
    /// Put `device` behind a path: `settings` are those of the direction in which the stack sends,
    /// and of the direction in which it receives. Their link kind is the device's. The same `seed`,
    /// packets and times give the same results.
    pub fn new(device: D, settings: [Settings; 2], seed: u64, clock: Clock) -> (Shaped<D>, Shape) {
        let link = device.limits().link;
        let [tx, rx] = settings.map(|settings| Settings { link, ..settings });
        let shape = Shape::default();
        let shaped = Shaped {
            device,
            link,
            clock,
            tx: Direction::new(tx, seed),
            rx: Direction::new(rx, seed ^ OTHER_SEED),
            held: Burst::new(),
            uncut: [0; 2],
            shape: shape.clone(),
            wakes_at: Instant::NEVER,
            sleeper: None,
        };
        (shaped, shape)
    }

    /// The inner device; packets in flight are lost.
    pub fn into_inner(self) -> D {
        self.device
    }

    /// Send what has arrived at the device's end of the path.
    fn hand_out(&mut self, pool: &mut Pool, now: Instant) {
        loop {
            while !self.held.is_full()
                && let Some((packet, _)) = self.tx.receive(now, pool)
            {
                self.held.push(packet);
            }
            if self.held.is_empty() || self.device.tx_burst(pool, &mut self.held) == 0 {
                return;
            }
        }
    }

    /// Take what the device has received into the path.
    fn take_in(&mut self, pool: &mut Pool, now: Instant) {
        let mut taken = Burst::new();
        self.device.rx_burst(pool, &mut taken);
        for frame in taken {
            let send = |packet: Mbuf, pool: &mut Pool| self.rx.send(packet, now, pool);
            self.uncut[1] += cut(frame, self.link, pool, send);
        }
    }

    /// Report the counters, and take settings that have changed.
    fn share(&mut self, pool: &mut Pool, now: Instant) {
        let mut shared = self.shape.shared();
        shared.counts = [*self.tx.counts(), *self.rx.counts()];
        shared.uncut = self.uncut;
        for (direction, wanted) in [&mut self.tx, &mut self.rx].into_iter().zip(&mut shared.wanted)
        {
            if let Some(settings) = wanted.take() {
                direction.set_settings(settings, now, pool);
            }
        }
    }

    fn next_event(&self) -> Instant {
        self.tx.next_event().min(self.rx.next_event())
    }
}

impl<D: Device> Device for Shaped<D> {
    fn limits(&self) -> Limits {
        self.device.limits()
    }

    /// One burst of the device enters the path for each call.
    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        let (now, before) = ((self.clock)(), into.len());
        self.take_in(pool, now);
        while !into.is_full()
            && let Some((packet, _)) = self.rx.receive(now, pool)
        {
            into.push(packet);
        }
        // The stack calls this in each poll, and `tx_burst` only if it has something to send.
        self.hand_out(pool, now);
        self.share(pool, now);
        into.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        let (now, count) = ((self.clock)(), from.len());
        for frame in from.drain(..) {
            let send = |packet: Mbuf, pool: &mut Pool| self.tx.send(packet, now, pool);
            self.uncut[0] += cut(frame, self.link, pool, send);
        }
        self.hand_out(pool, now);
        self.share(pool, now);
        if self.next_event() < self.wakes_at
            && let Some(sleeper) = self.sleeper.take()
        {
            sleeper.wake();
        }
        count
    }

    fn rx_ready(&self) -> bool {
        self.device.rx_ready()
            || self.next_event() <= (self.clock)()
            || (!self.held.is_empty() && self.device.tx_ready())
    }

    fn tx_ready(&self) -> bool {
        true
    }

    fn link_up(&self) -> bool {
        self.device.link_up()
    }

    fn check_link(&mut self) -> bool {
        self.device.check_link()
    }

    /// True once everything that was received has arrived.
    fn is_gone(&self) -> bool {
        self.device.is_gone() && self.rx.is_empty()
    }

    /// Packets that the device had no room for are offered again by the next call.
    fn is_unfinished(&self) -> bool {
        !self.held.is_empty() || self.device.is_unfinished()
    }

    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.device.as_fd()
    }

    fn tags(&self) -> device::vlan::Tags {
        self.device.tags()
    }

    fn failure(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.device.failure()
    }

    fn rx_depth(&self) -> usize {
        self.device.rx_depth()
    }

    fn drops(&self) -> Option<&Drops> {
        self.device.drops()
    }

    fn arm(&mut self, waker: &Waker) -> bool {
        // Arm first, then look.
        let is_armed = self.device.arm(waker);
        if !self.sleeper.as_ref().is_some_and(|sleeper| sleeper.will_wake(waker)) {
            self.sleeper = Some(waker.clone());
        }
        self.wakes_at = self.next_event().min(self.device.wakes_at());
        is_armed && self.wakes_at > (self.clock)()
    }

    fn wakes_at(&self) -> Instant {
        self.wakes_at
    }

    fn coalesce(&mut self, threshold: Threshold) -> bool {
        self.device.coalesce(threshold)
    }
}

#[cfg(test)]
mod tests;
