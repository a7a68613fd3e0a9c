//! A network interface as its driver sees it, and the wire to the one at the other end: rings of
//! descriptors, a link with a rate, the gap between frames, padding, and a shared cable's
//! collisions.
//!
//! Called by: stacks, the lab, tests. Counters: [`Counts`], and the drops `device_ring_full`,
//! `device_collisions`, `device_link_down`, `device_frame_too_big`, `mbuf_exhausted`.
//!
//! [`crate::mem`] hands frames over; here they take the time that they take on a link. Nothing runs
//! between two calls: each call works out what has happened by its clock's now (`wire.rs`), and
//! looking changes nothing. So all is exact in virtual time, and two threads see what hardware
//! would have shown them. An interrupt is a moment that is known in advance
//! ([`Device::wakes_at`]), or news from the other end, which rings.
//!
//! A transmit ring of one descriptor is the driver that waits for each frame before it offers the
//! next; with [`Config::service`] it shows what that costs
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

/// The shortest frame on an Ethernet, tags included and the check sequence not (IEEE 802.3, 3.2.8).
const MIN_FRAME: usize = 60;

/// What tells the time: of the same origin as the stack's at this end, and never less than before.
pub type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// What both ends share.
struct Link {
    wire: Mutex<Wire>,
    clock: Clock,
}

impl Link {
    /// The wire as it is now, and when that is.
    fn now(&self) -> (MutexGuard<'_, Wire>, Instant) {
        let mut wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: of two threads the later one has the later time.
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
    /// As told by the last [`Device::arm`].
    wakes_at: Instant,
    drops: Drops,
    /// What of the link's counts is in `drops`.
    reported: Counts,
}

/// Why no frame passes any more.
#[derive(Debug)]
struct PeerGone;

impl core::fmt::Display for PeerGone {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the interface at the other end of the link was dropped. Make a new pair")
    }
}

impl core::error::Error for PeerGone {}

/// Two interfaces and the link between them.
///
/// # Errors
/// No link can be like that; it says why.
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
    /// What this end has sent and received so far.
    pub fn counts(&self) -> Counts {
        let (wire, _) = self.link.now();
        wire.counts(self.side)
    }

    /// Put the front of `from` on the ring; what does not fit stays.
    fn offer(&mut self, pool: &mut Pool, from: &mut Burst) {
        let (mut wire, now) = self.link.now();
        // Once, unless a frame was dropped and left its descriptor to one behind it.
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

    /// What the link has lost of this end's frames since it was noted last.
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

    /// Once what the peer sent before its end is received.
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
        // First the bell, then the look: what is offered in between rings.
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
    /// Frees what was not received; what this end sent reaches the peer.
    fn drop(&mut self) {
        let (mut wire, _) = self.link.now();
        wire.leave(self.side);
        drop(wire);
        self.peer_bell.ring();
    }
}

/// Padded with zeros to the shortest frame, so that old memory does not leak.
fn padded(mut frame: Mbuf, pool: &mut Pool) -> Option<Mbuf> {
    let missing = MIN_FRAME.saturating_sub(frame.len());
    if missing == 0 || frame.append(&[0; MIN_FRAME][..missing]) == missing {
        return Some(frame);
    }
    // The buffer is shared, or it ends here.
    let copy = pool.alloc(MIN_FRAME).map(|mut copy| {
        copy.append(frame.as_slice());
        copy.append(&[0; MIN_FRAME][..MIN_FRAME - copy.len()]);
        copy
    });
    pool.free(frame);
    copy
}

/// A wire carries bytes; notes about them stay with their sender.
fn arrive(frame: &mut Mbuf) {
    frame.clear(
        Flags::SUMMED | Flags::LINK_GROUP | Flags::PUSH | Flags::VLAN | Flags::CSUM_VERIFIED,
    );
    frame.set_mark(0);
    frame.set_flow_hash(0);
}
