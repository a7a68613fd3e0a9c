//! Interrupt mitigation (coalescing): when the receiver of a device is woken. Each level has a
//! threshold in frames, bytes and time.
//!
//! Called by: ports, each of which has a [`Moderation`]. Devices that wake by themselves get its
//! thresholds ([`crate::Device::coalesce`]).
//!
//! A wake-up costs microseconds, a frame tens of nanoseconds. While frames arrive, several of them
//! gather before the receiver is woken, for a bounded time. After a silence the first frame wakes
//! the receiver at once, so that a single request is not delayed.

use core::fmt;
use core::str::FromStr;

use base::{Duration, Instant};

/// Bytes of a full-size Ethernet frame: 1,500 and a link header.
const FULL_SIZE_BYTES: u32 = 1_514;

/// How many small frames cost the receiver about as much as one full-size frame.
const SMALL_PER_FULL: u32 = 4;

/// Capacity in frames of a queue of this many bytes; each frame counts as a quarter of a full-size
/// one, as in thresholds. So four bursts of a level that fit by bytes also fit by frames.
pub(crate) const fn frames_in(bytes: usize) -> usize {
    bytes.saturating_mul(SMALL_PER_FULL as usize) / FULL_SIZE_BYTES as usize
}

/// About twice the time of two full-size frames at 1 Gb/s.
const LEVEL_1_WITHIN: Duration = Duration::from_micros(50);

/// How many bursts of a level a receive queue must hold: the next bursts arrive while one is
/// handled.
const BURSTS_QUEUED: usize = 4;

/// A round trip shorter than this many times the level's time is short: coalescing lengthens it.
const SHORT_ROUND_TRIPS: u64 = 4;

/// How often the receiver is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mitigation {
    /// At the thresholds of a level.
    Level(Level),
    /// The level follows the traffic: it rises by one when its threshold was reached, and falls by
    /// one when not even a quarter of the threshold was reached.
    Adaptive,
    /// Never: the driver polls all the time and keeps its processor busy.
    Poll,
}

/// A level from 0, at which each frame wakes the receiver, to 5, at which one of 32 full-size
/// frames does. Each step halves the wake-ups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u8);

/// When a sleeping receiver is woken: as soon as one of these is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Number of waiting frames of any size. Small frames reach this first.
    pub frames: u32,
    /// Number of waiting bytes, link headers included. Full-size frames reach this first.
    pub bytes: u32,
    /// How long the oldest frame may wait.
    pub within: Duration,
}

impl Threshold {
    /// Every frame wakes at once.
    pub const EACH: Threshold = Threshold { frames: 1, bytes: 1, within: Duration::ZERO };
}

impl Level {
    /// The level with the fewest wake-ups.
    pub const MAX: Level = Level(5);

    /// A level from 0 to 5.
    pub const fn new(level: u8) -> Option<Level> {
        if level <= Level::MAX.0 { Some(Level(level)) } else { None }
    }

    /// The level's number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The threshold of this level:
    ///
    /// | level | full-size frames (bytes) | small frames | time |
    /// |---|---|---|---|
    /// | 0 | 1 | 1 | at once |
    /// | 1 | 2 (3,028) | 8 | 50 us |
    /// | 2 | 4 (6,056) | 16 | 100 us |
    /// | 3 | 8 (12,112) | 32 | 200 us |
    /// | 4 | 16 (24,224) | 64 | 400 us |
    /// | 5 | 32 (48,448) | 128 | 800 us |
    pub const fn threshold(self) -> Threshold {
        if self.0 == 0 {
            return Threshold::EACH;
        }
        let full = 1 << self.0;
        Threshold {
            frames: full * SMALL_PER_FULL,
            bytes: full * FULL_SIZE_BYTES,
            within: Duration::from_nanos(LEVEL_1_WITHIN.as_nanos() << (self.0 - 1)),
        }
    }

    const fn up(self) -> Level {
        if self.0 < Level::MAX.0 { Level(self.0 + 1) } else { self }
    }

    const fn down(self) -> Level {
        Level(self.0.saturating_sub(1))
    }
}

impl Default for Mitigation {
    /// Level 0.
    fn default() -> Mitigation {
        Mitigation::Level(Level::default())
    }
}

impl Mitigation {
    /// The least depth of a receive queue for this setting, in frames: four bursts of its level.
    pub fn least_depth(self) -> usize {
        match self {
            Mitigation::Level(level) => BURSTS_QUEUED * level.threshold().frames as usize,
            Mitigation::Adaptive => BURSTS_QUEUED * Level::MAX.threshold().frames as usize,
            Mitigation::Poll => 1,
        }
    }
}

impl fmt::Display for Mitigation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mitigation::Level(level) => level.0.fmt(f),
            Mitigation::Adaptive => f.write_str("adaptive"),
            Mitigation::Poll => f.write_str("poll"),
        }
    }
}

/// The text is not one of 0 to 5, `adaptive` and `poll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchMitigation;

impl fmt::Display for NoSuchMitigation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupt mitigation is a level from 0 to 5, 'adaptive' or 'poll'")
    }
}

impl core::error::Error for NoSuchMitigation {}

impl FromStr for Mitigation {
    type Err = NoSuchMitigation;

    fn from_str(text: &str) -> Result<Mitigation, NoSuchMitigation> {
        match text {
            "adaptive" => Ok(Mitigation::Adaptive),
            "poll" => Ok(Mitigation::Poll),
            _ => {
                let level = text.parse().ok().and_then(Level::new).ok_or(NoSuchMitigation)?;
                Ok(Mitigation::Level(level))
            }
        }
    }
}

/// What a driver without work does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdlePolicy {
    /// Poll on; do not sleep.
    Poll,
    /// Sleep until there is a frame.
    UntilFrame,
    /// Sleep until this threshold is reached; its time counts from now.
    Gather(Threshold),
}

/// The interrupt moderation of one port. It decides the idle policy of the port's driver from what
/// was received.
#[derive(Debug)]
pub struct Moderation {
    setting: Mitigation,
    level: Level,
    /// Frames, and bytes, taken since [`Moderation::idle_policy`] was last called.
    frames: u32,
    bytes: u64,
    took_at: Option<Instant>,
    /// The shortest round trip of the connections that cannot send more before an ACK comes;
    /// [`Duration::MAX`] if there are none.
    awaited: Duration,
    /// Was less than a quarter of the threshold taken before the last sleep? If so, there is no
    /// bulk traffic.
    took_few: bool,
    /// The average bytes of the frames that were taken before the last sleep. A super-frame of a
    /// virtual device may reach a threshold alone: it contains frames that were gathered before.
    frame_bytes: u64,
}

impl Default for Moderation {
    /// At level 0.
    fn default() -> Moderation {
        Moderation {
            setting: Mitigation::default(),
            level: Level::default(),
            frames: 0,
            bytes: 0,
            took_at: None,
            awaited: Duration::MAX,
            took_few: false,
            frame_bytes: 0,
        }
    }
}

impl Moderation {
    /// A moderation with this setting and no traffic yet.
    pub fn new(setting: Mitigation) -> Moderation {
        let mut moderation = Moderation::default();
        moderation.set(setting);
        moderation
    }

    /// Change the setting; it takes effect at the next [`Moderation::idle_policy`].
    pub fn set(&mut self, setting: Mitigation) {
        self.setting = setting;
        if let Mitigation::Level(level) = setting {
            self.level = level;
        }
    }

    /// The setting.
    pub fn setting(&self) -> Mitigation {
        self.setting
    }

    /// The current level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Call when frames were taken from the device.
    #[inline(always)]
    pub fn took(&mut self, frames: usize, bytes: u64, now: Instant) {
        self.frames = self.frames.saturating_add(frames as u32);
        self.bytes += bytes;
        self.took_at = Some(now);
        self.awaited = Duration::MAX;
    }

    /// Call this when data waits for an ACK before it can be sent. Recent ACKs took `round_trip`.
    #[inline(always)]
    pub fn awaits(&mut self, round_trip: Duration) {
        self.awaited = self.awaited.min(round_trip);
    }

    /// The policy for a driver that has no more work now.
    pub fn idle_policy(&mut self, now: Instant) -> IdlePolicy {
        if self.setting == Mitigation::Poll {
            return IdlePolicy::Poll;
        }
        if self.setting == Mitigation::Adaptive && self.frames > 0 {
            self.adapt();
        }
        let threshold = self.level.threshold();
        if self.frames > 0 {
            self.took_few = !self.reached(threshold, 4);
            self.frame_bytes = self.bytes / u64::from(self.frames);
        }
        (self.frames, self.bytes) = (0, 0);
        // Coalescing ACKs lengthens a short round trip, and the link is idle in that time.
        let longest = threshold.within.saturating_mul(SHORT_ROUND_TRIPS);
        let are_long = self.frame_bytes >= u64::from(threshold.bytes);
        if are_long || (self.took_few && self.awaited < longest) {
            return IdlePolicy::UntilFrame;
        }
        let is_silent = self.took_at.is_none_or(|at| now.since(at) >= threshold.within);
        if is_silent { IdlePolicy::UntilFrame } else { IdlePolicy::Gather(threshold) }
    }

    fn adapt(&mut self) {
        let threshold = self.level.threshold();
        if self.frames > 1 && self.reached(threshold, 1) {
            self.level = self.level.up();
        } else if !self.reached(threshold, 4) {
            self.level = self.level.down();
        }
    }

    /// Was 1 / `part` of a threshold reached since the driver was last idle?
    fn reached(&self, threshold: Threshold, part: u32) -> bool {
        self.frames >= threshold.frames / part || self.bytes >= u64::from(threshold.bytes / part)
    }
}

#[cfg(test)]
mod tests;
