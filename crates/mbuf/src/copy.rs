//! Copies of payload.
//!
//! Called by: who takes data in or hands it out. Past a few kilobytes the C library copies with
//! one string instruction (`rep movsb`), which costs a tenth more here than the same in pieces.

/// A piece: short of where the string instruction takes over, and no power of two.
const PIECE: usize = 4032;

/// Copy `from` to `to`.
///
/// # Panics
/// If they differ in length.
#[inline(always)]
pub fn copy(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "a copy has one length");
    let mut done = 0;
    while from.len() - done > PIECE {
        to[done..done + PIECE].copy_from_slice(&from[done..done + PIECE]);
        done += PIECE;
    }
    to[done..].copy_from_slice(&from[done..]);
}
