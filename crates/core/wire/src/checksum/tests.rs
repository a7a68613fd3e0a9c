//! Every rung is compared with the byte rung, and the byte rung with the definition.

use super::{Ladder, Sum};
use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;

/// Pseudo-random bytes, the same for each seed.
fn noise(len: usize, mut seed: u64) -> Vec<u8> {
    (0..len)
        .map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            (seed >> 56) as u8
        })
        .collect()
}

/// The definition in wide integers and network byte order, independent of the crate's code.
fn by_definition(data: &[u8]) -> u16 {
    let mut total: u128 = 0;
    for (i, &b) in data.iter().enumerate() {
        total += u128::from(b) << if i % 2 == 0 { 8 } else { 0 };
    }
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

fn check_all(data: &[u8], to_offset: usize) {
    let expected = Sum(by_definition(data).to_be());
    let mut to = vec![0xa5u8; data.len() + to_offset + 40];
    for rung in Ladder::available() {
        assert_eq!(rung.sum(data), expected, "{rung:?} sum of {}", data.len());
        for fused in [true, false] {
            to.fill(0xa5);
            let dst = &mut to[to_offset..];
            let sum = if fused { rung.copy_sum(data, dst) } else { rung.copy_then_sum(data, dst) };
            assert_eq!(sum, expected, "{rung:?} copy_sum of {}", data.len());
            assert_eq!(&dst[..data.len()], data, "{rung:?} copy of {}", data.len());
            assert!(dst[data.len()..].iter().all(|&b| b == 0xa5), "{rung:?} wrote past the end");
            assert!(to[..to_offset].iter().all(|&b| b == 0xa5), "{rung:?} wrote before the start");
        }
    }
}

#[test]
fn the_example_of_rfc_1071_section_3() {
    let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    for rung in Ladder::available() {
        assert_eq!(rung.sum(&data), Sum(0xddf2u16.to_be()));
    }
}

#[test]
fn a_word_and_two_sums_are_the_sum_of_all_their_bytes() {
    for word in [0, 1, 0xffff, 0x1_0000, 0xffff_0000, 0xfffe_ffff, u32::MAX, 0x1234_5678] {
        for a in [0, 1, 0x7fff, 0xfffe, 0xffff] {
            for b in [0, 1, 0x8000, 0xffff] {
                let whole = Sum::from_u64s([word.into(), a.into(), b.into()]);
                assert_eq!(Sum(a).plus_and_word(Sum(b), word), whole, "{word:x} {a:x} {b:x}");
            }
        }
    }
}

#[test]
fn every_rung_at_every_length_and_alignment() {
    let data = noise(512, 1);
    for len in 0..=300 {
        for at in 0..64 {
            check_all(&data[at..at + len], (at * 7 + len) % 64);
        }
    }
}

/// Also for data shorter than what the ladder gives to these rungs.
#[cfg(target_arch = "x86_64")]
#[test]
fn vector_sums_and_copies_at_every_length_and_alignment() {
    use super::{avx2, avx512};
    let data = noise(700, 2);
    let mut to = [0xa5; 700];
    for len in (0..=330).chain([447, 448, 511, 512, 513, 575, 600]) {
        for at in 0..64 {
            let from = &data[at..at + len];
            let expected = Ladder::Byte.sum(from);
            for sum in [avx2::sum(from), avx512::sum(from)].into_iter().flatten() {
                assert_eq!(sum, expected, "{len} bytes at {at}");
            }
            to.fill(0xa5);
            let to_at = (at * 7 + len) % 64;
            let Some(sum) = avx2::copy_sum(from, &mut to[to_at..]) else { continue };
            assert_eq!(sum, expected, "{len} bytes at {at} to {to_at}");
            assert_eq!(&to[to_at..to_at + len], from, "{len} bytes at {at} to {to_at}");
            let beside = to[..to_at].iter().chain(&to[to_at + len..]);
            assert!(beside.copied().all(|b| b == 0xa5), "{len} bytes at {at} to {to_at}");
        }
    }
}

#[test]
fn every_rung_on_ones_zeros_and_long_data() {
    for len in [
        0,
        1,
        2,
        31,
        64,
        127,
        1448,
        1460,
        4095,
        8192,
        16_384,
        65_535,
        65_536,
        100_001,
        1 << 19,
        (3 << 19) + 77,
    ] {
        check_all(&vec![0xff; len], 0);
        check_all(&vec![0x00; len], 0);
        check_all(&noise(len, len as u64), 1);
    }
}

#[test]
fn sums_that_wrap_as_often_and_as_rarely_as_can_be() {
    // The AVX2 rung estimates its wraps: words with the worst rounding, at its maximum length.
    for word in [
        [0xffu8; 8],
        0x0000_ffff_ffff_ffffu64.to_le_bytes(),
        0x0001_0000_0000_0000u64.to_le_bytes(),
        0xffff_0000_0000_0000u64.to_le_bytes(),
        0x8000_0000_0000_0000u64.to_le_bytes(),
        0x7fff_ffff_ffff_ffffu64.to_le_bytes(),
    ] {
        for len in [128, 4096, 65_536, 1 << 19] {
            let mut data = word.repeat(len / 8);
            check_all(&data, 0);
            // Alternating with zeros makes every average round up.
            data.chunks_mut(32).step_by(2).for_each(|vector| vector.fill(0));
            check_all(&data, 0);
        }
    }
}

#[test]
fn copies_at_every_distance_modulo_a_page() {
    let data = noise(3 * 4096, 9);
    for distance in (0..4096).step_by(97) {
        check_all(&data[..5000], distance);
        check_all(&data[13..9013], distance);
    }
}

#[test]
fn a_missing_instruction_set_is_no_danger() {
    // Code may construct this rung on any machine, and it must compute the right sum.
    let data = noise(1000, 3);
    for rung in [Ladder::Avx2, Ladder::Avx512] {
        assert_eq!(rung.sum(&data), Ladder::Byte.sum(&data));
        assert_eq!(rung.copy_sum(&data, &mut [0; 1000]), Ladder::Byte.sum(&data));
    }
    assert!(Ladder::available().any(|rung| rung == Ladder::best()));
}

#[test]
#[should_panic(expected = "destination shorter")]
fn a_short_destination_is_a_bad_programmer() {
    Ladder::best().copy_sum(&[0; 100], &mut [0; 99]);
}

#[test]
fn pseudo_headers_equal_the_bytes_they_stand_for() {
    let (a, b) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(255, 255, 255, 254));
    let bytes = [&a.octets()[..], &b.octets(), &[0, 6]].concat();
    assert_eq!(Sum::pseudo_v4(a, b, 6), Ladder::Byte.sum(&bytes));
    let (a, b) = (Ipv6Addr::from_bits(0x2001_0db8 << 96 | 0xffff), Ipv6Addr::from_bits(u128::MAX));
    let bytes = [&a.octets()[..], &b.octets(), &[0, 17]].concat();
    assert_eq!(Sum::pseudo_v6(a, b, 17), Ladder::Byte.sum(&bytes));
}

proptest! {
    #[test]
    fn rungs_agree(data in prop::collection::vec(any::<u8>(), 0..3000), to in 0usize..64) {
        check_all(&data, to);
    }

    #[test]
    fn a_sum_is_the_sum_of_its_parts(
        data in prop::collection::vec(any::<u8>(), 1..600), cut in any::<prop::sample::Index>(),
    ) {
        let cut = cut.index(data.len());
        let (a, b) = data.split_at(cut);
        for rung in Ladder::available() {
            let whole = rung.sum(&data);
            prop_assert_eq!(rung.sum(a).plus_at(rung.sum(b), cut), whole);
            let rest = whole.minus(Sum::ZERO.plus_at(rung.sum(b), cut));
            prop_assert_eq!(rest.0 % 0xffff, rung.sum(a).0 % 0xffff);
        }
    }

    #[test]
    fn a_field_makes_a_packet_whole_and_an_update_keeps_it_so(
        mut data in prop::collection::vec(any::<u8>(), 2..200), new in any::<[u8; 2]>(),
    ) {
        data.extend([0; 4]);
        let even = data.len() & !1;
        data.truncate(even);
        let at = even - 4;
        data[at..at + 2].fill(0);
        let field = Ladder::Byte.sum(&data).field();
        data[at..at + 2].copy_from_slice(&field);
        prop_assert!(Ladder::best().sum(&data).is_whole());
        let old = Sum(u16::from_ne_bytes([data[0], data[1]]));
        data[..2].copy_from_slice(&new);
        let field = Sum::updated(field, old, Sum(u16::from_ne_bytes(new)));
        data[at..at + 2].copy_from_slice(&field);
        // All-zero data with an all-zero field is the only case that sums to 0.
        prop_assert!(Ladder::best().sum(&data).is_whole() || data.iter().all(|&b| b == 0));
    }

    #[test]
    fn registers_sum_as_memory_does(words in any::<[u64; 5]>()) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        prop_assert_eq!(Sum::from_u64s(words), Ladder::Byte.sum(&bytes));
        let first = u16::from_be_bytes([bytes[0], bytes[1]]);
        prop_assert_eq!(Sum::of_be16(first), Ladder::Byte.sum(&bytes[..2]));
    }
}

#[test]
fn work_has_the_same_result_on_every_rung() {
    let (a, b) = (noise(96, 1), noise(96, 2));
    let different = || a.iter().zip(&b).fold(0, |all, (a, b)| all | (a ^ b));
    for rung in Ladder::available() {
        assert_eq!(rung.run(different), different(), "{rung:?}");
    }
}
