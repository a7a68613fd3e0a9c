//! [`Decode`] and [`Decoder`]: turn bytes into values.
//!
//! Called by: the codec of messages, and the types that [`crate::xdr!`] makes. RFC 4506 section 4.

use super::padded;

/// Why bytes cannot be decoded as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The message ends before the value does.
    #[error("it is cut off: it has fewer bytes than it says")]
    Short,
    /// A boolean is neither 0 nor 1.
    #[error("a boolean in it is neither 0 nor 1")]
    Bool,
    /// An enumeration or a union has a value that its type does not define.
    #[error("an enumeration or union in it has a value that its type does not have")]
    Discriminant,
    /// An array, a string or opaque data is longer than its limit.
    #[error("an array or string in it is longer than its type allows")]
    TooLong,
    /// A string is not UTF-8.
    #[error("a string in it is not UTF-8")]
    NotText,
    /// Bytes are left after the value.
    #[error("there are bytes after its end")]
    Trailing,
}

/// A value that can be read from XDR; it may borrow from the message.
pub trait Decode<'a>: Sized {
    /// Take the value from the front of `from`.
    ///
    /// # Errors
    /// The bytes are not such a value.
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError>;
}

/// Takes values from the front of a message.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Begins at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { rest: bytes }
    }

    /// The bytes that were not taken yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Decode all of `bytes` as one value.
    ///
    /// # Errors
    /// The bytes are not such a value, or bytes are left after it.
    pub fn whole<T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
        let mut from = Decoder::new(bytes);
        let value = T::decode(&mut from)?;
        if from.rest.is_empty() { Ok(value) } else { Err(DecodeError::Trailing) }
    }

    /// Take the next `N` bytes.
    ///
    /// # Errors
    /// Fewer bytes are left.
    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(*array)
    }

    /// Take an unsigned integer.
    ///
    /// # Errors
    /// Fewer than four bytes are left.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Take `bytes` bytes and their padding (`opaque[bytes]`).
    ///
    /// # Errors
    /// Fewer bytes are left.
    #[inline]
    pub fn fixed(&mut self, bytes: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(padded(bytes)).ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(&taken[..bytes])
    }

    /// Take a length, and that many bytes with their padding (`opaque<most>`).
    ///
    /// # Errors
    /// The length is greater than `most`, or than the number of bytes left.
    #[inline]
    pub fn opaque(&mut self, most: usize) -> Result<&'a [u8], DecodeError> {
        let len = self.u32()? as usize;
        if len > most {
            return Err(DecodeError::TooLong);
        }
        self.fixed(len)
    }

    /// Take the number of elements of an array. Each element has at least four bytes.
    ///
    /// # Errors
    /// The bytes that are left cannot contain that many elements.
    pub(super) fn count(&mut self) -> Result<usize, DecodeError> {
        let count = self.u32()? as usize;
        if count > self.rest.len() / 4 { Err(DecodeError::Short) } else { Ok(count) }
    }
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl<'a> Decode<'a> for $type {
            #[inline]
            fn decode(from: &mut Decoder<'a>) -> Result<$type, DecodeError> {
                from.array().map(<$type>::from_be_bytes)
            }
        }
    )*};
}

numbers! { u32 i32 u64 i64 f32 f64 }

impl<'a> Decode<'a> for () {
    #[inline]
    fn decode(_: &mut Decoder<'a>) -> Result<(), DecodeError> {
        Ok(())
    }
}

impl<'a> Decode<'a> for bool {
    #[inline]
    fn decode(from: &mut Decoder<'a>) -> Result<bool, DecodeError> {
        match from.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Bool),
        }
    }
}

impl<'a> Decode<'a> for &'a str {
    fn decode(from: &mut Decoder<'a>) -> Result<&'a str, DecodeError> {
        core::str::from_utf8(from.opaque(usize::MAX)?).map_err(|_| DecodeError::NotText)
    }
}

impl<'a> Decode<'a> for String {
    fn decode(from: &mut Decoder<'a>) -> Result<String, DecodeError> {
        <&str>::decode(from).map(str::to_owned)
    }
}

impl<'a, const N: usize> Decode<'a> for [u8; N] {
    fn decode(from: &mut Decoder<'a>) -> Result<[u8; N], DecodeError> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(from.fixed(N)?);
        Ok(bytes)
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Vec<T> {
    fn decode(from: &mut Decoder<'a>) -> Result<Vec<T>, DecodeError> {
        let count = from.count()?;
        // Items may occupy more memory than they have bytes in the message, so do not allocate for
        // the whole count.
        let mut items = Vec::with_capacity(count.min(1 + from.rest.len() / size_of::<T>().max(4)));
        for _ in 0..count {
            items.push(T::decode(from)?);
        }
        Ok(items)
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    fn decode(from: &mut Decoder<'a>) -> Result<Option<T>, DecodeError> {
        bool::decode(from)?.then(|| T::decode(from)).transpose()
    }
}

macro_rules! tuples {
    ($(($($part:ident)*))*) => {$(
        impl<'a, $($part: Decode<'a>),*> Decode<'a> for ($($part,)*) {
            #[inline]
            fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
                Ok(($($part::decode(from)?,)*))
            }
        }
    )*};
}

tuples! { (A B) (A B C) (A B C D) }
