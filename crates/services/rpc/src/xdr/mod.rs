//! XDR (RFC 4506): how values are encoded in messages, in big-endian units of four bytes.
//!
//! Called by: all files of the crate, and programs, whose own types get [`Encode`] and [`Decode`]
//! by [`crate::xdr!`]. Values are appended to a buffer once; decoded values may borrow from the
//! message. Before anything is allocated, a length in a message is compared with the number of
//! bytes that are there. Padding may have any value, as in other decoders.

mod decode;
mod encode;
mod macros;

pub use decode::{Decode, DecodeError, Decoder};
pub use encode::Encode;
pub(crate) use encode::{put_opaque, put_u32};

#[cfg(test)]
mod tests;

/// The number of bytes that `bytes` bytes occupy with their padding.
pub(crate) const fn padded(bytes: usize) -> usize {
    bytes.saturating_add(3) & !3
}

/// `opaque<>`, borrowed: decoding copies nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Opaque<'a>(pub &'a [u8]);

impl Encode for Opaque<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_opaque(out, self.0);
    }
}

impl<'a> Decode<'a> for Opaque<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Opaque<'a>, DecodeError> {
        from.opaque(usize::MAX).map(Opaque)
    }
}

/// `opaque<>`, owned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bytes(pub Vec<u8>);

impl Encode for Bytes {
    fn encode(&self, out: &mut Vec<u8>) {
        put_opaque(out, &self.0);
    }
}

impl<'a> Decode<'a> for Bytes {
    fn decode(from: &mut Decoder<'a>) -> Result<Bytes, DecodeError> {
        from.opaque(usize::MAX).map(|bytes| Bytes(bytes.to_vec()))
    }
}

/// A value with at most `MAX` bytes or elements: `opaque<MAX>`, `string<MAX>`, `T<MAX>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bounded<T, const MAX: u32>(pub T);

impl<T: Encode, const MAX: u32> Encode for Bounded<T, MAX> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

impl<'a, T: Decode<'a>, const MAX: u32> Decode<'a> for Bounded<T, MAX> {
    fn decode(from: &mut Decoder<'a>) -> Result<Bounded<T, MAX>, DecodeError> {
        let mut ahead = *from;
        if ahead.u32()? > MAX {
            return Err(DecodeError::TooLong);
        }
        T::decode(from).map(Bounded)
    }
}

/// A linked list, `struct item { T value; item *next; } *`: a 1 in front of each item, a 0 at the
/// end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List(Vec::new())
    }
}

impl<T: Encode> Encode for List<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        for item in &self.0 {
            true.encode(out);
            item.encode(out);
        }
        false.encode(out);
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for List<T> {
    fn decode(from: &mut Decoder<'a>) -> Result<List<T>, DecodeError> {
        let mut items = Vec::new();
        while bool::decode(from)? {
            items.push(T::decode(from)?);
        }
        Ok(List(items))
    }
}
