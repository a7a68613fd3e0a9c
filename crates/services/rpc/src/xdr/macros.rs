//! [`xdr!`](crate::xdr): defines types, in Rust's syntax, together with their XDR encoding.
//!
//! Called by: programs, and this crate for the messages of the port mapper.

/// Define structures, enumerations and unions with their XDR encoding. Fields are encoded in their
/// order.
///
/// ```
/// wirespeed_rpc::xdr! {
///     /// A point.
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     pub struct Point { pub x: i32, pub y: i32 }
///
///     /// A structure that borrows from the message.
///     pub struct Named<'a> { pub name: &'a str, pub at: Point }
///
///     /// An enumeration: other numbers are refused.
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     pub enum Colour { Red = 0, Green = 1 }
///
///     /// A union with a number in front; an arm without a type is void.
///     #[derive(Clone, Debug, PartialEq)]
///     pub union Found { 0 => At(Point), 1 => Nothing }
/// }
/// use wirespeed_rpc::xdr::{Decoder, Encode};
/// let mut bytes = Vec::new();
/// Found::At(Point { x: 1, y: -1 }).encode(&mut bytes);
/// assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 1, 255, 255, 255, 255]);
/// assert_eq!(Decoder::whole(&bytes), Ok(Found::At(Point { x: 1, y: -1 })));
/// ```
#[macro_export]
macro_rules! xdr {
    () => {};
    ($(#[$meta:meta])* $vis:vis struct $name:ident<$life:lifetime> {
        $($(#[$note:meta])* $see:vis $field:ident: $type:ty),* $(,)?
    } $($more:tt)*) => {
        $(#[$meta])* $vis struct $name<$life> { $($(#[$note])* $see $field: $type),* }
        impl<$life> $crate::xdr::Encode for $name<$life> {
            fn encode(&self, out: &mut Vec<u8>) {
                $($crate::xdr::Encode::encode(&self.$field, out);)*
            }
        }
        impl<$life> $crate::xdr::Decode<$life> for $name<$life> {
            fn decode(
                from: &mut $crate::xdr::Decoder<$life>,
            ) -> Result<Self, $crate::xdr::DecodeError> {
                Ok($name { $($field: $crate::xdr::Decode::decode(from)?),* })
            }
        }
        $crate::xdr! { $($more)* }
    };
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$note:meta])* $see:vis $field:ident: $type:ty),* $(,)?
    } $($more:tt)*) => {
        $(#[$meta])* $vis struct $name { $($(#[$note])* $see $field: $type),* }
        impl $crate::xdr::Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                $($crate::xdr::Encode::encode(&self.$field, out);)*
            }
        }
        impl<'message> $crate::xdr::Decode<'message> for $name {
            fn decode(
                from: &mut $crate::xdr::Decoder<'message>,
            ) -> Result<Self, $crate::xdr::DecodeError> {
                Ok($name { $($field: $crate::xdr::Decode::decode(from)?),* })
            }
        }
        $crate::xdr! { $($more)* }
    };
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$note:meta])* $variant:ident = $value:expr),* $(,)?
    } $($more:tt)*) => {
        $(#[$meta])* #[repr(u32)] $vis enum $name { $($(#[$note])* $variant = $value),* }
        impl $crate::xdr::Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                let value: u32 = match self { $($name::$variant => $value),* };
                $crate::xdr::Encode::encode(&value, out);
            }
        }
        impl<'message> $crate::xdr::Decode<'message> for $name {
            fn decode(
                from: &mut $crate::xdr::Decoder<'message>,
            ) -> Result<Self, $crate::xdr::DecodeError> {
                let value = from.u32()?;
                $(if value == $value { return Ok($name::$variant); })*
                Err($crate::xdr::DecodeError::Discriminant)
            }
        }
        $crate::xdr! { $($more)* }
    };
    ($(#[$meta:meta])* $vis:vis union $name:ident {
        $($(#[$note:meta])* $value:expr => $variant:ident $(($type:ty))?),* $(,)?
    } $($more:tt)*) => {
        $(#[$meta])* $vis enum $name { $($(#[$note])* $variant $(($type))?),* }
        impl $crate::xdr::Encode for $name {
            #[allow(irrefutable_let_patterns, reason = "a union may have one arm")]
            fn encode(&self, out: &mut Vec<u8>) {
                $($crate::xdr! { @arm self, out, $name, $value, $variant $(($type))? })*
            }
        }
        impl<'message> $crate::xdr::Decode<'message> for $name {
            fn decode(
                from: &mut $crate::xdr::Decoder<'message>,
            ) -> Result<Self, $crate::xdr::DecodeError> {
                let value = from.u32()?;
                $(if value == $value {
                    return Ok($name::$variant $((<$type as $crate::xdr::Decode>::decode(from)?))?);
                })*
                Err($crate::xdr::DecodeError::Discriminant)
            }
        }
        $crate::xdr! { $($more)* }
    };
    (@arm $self:ident, $out:ident, $name:ident, $value:expr, $variant:ident ($type:ty)) => {
        if let $name::$variant(inner) = $self {
            $crate::xdr::Encode::encode(&($value as u32), $out);
            $crate::xdr::Encode::encode(inner, $out);
        }
    };
    (@arm $self:ident, $out:ident, $name:ident, $value:expr, $variant:ident) => {
        if let $name::$variant = $self {
            $crate::xdr::Encode::encode(&($value as u32), $out);
        }
    };
}
