//! A link inside a process: two rings of frames between two ends, on one thread or on two.
//!
//! Called by: stacks that communicate in memory, tests, the simulator. Limits: frames and bytes in
//! flight in each direction; at either limit the device pushes back. Counters: [`Mem::refused`],
//! [`Mem::undeliverable`], [`Mem::wakeups`].
//!
//! Each ring has one producer and one consumer, which synchronise once per burst. The bytes in
//! flight are those that the producer has sent (its own counter) minus those that the consumer has
//! taken (stored once per burst). So no cache line is written by both.
//!
//! ```
//! # mod wirespeed { pub use {base::*, wirespeed_device as device}; }
//! use wirespeed::device::{Device, mem};
//! use wirespeed::{LinkKind, Mtu};
//!
//! let mtu = Mtu::new(9_000).expect("68 or more");
//! let config = mem::Config { link: LinkKind::Ip, mtu, ..mem::Config::default() };
//! let (left, right) = mem::pair(&config); // each goes to the `Stack::add_port` of one stack
//! assert!(left.link_up() && right.link_up());
//! ```

mod transmit;

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use core::task::Waker;
use core::time::Duration;
use std::sync::Arc;

use base::{LinkKind, Mtu};
use mbuf::{Flags, Mbuf, Pool};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::mitigation::{Threshold, frames_in};
use crate::{Burst, Device, Doorbell, Limits, Offloads};

/// While more frames wait, tell the peer that there is room after this many bursts.
const BURSTS_PER_ROOM_NEWS: u8 = 4;

/// The states of an end.
const UP: u8 = 0;
const NO_CARRIER: u8 = 1;
const GONE: u8 = 2;

/// The settings of both directions of a [`pair`].
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The kind of link header.
    pub link: LinkKind,
    /// The largest packet, link header not included.
    pub mtu: Mtu,
    /// The most frames in flight in each direction; at least one.
    pub depth: usize,
    /// The most bytes in flight in each direction. A single frame always passes.
    pub depth_bytes: usize,
    /// The offloads that the device declares. Memory does not corrupt frames: with `rx_checksum`, a
    /// frame whose sender left the checksum to the device arrives as verified.
    pub offloads: Offloads,
}

impl Default for Config {
    /// Ethernet, 1,500 bytes, 1,024 frames, 256 KiB, no offloads.
    fn default() -> Config {
        Config {
            link: LinkKind::Ethernet,
            mtu: Mtu::ETHERNET,
            depth: 1024,
            depth_bytes: 256 << 10,
            offloads: Offloads::default(),
        }
    }
}

impl Config {
    fn limits(&self) -> Limits {
        // An Ethernet header with two tags.
        let link_header = match self.link {
            LinkKind::Ethernet => 14 + 8,
            LinkKind::Ip => 0,
        };
        Limits {
            link: self.link,
            mtu: self.mtu,
            max_frame: self.mtu.bytes() + link_header,
            max_segments: 1,
            tx_depth: self.depth,
            offloads: self.offloads,
        }
    }
}

/// State that one end writes and the other reads.
#[derive(Default)]
struct End {
    taken: Line<AtomicU64>,
    rare: Line<Rare>,
}

/// Aligned to two cache lines, because processors prefetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Line<T>(T);

/// Fields that rarely change: the other end reads them once per burst, from its own cache.
#[derive(Default)]
struct Rare {
    /// [`UP`], [`NO_CARRIER`] or [`GONE`].
    state: AtomicU8,
    wants_room: AtomicBool,
    /// The wake threshold: this many frames, or `wake_bytes` bytes.
    wake_frames: AtomicU32,
    wake_bytes: AtomicU32,
}

/// One end of a link inside the process; see [`pair`].
pub struct Mem {
    limits: Limits,
    depth_bytes: u64,
    tx: Producer<Mbuf>,
    sent_bytes: u64,
    /// The peer's `taken` as last read: a lower bound.
    taken_seen: Cell<u64>,
    /// Length of the frame that was pushed back last, or 0.
    pushed_back_bytes: u64,
    rx: Consumer<Mbuf>,
    taken_bytes: u64,
    /// How many bursts were taken since the peer was last told that there is room.
    unreported: Cell<u8>,
    here: Arc<End>,
    peer: Arc<End>,
    bell: Doorbell,
    peer_bell: Doorbell,
    refused: u64,
    undeliverable: u64,
}

/// The failure after the peer is dropped.
#[derive(Debug)]
struct PeerGone;

impl core::fmt::Display for PeerGone {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the other end of the wire in memory was dropped. Make a new pair")
    }
}

impl core::error::Error for PeerGone {}

/// The failure while the link has no carrier.
#[derive(Debug)]
struct NoCarrier;

impl core::fmt::Display for NoCarrier {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the wire in memory has no carrier. Turn it on by set_carrier")
    }
}

impl core::error::Error for NoCarrier {}

/// Make a link: what one end sends, the other receives, in order.
///
/// # Panics
/// If `config.depth` is 0.
pub fn pair(config: &Config) -> (Mem, Mem) {
    pair_with(config, Doorbell::new(), Doorbell::new())
}

/// Like [`pair`], with the doorbells that wake the first and the second end. A thread that drives
/// several devices uses one doorbell for all of them.
///
/// # Panics
/// If `config.depth` is 0.
pub fn pair_with(config: &Config, first: Doorbell, second: Doorbell) -> (Mem, Mem) {
    assert!(config.depth > 0, "a wire of no frames carries nothing; a depth of 1,024 is usual");
    let limits = config.limits();
    let (a_tx, b_rx) = RingBuffer::new(limits.tx_depth);
    let (b_tx, a_rx) = RingBuffer::new(limits.tx_depth);
    let (a, b) = (Arc::new(End::default()), Arc::new(End::default()));
    let mem = |tx, rx, here, peer, bell, peer_bell| Mem {
        limits,
        depth_bytes: config.depth_bytes as u64,
        tx,
        sent_bytes: 0,
        taken_seen: Cell::new(0),
        pushed_back_bytes: 0,
        rx,
        taken_bytes: 0,
        unreported: Cell::new(0),
        here,
        peer,
        bell,
        peer_bell,
        refused: 0,
        undeliverable: 0,
    };
    let end_a = mem(a_tx, a_rx, a.clone(), b.clone(), first.clone(), second.clone());
    (end_a, mem(b_tx, b_rx, b, a, second, first))
}

impl Mem {
    /// Sleep until a frame arrives, there is room after a push back, the doorbell is rung, the peer
    /// is gone or `timeout` has passed. May return early; returns at once when the peer is gone.
    pub fn wait(&self, timeout: Option<Duration>) {
        self.wait_unless(timeout, || false);
    }

    /// Like [`Mem::wait`], but does not sleep if `ready` returns true, for other work. `ready` is
    /// called after the doorbell is armed, so that work which is published before [`Mem::waker`] is
    /// rung is never missed.
    pub fn wait_unless(&self, timeout: Option<Duration>, ready: impl FnOnce() -> bool) {
        if self.unreported.get() > 0 {
            self.report_room();
        }
        self.bell.arm();
        let room = self.pushed_back_bytes > 0 && self.tx_ready();
        if self.rx_ready() || room || self.peer_state() == GONE || ready() {
            self.bell.disarm();
        } else {
            self.bell.sleep(timeout);
        }
    }

    /// Take the link's carrier away, or give it back: without a carrier the links of both ends are
    /// down, and frames that they send are freed as undeliverable. Both ends still exist.
    pub fn set_carrier(&self, on: bool) {
        let (from, to) = if on { (NO_CARRIER, UP) } else { (UP, NO_CARRIER) };
        for end in [&self.here, &self.peer] {
            // An end that is gone stays so.
            let _ =
                end.rare.0.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        }
        self.peer_bell.ring();
    }

    #[inline]
    fn peer_state(&self) -> u8 {
        self.peer.rare.0.state.load(Ordering::Acquire)
    }

    /// The doorbell that wakes this end. Other threads that have work for this end ring it, and the
    /// end sleeps in [`Mem::wait_unless`].
    pub fn waker(&self) -> Doorbell {
        self.bell.clone()
    }

    /// Wake-ups of this end: sent, and suppressed because no thread was asleep.
    pub fn wakeups(&self) -> (u64, u64) {
        self.bell.wakeups()
    }

    /// Frames freed because they exceeded the limits.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Frames freed because the other end was gone, or the link had no carrier.
    pub fn undeliverable(&self) -> u64 {
        self.undeliverable
    }

    /// Move `count` frames, which the ring must have, into `into`; returns their bytes.
    #[inline(always)]
    fn take(&mut self, count: usize, into: &mut Burst) -> u64 {
        let verified = self.limits.offloads.rx_checksum;
        let mut bytes = 0;
        let mut arrived = |mut frame: Mbuf| {
            bytes += frame.len() as u64;
            arrive(&mut frame, verified);
            into.push(frame);
        };
        if count == 1 {
            self.rx.pop().into_iter().for_each(arrived);
        } else if let Ok(chunk) = self.rx.read_chunk(count) {
            chunk.into_iter().for_each(&mut arrived);
        }
        bytes
    }

    /// Wake the peer if it waits for room. It sets `wants_room` before it arms its doorbell.
    #[inline]
    fn report_room(&self) {
        self.unreported.set(0);
        self.peer_bell.ring_if(|| self.peer.rare.0.wants_room.load(Ordering::Relaxed));
    }
}

// These methods are not `inline`: a method table is made where the device is boxed, and a crate
// that is compiled for size would have its own copies of them.
impl Device for Mem {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn rx_burst(&mut self, _pool: &mut Pool, into: &mut Burst) -> usize {
        let count = self.rx.slots().min(into.remaining_capacity());
        if count == 0 {
            if self.unreported.get() > 0 {
                self.report_room();
            }
            return 0;
        }
        let bytes = self.take(count, into);
        self.taken_bytes += bytes;
        self.here.taken.0.store(self.taken_bytes, Ordering::Release);
        self.unreported.set(self.unreported.get() + 1);
        if self.unreported.get() >= BURSTS_PER_ROOM_NEWS {
            self.report_room();
        }
        count
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        let offered = from.len();
        if !self.link_up() {
            self.free_undeliverable(pool, from);
            return offered;
        }
        // A busy program offers pushed-back frames again in every call: fail quickly.
        if self.pushed_back_bytes > 0 && self.is_still_pushed_back(from) {
            return 0;
        }
        let mut sent = self.send(from);
        while from.first().is_some_and(|frame| self.too_long(frame)) {
            let frame = from.remove(0);
            self.refuse(pool, frame);
            sent += self.send(from);
        }
        if self.pushed_back_bytes > 0 || !from.is_empty() {
            self.remember_push_back(from.first().map(|frame| frame.len().max(1) as u64));
        }
        if sent > 0 {
            // This wake-up also reports the room made by the bursts taken before.
            let made_room = self.unreported.replace(0) > 0;
            self.peer_bell.ring_if(|| self.is_worth_a_wake(made_room));
        }
        offered - from.len()
    }

    /// If nothing is left to receive, this also wakes a peer that waits for room.
    fn rx_ready(&self) -> bool {
        let ready = !self.rx.is_empty();
        if !ready && self.unreported.get() > 0 {
            self.report_room();
        }
        ready
    }

    fn tx_ready(&self) -> bool {
        self.see_taken();
        self.tx.slots() > 0 && self.fits(self.pushed_back_bytes.max(1))
    }

    fn link_up(&self) -> bool {
        self.peer_state() == UP
    }

    /// True once the peer is gone and everything that it sent was received.
    fn is_gone(&self) -> bool {
        self.peer_state() == GONE && self.rx.is_empty()
    }

    fn failure(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self.peer_state() {
            UP => None,
            NO_CARRIER => Some(&NoCarrier),
            _ => Some(&PeerGone),
        }
    }

    /// Also arms when the peer is gone, because nothing will come from it.
    fn arm(&mut self, waker: &Waker) -> bool {
        if self.unreported.get() > 0 {
            self.report_room();
        }
        self.bell.arm_waker(waker);
        let ready = self.has_gathered() || (self.pushed_back_bytes > 0 && self.tx_ready());
        if ready {
            self.bell.disarm();
        }
        !ready
    }

    /// The smaller of the limits in frames and in bytes.
    fn rx_depth(&self) -> usize {
        let bytes = usize::try_from(self.depth_bytes).unwrap_or(usize::MAX);
        self.limits.tx_depth.min(frames_in(bytes).max(1))
    }

    fn coalesce(&mut self, threshold: Threshold) -> bool {
        self.set_threshold(threshold);
        true
    }
}

impl Drop for Mem {
    /// Frees frames that were not received. The peer can still receive the frames that this end has
    /// sent.
    fn drop(&mut self) {
        self.here.rare.0.state.store(GONE, Ordering::Release);
        while self.rx.pop().is_ok() {}
        self.peer_bell.ring();
    }
}

/// A link carries bytes and offload requests; other metadata stays with the sender.
#[inline(always)]
fn arrive(frame: &mut Mbuf, verified: bool) {
    let cleared =
        Flags::SUMMED | Flags::LINK_GROUP | Flags::PUSH | Flags::VLAN | Flags::CSUM_VERIFIED;
    frame.clear(cleared);
    frame.set_mark(0);
    frame.set_flow_hash(0);
    if verified && frame.has(Flags::CSUM_PARTIAL) {
        frame.set(Flags::CSUM_VERIFIED);
    }
}

impl Mem {
    fn set_threshold(&mut self, threshold: Threshold) {
        let rare = &self.here.rare.0;
        rare.wake_frames.store(threshold.frames, Ordering::Relaxed);
        rare.wake_bytes.store(threshold.bytes, Ordering::Relaxed);
    }

    /// Has the threshold of the peer, which sleeps or is about to, been reached?
    #[cold]
    fn is_worth_a_wake(&self, made_room: bool) -> bool {
        let peer = &self.peer.rare.0;
        let frames = peer.wake_frames.load(Ordering::Relaxed) as usize;
        if frames <= 1 || (made_room && peer.wants_room.load(Ordering::Relaxed)) {
            return true;
        }
        self.see_taken();
        let waiting = self.limits.tx_depth - self.tx.slots();
        let bytes = u64::from(peer.wake_bytes.load(Ordering::Relaxed));
        waiting >= frames || self.in_flight_bytes() >= bytes
    }

    /// Has this end's own threshold been reached, so that it must not sleep?
    fn has_gathered(&mut self) -> bool {
        let rare = &self.here.rare.0;
        let frames = rare.wake_frames.load(Ordering::Relaxed) as usize;
        let waiting = self.rx.slots();
        if waiting == 0 || frames <= 1 || waiting >= frames {
            return waiting > 0;
        }
        let bytes = u64::from(rare.wake_bytes.load(Ordering::Relaxed));
        self.rx.read_chunk(waiting).is_ok_and(|chunk| {
            let (older, newer) = chunk.as_slices();
            let waiting_bytes: u64 = older.iter().chain(newer).map(|f| f.len() as u64).sum();
            waiting_bytes >= bytes
        })
    }
}
