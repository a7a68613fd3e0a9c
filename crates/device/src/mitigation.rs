//! Interrupt mitigation: how often the receiver of a device is woken, and what each level means in
//! frames, bytes and time.
//!
//! Called by: ports, each of which keeps a [`Moderation`]; devices that wake by themselves get its
//! thresholds ([`crate::Device::coalesce`]).
//!
//! A wake-up costs microseconds, a frame tens of nanoseconds. While frames come, a receiver lets
//! some gather before it is woken, and none waits longer than a time; after a silence the first
//! frame wakes at once, so that a lone request pays nothing.

use core::fmt;
use core::str::FromStr;

use base::{Duration, Instant};

/// Bytes of a full-size Ethernet frame: 1,500 and a link header.
const FULL_SIZE_BYTES: u32 = 1_514;

/// Small frames for each full-size one: a burst of them costs the receiver about as much.
const SMALL_PER_FULL: u32 = 4;

/// Frames that a queue of so many bytes holds, as thresholds count: each a quarter of a full-size
/// one. So four bursts of a level fit into it by their frames if they do by their bytes.
pub(crate) const fn frames_in(bytes: usize) -> usize {
    bytes.saturating_mul(SMALL_PER_FULL as usize) / FULL_SIZE_BYTES as usize
}

/// Twice what two full-size frames take at 1 Gb/s, about.
const LEVEL_1_WITHIN: Duration = Duration::from_micros(50);

/// Bursts of a level that a receive queue must hold: one is handled while the next ones come.
const BURSTS_QUEUED: usize = 4;

/// A round trip of fewer of a level's times than these is short: what gathers makes it longer.
const SHORT_ROUND_TRIPS: u64 = 4;

/// How often to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mitigation {
    /// By the figures of a level.
    Level(Level),
    /// By those of the level that suits what comes: one up when its figures are reached, one down
    /// when not a quarter of them came.
    Adaptive,
    /// Never: the driver looks again and again, and keeps its processor.
    Poll,
}

/// 0: each frame wakes. Each step halves the wake-ups, down to one in 32 full-size frames at 5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u8);

/// When a receiver that sleeps is woken: when the first of these is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Frames that wait, of any size. Small ones reach this first.
    pub frames: u32,
    /// Bytes that wait, link headers included. Full-size frames reach this first.
    pub bytes: u32,
    /// How long the oldest may wait.
    pub within: Duration,
}

impl Threshold {
    /// Every frame wakes at once.
    pub const EACH: Threshold = Threshold { frames: 1, bytes: 1, within: Duration::ZERO };
}

impl Level {
    /// The fewest wake-ups.
    pub const MAX: Level = Level(5);

    /// A level from 0 to 5.
    pub const fn new(level: u8) -> Option<Level> {
        if level <= Level::MAX.0 { Some(Level(level)) } else { None }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// What wakes at this level:
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
    /// Frames that a receive queue must hold for this: four bursts of its level.
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

/// It is none of 0 to 5, `adaptive` and `poll`.
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

/// What a driver does that has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdlePolicy {
    /// Not at all.
    Poll,
    /// Until there is a frame.
    UntilFrame,
    /// Until this is reached; its time counts from now.
    Gather(Threshold),
}

/// The interrupt moderation of one port: decides its driver's idle policy from what was received.
#[derive(Debug)]
pub struct Moderation {
    setting: Mitigation,
    level: Level,
    /// Since the driver last rested.
    frames: u32,
    bytes: u64,
    took_at: Option<Instant>,
    /// The shortest round trip of what waits for an answer before more of it leaves; longer than
    /// any if nothing does.
    awaited: Duration,
    /// What was taken last was no bulk.
    took_few: bool,
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
        }
    }
}

impl Moderation {
    /// One with this setting; nothing has come.
    pub fn new(setting: Mitigation) -> Moderation {
        let mut moderation = Moderation::default();
        moderation.set(setting);
        moderation
    }

    /// Another setting, from the next rest on.
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

    /// The level that counts now.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Frames were taken from the device.
    #[inline(always)]
    pub fn took(&mut self, frames: usize, bytes: u64, now: Instant) {
        self.frames = self.frames.saturating_add(frames as u32);
        self.bytes += bytes;
        self.took_at = Some(now);
        self.awaited = Duration::MAX;
    }

    /// Something that is to leave waits for an answer, which came after `round_trip` lately: data
    /// for the acknowledgment that lets it go.
    #[inline(always)]
    pub fn awaits(&mut self, round_trip: Duration) {
        self.awaited = self.awaited.min(round_trip);
    }

    /// The driver is about to rest.
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
        }
        (self.frames, self.bytes) = (0, 0);
        // Answers that gather make a short round trip long, and the wire idles meanwhile.
        let longest = threshold.within.saturating_mul(SHORT_ROUND_TRIPS);
        if self.took_few && self.awaited < longest {
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

    /// Did a part of a threshold come since the driver last rested?
    fn reached(&self, threshold: Threshold, part: u32) -> bool {
        self.frames >= threshold.frames / part || self.bytes >= u64::from(threshold.bytes / part)
    }
}

#[cfg(test)]
mod tests;
