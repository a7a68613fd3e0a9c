//! The Internet checksum: one's-complement sums, and the fastest implementation for this machine.
//!
//! Called by: every header here, and code that copies payload (`Ladder::copy_sum`). RFC 1071
//! (definition, byte-order independence, partial sums), RFC 1624 (incremental update).

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx2;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx512;
mod choice;
mod ladder;
mod portable;

use core::net::{Ipv4Addr, Ipv6Addr};

pub use choice::{Choice, Evidence, Feature, Measured, Why};
pub use ladder::Ladder;

/// One's-complement sum of 16-bit words taken in memory order, folded to 16 bits, not complemented.
///
/// Words are loaded in native order: RFC 1071 section 2(B) shows that the bytes of the sum are then
/// in memory order on every machine, so nothing is ever swapped. An odd last byte is padded with
/// zero. The sum of bytes that are not all zero is never 0 but may be 0xffff, the other zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Sum(pub u16);

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Sum = Sum(0);

    /// The sum of both. The data of `other` must begin at an even offset from the data of this sum.
    #[inline(always)]
    #[must_use]
    pub const fn plus(self, other: Sum) -> Sum {
        let (sum, carry) = self.0.overflowing_add(other.0);
        Sum(sum + carry as u16)
    }

    /// The sum of both, if the data of `other` begins `offset` bytes after the data of this sum. An
    /// odd offset swaps the bytes of `other` (RFC 1071 section 2(B)).
    #[inline(always)]
    #[must_use]
    pub const fn plus_at(self, other: Sum, offset: usize) -> Sum {
        self.plus(Sum(other.0.rotate_left((offset as u32 & 1) * 8)))
    }

    /// Subtract `other`, which was part of the sum. The result equals the sum of the remaining
    /// data, except that 0 becomes 0xffff.
    #[inline(always)]
    #[must_use]
    pub const fn minus(self, other: Sum) -> Sum {
        self.plus(Sum(!other.0))
    }

    /// The sum of words in native order that are already in registers.
    #[inline(always)]
    #[must_use]
    pub const fn from_u64s<const N: usize>(words: [u64; N]) -> Sum {
        let mut sum = 0u64;
        let mut i = 0;
        while i < N {
            sum = add_carry(sum, words[i]);
            i += 1;
        }
        fold(sum)
    }

    /// Add another sum and a word in native order.
    #[inline(always)]
    #[must_use]
    pub const fn plus_and_word(self, other: Sum, word: u32) -> Sum {
        let (sum, carry) = word.overflowing_add(self.0 as u32 + other.0 as u32);
        fold_u32(sum + carry as u32)
    }

    /// The complement, as the two bytes to store in a header.
    #[inline(always)]
    #[must_use]
    pub const fn field(self) -> [u8; 2] {
        (!self.0).to_ne_bytes()
    }

    /// Is the checksum of a packet correct, if this is the sum of the packet and its checksum
    /// field? (RFC 1071 section 1, step 3.)
    #[inline(always)]
    #[must_use]
    pub const fn is_whole(self) -> bool {
        self.0 == 0xffff
    }

    /// The sum of the pseudo-header of RFC 9293 section 3.1 and RFC 768 without the length, which
    /// the caller adds with [`Sum::of_be16`].
    #[inline(always)]
    #[must_use]
    pub const fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8) -> Sum {
        let src = u32::from_ne_bytes(src.octets()) as u64;
        let dst = u32::from_ne_bytes(dst.octets()) as u64;
        fold(src + dst + Sum::of_be16(protocol as u16).0 as u64)
    }

    /// The sum of the pseudo-header of RFC 8200 section 8.1 without the length, which the caller
    /// adds with [`Sum::of_be16`] (a length over 65,535 has two 16-bit words).
    #[inline(always)]
    #[must_use]
    pub const fn pseudo_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8) -> Sum {
        let src = u128::from_ne_bytes(src.octets());
        let dst = u128::from_ne_bytes(dst.octets());
        Sum::from_u64s([
            src as u64,
            (src >> 64) as u64,
            dst as u64,
            (dst >> 64) as u64,
            Sum::of_be16(protocol as u16).0 as u64,
        ])
    }

    /// The sum of a 16-bit big-endian field with the value `v`.
    #[inline(always)]
    #[must_use]
    pub const fn of_be16(v: u16) -> Sum {
        Sum(v.to_be())
    }

    /// The checksum field after words that sum to `old` were replaced by words that sum to `new`:
    /// RFC 1624 equation 3, `HC' = ~(~HC + ~m + m')`.
    #[inline(always)]
    #[must_use]
    pub const fn updated(field: [u8; 2], old: Sum, new: Sum) -> [u8; 2] {
        Sum(!u16::from_ne_bytes(field)).minus(old).plus(new).field()
    }
}

/// The sum of a few bytes, such as a header.
#[inline]
pub fn sum_short(data: &[u8]) -> Sum {
    portable::sum_short(data)
}

/// One's-complement addition of 64 bits, with end-around carry.
#[inline(always)]
const fn add_carry(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u64
}

/// Fold 64 bits to 16. Adding the sum rotated by half of its bits leaves the sum of both halves,
/// with its carry, in the upper half. This is done twice. A sum that is not zero stays so.
#[inline(always)]
const fn fold(sum: u64) -> Sum {
    fold_u32((sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32)
}

/// Fold 32 bits to 16 in the same way.
#[inline(always)]
const fn fold_u32(sum: u32) -> Sum {
    Sum((sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16)
}

#[cfg(test)]
mod tests;
