//! A host of two shards: its sockets, fragments and neighbours, and the state that shards publish
//! to each other.

use base::{DropReason, Owner};
use wire::protocol;

use super::*;
use crate::shard::RING_FRAMES;
use crate::{ListenConfig, Route};

/// The first byte of each datagram that waits in a shard's socket.
pub(super) fn received(shard: &mut Shard, socket: crate::UdpHandle) -> Vec<u8> {
    let mut all = Vec::new();
    let mut stack = shard.enter();
    while let Some(datagram) = stack.udp_receive(socket) {
        all.push(datagram.payload.as_slice()[0]);
        stack.give_back(datagram.payload);
    }
    all
}

#[test]
fn a_fragmented_datagram_reaches_the_shard_of_its_flow() {
    let mut world = World::router(2);
    let ours = SocketAddr::new(host(0, 1, false), 7_000);
    let sockets = [0, 1].map(|n| {
        let mut stack = world.shards[n].enter();
        stack.udp_bind(ours, Owner::program()).expect("free")
    });
    let steering = world.shards[0].steering();
    let mut counts = [0; 2];
    for n in 0..64_u8 {
        let theirs = SocketAddr::new(host(0, 9 + n % 30, false), 3_000 + u16::from(n));
        let whole = datagram(theirs, ours, &[n; 40]);
        let mut parts = [&whole[..24], &whole[24..]]
            .map(|part| frame(0, theirs.ip(), ours.ip(), protocol::UDP, 64, part));
        fragment(&mut parts[0], u16::from(n), 0, true);
        fragment(&mut parts[1], u16::from(n), 24, false);
        world.offer(0, 1, &parts[1]);
        world.offer(0, 0, &parts[0]);
        world.poll();
        let expected = steering.of_flow(theirs, ours);
        for (index, &socket) in sockets.iter().enumerate() {
            let got = received(&mut world.shards[index], socket);
            let due = if index == expected { vec![n] } else { Vec::new() };
            assert_eq!(got, due, "datagram {n} at shard {index}");
        }
        counts[expected] += 1;
    }
    assert!(counts.iter().all(|&n| n > 10), "{counts:?}");
    assert_eq!(world.outstanding(), 0);
}

#[test]
fn a_full_ring_drops_by_name_and_nothing_leaks() {
    let mut world = World::router(2);
    world.poll();
    let steering = world.shards[0].steering();
    let (from, to) = (host(0, 9, false), SocketAddr::new(host(0, 1, false), 2_000));
    let of_second = |port| steering.of_flow(SocketAddr::new(from, port), to) == 1;
    let port = (1_000..).find(|&port| of_second(port)).expect("a flow of the second shard");
    let whole = datagram(SocketAddr::new(from, port), to, &[0; 20]);
    let frame = frame(0, from, to.ip(), protocol::UDP, 64, &whole);
    for _ in 0..RING_FRAMES + 100 {
        world.offer(0, 0, &frame);
    }
    while world.shards[0].poll(NOW) > 0 {}
    (0..10).for_each(|_| assert_eq!(world.shards[0].poll(NOW), 0));
    world.poll();
    let lost = world.shards[0].enter().drops().of(DropReason::ShardRingFull);
    assert_eq!(lost, 100);
    let refused = world.shards[1].enter().drops().of(DropReason::UdpNoSocket);
    assert_eq!(refused, RING_FRAMES as u64);
    world.sent();
    assert_eq!(world.outstanding(), 0);
}

/// A frame with ARP from the host at port 0.
fn arp(operation: u8, sender: IpAddr, target: IpAddr, dst: MacAddr) -> Vec<u8> {
    let (IpAddr::V4(sender), IpAddr::V4(target)) = (sender, target) else { panic!("IPv4") };
    let header = [&dst.0[..], &HOSTS[0].0, &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation]].concat();
    [&header[..], &HOSTS[0].0, &sender.octets(), &MACS[0].0, &target.octets()].concat()
}

#[test]
fn every_shard_finds_neighbours_and_one_answers() {
    let mut world = World::new(2);
    world.shards[0].enter().set_forwarding(true);
    world.poll();
    let (theirs, ours) = (host(0, 9, false), host(0, 1, false));
    // A packet to a host that no shard knows, which arrives by its shard's own queue.
    let steering = world.shards[0].steering();
    let from = host(1, 9, false);
    let to = SocketAddr::new(theirs, 2_000);
    let of_second = |port: &u16| steering.of_flow(SocketAddr::new(from, *port), to) == 1;
    let port = (1_000..).find(of_second).expect("a flow of the second shard");
    let whole = datagram(SocketAddr::new(from, port), to, &[0; 20]);
    world.offer(1, 1, &frame(1, from, theirs, protocol::UDP, 64, &whole));
    world.poll();
    let sent = world.sent();
    assert_eq!((sent[0][0].len(), sent[0][1].len()), (0, 1), "not the second shard solicited");
    assert_eq!(sent[0][1][0][12..14], [8, 6]);
    world.offer(0, 0, &arp(2, theirs, ours, MACS[0]));
    world.poll();
    let sent = world.sent();
    assert_eq!((sent[0][0].len(), sent[0][1].len()), (0, 1), "not the second shard sent");
    assert_eq!(sent[0][1][0][..6], HOSTS[0].0);
    for queue in 0..2 {
        world.offer(0, queue, &arp(1, theirs, ours, MacAddr::BROADCAST));
        world.poll();
        let answers: Sent = world.sent()[0].concat();
        assert_eq!(answers.len(), 1, "not exactly one answer");
        assert_eq!(answers[0][12..14], [8, 6]);
    }
    assert_eq!(world.outstanding(), 0);
}

#[test]
fn connections_of_either_shard_have_their_answers() {
    for (client, server) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let (mut here, mut there) = (World::router(2), World::router(2));
        let listen = SocketAddr::new(host(0, 1, false), 80);
        let listeners = [0, 1].map(|n| {
            let mut stack = there.shards[n].enter();
            stack.tcp_listen(listen, ListenConfig::default()).expect("free")
        });
        // The client's host is 192.0.2.9 at the server's first port.
        let own = host(0, 9, false);
        let cidr = base::Cidr { addr: own, prefix_len: 24 };
        {
            let mut first = here.shards[0].enter();
            first.remove_address(PortId(0), host(0, 1, false));
            first.add_address(PortId(0), crate::Address::fixed(cidr)).expect("room");
            first.add_neighbour(PortId(0), listen.ip(), MACS[0]);
        }
        let mut stack = here.shards[client].enter();
        let opened =
            stack.tcp_connect(listen, None, &tcp::Config::default(), Owner::program(), NOW);
        let handle = opened.expect("routed");
        drop(stack);
        for _ in 0..4 {
            here.poll();
            for frame in here.sent()[0].concat() {
                let frame = [&MACS[0].0, &frame[6..]].concat();
                there.offer(0, server, &frame);
            }
            there.poll();
            for frame in there.sent()[0].concat() {
                let frame = [&MACS[0].0, &frame[6..]].concat();
                here.offer(0, 1 - client, &frame);
            }
        }
        let state = here.shards[client].enter().tcp_info(handle).map(|info| info.state);
        assert_eq!(state, Some(tcp::State::Established));
        let accepted = (0..2).filter_map(|n| there.shards[n].enter().tcp_accept(listeners[n]));
        assert_eq!(accepted.count(), 1);
    }
}

#[test]
fn what_the_first_shard_changes_holds_for_all() {
    let mut world = World::router(2);
    world.poll();
    let far = SocketAddr::from(([203, 0, 113, 1], 9));
    let via = host(1, 9, false);
    let dest = "203.0.113.0/24".parse().expect("a network");
    let source = |shard: &mut Shard| shard.enter().source_for(far);
    assert_eq!(source(&mut world.shards[1]), None);
    assert!(
        !world.shards[1].enter().add_route(Route::new(dest, Some(via), 1)),
        "another shard than the first changed a route"
    );
    assert!(world.shards[0].enter().add_route(Route::new(dest, Some(via), 1)));
    assert_eq!(source(&mut world.shards[1]), Some(host(1, 1, false)));
    world.shards[0].enter().remove_address(PortId(1), host(1, 1, false));
    assert!(!world.shards[1].enter().has_address(host(1, 1, false)));
    world.shards[0].enter().remove_neighbour(PortId(0), host(0, 9, false));
    let state = |world: &mut World, n| {
        world.shards[1].enter().neighbour_state(PortId(0), host(0, n, false))
    };
    assert_eq!(state(&mut world, 9), None);
    assert!(state(&mut world, 10).is_some());
    world.shards[0].enter().set_forwarding(false);
    assert!(!world.shards[1].enter().forwarding());
}
