//! ICMP errors compared with errors that were built with the new quote.

use proptest::collection::vec;
use proptest::prelude::*;
use wire::{icmp, icmpv6};

use super::super::samples::{Sample, Transport, samples};
use super::*;

/// An error from `src` to `dst` that quotes the first bytes of a packet, with extensions behind it
/// if it says how long it is.
fn error(src: IpAddr, dst: IpAddr, quote: &[u8], extensions: &[u8]) -> Vec<u8> {
    let mut message = vec![0; 8];
    message.extend(quote);
    message.extend(extensions);
    let len = if extensions.is_empty() { 0 } else { quote.len() };
    let (header_len, protocol) = if src.is_ipv6() { (40, 58) } else { (20, 1) };
    match (src, dst) {
        (IpAddr::V4(_), IpAddr::V4(_)) => {
            let rest = [0, (len / 4) as u8, 0, 0];
            // `Other` does not normalise the length away.
            let header = icmp::Header::Other { kind: 11, code: 0, rest };
            assert!(header.emit(&mut message));
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let rest = [(len / 8) as u8, 0, 0, 0];
            let header = icmpv6::Header::Other { kind: 3, code: 0, rest };
            assert!(header.emit(&mut message, src, dst));
        }
        _ => unreachable!("one version"),
    }
    let tuple = Tuple { src, dst, protocol, src_port: 0, dst_port: 0 };
    // The IP header of any sample with as many bytes behind it.
    let like = Sample::of(tuple, Transport::Gre, &message[4..]);
    let mut packet = like.build();
    packet[if src.is_ipv6() { 6 } else { 9 }] = protocol;
    if src.is_ipv4() {
        packet[10..12].fill(0);
        let field = wire::checksum::sum_short(&packet[..20]).field();
        packet[10..12].copy_from_slice(&field);
    }
    packet[header_len..].copy_from_slice(&message);
    packet
}

fn router(is_v6: bool) -> IpAddr {
    if is_v6 { "2001:db8::99".parse() } else { "198.51.100.99".parse() }.expect("an address")
}

proptest! {
    /// Quotes have IP options, end anywhere, and may have extensions behind them.
    /// RFC 5508 REQ-3b, REQ-3c, REQ-3d, REQ-4a, REQ-4b, REQ-4c, REQ-5a, REQ-5b, REQ-7a.
    /// RFC 4787 REQ-12b, RFC 5382 REQ-9.
    #[test]
    fn a_rewritten_error_is_the_one_built_with_the_new_quote(
        (sample, to) in samples(),
        keep in 0..300usize,
        extensions in prop_oneof![Just(vec![]), vec(any::<u8>(), 8..=8)],
    ) {
        // A quote has its IP header at least, and with extensions a length in words of 8.
        let is_v6 = sample.tuple.src.is_ipv6();
        let least = if is_v6 { 40 } else { 20 + sample.extras * 4 };
        // The checksum of an echo message is in front of its identifier, and a quote has both: RFC
        // 792 has 8 bytes of it in every quote.
        let is_echo = matches!(sample.transport, Transport::Echo { .. });
        let least = if is_echo { least + 16 + sample.extras * 8 } else { least };
        let quote = |sample: &Sample| {
            let mut quote = sample.build();
            let len = keep.max(least);
            if extensions.is_empty() {
                quote.truncate(len);
            } else {
                quote.truncate(len.next_multiple_of(8).min(248));
                quote.resize(quote.len().next_multiple_of(8), 0);
            }
            quote
        };
        let src = router(is_v6);
        let mut packet = error(src, sample.tuple.src, &quote(&sample), &extensions);
        prop_assert_eq!(rewrite_error(&mut packet, &to), Ok(()));

        // RFC 5508 section 4.2: the destination of the quote was translated, if it changes.
        let new_src = if to.dst == sample.tuple.dst { src } else { to.dst };
        let mut expected = error(new_src, to.src, &quote(&sample.with(to)), &extensions);
        // Half of a field cannot be updated.
        if keep.is_multiple_of(2) {
            prop_assert_eq!(&packet, &expected);
        }
        // A rewritten error is whole, whatever was quoted.
        expected = packet.clone();
        let data = &expected[if is_v6 { 40 } else { 20 }..];
        match (new_src, to.src) {
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                prop_assert!(icmpv6::Header::parse(data, src, dst).is_ok());
            }
            _ => prop_assert!(icmp::Header::parse(data).is_ok()),
        }
    }

    #[test]
    fn no_bytes_panic_and_refused_ones_stay(
        (sample, to) in samples(),
        keep in 0..120usize,
        noise in vec((0..200usize, any::<u8>()), 0..6),
    ) {
        let is_v6 = sample.tuple.src.is_ipv6();
        let mut quote = sample.build();
        quote.truncate(keep);
        let mut packet = error(router(is_v6), sample.tuple.src, &quote, &[]);
        for (at, byte) in noise {
            if let Some(place) = packet.get_mut(at) {
                *place = byte;
            }
        }
        let before = packet.clone();
        if rewrite_error(&mut packet, &to).is_err() {
            prop_assert_eq!(packet, before);
        }
    }
}

fn tuple(src: &str, src_port: u16, dst: &str, dst_port: u16) -> Tuple {
    let addr = |text: &str| text.parse().expect("an address");
    Tuple { src: addr(src), dst: addr(dst), protocol: 17, src_port, dst_port }
}

#[test]
fn an_error_from_outside_reaches_the_inside_host_with_its_own_packet() {
    let (inside, outside) = (
        tuple("10.0.0.5", 5000, "192.0.2.1", 33434),
        tuple("203.0.113.1", 7777, "192.0.2.1", 33434),
    );
    let sent = Sample::of(inside, Transport::Udp { has_checksum: true }, b"probe");
    let mut packet = error(router(false), outside.src, &sent.with(outside).build(), &[]);
    assert_eq!(quoted_tuple(&packet), Ok(outside));
    assert_eq!(rewrite_error(&mut packet, &inside), Ok(()));
    // The router's address stays, so that traceroute shows it.
    assert_eq!(packet, error(router(false), inside.src, &sent.build(), &[]));
}

#[test]
fn an_error_from_an_inside_router_has_the_outside_address() {
    // The peer's packet to the outside address, and the same packet behind NAT.
    let (outside, inside) =
        (tuple("192.0.2.1", 53, "203.0.113.1", 7777), tuple("192.0.2.1", 53, "10.0.0.5", 5000));
    let sent = Sample::of(outside, Transport::Udp { has_checksum: true }, b"answer");
    let router = "10.0.0.254".parse().expect("an address");
    let mut packet = error(router, inside.src, &sent.with(inside).build(), &[]);
    assert_eq!(rewrite_error(&mut packet, &outside), Ok(()));
    assert_eq!(packet, error(outside.dst, outside.src, &sent.build(), &[]));
}

#[test]
fn a_message_that_is_no_error_is_refused() {
    let from = tuple("10.0.0.5", 1, "192.0.2.1", 1);
    let echo = Transport::Echo { is_reply: false, seq: 1 };
    let mut packet = Sample::of(from, echo, &[0; 40]).build();
    assert_eq!(rewrite_error(&mut packet, &from), Err(DropReason::FilterIcmp));
}
