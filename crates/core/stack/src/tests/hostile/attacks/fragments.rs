//! Attacks by fragments: of datagrams that never become complete, fragments that overlap, datagrams
//! that become too large, and fragments that are too small. RFC 791, RFC 1858, RFC 5722, RFC 6946,
//! RFC 6980, RFC 7112, RFC 8200 section 4.5.

use base::{Counter, DropReason, IpVersion, Limit};
use wire::protocol;

use super::{MSS, NOW, Scene};
use crate::UdpHandle;
use crate::pair::PairConfig;
use crate::tests::craft::{Bench, Rng, frame_between};
use crate::tests::frag::{fragment, fragments, ip_len, pattern, socket, udp_frame};
use crate::tests::icmp::BOTH;

/// A scene with a UDP socket on port 9.
fn scene(version: IpVersion) -> (Scene, UdpHandle) {
    let config = PairConfig { version, ..PairConfig::new([41, 42]) };
    let mut s = Scene::with(&config, tcp::Config::default(), &MSS);
    let (udp, _) = socket(&mut s.bench);
    (s, udp)
}

/// Gives frames; returns the answers. Each fragment becomes part of a datagram, is dropped under
/// one reason, or is held; the held ones are within the limits.
fn give(bench: &mut Bench, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let sent = frames.iter().flat_map(|frame| bench.exchange(frame, NOW)).collect();
    let (counters, drops) = (bench.stack.counters(), bench.stack.drops());
    let dropped: u64 = DropReason::ALL
        .iter()
        .filter(|reason| reason.name().starts_with("fragment_"))
        .map(|&reason| drops.of(reason))
        .sum();
    let accounted = counters.of(Counter::FragmentsJoined) + dropped;
    assert_eq!(counters.of(Counter::FragmentsIn), accounted + bench.stack.frags.held() as u64);
    let limits = bench.stack.budget();
    assert!(bench.stack.frags.bytes() <= limits.of(Limit::FragmentBytes));
    assert!(bench.stack.frags.len() <= limits.of(Limit::FragmentDatagrams));
    sent
}

/// A datagram in fragments still arrives.
#[track_caller]
fn fragments_still_work(bench: &mut Bench, udp: UdpHandle) {
    let payload = pattern(8_192);
    let frames = fragments(&udp_frame(bench, (7, 9), &payload), 0xbeef, 1_400);
    give(bench, &frames);
    let datagram = bench.stack.udp_receive(udp).expect("joined");
    assert!(datagram.payload.as_slice() == payload);
    bench.stack.give_back(datagram.payload);
}

/// The time of the attack's last fragments is over: no state of them is left.
fn end(mut s: Scene, udp: UdpHandle) {
    s.bench.stack.udp_close(udp);
    s.end();
}

/// FragmentSmack (CVE-2018-5391) and Rose: fragments of datagrams that never become complete, from
/// one host and from many: tiny ones, out of order, and the first and last fragment of the largest
/// datagram. Memory is bounded for each source and in total; datagrams of another host arrive.
#[test]
fn fragment_smack_cve_2018_5391_and_rose() {
    for version in BOTH {
        let (mut s, udp) = scene(version);
        let whole = udp_frame(&s.bench, (7, 9), &pattern(2_000));
        let mut rng = Rng(7);
        // One host sends tiny fragments at any offset of any datagram.
        let mut frames = Vec::new();
        for _ in 0..20_000 {
            let (id, place) = (rng.below(500), rng.below(8_000) as usize);
            frames.push(fragment(&whole, id, place * 8, &pattern(8), true));
        }
        assert!(give(&mut s.bench, &frames).len() <= 20_000);
        let bytes = s.bench.stack.frags.bytes();
        assert!(bytes <= s.bench.stack.budget().of(Limit::FragmentBytesPerSource), "{bytes}");
        assert!(s.held_bytes() < 8 << 20);
        assert!(s.bench.peers_buffers_out() < 80, "the device's buffers were not returned");
        // Rose: the first and the last fragment of the largest datagram, and nothing between.
        let ends = |id| {
            let last = fragment(&whole, id, 65_000, &pattern(100), false);
            [fragment(&whole, id, 0, &pattern(1_000), true), last]
        };
        give(&mut s.bench, &(1_000..2_000).flat_map(ends).collect::<Vec<_>>());
        assert!(s.held_bytes() < 8 << 20);
        // The same from many hosts.
        for n in 0..3_000_u32 {
            let src = match version {
                IpVersion::V4 => std::net::Ipv4Addr::from(0x0a00_0000 + n).into(),
                IpVersion::V6 => {
                    std::net::Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(n) << 64).into()
                }
            };
            let frame = frame_between(src, s.bench.ours, 17, &pattern(2_000));
            give(&mut s.bench, &fragments(&frame, 1, 1_200)[..1]);
        }
        assert!(s.held_bytes() < 16 << 20);
        assert!(s.dropped(DropReason::FragmentEvicted) > 0);
        fragments_still_work(&mut s.bench, udp);
        // Datagrams of another host arrive while the attack goes on.
        end(s, udp);
    }
}

/// Teardrop, bonk, New Tear, and the overlaps of RFC 1858 and RFC 3128, which write another
/// transport header over the first: the datagram is dropped with all its fragments, and nothing is
/// answered.
#[test]
fn teardrop_overlap() {
    for version in BOTH {
        let (mut s, udp) = scene(version);
        let payload = pattern(1_000);
        let whole = udp_frame(&s.bench, (7, 9), &payload);
        let data = whole[14 + ip_len(version)..].to_vec();
        let evil = udp_frame(&s.bench, (7, 10), &payload)[14 + ip_len(version)..].to_vec();
        let at = |id, begin: usize, end: usize, more, data: &[u8]| {
            fragment(&whole, id, begin, &data[begin..end], more)
        };
        let all = data.len();
        for (id, frames) in [
            // Teardrop: the second fragment ends inside the first.
            [at(1, 0, 800, true, &data), at(1, 8, 400, false, &data)],
            // Bonk: the second fragment begins inside the first and ends after it.
            [at(2, 0, 800, true, &data), at(2, 792, all, false, &data)],
            // RFC 1858: a second transport header over the first.
            [at(3, 0, 800, true, &data), at(3, 0, 16, true, &evil)],
            // RFC 3128: the transport header, then another fragment over its end.
            [at(4, 0, 24, true, &data), at(4, 8, all, false, &evil)],
            // The last fragment arrives first, and they overlap.
            [at(5, 400, all, false, &data), at(5, 0, 408, true, &data)],
        ]
        .into_iter()
        .enumerate()
        {
            assert!(give(&mut s.bench, &frames).is_empty(), "{id}");
            assert_eq!(s.dropped(DropReason::FragmentOverlap), 2 * (id as u64 + 1));
            // Later fragments of the datagram are dropped, too.
            let rest =
                [at(id as u32 + 1, 0, 400, true, &data), at(id as u32 + 1, 400, all, false, &data)];
            give(&mut s.bench, &rest);
            assert_eq!(s.dropped(DropReason::FragmentOfDropped), 2 * (id as u64 + 1));
        }
        assert!(s.bench.stack.udp_receive(udp).is_none());
        assert_eq!(s.bench.stack.frags.bytes(), 0);
        fragments_still_work(&mut s.bench, udp);
        end(s, udp);
    }
}

/// Last fragments that end past 65,535 bytes of the datagram: dropped, and reported over IPv6.
#[test]
fn ping_of_death() {
    for version in BOTH {
        let (mut s, udp) = scene(version);
        let protocol = if version == IpVersion::V4 { protocol::ICMP } else { protocol::ICMPV6 };
        let whole = s.bench.frame(protocol, &[8; 1_400]);
        let mut frames: Vec<Vec<u8>> =
            (0..46).map(|n| fragment(&whole, 1, n * 1_400, &pattern(1_400), true)).collect();
        frames.push(fragment(&whole, 1, 64_400, &pattern(1_200), false));
        for offset in [65_528, 65_504] {
            frames.push(fragment(&whole, 1, offset, &pattern(48), false));
        }
        let answers = give(&mut s.bench, &frames);
        assert_eq!(s.dropped(DropReason::FragmentTooBig), 3);
        let wants = if version == IpVersion::V4 { 0 } else { 3 };
        assert_eq!(
            answers.len(),
            wants,
            "not one parameter problem for each over IPv6, and none over IPv4"
        );
        for answer in &answers {
            assert_eq!(answer[54..56], [4, 0]);
            assert_eq!(
                answer[58..62],
                [0, 0, 0, 42],
                "the error does not point at the fragment offset"
            );
        }
        assert_eq!(s.bench.stack.counters().of(Counter::DatagramsReassembled), 0);
        fragments_still_work(&mut s.bench, udp);
        end(s, udp);
    }
}

/// RFC 6946 4-a: an IPv6 fragment that is a whole datagram (an atomic fragment) is a packet by
/// itself, whatever is held under its identification. RFC 7112 5-a, RFC 8200 4.5-f: a first
/// fragment contains all headers; otherwise it is dropped, and over IPv6 its sender gets an error.
#[test]
fn atomic_and_tiny_fragments() {
    let (mut s, udp) = scene(IpVersion::V6);
    let whole = udp_frame(&s.bench, (7, 9), &pattern(100));
    let atomic = fragment(&whole, 1, 0, &whole[54..], false);
    give(&mut s.bench, &[fragment(&whole, 1, 0, &whole[54..94], true), atomic.clone(), atomic]);
    for _ in 0..2 {
        let datagram = s.bench.stack.udp_receive(udp).expect("by itself");
        assert!(datagram.payload.as_slice() == pattern(100));
    }
    assert_eq!((s.bench.stack.frags.held(), s.bench.stack.drops().total()), (1, 0));
    end(s, udp);
    for version in BOTH {
        let (mut s, udp) = scene(version);
        let segment = s.bench.tcp_frame(&s.next);
        let chain = ip_len(version) + 14;
        let mut answers = Vec::new();
        for (id, len) in [(1, 8), (2, 16)] {
            let tiny = fragment(&segment, id, 0, &segment[chain..chain + len], true);
            answers.extend(give(&mut s.bench, &[tiny]));
        }
        assert_eq!(s.dropped(DropReason::FragmentHeaders), 2);
        // A fragment without data, and one whose length is not a multiple of 8.
        let empty = fragment(&segment, 3, 8, &[], true);
        let odd = fragment(&segment, 4, 0, &pattern(1_001), true);
        answers.extend(give(&mut s.bench, &[empty, odd]));
        assert_eq!(s.dropped(DropReason::FragmentMalformed), 2);
        let told: Vec<_> = answers.iter().map(|f| [f[54], f[55], f[61]]).collect();
        match version {
            IpVersion::V4 => assert!(told.is_empty()),
            IpVersion::V6 => assert_eq!(told, [[4, 3, 0], [4, 3, 0], [4, 0, 4]]),
        }
        assert!(s.bench.stack.frags.is_empty());
        s.victim_goes_on();
        end(s, udp);
    }
}

/// RFC 6980 5-a: messages of neighbour discovery in fragments, or in an atomic fragment, are
/// dropped, because a guard in the link's switches could not see their contents.
#[test]
fn fragmented_neighbour_discovery() {
    let (mut s, udp) = scene(IpVersion::V6);
    for kind in 133..=137 {
        let mut message = vec![kind; 200];
        message[2..4].fill(0);
        let sum = crate::tests::craft::transport_sum(s.bench.theirs, s.bench.ours, 58, &message);
        message[2..4].copy_from_slice(&sum.field());
        let mut whole = s.bench.frame(protocol::ICMPV6, &message);
        whole[14 + 7] = 255;
        let mut frames = fragments(&whole, u32::from(kind), 104);
        frames.push(fragment(&whole, 1, 0, &message, false));
        let before = s.dropped(DropReason::NdFragmented);
        assert!(give(&mut s.bench, &frames).is_empty());
        assert_eq!(s.dropped(DropReason::NdFragmented), before + 2, "{kind}");
    }
    assert_eq!(s.bench.stack.counters().of(Counter::NdIn), 0);
    end(s, udp);
}

/// Fragments inside fragments, which pass filters that look at the first header only.
#[test]
fn nested_fragments() {
    let (mut s, udp) = scene(IpVersion::V6);
    let whole = udp_frame(&s.bench, (7, 9), &pattern(1_000));
    let inner = fragment(&whole, 9, 0, &whole[54..454], true);
    let mut outer = inner.clone();
    outer[20] = protocol::FRAGMENT;
    let mut frames = fragments(&outer, 1, 104);
    for frame in &mut frames {
        frame[54] = protocol::FRAGMENT;
    }
    assert!(give(&mut s.bench, &frames).is_empty());
    assert_eq!(s.dropped(DropReason::Ipv6ExtensionHeader), 1);
    assert!(s.bench.stack.frags.is_empty());
    end(s, udp);
}

/// RFC 6864 4.3-a, RFC 7739 section 3: a host that gets fragments of the stack can predict neither
/// the next identification nor how many datagrams went to others.
#[test]
fn ip_id_prediction_of_fragments() {
    for version in BOTH {
        let (mut s, udp) = scene(version);
        let remote = std::net::SocketAddr::new(s.bench.theirs, 7);
        let mut ids = Vec::new();
        for _ in 0..500 {
            s.bench.stack.udp_send(udp, remote, &pattern(1_600), NOW).expect("sent");
            let frame = s.bench.sent().remove(0);
            ids.push(match version {
                IpVersion::V4 => u32::from(u16::from_be_bytes([frame[18], frame[19]])),
                IpVersion::V6 => u32::from_be_bytes(frame[58..62].try_into().expect("four bytes")),
            });
        }
        let all: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(all.len(), ids.len(), "an identification was used twice");
        let steps: std::collections::BTreeSet<_> =
            ids.windows(2).map(|w| w[1].wrapping_sub(w[0])).collect();
        assert!(steps.len() > 480, "{} different steps", steps.len());
        end(s, udp);
    }
}
