//! Clocks of pcapng, from seconds to the smallest units that the format can write.

use super::*;

/// The time in ns of a packet of an interface that has these options.
fn time(options: &[u8], units: u64) -> u64 {
    let file = [section(&[]), interface(options), packet(units, 20, &[])].concat();
    let (packets, said) = read(&file);
    assert_eq!((packets.len(), said), (1, None));
    packets[0].time_ns
}

fn resolution(value: u8) -> Vec<u8> {
    option(9, &[value])
}

#[test]
fn a_clock_has_units_from_seconds_to_the_smallest() {
    const HALF_NS: u64 = 1_700_000_000_500_000_000;
    assert_eq!(time(&[], HALF_NS / 1_000), HALF_NS);
    for (value, units) in [
        (0, 1_700_000_000),
        (6, HALF_NS / 1_000),
        (9, HALF_NS),
        (0x80, 1_700_000_000),
        (0x81, 3_400_000_001),
        (0xa0, 1_700_000_000 << 32 | 1 << 31),
    ] {
        let expected = if value & 0x7f == 0 { HALF_NS - 500_000_000 } else { HALF_NS };
        assert_eq!(time(&resolution(value), units), expected, "{value:#x}");
    }
    assert_eq!(time(&resolution(12), 1_700_000_500_000_000_000), 1_700_000_500_000_000);
    // 2^64 units of 2^-64 s are a second; 2^64 units of 10^-28 s are less than 2 ns; with smaller
    // units the result is 0.
    assert_eq!(time(&resolution(0xc0), u64::MAX), 999_999_999);
    assert_eq!(time(&resolution(28), u64::MAX), 1);
    for value in [29, 47, 48, 0x7f, 0xff] {
        assert_eq!(time(&resolution(value), u64::MAX), 0, "{value:#x}");
    }
}

#[test]
fn a_time_that_does_not_fit_is_the_nearest_that_does() {
    assert_eq!(time(&resolution(0), u64::MAX), u64::MAX);
    assert_eq!(time(&resolution(0x80), 1 << 40), u64::MAX);
    let with = |offset_s: i64| [resolution(0), option(14, &offset_s.to_le_bytes())].concat();
    assert_eq!(time(&with(5), 7), 12_000_000_000);
    assert_eq!(time(&with(-5), 7), 2_000_000_000);
    assert_eq!(time(&with(-5), 4), 0);
    assert_eq!(time(&with(i64::MIN), 4), 0);
    assert_eq!(time(&with(i64::MAX), u64::MAX), u64::MAX);
}

#[test]
fn the_first_of_two_clocks_counts_and_one_of_another_size_does_not() {
    let twice = [resolution(0), resolution(9)].concat();
    assert_eq!(time(&twice, 3), 3_000_000_000);
    assert_eq!(time(&option(9, &[0, 0]), 3), 3_000);
    assert_eq!(time(&option(14, &[1]), 3), 3_000);
}
