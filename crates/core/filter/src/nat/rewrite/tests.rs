//! Rewriting compared with packets that were built with the new tuple.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::samples::{Part, Sample, Transport, samples, tuples};
use super::*;

const NONE: Options = Options { checksum: Checksum::Whole, identification: None, is_chain: false };

fn tuple(src: &str, src_port: u16, dst: &str, dst_port: u16) -> Tuple {
    let addr = |text: &str| text.parse().expect("an address");
    Tuple { src: addr(src), dst: addr(dst), protocol: protocol::UDP, src_port, dst_port }
}

proptest! {
    #[test]
    fn a_rewritten_packet_is_the_one_built_with_the_new_tuple((sample, to) in samples()) {
        let mut packet = sample.build();
        prop_assert_eq!(rewrite(&mut packet, &to, NONE), Ok(()));
        prop_assert_eq!(packet, sample.with(to).build());
    }

    #[test]
    fn rewriting_back_gives_the_original_bytes((sample, to) in samples()) {
        let original = sample.build();
        let mut packet = original.clone();
        prop_assert_eq!(rewrite(&mut packet, &to, NONE), Ok(()));
        prop_assert_eq!(rewrite(&mut packet, &sample.tuple, NONE), Ok(()));
        prop_assert_eq!(packet, original);
    }

    #[test]
    fn the_identification_is_rewritten_with_its_checksum((sample, to) in samples(), id: u16) {
        let mut packet = sample.build();
        let options = Options { identification: Some(id), ..NONE };
        prop_assert_eq!(rewrite(&mut packet, &to, options), Ok(()));
        let expected = Sample { id, ..sample.clone() };
        prop_assert_eq!(packet, expected.with(to).build());
    }

    #[test]
    fn a_wrong_checksum_stays_wrong((sample, to) in samples(), error in 1..0xffff_u16) {
        let mut packet = sample.build();
        let at = match (&sample.transport, sample.part, sample.tuple.src.is_ipv4()) {
            (Transport::Tcp { .. }, Part::Whole, true) => 20 + sample.extras * 4 + 16,
            _ => return Ok(()),
        };
        let old = Sum(u16::from_ne_bytes([packet[at], packet[at + 1]]));
        packet[at..at + 2].copy_from_slice(&old.plus(Sum(error)).0.to_ne_bytes());
        prop_assert_eq!(rewrite(&mut packet, &to, NONE), Ok(()));
        let right = sample.with(to).build();
        let by = Sum(u16::from_ne_bytes([right[at], right[at + 1]])).plus(Sum(error)).0;
        let is = u16::from_ne_bytes([packet[at], packet[at + 1]]);
        prop_assert_eq!(is % 0xffff, by % 0xffff);
    }

    #[test]
    fn a_partial_sum_changes_by_the_addresses_alone(
        (from, to) in tuples(),
        is_tcp: bool,
        payload in vec(any::<u8>(), 0..50),
    ) {
        let transport = match is_tcp {
            true => Transport::Tcp { fixed: [3; 12], options: vec![] },
            false => Transport::Udp { has_checksum: true },
        };
        let (at, header) = if is_tcp { (16, 20) } else { (6, 8) };
        let at = at + if from.src.is_ipv6() { 40 } else { 20 };
        let sample = Sample::of(from, transport, &payload).with(from);
        let partial = |sample: &Sample| {
            let len = Sum::of_be16((header + payload.len()) as u16);
            let mut packet = sample.build();
            packet[at..at + 2].copy_from_slice(&sample.pseudo().plus(len).0.to_ne_bytes());
            packet
        };
        let mut packet = partial(&sample);
        let options = Options { checksum: Checksum::PseudoHeader, ..NONE };
        prop_assert_eq!(rewrite(&mut packet, &sample.with(to).tuple, options), Ok(()));
        prop_assert_eq!(packet, partial(&sample.with(to)));
    }

    #[test]
    fn no_bytes_panic_and_refused_ones_stay(
        mut bytes in vec(any::<u8>(), 0..120),
        first in prop_oneof![Just(0x45_u8), Just(0x46), Just(0x60), any::<u8>()],
        (_, to) in tuples(),
    ) {
        if let Some(byte) = bytes.first_mut() {
            *byte = first;
        }
        let len = bytes.len() as u16;
        if let (0x40..0x50, Some(field)) = (first, bytes.get_mut(2..4)) {
            field.copy_from_slice(&len.to_be_bytes());
        }
        if let (0x60, Some(field)) = (first, bytes.get_mut(4..6)) {
            field.copy_from_slice(&len.saturating_sub(40).to_be_bytes());
        }
        let before = bytes.clone();
        if rewrite(&mut bytes, &to, NONE).is_err() {
            prop_assert_eq!(bytes, before);
        }
    }

    #[test]
    fn a_packet_may_continue_in_other_buffers((sample, to) in samples(), cut in 0..200usize) {
        let whole = sample.build();
        let least = if sample.tuple.src.is_ipv6() { 96 } else { 20 + sample.extras * 4 + 60 };
        let len = whole.len().saturating_sub(cut).max(least.min(whole.len()));
        let mut packet = whole[..len].to_vec();
        let options = Options { is_chain: true, ..NONE };
        prop_assert_eq!(rewrite(&mut packet, &to, options), Ok(()));
        prop_assert_eq!(&packet, &sample.with(to).build()[..len]);
    }

    #[test]
    fn a_truncated_packet_is_refused((sample, to) in samples(), cut in 1..200usize) {
        let mut packet = sample.build();
        packet.truncate(packet.len() - sample.padding);
        packet.truncate(packet.len().saturating_sub(cut));
        let before = packet.clone();
        prop_assert_eq!(rewrite(&mut packet, &to, NONE), Err(DropReason::FilterMalformed));
        prop_assert_eq!(packet, before);
    }
}

#[test]
fn a_packet_of_the_other_version_is_refused() {
    let (v4, v6) = (tuple("10.0.0.1", 1, "10.0.0.2", 2), tuple("fd00::1", 1, "fd00::2", 2));
    let udp = Transport::Udp { has_checksum: true };
    let mut packet = Sample::of(v4, udp, b"data").build();
    assert_eq!(rewrite(&mut packet, &v6, NONE), Err(DropReason::FilterMalformed));
}

#[test]
fn a_routing_header_with_segments_left_is_refused() {
    let from = tuple("fd00::1", 5000, "2001:db8::1", 53);
    let udp = Transport::Udp { has_checksum: true };
    let mut packet = Sample { extras: 2, ..Sample::of(from, udp, b"data") }.build();
    packet[40] = protocol::ROUTING;
    packet[48 + 2] = 0;
    let (mut on, mut at_end) = (packet.clone(), packet);
    on[48 + 3] = 1;
    at_end[48 + 3] = 0;
    assert_eq!(rewrite(&mut on, &from, NONE), Err(DropReason::FilterMalformed));
    assert_eq!(rewrite(&mut at_end, &from, NONE), Ok(()));
}

#[test]
fn a_packet_that_ends_in_its_header_is_refused() {
    let from = tuple("10.0.0.1", 0, "192.0.2.1", 0);
    let mut packet = Sample::of(from, Transport::Gre, &[0; 40]).build();
    packet[2..4].copy_from_slice(&16_u16.to_be_bytes());
    let before = packet.clone();
    assert_eq!(rewrite(&mut packet, &from, NONE), Err(DropReason::FilterMalformed));
    assert_eq!(packet, before);
}

#[test]
fn a_computed_udp_checksum_of_zero_is_all_ones() {
    let from = tuple("10.0.0.1", 5000, "192.0.2.1", 53);
    // The payload makes the sum whatever it has to be.
    for last in 0..=u16::MAX {
        let sample = Sample::of(from, Transport::Udp { has_checksum: true }, &last.to_be_bytes());
        let to = tuple("203.0.113.9", 6000, "192.0.2.1", 53);
        if sample.with(to).build()[26..28] == [0xff; 2] {
            let mut packet = sample.build();
            assert_eq!(rewrite(&mut packet, &to, NONE), Ok(()));
            assert_eq!(packet, sample.with(to).build());
            return;
        }
    }
    panic!("no payload has a sum of zero");
}

#[test]
fn a_first_fragment_without_its_ports_is_refused() {
    let from = tuple("10.0.0.1", 5000, "192.0.2.1", 53);
    let transport = Transport::Tcp { fixed: [0; 12], options: vec![] };
    let mut packet = Sample::of(from, transport, &[0; 40]).build();
    packet.truncate(36);
    packet[2..4].copy_from_slice(&36_u16.to_be_bytes());
    packet[6] = 0x20;
    assert_eq!(rewrite(&mut packet, &from, NONE), Err(DropReason::FilterMalformed));
}

/// RFC 7857 10-a.
#[test]
fn fragments_of_one_datagram_get_one_identification_and_others_another() {
    let key = KeyedHash::new(1, 2);
    let one = tuple("10.0.0.1", 5000, "192.0.2.1", 53);
    let other = tuple("10.0.0.2", 5000, "192.0.2.1", 53);
    assert_eq!(identification(&key, &one, 9), identification(&key, &one, 9));
    assert_ne!(identification(&key, &one, 9), identification(&key, &other, 9));
    assert_ne!(identification(&key, &one, 9), identification(&key, &one, 10));
}
