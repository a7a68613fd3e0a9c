//! Properties of one link that must not pass to another: a device's offloads and VLAN tags.

use mbuf::Flags;

use super::*;
use crate::tests::craft;

/// The offloads of a kernel device (TAP or veth).
const KERNEL: Offloads = Offloads {
    tx_checksum: true,
    rx_checksum: true,
    tso_max_bytes: 65_549,
    uso_max_bytes: 0,
    gro: false,
};
/// The length of an Ethernet, an IPv4 and a TCP header together, in bytes.
const V4_HEADERS: usize = 54;

/// A frame with a TCP segment or a UDP datagram from the host at port 0.
fn transport(is_tcp: bool, (src, dst): (&str, &str), payload: usize) -> Vec<u8> {
    let mut segment = vec![0, 99, 0, 80];
    if is_tcp {
        segment.extend([0xff, 0xff, 0xff, 0, 0, 0, 0, 1, 0x50, 0x18, 9, 9, 0xaa, 0xaa, 0, 0]);
    } else {
        segment.extend((payload as u16 + 8).to_be_bytes());
        segment.extend([0xaa, 0xaa]);
    }
    segment.extend((0..payload).map(|n| n as u8));
    let mut bytes = frame(src, dst, 9, &segment);
    let is_v4 = ip(src).is_ipv4();
    bytes[if is_v4 { 23 } else { 20 }] = if is_tcp { 6 } else { 17 };
    if is_v4 {
        craft::number(&mut bytes, 0x1234);
    }
    bytes
}

impl Router {
    /// Put a frame on the wire of port 0 as a device of this machine hands it over: with an
    /// unfinished checksum, and to be cut into segments of `size` payload bytes (0: not to be cut).
    fn offer_unfinished(&mut self, bytes: &[u8], size: u16) {
        let mut m = self.pool.copy_of(bytes).expect("room");
        m.set(Flags::CSUM_PARTIAL);
        m.set_csum(if bytes[14] >> 4 == 6 { 54 } else { 34 });
        m.set_segment_size(size);
        self.offer(m);
    }

    /// The frames that left by port 1, each with the offset of its transport header if the checksum
    /// is unfinished, and its segment size (0: no super-segment).
    fn left(&mut self) -> Vec<(Vec<u8>, Option<u16>, u16)> {
        self.stack.poll(NOW);
        self.stack.flush();
        let mut left = Vec::new();
        let mut burst = Burst::new();
        while self.wires[1].rx_burst(&mut self.pool, &mut burst) > 0 {
            for m in burst.drain(..) {
                let at = m.has(Flags::CSUM_PARTIAL).then(|| m.csum());
                left.push((m.as_slice().to_vec(), at, m.segment_size()));
                self.pool.free(m);
            }
        }
        left
    }
}

/// Are all checksums of the frame right?
fn is_sound(frame: &[u8]) -> bool {
    let packet = &frame[14..];
    let sum_of = |at: usize| wire::checksum::Ladder::Word64.sum(&packet[at..]);
    match packet[0] >> 4 == 6 {
        true => {
            let (ip, _) = ipv6_any(packet).expect("sound");
            ip.with_pseudo_header(sum_of(40)).is_whole()
        }
        false => {
            let (ip, _) = ipv4_any(packet).expect("sound");
            ip.with_pseudo_header(sum_of(20)).is_whole()
        }
    }
}

/// The addresses of the two hosts in each IP version.
const BOTH: [(&str, &str); 2] = [(A, B), (A6, B6)];

#[test]
fn a_checksum_left_to_a_device_is_left_to_the_next_one_if_it_takes_it() {
    for ends in BOTH {
        for is_tcp in [true, false] {
            for takes in [true, false] {
                let next = if takes { KERNEL } else { Offloads::default() };
                let mut router = Router::between(1_500, [KERNEL, next]);
                for round in 0..3 {
                    router.offer_unfinished(&transport(is_tcp, ends, 77), 0);
                    let left = router.left();
                    assert_eq!(left.len(), 1, "{ends:?} {takes}");
                    let at = left[0].0.len() as u16 - 77 - if is_tcp { 20 } else { 8 };
                    assert_eq!((left[0].1, left[0].2), (takes.then_some(at), 0));
                    assert!(takes || is_sound(&left[0].0));
                    let in_bursts = router.stack.counters().of(Counter::ForwardedInBursts);
                    assert_eq!(
                        in_bursts,
                        if takes { round } else { 0 },
                        "wrong count of packets in bursts"
                    );
                }
            }
        }
    }
}

#[test]
fn a_super_segment_leaves_whole_by_a_port_that_takes_it() {
    for ends in BOTH {
        let mut router = Router::between(1_500, [KERNEL, KERNEL]);
        let whole = transport(true, ends, 60_000);
        for round in 1..4 {
            router.offer_unfinished(&whole, 1_400);
            let left = router.left();
            let (frame, at, size) = &left[0];
            let headers = if ip(ends.0).is_ipv4() { 34 } else { 54 };
            assert_eq!((left.len(), *at, *size), (1, Some(headers), 1_400));
            let mut expected = whole[14..].to_vec();
            assert!(inet::forward::hop(&mut expected));
            assert!(frame[14..] == expected);
            assert_eq!(router.stack.counters().of(Counter::SuperSegmentsForwarded), round);
            assert_eq!(router.stack.counters().of(Counter::ForwardedInBursts), round - 1);
        }
        assert_eq!(router.stack.drops().total(), 0);
    }
}

#[test]
fn a_super_segment_is_cut_for_a_port_that_does_not_take_it() {
    let no_room = Offloads { tso_max_bytes: 50_000, ..KERNEL };
    for next in [Offloads::default(), no_room] {
        for ends in BOTH {
            for is_tcp in [true, false] {
                let mut router = Router::between(1_500, [KERNEL, next]);
                let whole = transport(is_tcp, ends, 60_000);
                // The wire of port 0 takes no UDP super-datagram, so it is handed over like a
                // super-segment.
                router.offer_unfinished(&whole, 1_400);
                let left = router.left();
                assert_eq!(left.len(), 43);
                let headers = whole.len() - 60_000;
                let mut payload = Vec::new();
                for (frame, at, size) in &left {
                    assert!(is_sound(frame) && at.is_none() && *size == 0);
                    assert_eq!(link(frame), (MACS[1], HOSTS[1]));
                    assert_eq!(frame[if frame[14] >> 4 == 6 { 21 } else { 22 }], 8, "hops");
                    payload.extend_from_slice(&frame[headers..]);
                }
                assert!(payload == whole[headers..]);
                let counters = router.stack.counters();
                assert_eq!(counters.of(Counter::SuperSegmentsCut), 1);
                assert_eq!(counters.of(Counter::Forwarded), 1);
                assert_eq!(router.stack.drops().total(), 0);
                router.stack.core.cx.pool.flush();
                router.pool.flush();
                assert_eq!(router.pool.outstanding(), 0, "a buffer was not returned");
            }
        }
    }
}

/// The MTU is compared with the segments of a super-segment, not with its whole length, and the
/// error quotes the first segment.
/// RFC 4443 3.2-a.
#[test]
fn segments_larger_than_the_path_are_reported_or_fragmented() {
    for ends in BOTH {
        let mut router = Router::between(1_300, [KERNEL, KERNEL]);
        let mut whole = transport(true, ends, 5_000);
        if ends.0 == A {
            // Don't fragment.
            set_flags(&mut whole, 0x40);
        }
        router.offer_unfinished(&whole, 1_400);
        let [back, out] = router.sent(NOW);
        assert!(out.is_empty());
        let from = if ends.0 == A { "192.0.2.1" } else { "2001:db8:1::1" };
        match error(&back[0], from, ends.0) {
            ErrorKind::TooBig(mtu) => assert_eq!(mtu, 1_300),
            other => panic!("{other:?}"),
        }
        let (quoted, headers) = if ends.0 == A { (42, 40) } else { (62, 60) };
        let len_at = if ends.0 == A { quoted + 2 } else { quoted + 4 };
        let len = u16::from_be_bytes([back[0][len_at], back[0][len_at + 1]]);
        assert_eq!(usize::from(len), 1_400 + if ends.0 == A { headers } else { 20 });
        assert_eq!(router.drops(DropReason::IpTooBig), 1);
    }
    // Without DF the segments are cut first and then fragmented.
    let mut router = Router::between(1_300, [KERNEL, KERNEL]);
    let mut whole = transport(true, (A, B), 5_000);
    set_flags(&mut whole, 0);
    router.offer_unfinished(&whole, 1_400);
    let left = router.left();
    let offsets = left.iter().map(|(frame, ..)| u16::from_be_bytes([frame[20], frame[21]]));
    let is_fragment = |offset: u16| offset & 0x3fff != 0;
    assert_eq!(offsets.filter(|&offset| is_fragment(offset)).count(), 6);
    assert_eq!(left.len(), 7, "the last segment was fragmented too");
    assert_eq!(router.stack.counters().of(Counter::DatagramsFragmented), 3);
}

/// Offload requests that no correct device makes.
#[test]
fn a_super_segment_that_contradicts_itself_is_dropped() {
    let sound = transport(true, (A, B), 3_000);
    let with = |at: usize, value: u8| {
        let mut bytes = sound.clone();
        bytes[at] = value;
        craft::number(&mut bytes, 1);
        bytes
    };
    let short = transport(true, (A, B), 0);
    // Another protocol, a fragment, and a TCP data offset that is greater than the packet or too
    // small.
    let cases = [with(23, 99), with(20, 0x20), with(V4_HEADERS - 8, 0x40), {
        let mut bytes = short.clone();
        bytes[V4_HEADERS - 8] = 0xf0;
        bytes
    }];
    for (number, bytes) in cases.into_iter().enumerate() {
        let mut router = Router::between(1_500, [KERNEL, KERNEL]);
        router.offer_unfinished(&bytes, 1_400);
        assert!(router.left().is_empty(), "case {number}");
        assert_eq!(router.drops(DropReason::IpSuperSegment), 1, "case {number}");
    }
    // One frame that would become thousands of packets.
    let mut router = Router::between(1_500, [KERNEL, KERNEL]);
    router.offer_unfinished(&transport(true, (A, B), 60_000), 4);
    assert!(router.left().is_empty());
    assert_eq!(router.drops(DropReason::IpSuperSegment), 1);
    // Its checksum is finished.
    let mut router = Router::between(1_500, [KERNEL, KERNEL]);
    let mut m = router.pool.copy_of(&sound).expect("room");
    m.set_segment_size(1_400);
    router.offer(m);
    assert!(router.left().is_empty());
    assert_eq!(router.drops(DropReason::IpSuperSegment), 1);
}

/// A burst gap is demanded between all packets to the destination, so none may leave inside a
/// super-segment.
#[test]
fn a_super_segment_to_a_destination_with_a_gap_is_cut() {
    let mut router = Router::between(1_500, [KERNEL, KERNEL]);
    let gap = Some(Duration::from_millis(1));
    router.stack.set_burst_gap("198.51.100.0/24".parse().expect("a network"), gap).expect("room");
    router.offer_unfinished(&transport(true, (A, B), 3_000), 1_400);
    let left = router.left();
    assert!(left.len() == 1 && left[0].0.len() == V4_HEADERS + 1_400);
    assert_eq!(router.stack.counters().of(Counter::SuperSegmentsCut), 1);
}

/// A super-segment that waits for a link address is not cut.
#[test]
fn a_super_segment_waits_for_a_link_address() {
    let mut router = Router::between(1_500, [KERNEL, KERNEL]);
    let other = "198.51.100.77";
    router.offer_unfinished(&transport(true, (A, other), 3_000), 1_400);
    let asked = router.left();
    assert_eq!(asked[0].0[12..14], [8, 6], "no ARP request left");
    assert!(router.stack.add_neighbour(PortId(1), ip(other), HOSTS[1]));
    let left = router.left();
    assert_eq!((left.len(), left[0].1, left[0].2), (1, Some(34), 1_400));
    assert_eq!(link(&left[0].0), (MACS[1], HOSTS[1]));
}

/// A router with one cable ("on a stick"): packets pass between two VLANs of one trunk, and cause
/// no redirect.
#[test]
fn packets_cross_from_one_vlan_of_a_trunk_to_another() {
    for in_bursts in [true, false] {
        let config = StackConfig { solicited_node_reports: false, ..StackConfig::new([5, 6]) };
        let mut stack = Stack::new(config);
        stack.set_switch(base::Switch::ForwardBurst, in_bursts);
        let (near, mut wire) = mem::pair(&mem::Config::default());
        let ids = [device::vlan::Id::Vlan(5), device::vlan::Id::Vlan(6)];
        let ports = device::vlan::split(Box::new(near), device::vlan::TAG, &ids).expect("Ethernet");
        for (n, port) in ports.into_iter().enumerate() {
            let network = ["192.0.2.1/24", "198.51.100.1/24"][n].parse().expect("a network");
            stack.add_port(
                Box::new(port),
                PortConfig { mac: MACS[n], addresses: vec![network], ..PortConfig::default() },
            );
        }
        stack.add_neighbour(PortId(1), ip(B), HOSTS[1]);
        stack.set_forwarding(true);
        let mut pool = Pool::new(1 << 20);
        let mut tagged = frame(A, B, 9, b"hello");
        // Priority 5 in VLAN 5.
        tagged.splice(12..12, [0x81, 0, 0xa0, 5]);
        for round in 0..3 {
            let mut burst = Burst::new();
            for _ in 0..4 {
                burst.push(pool.copy_of(&tagged).expect("room"));
            }
            wire.tx_burst(&mut pool, &mut burst);
            stack.poll(NOW);
            wire.rx_burst(&mut pool, &mut burst);
            assert_eq!(burst.len(), 4, "round {round}");
            for m in burst.drain(..) {
                assert_eq!(m.as_slice()[..12], [HOSTS[1].0, MACS[1].0].concat());
                assert_eq!(m.as_slice()[12..18], [0x81, 0, 0xa0, 6, 8, 0]);
                assert_eq!(m.as_slice()[26], 8);
            }
        }
        let forwarded = [0, 1].map(|n| stack.forwarded(PortId(n)).expect("a port"));
        let counts = forwarded.map(|f| (f.packets_in, f.packets_out));
        assert_eq!(counts, [(12, 0), (0, 12)]);
        let in_bursts = if in_bursts { 8..12 } else { 0..1 };
        assert!(in_bursts.contains(&stack.counters().of(Counter::ForwardedInBursts)));
        assert_eq!(stack.drops().total(), 0);
    }
}

/// IEEE 802.1Q table 9-2: a tag with VLAN 0 only carries a priority, and the frame counts as
/// untagged: in frames for the router, in forwarded ones, and inside another VLAN tag.
#[test]
fn a_priority_tag_changes_nothing_but_the_priority() {
    for tag in [[0x81, 0, 0xa0, 0], [0x81, 0, 0, 0], [0x88, 0xa8, 0x60, 0]] {
        for (src, dst, own) in [(A, B, "192.0.2.1"), (A6, B6, "2001:db8:1::1")] {
            let mut router = Router::new(1_500);
            let sent = [0, 1].map(|of| {
                let mut sent = Vec::new();
                for _ in 0..3 {
                    let mut plain = frame(src, dst, 9, b"hello");
                    let at = plain.len();
                    if of == 1 {
                        plain.splice(12..12, tag);
                        assert_eq!(plain.len(), at + 4);
                    }
                    sent.extend(router.exchange(&plain)[1].clone());
                }
                sent
            });
            assert_eq!(sent[0].len(), 3);
            assert_eq!(sent[0], sent[1]);
            if ip(own).is_ipv4() {
                let echo = [8, 0, 0xf7, 0xfe, 0, 1, 0, 0];
                let mut request = craft::frame_between(ip(src), ip(own), 1, &echo);
                request[..12].copy_from_slice(&[MACS[0].0, HOSTS[0].0].concat());
                request.splice(12..12, tag);
                assert_eq!(
                    router.exchange(&request)[0].len(),
                    1,
                    "the echo request was not answered"
                );
            }
            assert_eq!(router.stack.drops().total(), 0);
        }
    }
}
