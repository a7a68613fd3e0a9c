//! The fast form compared with the general one.

use proptest::prelude::*;

use super::super::rewrite::{Options, rewrite};
use super::super::samples::{Sample, Transport, samples};
use super::*;

proptest! {
    #[test]
    fn the_fast_form_does_what_the_general_one_does_or_refuses(
        (sample, to) in samples(),
        is_partial: bool,
    ) {
        let checksum = if is_partial { Checksum::PseudoHeader } else { Checksum::Whole };
        let before = sample.build();
        let mut fast = before.clone();
        let is_done = match (PlainV4::new(&sample.tuple, &to), PlainV6::new(&sample.tuple, &to)) {
            (Some(plain), None) => plain.apply(&mut fast, checksum),
            (None, Some(plain)) => plain.apply(&mut fast, checksum),
            _ => panic!("one version"),
        };
        let next_header = before[if sample.tuple.src.is_ipv6() { 6 } else { 9 }];
        let is_plain = sample.extras == 0 && matches!(next_header, TCP | UDP);
        let mut general = before.clone();
        let options = Options { checksum, ..Options::default() };
        prop_assert_eq!(rewrite(&mut general, &to, options), Ok(()));
        prop_assert!(is_done || !is_plain || (before[6] & 0x3f) | before[7] != 0);
        prop_assert_eq!(fast, if is_done { general } else { before });
    }

    #[test]
    fn short_packets_are_refused((sample, to) in samples(), len in 0..37usize) {
        let mut packet = sample.build();
        packet.truncate(len);
        let before = packet.clone();
        let is_done = PlainV4::new(&sample.tuple, &to)
            .is_some_and(|plain| plain.apply(&mut packet, Checksum::Whole))
            || PlainV6::new(&sample.tuple, &to)
                .is_some_and(|plain| plain.apply(&mut packet, Checksum::Whole));
        prop_assert!(!is_done || (before[9] == UDP && len >= 28));
        prop_assert!(is_done || packet == before);
    }
}

#[test]
fn a_computed_udp_checksum_of_zero_is_all_ones() {
    let tuple = |src: &str, dst: &str| Tuple {
        src: src.parse().expect("an address"),
        dst: dst.parse().expect("an address"),
        protocol: UDP,
        src_port: 5_000,
        dst_port: 53,
    };
    let versions = [
        (tuple("10.0.0.1", "192.0.2.1"), tuple("203.0.113.9", "192.0.2.1"), 26),
        (tuple("fd00::1", "2001:db8::1"), tuple("2001:db8:7::9", "2001:db8::1"), 46),
    ];
    for (from, to, at) in versions {
        let sample = |last: u16| {
            Sample::of(from, Transport::Udp { has_checksum: true }, &last.to_be_bytes())
        };
        let is_zero = |last: &u16| sample(*last).with(to).build()[at..at + 2] == [0xff; 2];
        let last = (0..=u16::MAX).find(is_zero).expect("a payload with a sum of zero");
        let mut packet = sample(last).build();
        let v4 = PlainV4::new(&from, &to).map(|p| p.apply(&mut packet, Checksum::Whole));
        let v6 = PlainV6::new(&from, &to).map(|p| p.apply(&mut packet, Checksum::Whole));
        assert_eq!(v4.or(v6), Some(true));
        assert_eq!(packet, sample(last).with(to).build());
    }
}
