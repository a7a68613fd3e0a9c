//! The neighbours that forwarding uses: their use is recorded, and they are solicited again and
//! forgotten. RFC 4861 sections 7.2.5 and 7.3.

use super::*;

impl Router {
    /// The host 198.51.100.`last` at port 1 sends an ARP reply; returns the frames that leave by
    /// port 1.
    fn answer(&mut self, last: u8, now: Instant) -> Vec<Vec<u8>> {
        let mut reply = vec![0; 14];
        ether::Header { dst: MACS[1], src: HOSTS[1], ethertype: ether::ARP }.emit(&mut reply);
        let [sender, target] = [last, 1].map(|n| Ipv4Addr::new(198, 51, 100, n));
        let operation = wire::arp::Operation::Reply;
        reply.extend(inet::nd::arp_output(operation, (HOSTS[1], sender), (MACS[1], target)));
        let mut burst = Burst::new();
        burst.push(self.pool.copy_of(&reply).expect("room"));
        self.wires[1].tx_burst(&mut self.pool, &mut burst);
        let [_, out] = self.sent(now);
        out
    }

    /// Packets to these hosts at port 1 arrive at port 0 in one burst; returns the frames that
    /// leave by port 1.
    fn sent_to_hosts(&mut self, hosts: &[u8], now: Instant) -> Vec<Vec<u8>> {
        let mut burst = Burst::new();
        for host in hosts {
            let frame = frame(A, &format!("198.51.100.{host}"), 9, b"x");
            burst.push(self.pool.copy_of(&frame).expect("room"));
        }
        self.wires[0].tx_burst(&mut self.pool, &mut burst);
        let [_, out] = self.sent(now);
        out
    }

    /// A router with room for `most` neighbours beside the permanent ones.
    fn with_neighbours(most: usize, in_bursts: bool) -> Router {
        let mut router = Router::new(1_500);
        router.stack.set_switch(base::Switch::ForwardBurst, in_bursts);
        router.stack.core.cx.budget.set(base::Limit::Neighbours, 4 + most);
        router
    }
}

/// What one packet changes counts for the later ones of the same burst: a neighbour that had to
/// make room for another is resolved again.
#[test]
fn a_burst_sees_what_its_own_packets_change() {
    for in_bursts in [true, false] {
        let mut router = Router::with_neighbours(1, in_bursts);
        router.sent_to_hosts(&[77], NOW);
        assert_eq!(router.answer(77, NOW).len(), 1);
        // The neighbour has not been confirmed for long, is used again, and is remembered by the
        // burst path.
        let later = NOW + Duration::from_secs(31);
        assert_eq!(router.sent_to_hosts(&[77, 77, 77, 77], later).len(), 4);
        assert_eq!(router.sent_to_hosts(&[77, 77], later).len(), 2);
        let fast = router.stack.counters().of(Counter::ForwardedInBursts);
        assert_eq!(fast > 0, in_bursts);
        let out = router.sent_to_hosts(&[78, 77], later);
        let asked = out.iter().filter(|frame| frame[..6] == [0xff; 6]).count();
        assert_eq!((out.len(), asked), (2, 2), "in bursts: {in_bursts}");
    }
}

/// A neighbour that packets are forwarded to is in use: when the table is full, another one makes
/// room.
#[test]
fn forwarding_counts_as_use_of_a_neighbour() {
    for in_bursts in [true, false] {
        let mut router = Router::with_neighbours(2, in_bursts);
        for host in [77, 78] {
            router.sent_to_hosts(&[host], NOW);
            assert_eq!(router.answer(host, NOW).len(), 1);
        }
        let later = NOW + Duration::from_secs(2);
        for _ in 0..3 {
            assert_eq!(router.sent_to_hosts(&[77, 77, 77], later).len(), 3);
        }
        router.sent_to_hosts(&[79], NOW + Duration::from_secs(31));
        let state = |last| {
            router.stack.neighbour_state(PortId(1), Ipv4Addr::new(198, 51, 100, last).into())
        };
        assert!(state(77).is_some() && state(78).is_none(), "in bursts: {in_bursts}");
    }
}

/// An advertisement is about the link that it arrived by, whichever of the router's addresses it is
/// sent to.
#[test]
fn nobody_speaks_for_neighbours_of_another_link() {
    let mut router = Router::new(1_500);
    let (src, dst) = ("2001:db8:2::77", "2001:db8:2::1");
    let mut bytes = frame(src, dst, 255, &[0; 32]);
    bytes[20] = 58;
    let [IpAddr::V6(target), IpAddr::V6(to)] = [ip(src), ip(dst)] else { panic!("IPv6") };
    let len = inet::nd::solicitation(&mut bytes[54..], HOSTS[0], target, to, to);
    assert_eq!(len, Some(32));
    assert!(router.exchange(&bytes).iter().all(Vec::is_empty));
    assert_eq!(router.drops(DropReason::NdNotForUs), 1);
    assert_eq!(router.stack.neighbour_state(PortId(1), ip(src)), None);
}

/// An advertisement without the override flag gives another link address: the next packet moves the
/// neighbour to the delay state, and five seconds later the neighbour is probed.
#[test]
fn a_neighbour_in_doubt_is_asked_once_a_packet_goes_there() {
    const HOST: &str = "2001:db8:2::77";
    for in_bursts in [true, false] {
        let mut router = Router::with_neighbours(2, in_bursts);
        let packets = |router: &mut Router, count: usize, now| {
            for _ in 0..count {
                let m = router.pool.copy_of(&frame(A6, HOST, 9, b"x")).expect("room");
                router.offer(m);
            }
            router.sent(now)[1].len()
        };
        assert_eq!(packets(&mut router, 1, NOW), 1, "it was not solicited");
        assert_eq!(
            router.advertises(HOST, (true, true), HOSTS[1]).len(),
            1,
            "the waiting packet did not leave"
        );
        assert_eq!((packets(&mut router, 4, NOW), packets(&mut router, 4, NOW)), (4, 4));
        assert_eq!(router.stack.counters().of(Counter::ForwardedInBursts) > 0, in_bursts);
        assert!(router.advertises(HOST, (false, false), HOSTS[0]).is_empty());
        let soon = NOW + Duration::from_millis(10);
        assert_eq!(packets(&mut router, 1, soon), 1);
        let [_, asked] = router.sent(soon + Duration::from_secs(6));
        assert_eq!(asked.len(), 1, "in bursts: {in_bursts}");
        assert_eq!((link(&asked[0]).1, asked[0][20], asked[0][54]), (HOSTS[1], 58, 135));
    }
}

impl Router {
    /// A host at port 1 advertises this link address; returns the frames that leave by port 1.
    fn advertises(
        &mut self,
        host: &str,
        (solicited, overrides): (bool, bool),
        at: MacAddr,
    ) -> Vec<Vec<u8>> {
        let [IpAddr::V6(target), IpAddr::V6(dst)] = [host, "2001:db8:2::1"].map(ip) else {
            panic!("IPv6")
        };
        let kind = wire::nd::Kind::Advertisement { router: false, solicited, overrides };
        let mut message = [0; wire::nd::LEN_MAX];
        let header = wire::nd::Header { kind, target, link_addr: Some(at) };
        let len = header.emit(&mut message, target, dst).expect("room");
        let mut bytes = vec![0; 14];
        ether::Header { dst: MACS[1], src: HOSTS[1], ethertype: ether::IPV6 }.emit(&mut bytes);
        bytes.extend([0x60, 0, 0, 0, 0, len as u8, 58, 255]);
        bytes.extend(target.octets());
        bytes.extend(dst.octets());
        bytes.extend(&message[..len]);
        let mut burst = Burst::new();
        burst.push(self.pool.copy_of(&bytes).expect("room"));
        self.wires[1].tx_burst(&mut self.pool, &mut burst);
        let [_, out] = self.sent(NOW);
        out
    }
}

/// No route sends a packet to a broadcast address as its next hop, even if the neighbour table has
/// an entry for it. RFC 1122 section 3.3.6.
#[test]
fn a_broadcast_address_is_nobodys_next_hop() {
    for in_bursts in [true, false] {
        let mut router = Router::with_neighbours(2, in_bursts);
        let everybody = ip("198.51.100.255");
        assert!(router.stack.add_neighbour(PortId(1), everybody, HOSTS[1]));
        let beyond = "203.0.113.0/24".parse().expect("a network");
        router.stack.add_route(inet::Route::new(beyond, Some(everybody), 1));
        for _ in 0..4 {
            let m = router.pool.copy_of(&frame(A, "203.0.113.7", 9, b"x")).expect("room");
            router.offer(m);
        }
        let [_, out] = router.sent(NOW);
        assert!(out.is_empty(), "in bursts: {in_bursts}");
        assert_eq!(router.drops(DropReason::IpBroadcastNextHop), 4);
    }
}
