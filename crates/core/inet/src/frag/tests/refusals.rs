//! Fragments that are refused, each for a named reason, and what happens to the others of their
//! datagram.

use base::DropReason;
use wire::protocol;

use super::{Cut, Host, NOW, Problem, cut_at, data_of, packet, pattern};

fn cut(begin: usize, more: bool, len: usize) -> Cut {
    Cut { begin, more, data: pattern(len) }
}

/// RFC 8200 4.5-d, RFC 8200 4.5-e, RFC 8200 4.5-f, RFC 7112 5-a.
#[test]
fn a_fragment_that_is_wrong_by_itself_is_refused() {
    let v6_says = |code, pointer| Some(Problem { code, pointer });
    for (wrong, reason, problem) in [
        (cut(8, true, 0), DropReason::FragmentMalformed, None),
        (cut(8, false, 0), DropReason::FragmentMalformed, None),
        (cut(8, true, 1_001), DropReason::FragmentMalformed, v6_says(0, 4)),
        (cut(65_528, false, 8), DropReason::FragmentTooBig, v6_says(0, 42)),
        (cut(65_000, true, 1_000), DropReason::FragmentTooBig, v6_says(0, 42)),
    ] {
        for v6 in [false, true] {
            let mut host = Host::new();
            let expected = (reason, problem.filter(|_| v6));
            assert_eq!(host.give(&packet(v6, 1, &wrong), NOW), Err(expected), "{wrong:?}");
            assert!(host.frags.is_empty());
        }
    }
    // UDP has 8 bytes of header; TCP has as many as its data offset says.
    let first = |protocol: u8, len: usize, v6: bool| {
        let mut tcp = pattern(len);
        if let Some(offset) = tcp.get_mut(12) {
            *offset = 7 << 4;
        }
        let mut bytes = packet(v6, 1, &Cut { begin: 0, more: true, data: tcp });
        if v6 {
            bytes[40] = protocol;
        } else {
            bytes[9] = protocol;
            bytes[10..12].fill(0);
            let sum = wire::checksum::Ladder::Word64.sum(&bytes[..20]).field();
            bytes[10..12].copy_from_slice(&sum);
        }
        bytes
    };
    for v6 in [false, true] {
        for (protocol, least) in [(protocol::TCP, 32), (protocol::UDP, 8), (253, 8)] {
            let mut host = Host::new();
            for len in (8..64).step_by(8) {
                let problem = v6_says(3, 0).filter(|_| v6);
                let expected = match len < least {
                    true => Err((DropReason::FragmentHeaders, problem)),
                    false if len == least => Ok(None),
                    false => Err((DropReason::FragmentOverlap, None)),
                };
                let expected = match len > least + 8 {
                    true => Err((DropReason::FragmentOfDropped, None)),
                    false => expected,
                };
                assert_eq!(host.give(&first(protocol, len, v6), NOW), expected, "{len}");
            }
        }
    }
}

/// The first fragment must hold extension headers as well.
/// RFC 7112 5-a.
#[test]
fn a_chain_of_headers_that_ends_behind_the_first_fragment_is_refused() {
    let options = |next: u8, units: u8| {
        let mut header = vec![0; (usize::from(units) + 1) * 8];
        (header[0], header[1]) = (next, units);
        header
    };
    let chain =
        [options(protocol::DESTINATION_OPTIONS, 1), options(protocol::UDP, 2), pattern(8)].concat();
    for len in (8..=chain.len()).step_by(8) {
        let first = Cut { begin: 0, more: true, data: chain[..len].to_vec() };
        let mut bytes = packet(true, 1, &first);
        bytes[40] = protocol::DESTINATION_OPTIONS;
        let expected = match len == chain.len() {
            true => Ok(None),
            false => Err((DropReason::FragmentHeaders, Some(Problem { code: 3, pointer: 0 }))),
        };
        assert_eq!(Host::new().give(&bytes, NOW), expected, "{len} bytes");
    }
}

/// RFC 5722 4-a, RFC 8200 4.5-g: the datagram is dropped, and so are its later fragments.
#[test]
fn fragments_that_contradict_each_other_drop_their_datagram() {
    let overlap = DropReason::FragmentOverlap;
    let contradiction = DropReason::FragmentContradiction;
    let first = || cut(0, true, 800);
    for (held, last, reason) in [
        // A fragment that overlaps after, before, inside and around the other: no byte may come
        // twice.
        (vec![first()], cut(792, true, 80), overlap),
        (vec![cut(800, true, 80)], cut(0, true, 808), overlap),
        (vec![first()], cut(80, true, 8), overlap),
        (vec![cut(80, true, 8)], first(), overlap),
        (vec![first()], cut(0, true, 792), overlap),
        (vec![first()], Cut { data: vec![0; 800], ..first() }, overlap),
        // Two different ends, data after the end, and an end before data.
        (vec![cut(800, false, 80)], cut(1_600, false, 80), contradiction),
        (vec![cut(800, false, 80)], cut(1_600, true, 80), contradiction),
        (vec![cut(1_600, true, 80)], cut(800, false, 80), contradiction),
        (vec![cut(800, false, 80)], cut(0, false, 80), contradiction),
    ] {
        if !last.more && last.begin == 0 {
            // This cut is no fragment.
            continue;
        }
        for v6 in [false, true] {
            let mut host = Host::new();
            for cut in &held {
                assert_eq!(host.give(&packet(v6, 1, cut), NOW), Ok(None));
            }
            assert_eq!(host.give(&packet(v6, 1, &last), NOW), Err((reason, None)), "{last:?}");
            assert_eq!(host.drops.of(reason), held.len() as u64 + 1);
            assert_eq!((host.frags.len(), host.frags.held(), host.frags.bytes()), (1, 0, 0));
            // The whole datagram again: its fragments are correct, but come too late.
            for cut in cut_at(&pattern(1_000), &[496]) {
                let late = Err((DropReason::FragmentOfDropped, None));
                assert_eq!(host.give(&packet(v6, 1, &cut), NOW), late);
            }
            // Another datagram is not affected.
            let [front, rest] = cut_at(&pattern(1_000), &[496]).try_into().expect("two");
            assert_eq!(host.give(&packet(v6, 2, &rest), NOW), Ok(None));
            let whole = host.give(&packet(v6, 2, &front), NOW).expect("good").expect("whole");
            assert_eq!(data_of(&whole), pattern(1_000));
        }
    }
}

/// RFC 3168 section 5.3: a CE mark on a fragment marks the datagram; a datagram whose sender does
/// not use ECN gets no mark.
#[test]
fn a_mark_on_a_fragment_marks_the_datagram() {
    let cuts = cut_at(&pattern(3_000), &[800, 1_600]);
    for v6 in [false, true] {
        let marked = |cut: &Cut, ecn: u8| {
            let mut bytes = packet(v6, 1, cut);
            if v6 {
                bytes[1] |= ecn << 4;
            } else {
                bytes[1] |= ecn;
                bytes[10..12].fill(0);
                let sum = wire::checksum::Ladder::Word64.sum(&bytes[..20]).field();
                bytes[10..12].copy_from_slice(&sum);
            }
            bytes
        };
        for (ecns, joined) in
            [([2, 2, 2], Some(2)), ([2, 3, 2], Some(3)), ([1, 2, 1], Some(1)), ([0, 3, 0], None)]
        {
            let mut host = Host::new();
            let mut last = Ok(None);
            for (cut, ecn) in cuts.iter().zip(ecns) {
                last = host.give(&marked(cut, ecn), NOW);
            }
            let Some(joined) = joined else {
                assert_eq!(host.drops.of(DropReason::FragmentContradiction), 2);
                continue;
            };
            let datagram = last.expect("good").expect("whole");
            let ecn = if v6 { datagram[1] >> 4 & 3 } else { datagram[1] & 3 };
            assert_eq!((ecn, data_of(&datagram)), (joined, pattern(3_000)));
        }
    }
}

/// The datagram has the headers of its first fragment: options of IPv4, or extension headers of
/// IPv6.
#[test]
fn headers_before_the_data_are_those_of_the_first_fragment() {
    let cuts = cut_at(&pattern(2_000), &[800]);
    // The option Router Alert (RFC 2113), which only the first fragment has.
    let mut first = packet(false, 1, &cuts[0]);
    first.splice(20..20, [148, 4, 0, 0]);
    first[0] = 0x46;
    let length = first.len() as u16;
    first[2..4].copy_from_slice(&length.to_be_bytes());
    first[10..12].fill(0);
    let sum = wire::checksum::Ladder::Word64.sum(&first[..24]).field();
    first[10..12].copy_from_slice(&sum);
    let mut host = Host::new();
    assert_eq!(host.give(&packet(false, 1, &cuts[1]), NOW), Ok(None));
    let datagram = host.give(&first, NOW).expect("good").expect("whole");
    let (ip, part) = crate::ip_input::ipv4_any(&datagram).expect("a header");
    assert_eq!((ip.transport_at, ip.transport_len, part), (24, 2_000, None));
    assert_eq!(datagram[24..], pattern(2_000));
    // Hop-by-hop and destination options before the fragment header.
    let with_options = |cut: &Cut| {
        let mut bytes = packet(true, 1, cut);
        let options = [
            [protocol::DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0],
            [protocol::FRAGMENT, 0, 1, 4, 0, 0, 0, 0],
        ];
        bytes.splice(40..40, options.concat());
        bytes[6] = protocol::HOP_BY_HOP;
        let length = (bytes.len() - 40) as u16;
        bytes[4..6].copy_from_slice(&length.to_be_bytes());
        bytes
    };
    let mut host = Host::new();
    assert_eq!(host.give(&with_options(&cuts[0]), NOW), Ok(None));
    let datagram = host.give(&with_options(&cuts[1]), NOW).expect("good").expect("whole");
    let (ip, part) = crate::ip_input::ipv6_any(&datagram).expect("headers");
    assert_eq!((ip.transport_at, ip.transport_len, part), (56, 2_000, None));
    assert_eq!((ip.protocol, &datagram[56..]), (protocol::UDP, &pattern(2_000)[..]));
}
