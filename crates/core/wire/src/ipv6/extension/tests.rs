//! Chains of extension headers: what is accepted, what is refused, and where the error's pointer
//! points.

use proptest::prelude::*;

use super::*;
use crate::protocol::{ICMPV6, NO_NEXT, TCP};

/// An options header that contains only padding.
fn pad(next: u8) -> [u8; 8] {
    [next, 0, 1, 4, 0, 0, 0, 0]
}

/// The drop reason, and the code and pointer of the error.
fn refusal(payload: &[u8], first: u8) -> (DropReason, Option<(u8, u32)>) {
    let refused = chain(payload, first, &ChainLimits::default()).expect_err("refused");
    (refused.reason, refused.problem.map(|problem| (problem.code, problem.pointer)))
}

const CUT_OFF: (DropReason, Option<(u8, u32)>) = (DropReason::Ipv6ExtensionHeader, None);

/// RFC 8200 4-b, 4.1-a.
#[test]
fn the_walk() {
    assert_eq!(upper_layer(&[], TCP), Ok((TCP, 0)));
    assert_eq!(upper_layer(&[], NO_NEXT), Ok((NO_NEXT, 0)));
    assert_eq!(refusal(&[], HOP_BY_HOP), CUT_OFF);
    assert_eq!(upper_layer(&pad(TCP), HOP_BY_HOP), Ok((TCP, 8)));
    assert_eq!(refusal(&pad(TCP)[..7], HOP_BY_HOP), CUT_OFF);
    let two = [pad(DESTINATION_OPTIONS), pad(TCP)].concat();
    assert_eq!(upper_layer(&two, HOP_BY_HOP), Ok((TCP, 16)));
    let late = [pad(DESTINATION_OPTIONS), pad(HOP_BY_HOP), pad(TCP)].concat();
    let says = (DropReason::Ipv6HeaderChain, Some((1, 48)));
    assert_eq!(refusal(&late, DESTINATION_OPTIONS), says, "a late hop-by-hop header was accepted");
}

#[test]
fn each_limit_is_named() {
    let limits = ChainLimits { headers: 3, bytes: 48, options: 2 };
    let limit = |payload: &[u8], first| {
        chain(payload, first, &limits).map_err(|refused| {
            assert_eq!((refused.reason, refused.problem), (DropReason::Ipv6HeaderChain, None));
            refused.limit
        })
    };
    let headers = |n: usize| [[pad(DESTINATION_OPTIONS)].repeat(n - 1).concat(), pad(TCP).to_vec()];
    assert_eq!(limit(&headers(3).concat(), DESTINATION_OPTIONS), Ok((TCP, 24)));
    assert_eq!(
        limit(&headers(4).concat(), DESTINATION_OPTIONS),
        Err(Some(Limit::ExtensionHeaders))
    );
    let long = |units: u8| [vec![TCP, units], vec![0; usize::from(units) * 8 + 6]].concat();
    assert_eq!(limit(&long(5), HOP_BY_HOP), Ok((TCP, 48)));
    assert_eq!(limit(&long(6), HOP_BY_HOP), Err(Some(Limit::ExtensionHeaderBytes)));
    let options = [[TCP, 0, 5, 0, 5, 0, 1, 0], [TCP, 0, 5, 0, 5, 0, 5, 0]];
    assert_eq!(limit(&options[0], HOP_BY_HOP), Ok((TCP, 8)));
    assert_eq!(limit(&options[1], HOP_BY_HOP), Err(Some(Limit::ExtensionOptions)));
}

/// RFC 8200 4.2-a, 4.2-b, 4.2-c, 4.2-d.
#[test]
fn options_by_their_action_bits() {
    let with = |kind, len| [TCP, 0, 1, 0, kind, len, 0, 0];
    let accepts = |kind| upper_layer(&with(kind, 2), DESTINATION_OPTIONS);
    assert_eq!(accepts(0x05), Ok((TCP, 8)), "router alert was refused");
    assert_eq!(accepts(0x3e), Ok((TCP, 8)));
    let silent = (DropReason::Ipv6Option, None);
    assert_eq!(refusal(&with(0x7e, 2), DESTINATION_OPTIONS), silent);
    for (kind, even_to_group) in [(0xbe, true), (0xc2, false), (0xfe, false)] {
        let payload = with(kind, 2);
        let refused = chain(&payload, HOP_BY_HOP, &ChainLimits::default()).expect_err("refused");
        let problem = Problem { code: 2, pointer: 44, even_to_group };
        assert_eq!(refused.problem, Some(problem), "{kind:#x}");
    }
    assert_eq!(
        refusal(&with(0x05, 3), DESTINATION_OPTIONS),
        CUT_OFF,
        "an option past the end was accepted"
    );
    assert_eq!(
        upper_layer(&[TCP, 0, 0, 0, 0, 0, 0, 0], HOP_BY_HOP),
        Ok((TCP, 8)),
        "six Pad1 options were refused"
    );
    assert_eq!(
        refusal(&[TCP, 0, 0, 0, 0, 0, 0, 5], HOP_BY_HOP),
        CUT_OFF,
        "an option without a length was accepted"
    );
}

/// RFC 8200 4.4-a, 4.4-b; RFC 5095 3-a.
#[test]
fn routing_headers() {
    for kind in [0, 4, 200] {
        let with = |left| [TCP, 0, kind, left, 0, 0, 0, 0];
        assert_eq!(upper_layer(&with(0), ROUTING), Ok((TCP, 8)));
        let says = (DropReason::Ipv6RoutingHeader, Some((0, 42)));
        assert_eq!(refusal(&with(1), ROUTING), says, "type {kind}");
    }
}

#[test]
fn the_last_header_and_who_names_it() {
    let packet = |first: u8, payload: &[u8]| {
        let mut packet = vec![0; HEADER_LEN];
        packet[0] = 0x60;
        packet[6] = first;
        packet.extend_from_slice(payload);
        packet
    };
    assert_eq!(last_header(&packet(TCP, &[])), Some((TCP, 40, 6)));
    assert_eq!(last_header(&packet(HOP_BY_HOP, &pad(ICMPV6))), Some((ICMPV6, 48, 40)));
    assert_eq!(last_header(&packet(HOP_BY_HOP, &pad(ICMPV6)[..7])), None);
    let atomic = [FRAGMENT, 0, 1, 4, 0, 0, 0, 0, TCP, 0, 0, 0, 0, 0, 0, 1];
    assert!(has_fragment_header(&packet(HOP_BY_HOP, &atomic)));
    assert!(!has_fragment_header(&packet(HOP_BY_HOP, &pad(TCP))));
}

proptest! {
    #[test]
    fn the_walk_is_total_and_stays_inside(
        bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(43), Just(44),
            Just(60), any::<u8>()], 0..200),
        first in prop_oneof![Just(0u8), Just(43), Just(44), Just(60)],
    ) {
        match chain(&bytes, first, &ChainLimits::default()) {
            Ok((protocol, at)) => {
                prop_assert!(at <= bytes.len());
                prop_assert!(![HOP_BY_HOP, ROUTING, DESTINATION_OPTIONS].contains(&protocol));
            }
            Err(Refused { problem: Some(problem), .. }) => {
                prop_assert!((problem.pointer as usize) < HEADER_LEN + bytes.len());
            }
            Err(_) => {}
        }
        let _ = (has_all_headers(&bytes, first), has_fragment_header(&bytes), last_header(&bytes));
    }
}
