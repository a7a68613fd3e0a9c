//! A fault injector around a device: it drops, duplicates, reorders and corrupts frames, each with
//! a probability; the same seed and frames give the same faults.
//!
//! Called by: tests and experiments, around any device. Counters: [`FaultCounts`]; dropped frames
//! are counted as [`DropReason::FaultInjected`].
//!
//! A super-segment is one frame here: it is lost as a whole.
//!
//! # Corruption
//! One bit after the link header is flipped, in a copy, so that the sender's bytes stay unchanged.
//! The copy loses the flags by which a device is to finish the checksum or has verified it: a
//! checksum that is computed or trusted after the flip would hide the error. An outgoing
//! super-segment needs the device to finish its checksum, so it is dropped instead. ARP, which has
//! no checksum, is exempt.
//!
//! ```
//! # mod wirespeed { pub use {base::*, mbuf::Pool, wirespeed_device as device}; }
//! use wirespeed::device::fault::{Config, Fault, Odds, Rng};
//! use wirespeed::device::mem;
//!
//! let (device, _other) = mem::pair(&mem::Config::default());
//! let config = Config { rx: Odds { drop: 0.01, ..Odds::default() }, ..Config::default() };
//! let (device, counts) = Fault::new(device, &config, Rng::new(7));
//! // `device` goes to `Stack::add_port`; `counts` says what was done to its frames.
//! assert_eq!(counts.rx().dropped, 0);
//! # drop(device);
//! ```

use core::task::Waker;
use std::collections::VecDeque;
use std::sync::Arc;

use base::{DropReason, Drops, LinkKind};
use mbuf::{Flags, Mbuf, Pool};

use crate::mitigation::Threshold;
use crate::wrap::{Tally, copy_of, pass_through};
use crate::{BURST, Burst, Device};

/// Maximum frames of one direction that are held back at a time.
const HELD_MAX: usize = 32;

/// Probabilities for each frame of one direction, from 0 (never) to 1 (always). Values outside this
/// range are clamped.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Odds {
    /// That the frame is lost.
    pub drop: f64,
    /// That the frame is duplicated.
    pub duplicate: f64,
    /// That later frames overtake the frame.
    pub reorder: f64,
    /// That one bit of the frame is flipped.
    pub corrupt: f64,
}

/// The settings of a [`Fault`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// For frames that the stack receives.
    pub rx: Odds,
    /// For frames that the stack sends.
    pub tx: Odds,
    /// A reordered frame is overtaken by 1 to this many other frames.
    pub distance: u16,
    /// After this many calls of `rx_burst` in a row that found no frame to overtake them, reordered
    /// frames are released. So no frame waits for ever on a silent link.
    pub idle_polls_max: u16,
}

impl Default for Config {
    /// No faults. Reordering is by up to 3 frames and 64 idle polls.
    fn default() -> Config {
        Config { rx: Odds::default(), tx: Odds::default(), distance: 3, idle_polls_max: 64 }
    }
}

/// A small pseudo-random generator, SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom
/// number generators", 2014). Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator. The same seed gives the same numbers.
    pub const fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 if `n` is 0. The bias, at most `n` in 2^64, is negligible here.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// True with this probability. 53 bits are the precision of a double.
    pub fn happens(&mut self, probability: f64) -> bool {
        ((self.next_u64() >> 11) as f64) < probability * (1u64 << 53) as f64
    }
}

/// Counts of the faults in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Frames that reached the wrapper.
    pub seen: u64,
    /// Frames that were lost on purpose.
    pub dropped: u64,
    /// Frames that were duplicated.
    pub duplicated: u64,
    /// Frames that were held back.
    pub reordered: u64,
    /// Frames with one flipped bit, or dropped because no bit could be flipped.
    pub corrupted: u64,
}

#[derive(Debug, Default)]
struct Tallies {
    seen: Tally,
    dropped: Tally,
    duplicated: Tally,
    reordered: Tally,
    corrupted: Tally,
}

impl Tallies {
    fn done(&self) -> Done {
        Done {
            seen: self.seen.total(),
            dropped: self.dropped.total(),
            duplicated: self.duplicated.total(),
            reordered: self.reordered.total(),
            corrupted: self.corrupted.total(),
        }
    }
}

/// The counters of a [`Fault`], readable from any thread.
#[derive(Clone, Debug, Default)]
pub struct FaultCounts(Arc<[Tallies; 2]>);

impl FaultCounts {
    /// Faults in received frames.
    pub fn rx(&self) -> Done {
        self.0[0].done()
    }

    /// Faults in sent frames.
    pub fn tx(&self) -> Done {
        self.0[1].done()
    }
}

/// One direction: frames that have passed, and frames that are held back until others have
/// overtaken them.
struct Lane {
    odds: Odds,
    sending: bool,
    through: VecDeque<Mbuf>,
    held: Vec<(Mbuf, usize)>,
    idle_polls: u16,
}

impl Lane {
    fn new(odds: Odds, sending: bool) -> Lane {
        Lane { odds, sending, through: VecDeque::new(), held: Vec::new(), idle_polls: 0 }
    }

    /// Called for a poll without a frame. After `idle_polls_max` of them all held frames pass.
    fn idle(&mut self, idle_polls_max: u16) {
        if self.held.is_empty() {
            return;
        }
        self.idle_polls = self.idle_polls.saturating_add(1);
        if self.idle_polls >= idle_polls_max {
            self.through.extend(self.held.drain(..).map(|(frame, _)| frame));
        }
    }

    /// Called when one more frame has passed: releases held frames that have been overtaken often
    /// enough.
    fn overtaken(&mut self) {
        for (_, left) in &mut self.held {
            *left = left.saturating_sub(1);
        }
        let go = self.held.extract_if(.., |(_, left)| *left == 0).map(|(frame, _)| frame);
        self.through.extend(go);
    }
}

/// A device with faults.
pub struct Fault<D> {
    device: D,
    link: LinkKind,
    rng: Rng,
    distance: u16,
    idle_polls_max: u16,
    rx: Lane,
    tx: Lane,
    /// Frames that the inner device has pushed back, or that are about to be offered to it.
    leaving: Burst,
    counts: FaultCounts,
    drops: Drops,
}

impl<D: Device> Fault<D> {
    /// Wrap `device` with the faults of `config`, chosen by `rng`. Returns the wrapper and its
    /// counters.
    pub fn new(device: D, config: &Config, rng: Rng) -> (Fault<D>, FaultCounts) {
        let counts = FaultCounts::default();
        let fault = Fault {
            link: device.limits().link,
            device,
            rng,
            distance: config.distance.max(1),
            idle_polls_max: config.idle_polls_max.max(1),
            rx: Lane::new(config.rx, false),
            tx: Lane::new(config.tx, true),
            leaving: Burst::new(),
            counts: counts.clone(),
            drops: Drops::default(),
        };
        (fault, counts)
    }

    /// Decide what happens to a frame. Five numbers are drawn for every frame, so that the fate of
    /// one frame does not shift the numbers of the next.
    fn pass(&mut self, sending: bool, pool: &mut Pool, frame: Mbuf) {
        let lane = if sending { &mut self.tx } else { &mut self.rx };
        let tally = &self.counts.0[usize::from(sending)];
        let rng = &mut self.rng;
        let odds = lane.odds;
        let dropped = rng.happens(odds.drop);
        let duplicated = rng.happens(odds.duplicate);
        let reordered = rng.happens(odds.reorder);
        let corrupted = rng.happens(odds.corrupt);
        let mut own = Rng::new(rng.next_u64());
        tally.seen.add(1);
        lane.idle_polls = 0;
        if dropped {
            tally.dropped.add(1);
            self.drops.count(DropReason::FaultInjected);
            pool.free(frame);
            return;
        }
        let mut frame = frame;
        if corrupted && may_be_corrupted(&frame, self.link) {
            tally.corrupted.add(1);
            let Some(copy) = corrupt(&frame, lane.sending, self.link, pool, &mut own) else {
                self.drops.count(DropReason::FaultInjected);
                pool.free(frame);
                return;
            };
            pool.free(core::mem::replace(&mut frame, copy));
        }
        let twin = if duplicated { copy_of(pool, &frame) } else { None };
        tally.duplicated.add(u64::from(twin.is_some()));
        if reordered && lane.held.len() < HELD_MAX {
            tally.reordered.add(1);
            lane.held.push((frame, 1 + own.below(self.distance.into())));
            lane.through.extend(twin);
        } else {
            lane.overtaken_by(frame);
            lane.through.extend(twin);
        }
    }

    /// Send the frames that have passed, as many as the inner device takes.
    fn leave(&mut self, pool: &mut Pool) {
        loop {
            while !self.leaving.is_full()
                && let Some(frame) = self.tx.through.pop_front()
            {
                self.leaving.push(frame);
            }
            if self.leaving.is_empty() || self.device.tx_burst(pool, &mut self.leaving) == 0 {
                return;
            }
        }
    }

    /// Does the wrapper hold frames that need another call: received frames, or held-back frames
    /// that idle polls release?
    fn is_holding(&self) -> bool {
        let held = !self.rx.held.is_empty() || !self.tx.held.is_empty();
        held || !self.rx.through.is_empty()
    }

    fn waits_to_leave(&self) -> bool {
        !self.leaving.is_empty() || !self.tx.through.is_empty()
    }
}

impl Lane {
    /// Let a frame pass; it overtakes the frames that are held back.
    fn overtaken_by(&mut self, frame: Mbuf) {
        self.through.push_back(frame);
        self.overtaken();
    }
}

/// ARP has no checksum: a receiver could not detect the corruption.
fn may_be_corrupted(frame: &Mbuf, link: LinkKind) -> bool {
    let arp = link == LinkKind::Ethernet && frame.as_slice().get(12..14) == Some(&[0x08, 0x06]);
    !arp && frame.len() > link.header_len()
}

/// A copy of the frame with one bit flipped after the link header; `None` if the frame has to be
/// dropped instead, or if the pool is exhausted.
fn corrupt(
    frame: &Mbuf,
    sending: bool,
    link: LinkKind,
    pool: &mut Pool,
    rng: &mut Rng,
) -> Option<Mbuf> {
    if sending && frame.segment_size() > 0 {
        return None;
    }
    let mut copy = copy_of(pool, frame)?;
    copy.clear(Flags::CSUM_PARTIAL | Flags::CSUM_VERIFIED);
    let bytes = copy.as_mut_slice()?.get_mut(link.header_len()..)?;
    let bit = rng.below(bytes.len() * 8);
    *bytes.get_mut(bit / 8)? ^= 1 << (bit % 8);
    Some(copy)
}

impl<D: Device> Device for Fault<D> {
    pass_through!();

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        self.tx.idle(self.idle_polls_max);
        self.leave(pool);
        if self.rx.through.is_empty() {
            let mut burst = Burst::new();
            if self.device.rx_burst(pool, &mut burst) == 0 {
                self.rx.idle(self.idle_polls_max);
            }
            burst.drain(..).for_each(|frame| self.pass(false, pool, frame));
        }
        let count = self.rx.through.len().min(into.remaining_capacity());
        into.extend(self.rx.through.drain(..count));
        count
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        self.leave(pool);
        if self.waits_to_leave() {
            return 0;
        }
        let taken = from.len();
        from.drain(..).for_each(|frame| self.pass(true, pool, frame));
        self.leave(pool);
        debug_assert!(self.tx.through.len() <= 2 * BURST + HELD_MAX, "one burst at a time");
        taken
    }

    /// Also true while frames are held back, because polls release them.
    fn rx_ready(&self) -> bool {
        self.is_holding()
            || self.device.rx_ready()
            || (self.waits_to_leave() && self.device.tx_ready())
    }

    fn tx_ready(&self) -> bool {
        !self.waits_to_leave() || self.device.tx_ready()
    }

    /// The inner device does not know of received frames held in the wrapper. It does know of
    /// frames that wait to be sent, because it pushed them back.
    fn arm(&mut self, waker: &Waker) -> bool {
        !self.is_holding() && self.device.arm(waker)
    }

    fn coalesce(&mut self, threshold: Threshold) -> bool {
        self.device.coalesce(threshold)
    }

    /// The injected drops only; those of the inner device are in [`Fault::inner`].
    fn drops(&self) -> Option<&Drops> {
        Some(&self.drops)
    }
}

impl<D> Fault<D> {
    /// The inner device.
    pub fn inner(&self) -> &D {
        &self.device
    }
}
