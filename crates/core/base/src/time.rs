//! Monotonic time and wall time are different types, so that they cannot be confused. Nothing here
//! reads a clock: the caller of the stack passes `now`.

use core::ops::{Add, AddAssign, Sub};

/// A span of time in nanoseconds, up to 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Duration {
    /// A duration of zero.
    pub const ZERO: Duration = Duration(0);
    /// The longest duration.
    pub const MAX: Duration = Duration(u64::MAX);

    /// A span of `ns` nanoseconds.
    pub const fn from_nanos(ns: u64) -> Duration {
        Duration(ns)
    }
    /// A span of `us` microseconds.
    pub const fn from_micros(us: u64) -> Duration {
        Duration(us.saturating_mul(1_000))
    }
    /// A span of `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Duration {
        Duration(ms.saturating_mul(1_000_000))
    }
    /// A span of `s` seconds.
    pub const fn from_secs(s: u64) -> Duration {
        Duration(s.saturating_mul(1_000_000_000))
    }
    /// The duration in nanoseconds.
    #[inline(always)]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// The duration in whole microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// The duration in whole milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
    /// The duration in seconds as a float, for output and for CUBIC's cube roots.
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// `self * n`, at most [`Duration::MAX`].
    pub const fn saturating_mul(self, n: u64) -> Duration {
        Duration(self.0.saturating_mul(n))
    }
    /// `self / n`; `n` must not be zero.
    pub const fn div(self, n: u64) -> Duration {
        Duration(self.0 / n)
    }
    /// `self - other`, at least zero.
    pub const fn saturating_sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
}

impl Add for Duration {
    type Output = Duration;
    #[inline]
    fn add(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }
}

impl From<core::time::Duration> for Duration {
    fn from(d: core::time::Duration) -> Duration {
        Duration(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Duration> for core::time::Duration {
    fn from(d: Duration) -> core::time::Duration {
        core::time::Duration::from_nanos(d.0)
    }
}

/// A point on the monotonic clock: nanoseconds since an origin that the caller chose.
///
/// A program maps its own clock to it, so that the clock of a test may be any:
/// ```
/// # use wirespeed_base as wirespeed;
/// use wirespeed::{Duration, Instant};
///
/// let begin = std::time::Instant::now();
/// let now = || Instant::ZERO + Duration::from(begin.elapsed());
/// let deadline = now() + Duration::from_millis(20);
/// assert!(deadline.since(now()) <= Duration::from_millis(20));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the clock.
    pub const ZERO: Instant = Instant(0);
    /// A deadline that is never reached.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// `ns` nanoseconds after the origin.
    #[inline(always)]
    pub const fn from_nanos(ns: u64) -> Instant {
        Instant(ns)
    }
    /// Nanoseconds since the origin.
    #[inline(always)]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Whole milliseconds since the origin.
    #[inline(always)]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
    /// The time from `earlier` to `self`; zero if `earlier` is in fact later.
    #[inline(always)]
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    #[inline(always)]
    fn add(self, d: Duration) -> Instant {
        Instant(self.0.saturating_add(d.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, d: Duration) -> Instant {
        Instant(self.0.saturating_sub(d.0))
    }
}

/// Nanoseconds since 1970, used only for capture files and logs; this clock may jump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime(pub u64);
