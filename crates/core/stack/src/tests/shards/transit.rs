//! A router of two shards: each shard forwards the frames of its queue, whichever shard the flow
//! belongs to; packets to the router itself go to the shard of their flow.

use base::{Counter, DropReason, Owner, Switch, WallTime};
use bpf::{Filter, Insn, Program, Settings, Tap};
use wire::protocol;

use super::host::received;
use super::*;

const FLOWS: u8 = 64;

/// A frame from the `n`th of some hosts at port 0 to `to`, and the shard that its flow belongs to.
fn of_flow(world: &World, n: u8, to: SocketAddr) -> (Vec<u8>, usize) {
    let from = SocketAddr::new(host(0, 9 + n % 30, false), 3_000 + u16::from(n));
    let whole = datagram(from, to, &[n; 40]);
    let home = world.shards[0].steering().of_flow(from, to);
    (frame(0, from.ip(), to.ip(), protocol::UDP, 64, &whole), home)
}

fn everything() -> Tap {
    let program = Program::new(&[Insn::new(0x06, 0, 0, 96)]).expect("it ends in a return");
    Tap::new(Filter::new(program), Settings::default()).expect("settings in range")
}

fn total(world: &mut World, counter: Counter) -> u64 {
    world.shards.iter_mut().map(|shard| shard.enter().counters().of(counter)).sum()
}

/// Datagrams to both of the router's addresses arrive by the queue of the wrong shard, together
/// with packets to forward; in bursts or not, with taps or without.
fn arrive(in_bursts: bool, tapped: bool) {
    let mut world = World::router(2);
    world.poll();
    // The second address belongs to the other port: a router accepts packets to any of its
    // addresses.
    let ours = [0, 1].map(|port| SocketAddr::new(host(port, 1, false), 7_000));
    let mut sockets = Vec::new();
    let mut taps = Vec::new();
    for shard in &mut world.shards {
        let mut stack = shard.enter();
        stack.set_switch(Switch::ForwardBurst, in_bursts);
        sockets.push(ours.map(|addr| stack.udp_bind(addr, Owner::program()).expect("free")));
        if tapped {
            taps.push(stack.add_tap(PortId(0), everything(), WallTime(0)).expect("a port"));
        }
    }
    let beyond = SocketAddr::new(host(1, 9, false), 2_000);
    let mut due = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    let mut by_queue = [0, 0];
    for n in 0..FLOWS {
        for (at, to) in ours.into_iter().enumerate() {
            let (frame, home) = of_flow(&world, n, to);
            world.offer(0, 1 - home, &frame);
            due[home][at].push(n);
        }
        let (frame, home) = of_flow(&world, n, beyond);
        world.offer(0, 1 - home, &frame);
        by_queue[if tapped { home } else { 1 - home }] += 1;
    }
    // The second shard is polled first: the frames that it hands over reach the first shard
    // together with that shard's own.
    while world.shards[1].poll(NOW) > 0 {}
    world.poll();
    for (shard, due) in due.into_iter().enumerate() {
        for (at, due) in due.into_iter().enumerate() {
            assert!(due.len() > 10, "{due:?}");
            let mut got = received(&mut world.shards[shard], sockets[shard][at]);
            got.sort_unstable();
            assert_eq!(got, due, "shard {shard}, address {at}");
        }
    }
    let sent = world.sent();
    assert_eq!([sent[1][0].len(), sent[1][1].len()], by_queue, "bursts: {in_bursts}");
    // A frame counts once, however often it is handed over.
    let offered = u64::from(FLOWS) * 3;
    assert_eq!(total(&mut world, Counter::RxFrames), offered);
    assert_eq!(total(&mut world, Counter::Forwarded), u64::from(FLOWS));
    let mut seen = 0;
    for (shard, &id) in world.shards.iter_mut().zip(&taps) {
        seen += shard.enter().tap(id).expect("it is there").counters().seen;
    }
    // The taps captured the received frames; the port sent none.
    assert_eq!(seen, if tapped { offered } else { 0 });
    assert_eq!(world.outstanding(), 0);
}

#[test]
fn what_is_for_a_router_comes_to_the_shard_of_its_flow() {
    for (in_bursts, tapped) in [(true, false), (false, false), (true, true), (false, true)] {
        arrive(in_bursts, tapped);
    }
}

/// Frames that a shard forwards are not handed over, whichever shard their flow belongs to.
#[test]
fn a_shard_hands_over_nothing_that_it_forwards() {
    let mut world = World::router(2);
    world.poll();
    let beyond = SocketAddr::new(host(1, 9, false), 2_000);
    for _ in 0..crate::shard::RING_FRAMES / 16 {
        for n in 0..FLOWS {
            let (frame, _) = of_flow(&world, n, beyond);
            world.offer(0, 0, &frame);
        }
    }
    // More frames than the ring holds, while the other shard takes none from it.
    while world.shards[0].poll(NOW) > 0 {}
    let offered = usize::from(FLOWS) * crate::shard::RING_FRAMES / 16;
    assert_eq!(world.sent()[1][0].len(), offered);
    assert_eq!(world.shards[0].enter().drops().of(DropReason::ShardRingFull), 0);
    assert_eq!(world.outstanding(), 0);
}

/// IPv4 goes by a neighbour with an IPv6 address in each shard. RFC 8950.
#[test]
fn each_shard_sends_ipv4_by_an_ipv6_next_hop() {
    for in_bursts in [true, false] {
        let mut world = World::router(2);
        for shard in &mut world.shards {
            shard.enter().set_switch(Switch::ForwardBurst, in_bursts);
        }
        let dest = "203.0.113.0/24".parse().expect("a network");
        let gateway = Some(host(1, 9, true));
        assert!(world.shards[0].enter().add_route(inet::Route::new(dest, gateway, 1)));
        world.poll();
        let counts = cross(&mut world, "203.0.113.5");
        assert_eq!(counts[0] + counts[1], FLOWS.into());
        assert!(counts.iter().all(|&count| count > 10), "{counts:?}");
    }
}

/// Offer [`FLOWS`] flows to `to`, half of them to each shard; returns how many packets left by port
/// 1, as IPv4 to a host there, by shard.
fn cross(world: &mut World, to: &str) -> [usize; 2] {
    let to = SocketAddr::new(to.parse().expect("an address"), 2_000);
    for n in 0..FLOWS {
        let (frame, _) = of_flow(world, n, to);
        world.offer(0, usize::from(n % 2), &frame);
    }
    world.poll();
    let sent = world.sent();
    let as_ipv4 = |frame: &&Vec<u8>| frame[..6] == HOSTS[1].0 && frame[12..14] == [8, 0];
    [0, 1].map(|shard| sent[1][shard].iter().filter(as_ipv4).count())
}

/// The VRF of a port is set on the first shard, and is that of all.
#[test]
fn a_vrf_is_that_of_all_shards() {
    for in_bursts in [true, false] {
        let mut world = World::router(2);
        for shard in &mut world.shards {
            shard.enter().set_switch(Switch::ForwardBurst, in_bursts);
        }
        let vrf = inet::Vrf::of_table(10).expect("a table");
        assert!(!world.shards[1].enter().set_vrf(PortId(0), vrf), "not the first shard");
        let beyond = host(1, 9, false).to_string();
        for (vrfs, passes) in [([vrf, inet::Vrf::NONE], false), ([vrf, vrf], true)] {
            for (port, vrf) in vrfs.into_iter().enumerate() {
                assert!(world.shards[0].enter().set_vrf(PortId(port as u16), vrf));
            }
            world.poll();
            let counts = cross(&mut world, &beyond);
            assert_eq!(counts.iter().all(|&count| count > 10), passes, "{counts:?}");
            assert_eq!(counts.iter().sum::<usize>() > 0, passes, "{counts:?}");
        }
    }
}
