//! Floods and forged messages about neighbours: state, solicitations and answers stay within their
//! limits.

use base::Limit;

use super::*;
use crate::resolve;
use crate::tests::craft::{self, Rng};

/// Requests and solicitations from random addresses, and packets whose answers go to random hosts:
/// the table, the pending queues and the sent packets stay within their limits.
#[test]
fn floods_are_bounded() {
    let mut config = of(IpVersion::V4);
    config.stack.budget.set(Limit::Neighbours, 64);
    config.stack.budget.set(Limit::NeighbourQueueTotal, 20);
    config.stack.budget.set(Limit::SolicitationsPerSecond, 30);
    config.stack.budget.set(Limit::AdvertisementsPerSecond, 40);
    let mut bench = Bench::among_strangers(&config);
    let mut rng = Rng(1);
    let (mut questions, mut answers) = (0, 0);
    for n in 0..2_000 {
        let host = Ipv4Addr::new(192, 0, 2, 3 + rng.below(250) as u8);
        let frame = if n % 2 == 0 {
            arp_frame(Operation::Request, (pair::mac(2), host), v4(bench.ours))
        } else {
            // A stray ACK, which causes a RST to an address that must be resolved.
            let stray = craft::Tcp {
                ports: (n as u16, 80),
                seq: base::SeqNumber(1),
                ack: base::SeqNumber(1),
                flags: wire::tcp::Flags::ACK,
                window: 100,
                urgent: 0,
                options: Vec::new(),
                payload: Vec::new(),
            };
            let bytes = stray.bytes(host.into(), bench.ours);
            craft::frame_between(host.into(), bench.ours, wire::protocol::TCP, &bytes)
        };
        for sent in bench.exchange(&frame, NOW) {
            match arp_of(&sent).map(|header| header.operation) {
                Some(Operation::Request) => questions += 1,
                Some(Operation::Reply) => answers += 1,
                None => {}
            }
        }
        assert!(bench.stack.neighbours.len() <= 64);
        assert!(bench.stack.neighbours.pending() <= 20);
    }
    assert!(questions <= 30 && answers <= 40, "{questions}, {answers}");
    assert!(bench.stack.budget().hits(Limit::Neighbours) > 0);
    // Later every solicitation has failed, and no state is left.
    (0..40).for_each(|n| drop(bench.poll(after(n * 250))));
    assert_eq!(bench.stack.neighbours.pending(), 0);
    assert_eq!(bench.stack.pool().outstanding(), 0);
}

/// A look-up while frames are sent evicts an entry; the packets that waited there are left to the
/// next poll, which is due at once.
#[test]
fn what_a_look_up_evicts_is_acted_on_by_the_next_turn() {
    let mut config = of(IpVersion::V4);
    config.stack.budget.set(Limit::Neighbours, 1);
    let mut bench = Bench::among_strangers(&config);
    let host = |n| SocketAddr::from(([192, 0, 2, n], 9));
    let socket = bench.stack.udp_bind(bench.listen_at(7), Owner::program()).expect("free");
    bench.stack.udp_send(socket, host(9), b"waits for a link address", NOW).expect("queued");
    let other = host(10).ip();
    let found = resolve::link_address(&mut bench.stack, PORT.0, other, other);
    assert_eq!(found, Ok(None));
    let dropped = |bench: &Bench| bench.stack.drops().of(DropReason::IpNoNeighbour);
    assert_eq!((dropped(&bench), bench.stack.next_deadline()), (0, NOW));
    assert_eq!(bench.poll(NOW).len(), 2, "not both addresses were solicited");
    assert_eq!(dropped(&bench), 1);
    assert_eq!(bench.stack.next_event(), Some(Event::Udp(socket)));
    let told = bench.stack.udp_take_error(socket).map(|(remote, _)| remote);
    assert_eq!(told, Some(host(9)));
    assert!(bench.stack.next_deadline() > NOW);
}

/// A neighbour that was evicted and solicited again in the same poll is not given up.
#[test]
fn connections_wait_for_a_neighbour_that_is_asked_again() {
    let mut config = of(IpVersion::V4);
    config.stack.budget.set(Limit::Neighbours, 1);
    let mut bench = Bench::among_strangers(&config);
    let (host, other) = (Ipv4Addr::new(192, 0, 2, 9), Ipv4Addr::new(192, 0, 2, 10));
    let connection = connect(&mut bench.stack, host.into(), NOW);
    for ip in [other, host] {
        let found = resolve::link_address(&mut bench.stack, PORT.0, ip.into(), ip.into());
        assert_eq!(found, Ok(None));
    }
    bench.poll(NOW);
    let state = bench.stack.tcp_state(connection);
    assert_eq!(state, Some((tcp::State::SynSent, None)));
    let answer = arp_frame(Operation::Reply, (pair::mac(9), host), v4(bench.ours));
    assert_eq!(bench.exchange(&answer, NOW).len(), 1, "the waiting SYN did not leave");
}

/// RFC 826 2-e.
#[test]
fn no_entry_is_made_from_an_unsolicited_reply() {
    let mut bench = Bench::among_strangers(&of(IpVersion::V4));
    let (ours, other) = (v4(bench.ours), Ipv4Addr::new(192, 0, 2, 77));
    for frame in [
        arp_frame(Operation::Reply, (pair::mac(9), other), ours),
        arp_frame(Operation::Reply, (pair::mac(9), other), other),
        arp_frame(Operation::Reply, (pair::mac(9), other), Ipv4Addr::new(192, 0, 2, 78)),
        arp_frame(Operation::Request, (pair::mac(9), other), other),
        arp_frame(Operation::Request, (pair::mac(9), other), Ipv4Addr::new(192, 0, 2, 78)),
    ] {
        assert!(bench.exchange(&frame, NOW).is_empty());
        assert_eq!(bench.stack.neighbours.len(), 0);
    }
    assert_eq!(bench.stack.drops().total(), 5);
}

/// A host that claims to be every host of the network, even the first hop, and a host that claims
/// ten thousand link addresses: entries in use change a few times at once, then at most once a
/// second; the user's entries never change, and the table stays within its limit.
#[test]
fn arp_spoof_and_cache_flood_are_bounded() {
    let mut config = of(IpVersion::V4);
    config.stack.budget.set(Limit::Neighbours, 32);
    let mut bench = Bench::among_strangers(&config);
    let (ours, theirs) = (v4(bench.ours), v4(bench.theirs));
    let fixed = Ipv4Addr::new(192, 0, 2, 3);
    bench.stack.add_neighbour(PORT, fixed.into(), pair::mac(3));
    let peer = bench.theirs;
    connect(&mut bench.stack, peer, NOW);
    let reply = arp_frame(Operation::Reply, (pair::mac(2), theirs), ours);
    bench.exchange(&reply, NOW);
    let mac_of = |bench: &Bench, ip: Ipv4Addr| {
        bench.stack.neighbours.rows().find(|row| row.ip == IpAddr::V4(ip)).and_then(|row| row.mac)
    };
    let (mut rng, mut changes, mut last) = (Rng(4), 0, mac_of(&bench, theirs));
    let (mut lives, mut was_there) = (0, true);
    for n in 0..10_000u64 {
        let station = MacAddr([2, 1, 1, (n >> 16) as u8, (n >> 8) as u8, n as u8]);
        let near = Ipv4Addr::new(192, 0, 2, 4 + rng.below(200) as u8);
        let any = Ipv4Addr::from_bits(rng.next() as u32);
        let claimed = rng.pick(&[theirs, fixed, near, any]);
        let operation = rng.pick(&[Operation::Request, Operation::Reply]);
        let target = rng.pick(&[ours, claimed, theirs]);
        let frame = arp_frame(operation, (station, claimed), target);
        // All these frames arrive within ten seconds.
        bench.exchange(&frame, after(n));
        assert!(bench.stack.neighbours.len() <= 32);
        // An entry that was evicted and learnt again may have another link address.
        let is_there = mac_of(&bench, theirs).is_some();
        lives += u32::from(is_there && !was_there);
        was_there = is_there;
        let now = mac_of(&bench, theirs).or(last);
        changes += u32::from(now != last);
        last = now;
    }
    // Each life of the entry: four changes at once, then one a second. A new entry may also differ.
    let most = 14 + 5 * lives;
    assert!(lives < 30 && (1..=most).contains(&changes), "{changes} changes in {lives} lives");
    assert_eq!(mac_of(&bench, fixed), Some(pair::mac(3)));
    assert!(bench.stack.neighbours.pending() <= 3);
}
