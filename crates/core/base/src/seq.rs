//! TCP sequence numbers: arithmetic modulo 2^32, RFC 9293 section 3.4.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A point in a TCP sequence space.
///
/// There is no `Ord`: two numbers have an order only if they are within 2^31 of each other, so
/// sorting would give wrong results without notice. Use [`SeqNumber::lt`] and the like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct SeqNumber(pub u32);

impl SeqNumber {
    /// Signed distance in bytes from `earlier` to `self`; positive when `self` is later.
    #[inline(always)]
    pub const fn since(self, earlier: SeqNumber) -> i32 {
        self.0.wrapping_sub(earlier.0) as i32
    }

    /// `self` comes before `other`.
    #[inline(always)]
    pub const fn lt(self, other: SeqNumber) -> bool {
        self.since(other) < 0
    }

    /// `self` comes before `other` or is equal to it.
    #[inline(always)]
    pub const fn le(self, other: SeqNumber) -> bool {
        self.since(other) <= 0
    }

    /// `self` comes after `other`.
    #[inline(always)]
    pub const fn gt(self, other: SeqNumber) -> bool {
        self.since(other) > 0
    }

    /// `self` comes after `other` or is equal to it.
    #[inline(always)]
    pub const fn ge(self, other: SeqNumber) -> bool {
        self.since(other) >= 0
    }

    /// The later of the two numbers.
    #[inline(always)]
    pub const fn max(self, other: SeqNumber) -> SeqNumber {
        if self.lt(other) { other } else { self }
    }

    /// The earlier of the two numbers.
    #[inline(always)]
    pub const fn min(self, other: SeqNumber) -> SeqNumber {
        if self.lt(other) { self } else { other }
    }
}

impl Add<u32> for SeqNumber {
    type Output = SeqNumber;
    #[inline(always)]
    fn add(self, bytes: u32) -> SeqNumber {
        SeqNumber(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for SeqNumber {
    #[inline(always)]
    fn add_assign(&mut self, bytes: u32) {
        self.0 = self.0.wrapping_add(bytes);
    }
}

impl Sub<u32> for SeqNumber {
    type Output = SeqNumber;
    #[inline(always)]
    fn sub(self, bytes: u32) -> SeqNumber {
        SeqNumber(self.0.wrapping_sub(bytes))
    }
}

impl fmt::Display for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
