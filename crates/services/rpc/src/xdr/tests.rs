//! Properties of XDR: what was encoded is decoded again, and lengths that lie allocate nothing.

use proptest::prelude::*;

use super::{Bounded, Bytes, Decode, DecodeError, Decoder, Encode, List, Opaque};

crate::xdr! {
    #[derive(Clone, Debug, PartialEq)]
    struct Sample {
        a: u32,
        b: i64,
        c: bool,
        d: f64,
        e: Bytes,
        f: String,
        g: Option<u32>,
        h: Vec<i32>,
        i: List<u64>,
        j: [u8; 5],
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Colour { Red = 0, Blue = 7 }

    #[derive(Clone, Debug, PartialEq)]
    union Either { 0 => Number(u32), 1 => Nothing }
}

fn bytes_of(value: &impl Encode) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut out);
    out
}

prop_compose! {
    fn sample()(
        a: u32, b: i64, c: bool, d in any::<f64>().prop_filter("a number", |d| !d.is_nan()),
        e: Vec<u8>, f in ".{0,20}", g: Option<u32>, h: Vec<i32>, i: Vec<u64>, j: [u8; 5],
    ) -> Sample {
        Sample { a, b, c, d, e: Bytes(e), f, g, h, i: List(i), j }
    }
}

proptest! {
    // RFC 4506 3-a: all items are multiples of four bytes.
    #[test]
    fn what_was_written_is_read_again(sample in sample()) {
        let bytes = bytes_of(&sample);
        prop_assert_eq!(bytes.len() % 4, 0);
        prop_assert_eq!(Decoder::whole(&bytes), Ok(sample));
        let short = Decoder::whole::<Sample>(&bytes[..bytes.len() - 4]);
        prop_assert_eq!(short, Err(DecodeError::Short));
        let long = [bytes.as_slice(), &[0; 4]].concat();
        prop_assert_eq!(Decoder::whole::<Sample>(&long), Err(DecodeError::Trailing));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        let _ = Decoder::whole::<Sample>(&bytes);
        let _ = Decoder::whole::<Vec<[u8; 64]>>(&bytes);
        let _ = Decoder::whole::<List<Bounded<String, 9>>>(&bytes);
    }
}

// RFC 4506 4-a: opaque data has a length in front and zeros behind, to a multiple of four.
#[test]
fn bytes_are_those_of_the_rfc() {
    assert_eq!(bytes_of(&Opaque(b"sillyprog")), *b"\0\0\0\x09sillyprog\0\0\0");
    assert_eq!(bytes_of(&[1_u8, 2, 3, 4, 5]), [1, 2, 3, 4, 5, 0, 0, 0]);
    assert_eq!(bytes_of(&-2_i32), [255, 255, 255, 254]);
    assert_eq!(bytes_of(&1_u64), [0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(bytes_of(&Some(5_u32)), [0, 0, 0, 1, 0, 0, 0, 5]);
    assert_eq!(bytes_of(&Colour::Blue), [0, 0, 0, 7]);
    assert_eq!(bytes_of(&Either::Nothing), [0, 0, 0, 1]);
    assert_eq!(bytes_of(&List(vec![2_u32])), [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0]);
}

#[test]
fn values_that_a_type_does_not_have_are_refused() {
    let word = |n: u32| n.to_be_bytes();
    assert_eq!(Decoder::whole::<bool>(&word(2)), Err(DecodeError::Bool));
    assert_eq!(Decoder::whole::<Colour>(&word(1)), Err(DecodeError::Discriminant));
    assert_eq!(Decoder::whole::<Either>(&word(2)), Err(DecodeError::Discriminant));
    let text = bytes_of(&Opaque(&[0xff]));
    assert_eq!(Decoder::whole::<String>(&text), Err(DecodeError::NotText));
    let ten = bytes_of(&Opaque(&[0; 10]));
    assert_eq!(Decoder::whole::<Bounded<Bytes, 9>>(&ten), Err(DecodeError::TooLong));
    assert!(Decoder::whole::<Bounded<Bytes, 10>>(&ten).is_ok());
}

#[test]
fn a_length_that_lies_allocates_nothing() {
    let lie = u32::MAX.to_be_bytes();
    assert_eq!(Vec::<u32>::decode(&mut Decoder::new(&lie)), Err(DecodeError::Short));
    assert_eq!(Decoder::whole::<Bytes>(&lie), Err(DecodeError::Short));
    assert_eq!(Decoder::whole::<Vec<()>>(&lie), Err(DecodeError::Short));
}
