//! A simulated network interface and its link to a second one: descriptor rings, a link with a
//! rate, interframe gap, padding, and the collisions of a shared cable.
//!
//! Called by: stacks, the lab, tests. Counters: [`Counts`], and the drops `device_ring_full`,
//! `device_collisions`, `device_link_down`, `device_frame_too_big`, `mbuf_exhausted`.
//!
//! [`crate::mem`] passes frames at once; here they take as long as on a link. Nothing runs between
//! two calls. Each call computes what has happened up to the clock's current time (`wire.rs`), and
//! queries do not change the outcome. So the model is exact in virtual time, and two threads see
//! what hardware would show them. An interrupt is a time that is known in advance
//! ([`Device::wakes_at`]), or the other end rings the doorbell.
//!
//! A transmit ring of one descriptor models a driver that waits for each frame before it offers the
//! next one. With [`Config::service`] it shows the cost
//! (`docs/decisions/0052-the-wire-takes-time.md`).

mod cable;
mod config;
mod counts;
mod transmit;
mod wire;

use core::task::Waker;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{DropReason, Drops, Instant};
use mbuf::{Flags, Mbuf, Pool};

use crate::mitigation::Threshold;
use crate::{Burst, Device, Doorbell, Limits};

pub use config::{Config, ConfigError, Duplex};
pub use counts::Counts;
use wire::Wire;

/// The shortest Ethernet frame, with tags and without the FCS (IEEE 802.3, 3.2.8).
const MIN_FRAME: usize = 60;

/// The clock: monotonic, with the same origin as the time of the stack at this end.
pub type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// The state that both ends share.
struct Link {
    wire: Mutex<Wire>,
    clock: Clock,
}

impl Link {
    /// Lock the wire and compute its state at the current time. Returns the time too.
    fn now(&self) -> (MutexGuard<'_, Wire>, Instant) {
        let mut wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner);
        // Read the clock under the lock, so that times increase in the order in which the lock is
        // taken.
        let now = (self.clock)();
        wire.serve(now);
        (wire, now)
    }
}

/// One end of a link; see [`pair`].
pub struct Nic {
    limits: Limits,
    rx_ring: usize,
    side: usize,
    link: Arc<Link>,
    bell: Doorbell,
    peer_bell: Doorbell,
    /// Set by the last [`Device::arm`].
    wakes_at: Instant,
    drops: Drops,
    /// The part of the link's counts that was already added to `drops`.
    reported: Counts,
}

/// The failure after the peer is dropped.
#[derive(Debug)]
struct PeerGone;

impl core::fmt::Display for PeerGone {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the interface at the other end of the link was dropped. Make a new pair")
    }
}

impl core::error::Error for PeerGone {}

/// Make two interfaces and the link between them.
///
/// # Errors
/// The configuration is not a possible link.
pub fn pair(config: &Config, clock: Clock) -> Result<(Nic, Nic), ConfigError> {
    config.check()?;
    let link = Arc::new(Link { wire: Mutex::new(Wire::new(config)), clock });
    let (first, second) = (Doorbell::new(), Doorbell::new());
    let nic = |side, bell, peer_bell| Nic {
        limits: config.limits(),
        rx_ring: config.rx_ring,
        side,
        link: link.clone(),
        bell,
        peer_bell,
        wakes_at: Instant::NEVER,
        drops: Drops::default(),
        reported: Counts::default(),
    };
    Ok((nic(0, first.clone(), second.clone()), nic(1, second, first)))
}

impl Nic {
    /// The counts of this end so far.
    pub fn counts(&self) -> Counts {
        let (wire, _) = self.link.now();
        wire.counts(self.side)
    }

    /// Put frames from the front of `from` on the transmit ring; the rest stays.
    fn offer(&mut self, pool: &mut Pool, from: &mut Burst) {
        let (mut wire, now) = self.link.now();
        // The loop repeats only if a frame was dropped, because a later frame can use its
        // descriptor.
        loop {
            let room = wire.room(self.side).min(from.len());
            if room == 0 {
                break;
            }
            for frame in from.drain(..room) {
                if frame.len() > self.limits.max_frame {
                    self.drops.count(DropReason::DeviceFrameTooBig);
                    pool.free(frame);
                } else if let Some(frame) = padded(frame, pool) {
                    wire.offer(self.side, frame, now);
                } else {
                    self.drops.count(DropReason::MbufExhausted);
                }
            }
        }
        wire.wants_room(self.side, !from.is_empty());
        let sooner = wire.has_news_sooner(1 - self.side);
        let counts = wire.counts(self.side);
        drop(wire);
        if sooner {
            self.peer_bell.ring();
        }
        self.note(counts);
    }

    /// Add to `drops` what the link has counted since the last call of this method.
    fn note(&mut self, counts: Counts) {
        let ring_full = counts.rx_ring_full - self.reported.rx_ring_full;
        let given_up = counts.given_up - self.reported.given_up;
        self.drops.count_many(DropReason::DeviceRingFull, ring_full);
        self.drops.count_many(DropReason::DeviceCollisions, given_up);
        self.reported = counts;
    }
}

impl Device for Nic {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn rx_burst(&mut self, _pool: &mut Pool, into: &mut Burst) -> usize {
        let before = into.len();
        let (mut wire, _) = self.link.now();
        while !into.is_full()
            && let Some(mut frame) = wire.receive(self.side)
        {
            arrive(&mut frame);
            into.push(frame);
        }
        let counts = wire.counts(self.side);
        drop(wire);
        self.note(counts);
        into.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        let offered = from.len();
        if self.link_up() {
            self.offer(pool, from);
        } else {
            self.drops.count_many(DropReason::DeviceLinkDown, offered as u64);
            from.drain(..).for_each(|frame| pool.free(frame));
        }
        offered - from.len()
    }

    fn rx_ready(&self) -> bool {
        let (wire, _) = self.link.now();
        wire.received(self.side) > 0
    }

    fn tx_ready(&self) -> bool {
        let (wire, _) = self.link.now();
        wire.room(self.side) > 0
    }

    fn link_up(&self) -> bool {
        let (wire, _) = self.link.now();
        !wire.is_gone(1 - self.side)
    }

    /// True once the peer is gone and everything that it sent was received.
    fn is_gone(&self) -> bool {
        let (wire, _) = self.link.now();
        wire.is_gone(1 - self.side) && !wire.has_more(self.side)
    }

    fn failure(&self) -> Option<&(dyn core::error::Error + 'static)> {
        if self.link_up() { None } else { Some(&PeerGone) }
    }

    fn rx_depth(&self) -> usize {
        self.rx_ring
    }

    fn drops(&self) -> Option<&Drops> {
        Some(&self.drops)
    }

    fn arm(&mut self, waker: &Waker) -> bool {
        // Arm first, then look, so that a frame which is offered in between rings the doorbell.
        self.bell.arm_waker(waker);
        let (mut wire, now) = self.link.now();
        self.wakes_at = wire.sleep(self.side, now);
        drop(wire);
        if self.wakes_at <= now {
            self.bell.disarm();
        }
        self.wakes_at > now
    }

    fn wakes_at(&self) -> Instant {
        self.wakes_at
    }

    fn coalesce(&mut self, threshold: Threshold) -> bool {
        let (mut wire, _) = self.link.now();
        wire.set_threshold(self.side, threshold);
        true
    }
}

impl Drop for Nic {
    /// Frees frames that were not received. Frames that this end has sent still reach the peer.
    fn drop(&mut self) {
        let (mut wire, _) = self.link.now();
        wire.leave(self.side);
        drop(wire);
        self.peer_bell.ring();
    }
}

/// Pad a frame to the shortest length, with zeros so that old memory does not leak.
fn padded(mut frame: Mbuf, pool: &mut Pool) -> Option<Mbuf> {
    let missing = MIN_FRAME.saturating_sub(frame.len());
    if missing == 0 || frame.append(&[0; MIN_FRAME][..missing]) == missing {
        return Some(frame);
    }
    // The buffer is shared, or has no room at its end.
    let copy = pool.alloc(MIN_FRAME).map(|mut copy| {
        copy.append(frame.as_slice());
        copy.append(&[0; MIN_FRAME][..MIN_FRAME - copy.len()]);
        copy
    });
    pool.free(frame);
    copy
}

/// A link carries only bytes; metadata stays with the sender.
fn arrive(frame: &mut Mbuf) {
    frame.clear(
        Flags::SUMMED | Flags::LINK_GROUP | Flags::PUSH | Flags::VLAN | Flags::CSUM_VERIFIED,
    );
    frame.set_mark(0);
    frame.set_flow_hash(0);
}
