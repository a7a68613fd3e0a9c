//! [`Encode`]: turns values into bytes.
//!
//! Called by: the codec of messages, and the types that [`crate::xdr!`] makes. RFC 4506 section 4.

use super::padded;

/// A value that can be written as XDR.
pub trait Encode {
    /// Append the value to `out`, in a multiple of four bytes.
    ///
    /// # Panics
    /// Something in the value is longer than 4 GB, which XDR cannot express.
    fn encode(&self, out: &mut Vec<u8>);
}

/// Append an unsigned integer (RFC 4506 section 4.2).
#[inline]
pub(crate) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Append the number of elements or bytes that follow.
#[inline]
pub(super) fn put_len(out: &mut Vec<u8>, len: usize) {
    assert!(u32::try_from(len).is_ok(), "XDR has no lengths above 4 GB; send less");
    put_u32(out, len as u32);
}

// RFC 4506 3-a: all items are multiples of four bytes.
/// Append bytes and their padding, without a length.
#[inline]
pub(super) fn put_fixed(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.extend_from_slice(&[0; 3][..padded(bytes.len()) - bytes.len()]);
}

// RFC 4506 4-a: the length is in front.
/// Append a length, bytes and their padding.
#[inline]
pub(crate) fn put_opaque(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    put_fixed(out, bytes);
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Encode for $type {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}

numbers! { u32 i32 u64 i64 f32 f64 }

/// Nothing (`void`).
impl Encode for () {
    #[inline]
    fn encode(&self, _: &mut Vec<u8>) {}
}

impl Encode for bool {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        put_u32(out, u32::from(*self));
    }
}

/// `string<>`.
impl Encode for str {
    fn encode(&self, out: &mut Vec<u8>) {
        put_opaque(out, self.as_bytes());
    }
}

/// `string<>`.
impl Encode for String {
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_str().encode(out);
    }
}

/// `opaque[N]`.
impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, out: &mut Vec<u8>) {
        put_fixed(out, self);
    }
}

/// `T<>`.
impl<T: Encode> Encode for [T] {
    fn encode(&self, out: &mut Vec<u8>) {
        put_len(out, self.len());
        self.iter().for_each(|item| item.encode(out));
    }
}

/// `T<>`.
impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_slice().encode(out);
    }
}

/// `T *`, optional data.
impl<T: Encode> Encode for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        self.iter().for_each(|value| value.encode(out));
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
}

macro_rules! tuples {
    ($(($($part:ident)*))*) => {$(
        /// The parts in their order, as a structure.
        impl<$($part: Encode),*> Encode for ($($part,)*) {
            #[inline]
            #[allow(non_snake_case, reason = "the parts are called as their types")]
            fn encode(&self, out: &mut Vec<u8>) {
                let ($($part,)*) = self;
                $($part.encode(out);)*
            }
        }
    )*};
}

tuples! { (A B) (A B C) (A B C D) }
