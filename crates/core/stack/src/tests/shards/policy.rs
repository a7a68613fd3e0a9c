//! Rules and restricted routes: another shard does what the first shard would have done, for
//! forwarded packets and for sockets. Also ports that are added and removed.

use core::num::NonZeroU8;
use std::sync::Arc;

use base::{Counter, DropReason, Owner};
use inet::route::Action;
use inet::{Access, Rule, Selector, Sender, Vrf};
use wire::protocol;

use super::*;
use crate::{ReplaceError, Route, Stack, shard};

const FAR: [u8; 4] = [203, 0, 113, 9];

/// Gives the router a packet to `to` by the second shard's queue; returns how many frames left by
/// each queue of port 1.
fn forward(world: &mut World, from: IpAddr, to: IpAddr) -> [usize; 2] {
    let to = SocketAddr::new(to, 2_000);
    let whole = datagram(SocketAddr::new(from, 1_000), to, &[0; 20]);
    world.offer(0, 1, &frame(0, from, to.ip(), protocol::UDP, 64, &whole));
    world.poll();
    let sent = world.sent();
    [sent[1][0].len(), sent[1][1].len()]
}

#[test]
fn a_forwarded_packet_to_a_restricted_route_goes_where_the_first_shard_would_send_it() {
    let mut world = World::router(2);
    world.poll();
    world.sent();
    let (from, far) = (host(0, 9, false), IpAddr::from(FAR));
    let via = |n| Some(host(1, n, false));
    let net = |text: &str| text.parse().expect("a network");
    let add = |world: &mut World, route| assert!(world.shards[0].enter().add_route(route));
    add(&mut world, Route::new(net("203.0.113.0/24"), via(9), 1));
    assert_eq!(
        forward(&mut world, from, far),
        [0, 1],
        "a plain packet did not leave by its own queue's shard"
    );
    // A route that only a group may use: a forwarded packet uses the next shorter prefix.
    let access = Some(Arc::new(Access::Include(Arc::from([7]))));
    let restricted = Route { access, ..Route::new(net("203.0.113.8/29"), via(10), 1) };
    add(&mut world, restricted);
    for _ in 0..3 {
        assert_eq!(
            forward(&mut world, from, far),
            [0, 1],
            "the surrounding route is not published"
        );
    }
    let other = IpAddr::from([203, 0, 113, 99]);
    assert_eq!(forward(&mut world, from, other), [0, 1], "an unrestricted route was not used");
    world.shards[0].enter().remove_route(net("203.0.113.0/24"), PortId(1));
    assert_eq!(forward(&mut world, from, far), [0, 0]);
    // The first shard, which has the full routing table (RIB), decides.
    let drops = world.shards[0].enter().drops().of(DropReason::IpNoRoute);
    assert_eq!((drops, world.shards[1].enter().drops().total()), (1, 0));
    assert_eq!(world.outstanding(), 0);
}

fn user(group: u32) -> Owner {
    Owner { uid: 1_000 + group, groups: Arc::from([group]) }
}

#[test]
fn a_user_of_another_shard_has_his_routes_and_no_others() {
    let mut world = World::router(2);
    world.poll();
    world.sent();
    let far = SocketAddr::new(FAR.into(), 9);
    let dest = "203.0.113.0/24".parse().expect("a network");
    let route = |port: usize, access: Access| Route {
        access: Some(Arc::new(access)),
        ..Route::new(dest, Some(host(port, 9, false)), port as u16)
    };
    let sent_by = |world: &mut World, group| {
        let mut stack = world.shards[1].enter();
        let ours = SocketAddr::new(host(0, 1, false), 5_000);
        let socket = stack.udp_bind(ours, user(group)).expect("free");
        let is_sent = stack.udp_send(socket, far, &[7; 20], NOW).is_ok();
        stack.udp_close(socket);
        drop(stack);
        world.poll();
        let sent = world.sent().map(|queues| queues.concat().len());
        assert_eq!(sent.iter().sum::<usize>(), usize::from(is_sent));
        sent
    };
    assert_eq!(sent_by(&mut world, 7), [0, 0]);
    let members = route(0, Access::Include(Arc::from([7])));
    assert!(world.shards[0].enter().add_route(members));
    assert_eq!(sent_by(&mut world, 7), [1, 0]);
    assert_eq!(sent_by(&mut world, 9), [0, 0], "a user who is not in the group sent");
    let others = Route { metric: 9, ..route(1, Access::Exclude(Arc::from([7]))) };
    assert!(world.shards[0].enter().add_route(others));
    assert_eq!(sent_by(&mut world, 7), [1, 0]);
    assert_eq!(sent_by(&mut world, 9), [0, 1]);
    world.shards[0].enter().remove_route(dest, PortId(0));
    assert_eq!(sent_by(&mut world, 7), [0, 0]);
    assert_eq!(world.outstanding(), 0);
}

/// Nested prefixes, some of them restricted, in two tables that rules select.
fn random_change(random: &mut Random, stack: &mut Stack) {
    let len = [0, 8, 16, 24, 25, 32][random.below(6)];
    let addr = IpAddr::from([203, 0, random.below(2) as u8, random.below(3) as u8]);
    let dest = base::Cidr { addr, prefix_len: len }.network();
    let port = random.below(2);
    if random.below(4) == 0 {
        stack.remove_route(dest, PortId(port as u16));
        return;
    }
    if random.below(8) == 0 {
        let group = Some([7, 9][random.below(2)]);
        let rule = Rule { group, ..Rule::new(10, Action::Table(100)) };
        if !stack.remove_rule(&rule) {
            stack.add_rule(rule).expect("room");
        }
        return;
    }
    let groups = Arc::from([[7, 9][random.below(2)]]);
    let access = match random.below(6) {
        0 => Some(Access::Include(groups)),
        1 => Some(Access::Exclude(groups)),
        _ => None,
    };
    let route = Route {
        access: access.map(Arc::new),
        no_forward: random.below(6) == 0,
        metric: random.below(3) as u32,
        weight: NonZeroU8::new(random.below(3) as u8),
        table: [inet::route::MAIN_TABLE, 100][random.below(2)],
        ..Route::new(dest, Some(host(port, 9 + random.below(4) as u8, false)), port as u16)
    };
    assert!(stack.add_route(route));
}

#[test]
fn every_shard_looks_up_what_the_first_one_does() {
    let owners = [user(7), user(9), user(11), Owner::program()];
    for seed in 1..=20 {
        let mut random = Random(seed * 0x9e37_79b9);
        let mut world = World::router(2);
        let (mut found, mut differ) = (0, 0);
        for _ in 0..60 {
            random_change(&mut random, &mut world.shards[0].enter());
            let [first, second] = [0, 1].map(|n| world.shards[n].enter().routes.has_policy());
            assert_eq!(second, first, "seed {seed}: policy");
            for _ in 0..20 {
                let last = [random.below(2), random.below(3), random.below(3)].map(|n| n as u8);
                let dst = IpAddr::from([203, last[0] & 1, last[1], last[2]]);
                let mut ask = |sender: Sender<'_>| {
                    let mut look =
                        |n: usize| world.shards[n].enter().routes.lookup(dst, None, sender);
                    let hops = [look(0), look(1)];
                    assert_eq!(hops[1], hops[0], "seed {seed}: {dst} for {sender:?}");
                    found += usize::from(hops[0].is_ok());
                    hops[0]
                };
                let transit = ask(Sender::Transit { in_port: 0, vrf: Vrf::NONE });
                let sockets = owners
                    .iter()
                    .map(|owner| ask(Sender::Socket { owner, by: Selector::default() }));
                differ += sockets.filter(|hop| *hop != transit).count();
            }
        }
        assert!(
            found > 500 && differ > 50,
            "only {found} routes were found, {differ} differ by sender"
        );
    }
}

/// A shard that missed this change would send connections by routes that their users may not use.
#[test]
fn another_shard_has_a_policy_while_the_first_one_has() {
    let mut world = World::router(2);
    let dest = "203.0.113.0/24".parse().expect("a network");
    let access = Some(Arc::new(Access::Include(Arc::from([7]))));
    let restricted = Route { access, ..Route::new(dest, Some(host(1, 9, false)), 1) };
    let rule = Rule::new(10, Action::Table(100));
    let mut check = |is_on, change: &dyn Fn(&mut Stack)| {
        change(&mut world.shards[0].enter());
        let both = [0, 1].map(|n| world.shards[n].enter().routes.has_policy());
        assert_eq!(both, [is_on; 2]);
    };
    check(false, &|_| {});
    check(true, &|stack| assert!(stack.add_route(restricted.clone())));
    check(true, &|stack| assert_eq!(stack.add_rule(rule), Ok(())));
    check(true, &|stack| assert_eq!(stack.remove_route(dest, PortId(1)), 1));
    check(false, &|stack| assert!(stack.remove_rule(&rule)));
}

#[test]
fn rules_hold_for_all_shards() {
    let mut world = World::router(2);
    world.poll();
    world.sent();
    let (from, far) = (host(0, 9, false), IpAddr::from(FAR));
    let net = |text: &str| text.parse().expect("a network");
    let rule = Rule { from: Some(net("192.0.2.0/24")), ..Rule::new(10, Action::Table(100)) };
    {
        let mut first = world.shards[0].enter();
        let main = Route::new(net("203.0.113.0/24"), Some(host(1, 9, false)), 1);
        assert!(first.add_route(main.clone()));
        assert!(first.add_route(Route { table: 100, via: Some(host(1, 10, false)), ..main }));
    }
    assert_eq!(forward(&mut world, from, far), [0, 1]);
    assert_eq!(world.shards[0].enter().add_rule(rule), Ok(()));
    assert_eq!(forward(&mut world, from, far), [0, 1], "the other shard did not use the table");
    let prohibit = Rule { ..Rule::new(5, Action::Blackhole) };
    assert_eq!(world.shards[0].enter().add_rule(prohibit), Ok(()));
    assert_eq!(forward(&mut world, from, far), [0, 0]);
    assert_eq!(world.shards[1].enter().drops().of(DropReason::IpBlackhole), 1);
    assert!(world.shards[0].enter().remove_rule(&prohibit));
    assert_eq!(forward(&mut world, from, far), [0, 1]);
    assert_eq!(world.outstanding(), 0);
}

/// The stacks of all shards of a world.
fn with_stacks<T>(world: &mut World, f: impl FnOnce(&mut [&mut Stack]) -> T) -> T {
    let mut turns: Vec<_> = world.shards.iter_mut().map(Shard::enter).collect();
    let mut stacks: Vec<&mut Stack> = turns.iter_mut().map(|turn| &mut **turn).collect();
    f(&mut stacks)
}

fn devices(link: LinkKind) -> (Vec<mem::Mem>, Vec<Box<dyn Device>>) {
    let config = mem::Config { link, ..mem::Config::default() };
    let pair = |_| {
        let (near, far) = mem::pair(&config);
        (far, Box::new(near) as Box<dyn Device>)
    };
    (0..2).map(pair).unzip()
}

#[test]
fn a_port_is_replaced_and_removed_at_all_shards_or_at_none() {
    let mut world = World::router(2);
    world.poll();
    world.sent();
    let (_, mut ip) = devices(LinkKind::Ip);
    let (_, mut ethernet) = devices(LinkKind::Ethernet);
    let odd = vec![ethernet.remove(0), ip.remove(0)];
    let refused = with_stacks(&mut world, |stacks| shard::replace_port(stacks, PortId(1), odd));
    assert_eq!(refused, Err(ReplaceError::OtherLink));
    let (from, to) = (host(0, 9, false), host(1, 9, false));
    assert_eq!(forward(&mut world, from, to), [0, 1], "the packet did not leave as before");
    let (wires, new) = devices(LinkKind::Ethernet);
    let replaced = with_stacks(&mut world, |stacks| shard::replace_port(stacks, PortId(1), new));
    assert_eq!(replaced, Ok(()));
    world.wires[1] = wires;
    assert_eq!(forward(&mut world, from, to), [0, 1], "the packet did not leave by the new device");
    // A packet back by each queue of the new device.
    let back = datagram(SocketAddr::new(to, 7), SocketAddr::new(from, 7), &[0; 20]);
    for queue in 0..2 {
        world.offer(1, queue, &frame(1, to, from, protocol::UDP, 64, &back));
        world.poll();
        assert_eq!(world.sent()[0].iter().map(Vec::len).sum::<usize>(), 1);
    }
    assert!(with_stacks(&mut world, |stacks| shard::remove_port(stacks, PortId(1))));
    assert!(!with_stacks(&mut world, |stacks| shard::remove_port(stacks, PortId(1))));
    assert_eq!(forward(&mut world, from, to), [0, 0]);
    let forwarded = |shard: &mut Shard| shard.enter().counters().of(Counter::Forwarded);
    assert_eq!(world.shards.iter_mut().map(forwarded).sum::<u64>(), 4);
    drop(world);
}
