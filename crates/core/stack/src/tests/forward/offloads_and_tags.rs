//! Properties of one link stay there: offloads of a device, tags of a VLAN.

use mbuf::Flags;

use super::*;
use crate::tests::craft;

/// Checksums that a device would have finished are finished here, and super-segments are not passed
/// on.
#[test]
fn offloads_of_the_sender_do_not_leak_onto_the_next_link() {
    let mut router = Router::new(1_500);
    let mut datagram = frame(A, B, 9, &[0, 1, 0, 2, 0, 12, 9, 9, 1, 2, 3, 4]);
    datagram[23] = 17;
    craft::number(&mut datagram, 1);
    let mut m = router.pool.copy_of(&datagram).expect("room");
    m.set(Flags::CSUM_PARTIAL);
    router.offer(m);
    let [_, out] = router.sent(NOW);
    let (ip, _) = ipv4_any(&out[0][14..]).expect("sound");
    let sum = wire::checksum::Ladder::Word64.sum(&out[0][34..]);
    assert!(ip.with_pseudo_header(sum).is_whole());
    let mut m = router.pool.copy_of(&datagram).expect("room");
    m.set_segment_size(4);
    router.offer(m);
    assert!(router.sent(NOW).iter().all(Vec::is_empty));
    assert_eq!(router.drops(DropReason::IpSuperSegment), 1);
}

/// A router on a stick: two VLANs of one trunk, and no redirect between them.
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
            stack.add_port(Box::new(port), PortConfig { mac: MACS[n], addresses: vec![network] });
        }
        stack.add_neighbour(PortId(1), ip(B), HOSTS[1]);
        stack.set_forwarding(true);
        let mut pool = Pool::new(1 << 20);
        let mut tagged = frame(A, B, 9, b"hello");
        // Priority 5.
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

/// IEEE 802.1Q table 9-2: a tag of VLAN 0 is a priority, and its frame is an untagged one: for the
/// router, through it, and inside a VLAN.
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
                assert_eq!(router.exchange(&request)[0].len(), 1, "the echo");
            }
            assert_eq!(router.stack.drops().total(), 0);
        }
    }
}
