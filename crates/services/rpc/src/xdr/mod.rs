//! XDR (RFC 4506): how values are laid out in messages, in big-endian units of four bytes.
//!
//! Called by: all files of the crate, and programs, whose own types get [`Encode`] and [`Decode`]
//! by [`crate::xdr!`]. Values are appended to a buffer once; what is decoded may borrow from the
//! message. A length that a message claims is compared with the bytes that are there before
//! anything is allocated. Padding may have any value, as in other decoders.

mod decode;
mod encode;
mod macros;
mod types;

pub use decode::{Decode, DecodeError, Decoder};
pub use encode::Encode;
pub use types::{Bounded, Bytes, List, Opaque};

pub(crate) use encode::{put_opaque, put_u32};

#[cfg(test)]
mod tests;

/// The bytes of `bytes` bytes with their padding.
pub(crate) const fn padded(bytes: usize) -> usize {
    bytes.saturating_add(3) & !3
}
