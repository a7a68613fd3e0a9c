//! Conversion between fields of a fixed-size header and native integers.
//!
//! Called by: the headers of this crate, with constant offsets into an array whose length is part
//! of its type, so that the compiler removes the bounds checks.

/// Big-endian 16 bits at `at`.
#[inline(always)]
pub(crate) const fn be16<const N: usize>(b: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}

/// Big-endian 32 bits at `at`.
#[inline(always)]
pub(crate) const fn be32<const N: usize>(b: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

/// `L` bytes at `at`.
#[inline(always)]
pub(crate) fn array<const N: usize, const L: usize>(b: &[u8; N], at: usize) -> [u8; L] {
    let mut out = [0; L];
    out.copy_from_slice(&b[at..at + L]);
    out
}

/// Stores bytes at `at`.
#[inline(always)]
pub(crate) fn put<const N: usize, const L: usize>(b: &mut [u8; N], at: usize, bytes: [u8; L]) {
    b[at..at + L].copy_from_slice(&bytes);
}
