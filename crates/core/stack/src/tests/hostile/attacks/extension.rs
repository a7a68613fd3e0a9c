//! Attacks by IPv6 extension headers: routing headers, options that must be understood, endless
//! chains, false lengths. RFC 8200 sections 4.1 to 4.4 and 4.7, RFC 5095, RFC 8504 section 5.3, RFC
//! 4443 section 2.4.

use base::{DropReason, IpVersion, Limit};
use inet::neighbour::group_mac;
use wire::icmpv6::Header;
use wire::protocol::{DESTINATION_OPTIONS, HOP_BY_HOP, NO_NEXT, ROUTING};

use super::{MSS, NOW, Scene};
use crate::UdpHandle;
use crate::pair::PairConfig;
use crate::tests::craft::Rng;
use crate::tests::frag::{socket, udp_frame};

const UDP: u8 = 17;

/// A scene, a UDP socket on port 9, and a frame with a datagram for it.
fn scene() -> (Scene, UdpHandle, Vec<u8>) {
    let config = PairConfig { version: IpVersion::V6, ..PairConfig::new([41, 42]) };
    let mut s = Scene::with(&config, tcp::Config::default(), &MSS);
    let (udp, _) = socket(&mut s.bench);
    let frame = udp_frame(&s.bench, (7, 9), b"datagram");
    (s, udp, frame)
}

/// `frame` with `headers` between its IPv6 header and its transport header; `first` is the protocol
/// number of the first of them.
fn with_headers(frame: &[u8], first: u8, headers: &[u8]) -> Vec<u8> {
    let mut out = frame[..54].to_vec();
    out.extend_from_slice(headers);
    out.extend_from_slice(&frame[54..]);
    let len = (out.len() - 54) as u16;
    out[18..20].copy_from_slice(&len.to_be_bytes());
    out[20] = first;
    out
}

/// Gives a frame. Returns its drop reason, or `None` if it was delivered to the socket, and the
/// ICMPv6 error that was sent to its sender.
fn give(s: &mut Scene, udp: UdpHandle, frame: &[u8]) -> (Option<DropReason>, Option<Header>) {
    let count = |s: &Scene| DropReason::ALL.iter().map(|&r| s.dropped(r)).collect::<Vec<_>>();
    let before = count(s);
    let sent = s.bench.exchange(frame, NOW);
    let dropped = (0..before.len()).find(|&i| count(s)[i] != before[i]);
    match s.bench.stack.udp_receive(udp) {
        Some(datagram) => {
            assert_eq!(datagram.payload.as_slice(), b"datagram");
            assert_eq!(dropped, None);
            s.bench.stack.give_back(datagram.payload);
        }
        None => assert!(dropped.is_some(), "{frame:x?}"),
    }
    let said = sent.first().map(|answer| {
        let ip = wire::ipv6::Header::parse(&answer[14..]).expect("an IPv6 packet");
        assert_eq!(ip.next_header, 58);
        assert_eq!(
            answer[62..],
            frame[14..][..answer.len() - 62],
            "the error quotes another packet"
        );
        Header::parse(&answer[54..], ip.src, ip.dst).expect("a message")
    });
    (dropped.map(|at| DropReason::ALL[at]), said)
}

fn says(code: u8, pointer: u32) -> Option<Header> {
    Some(Header::ParameterProblem { code, pointer })
}

fn end(mut s: Scene, udp: UdpHandle) {
    s.bench.stack.udp_close(udp);
    s.end();
}

/// RFC 5095 3-a, RFC 8200 4.4-a, 4.4-b: if "segments left" is not zero, the sender gets an error;
/// if it is, the routing header is skipped.
#[test]
fn rh0_is_refused_with_a_parameter_problem() {
    let (mut s, udp, frame) = scene();
    let mut rh0 = [vec![UDP, 4, 0, 2], vec![0; 36]].concat();
    rh0[8..24].fill(0x20);
    let packet = with_headers(&frame, ROUTING, &rh0);
    let refused = (Some(DropReason::Ipv6RoutingHeader), says(0, 42));
    assert_eq!(give(&mut s, udp, &packet), refused);
    rh0[3] = 0;
    let packet = with_headers(&frame, ROUTING, &rh0);
    assert_eq!(give(&mut s, udp, &packet), (None, None), "it was not delivered");
    // A packet for another host causes no error, since the stack is no router.
    rh0[3] = 1;
    let mut packet = with_headers(&frame, ROUTING, &rh0);
    packet[53] ^= 0x40;
    assert_eq!(give(&mut s, udp, &packet), (Some(DropReason::Ipv6RoutingHeader), None));
    end(s, udp);
}

/// RFC 8200 4.2-a, 4.2-b, 4.2-c, 4.2-d; RFC 4443 2.4-e.
#[test]
fn unknown_options_follow_their_action_bits() {
    let (mut s, udp, frame) = scene();
    for header in [HOP_BY_HOP, DESTINATION_OPTIONS] {
        let option = |kind| [UDP, 0, 1, 0, kind, 2, 0, 0];
        let refused = Some(DropReason::Ipv6Option);
        for (kind, expected) in [
            (0x1e, (None, None)),
            (0x5e, (refused, None)),
            (0x9e, (refused, says(2, 44))),
            (0xde, (refused, says(2, 44))),
        ] {
            let packet = with_headers(&frame, header, &option(kind));
            assert_eq!(give(&mut s, udp, &packet), expected, "{kind:#x}");
            // In a packet to a group an unknown option of action 10 is reported, from an address of
            // the port; action 11 is not reported.
            let mut packet = packet;
            let group: core::net::Ipv6Addr = "ff02::1".parse().expect("an address");
            packet[38..54].copy_from_slice(&group.octets());
            packet[..6].copy_from_slice(&group_mac(group.into()).expect("a group").0);
            if kind != 0x1e {
                let reported = if kind == 0x9e { says(2, 44) } else { None };
                assert_eq!(give(&mut s, udp, &packet), (refused, reported), "{kind:#x}, group");
            }
            // An error message after the option: no error is sent about errors.
            let mut error = with_headers(&frame, header, &option(kind));
            error[54] = 58;
            error[62] = 1;
            assert_eq!(give(&mut s, udp, &error).1, None);
        }
    }
    end(s, udp);
}

/// Jumbograms (RFC 2675) are not supported: the option's type demands that it be understood, so the
/// packet is refused.
#[test]
fn jumbograms_are_refused() {
    let (mut s, udp, frame) = scene();
    let packet = with_headers(&frame, HOP_BY_HOP, &[UDP, 0, 0xc2, 4, 0, 2, 0, 0]);
    assert_eq!(give(&mut s, udp, &packet), (Some(DropReason::Ipv6Option), says(2, 42)));
    end(s, udp);
}

/// Chains of many headers, of long headers, of headers with many options, and in a wrong order:
/// each ends at a limit with a name, and a chain within the limits is followed.
/// RFC 8200 4-a, 4-b, 4.1-a.
#[test]
fn header_chains_are_bounded() {
    let (mut s, udp, frame) = scene();
    let pad = |next| vec![next, 0, 1, 4, 0, 0, 0, 0];
    let chain = |n: usize| [pad(DESTINATION_OPTIONS).repeat(n - 1), pad(UDP)].concat();
    let packet = with_headers(&frame, DESTINATION_OPTIONS, &chain(8));
    assert_eq!(give(&mut s, udp, &packet), (None, None));
    let refused = Some(DropReason::Ipv6HeaderChain);
    for n in [9, 20, 150] {
        let packet = with_headers(&frame, DESTINATION_OPTIONS, &chain(n));
        assert_eq!(give(&mut s, udp, &packet), (refused, None), "{n} headers");
    }
    let long = [vec![UDP, 160], vec![0; 160 * 8 + 6]].concat();
    let packet = with_headers(&frame, HOP_BY_HOP, &long);
    assert_eq!(give(&mut s, udp, &packet), (refused, None));
    let options = [vec![UDP, 1], [0x1e, 0].repeat(7)].concat();
    let packet = with_headers(&frame, HOP_BY_HOP, &options);
    assert_eq!(give(&mut s, udp, &packet), (None, None), "seven options were refused");
    let options = [vec![UDP, 2], [0x1e, 0].repeat(11)].concat();
    let packet = with_headers(&frame, HOP_BY_HOP, &options);
    assert_eq!(give(&mut s, udp, &packet), (refused, None), "eleven options were accepted");
    let late = [pad(HOP_BY_HOP), pad(UDP)].concat();
    let packet = with_headers(&frame, DESTINATION_OPTIONS, &late);
    assert_eq!(give(&mut s, udp, &packet), (refused, says(1, 40)));
    let hits = |limit| s.bench.stack.budget().hits(limit);
    assert_eq!(hits(Limit::ExtensionHeaders), 3);
    assert_eq!(hits(Limit::ExtensionHeaderBytes), 1);
    assert_eq!(hits(Limit::ExtensionOptions), 1);
    end(s, udp);
}

/// AMNESIA:33 (CVE-2020-13987, CVE-2020-17445 and others): every false value of the length of a
/// header and of an option.
#[test]
fn amnesia33_extension_header_lengths_are_checked() {
    let (mut s, udp, frame) = scene();
    for header in [HOP_BY_HOP, DESTINATION_OPTIONS, ROUTING] {
        for len in 0..=255 {
            let packet = with_headers(&frame, header, &[UDP, len, 1, 4, 0, 0, 0, 0]);
            give_any(&mut s, udp, &packet);
            let packet = with_headers(&frame, header, &[UDP, 0, 0x1e, len, 0, 0, 0, 0]);
            give_any(&mut s, udp, &packet);
        }
        for cut in 0..16 {
            let mut packet = with_headers(&frame[..54], header, &[header, 0, 1, 4, 0, 0, 0, 0]);
            packet.truncate(54 + cut);
            packet[18..20].copy_from_slice(&(cut as u16).to_be_bytes());
            give_any(&mut s, udp, &packet);
        }
    }
    let mut rng = Rng(33);
    for _ in 0..2_000 {
        let kinds = [HOP_BY_HOP, ROUTING, 44, DESTINATION_OPTIONS, UDP, NO_NEXT, 6, 58];
        let bytes: Vec<u8> = (0..rng.below(80))
            .map(|at| if at % 8 == 0 { rng.pick(&kinds) } else { rng.below(6) as u8 })
            .collect();
        let first = rng.pick(&kinds[..4]);
        give_any(&mut s, udp, &with_headers(&frame, first, &bytes));
    }
    end(s, udp);
}

/// Gives a frame with any effect: delivered, dropped or answered.
fn give_any(s: &mut Scene, udp: UdpHandle, frame: &[u8]) {
    s.bench.exchange(frame, NOW);
    while let Some(datagram) = s.bench.stack.udp_receive(udp) {
        s.bench.stack.give_back(datagram.payload);
    }
}

/// RFC 4443 2.4-c, 3.4-a; RFC 8200 4-a, 4.7-a: the error about an unknown protocol points at the
/// byte that contains its number. A packet without anything after its headers is dropped without an
/// answer.
#[test]
fn an_unknown_next_header_is_pointed_at() {
    let (mut s, udp, frame) = scene();
    let unknown = Some(DropReason::IpProtocolUnknown);
    assert_eq!(give(&mut s, udp, &with_headers(&frame, 200, &[])), (unknown, says(1, 6)));
    let packet = with_headers(&frame, DESTINATION_OPTIONS, &[200, 0, 1, 4, 0, 0, 0, 0]);
    assert_eq!(give(&mut s, udp, &packet), (unknown, says(1, 40)));
    let large = with_headers(&[&frame[..], &[7; 1_400]].concat(), 200, &[]);
    assert_eq!(
        s.bench.exchange(&large, NOW)[0].len(),
        14 + 1_280,
        "the error does not quote as much as fits"
    );
    let nothing = Some(DropReason::Ipv6NoNextHeader);
    assert_eq!(give(&mut s, udp, &with_headers(&frame, NO_NEXT, &[])), (nothing, None));
    end(s, udp);
}
