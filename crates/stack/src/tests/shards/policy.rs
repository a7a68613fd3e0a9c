//! Rules and restricted routes: another shard does what the first one would have done, or hands it
//! what only the RIB can say. Ports that come and go.

use std::sync::Arc;

use base::{Counter, DropReason};
use inet::route::Action;
use inet::{Access, Rule};
use wire::ipv4;

use super::*;
use crate::{ReplaceError, Route, Stack, shard};

const FAR: [u8; 4] = [203, 0, 113, 9];

/// Offer a packet to `to` by the second shard's queue, and return the queues of port 1 by which
/// something left.
fn forward(world: &mut World, from: IpAddr, to: IpAddr) -> [usize; 2] {
    let to = SocketAddr::new(to, 2_000);
    let whole = datagram(SocketAddr::new(from, 1_000), to, &[0; 20]);
    world.offer(0, 1, &frame(0, from, to.ip(), ipv4::UDP, 64, &whole));
    world.poll();
    let sent = world.sent();
    [sent[1][0].len(), sent[1][1].len()]
}

#[test]
fn a_forwarded_packet_whose_route_the_rib_has_goes_by_the_first_shard() {
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
        "plain: by the shard whose queue brought it"
    );
    // Of a member of a group alone: a forwarded packet has the next shorter prefix.
    let access = Some(Arc::new(Access::Include(Arc::from([7]))));
    let restricted = Route { access, ..Route::new(net("203.0.113.8/29"), via(10), 1) };
    add(&mut world, restricted);
    for _ in 0..3 {
        assert_eq!(forward(&mut world, from, far), [1, 0], "the first shard has the RIB");
    }
    let other = IpAddr::from([203, 0, 113, 99]);
    assert_eq!(forward(&mut world, from, other), [0, 1], "not restricted");
    world.shards[0].enter().remove_route(net("203.0.113.0/24"), PortId(1));
    assert_eq!(forward(&mut world, from, far), [0, 0]);
    let drops = world.shards[0].enter().drops().of(DropReason::IpNoRoute);
    assert_eq!((drops, world.shards[1].enter().drops().total()), (1, 0));
    assert_eq!(world.outstanding(), 0);
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
    assert_eq!(forward(&mut world, from, far), [0, 1], "the other shard asks the table too");
    let prohibit = Rule { ..Rule::new(5, Action::Blackhole) };
    assert_eq!(world.shards[0].enter().add_rule(prohibit), Ok(()));
    assert_eq!(forward(&mut world, from, far), [0, 0]);
    assert_eq!(world.shards[1].enter().drops().of(DropReason::IpRuleBlackhole), 1);
    assert!(world.shards[0].enter().remove_rule(&prohibit));
    assert_eq!(forward(&mut world, from, far), [0, 1]);
    assert_eq!(world.outstanding(), 0);
}

/// All stacks of a world at once.
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
    assert_eq!(forward(&mut world, from, to), [0, 1], "as before");
    let (wires, new) = devices(LinkKind::Ethernet);
    let replaced = with_stacks(&mut world, |stacks| shard::replace_port(stacks, PortId(1), new));
    assert_eq!(replaced, Ok(()));
    world.wires[1] = wires;
    assert_eq!(forward(&mut world, from, to), [0, 1], "by the new device");
    // By each queue of the new device.
    let back = datagram(SocketAddr::new(to, 7), SocketAddr::new(from, 7), &[0; 20]);
    for queue in 0..2 {
        world.offer(1, queue, &frame(1, to, from, ipv4::UDP, 64, &back));
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
