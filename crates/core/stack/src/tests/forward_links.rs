//! Forwarding while links go down and come up: packets leave by another port, or their source gets
//! an error. RFC 1812 section 5.2.4.

use base::{Counter, DropReason, Duration, Instant, MacAddr, Switch};
use device::{Burst, Device, mem};
use inet::Route;
use inet::icmp::{ErrorKind, Unreachable};
use mbuf::Pool;

use super::cable::{Cable, End};
use super::forward::{A, error, frame, ip};
use crate::forward::links::{LOOK_EVERY, LOOK_WITH_NEWS};
use crate::{PortConfig, PortId, Stack, StackConfig};

const START: Instant = Instant::from_nanos(5_000_000_000);

/// A router with a host at port 0 and a neighbour at each of ports 1 and 2.
struct World {
    stack: Stack,
    wires: Vec<mem::Mem>,
    ends: Vec<End>,
    pool: Pool,
    now: Instant,
}

impl World {
    fn new(in_bursts: bool) -> World {
        let config = StackConfig::new([5, 6]);
        let mut stack = Stack::new(StackConfig { solicited_node_reports: false, ..config });
        let (mut wires, mut ends) = (Vec::new(), Vec::new());
        for (number, network) in
            ["192.0.2.1/24", "198.51.100.1/24", "203.0.113.1/24"].into_iter().enumerate()
        {
            let (device, wire) = mem::pair(&mem::Config::default());
            let (cable, end) = Cable::new(device);
            let mac = MacAddr([2, 0, 0, 0, 0, 1 + number as u8]);
            let addresses = vec![network.parse().expect("a network")];
            stack.add_port(Box::new(cable), PortConfig { mac, addresses, ..PortConfig::default() });
            wires.push(wire);
            ends.push(end);
        }
        let host = MacAddr([2, 0, 0, 0, 1, 1]);
        for (port, addr) in [(0, A), (1, "198.51.100.9"), (2, "203.0.113.9")] {
            assert!(stack.add_neighbour(PortId(port), ip(addr), host));
        }
        stack.set_switch(Switch::ForwardBurst, in_bursts);
        stack.set_forwarding(true);
        World { stack, wires, ends, pool: Pool::new(64 << 20), now: START }
    }

    fn route(&mut self, via: &str, port: u16, metric: u32) -> Route {
        let route = Route::new("10.9.0.0/16".parse().expect("a prefix"), Some(ip(via)), port);
        Route { metric, ..route }
    }

    fn shared(&mut self, via: &str, port: u16) {
        let weight = core::num::NonZeroU8::MIN;
        let route = self.route(via, port, 0).shared(weight);
        assert!(self.stack.add_route(route));
    }

    fn pass(&mut self) {
        self.now += LOOK_EVERY + Duration::from_millis(1);
        self.stack.poll(self.now);
    }

    /// Send packets of many flows from the host; returns what left by each port.
    fn flows(&mut self) -> [Vec<Vec<u8>>; 3] {
        let mut sent = [const { Vec::new() }; 3];
        for flow in 0..64 {
            let m = self.pool.copy_of(&frame(A, &format!("10.9.7.{flow}"), 9, b"hello"));
            let mut burst = Burst::new();
            burst.push(m.expect("room"));
            assert_eq!(self.wires[0].tx_burst(&mut self.pool, &mut burst), 1);
            self.stack.poll(self.now);
            self.stack.flush();
            for (wire, sent) in self.wires.iter_mut().zip(&mut sent) {
                let mut burst = Burst::new();
                while wire.rx_burst(&mut self.pool, &mut burst) > 0 {
                    for m in burst.drain(..) {
                        sent.push(m.as_slice().to_vec());
                        self.pool.free(m);
                    }
                }
            }
        }
        sent
    }

    fn counts(&mut self) -> [usize; 3] {
        self.flows().map(|frames| frames.len())
    }
}

#[test]
fn a_link_that_is_cut_loses_its_share_and_has_it_again_when_it_is_whole() {
    for in_bursts in [false, true] {
        let mut world = World::new(in_bursts);
        world.shared("198.51.100.9", 1);
        world.shared("203.0.113.9", 2);
        let [_, one, two] = world.counts();
        assert!(one > 10 && two > 10 && one + two == 64, "{one} {two}");
        world.ends[1].set(false);
        world.pass();
        assert_eq!(world.counts(), [0, 0, 64]);
        assert_eq!(world.stack.counters().of(Counter::LinkChanges), 1);
        world.ends[1].set(true);
        world.pass();
        let [_, one, two] = world.counts();
        assert!(one > 10 && two > 10 && one + two == 64, "{one} {two}");
        assert_eq!(world.stack.drops().total(), 0);
    }
}

#[test]
fn a_route_of_a_higher_metric_takes_over_while_the_link_is_down() {
    for in_bursts in [false, true] {
        let mut world = World::new(in_bursts);
        let (best, next) = (world.route("198.51.100.9", 1, 0), world.route("203.0.113.9", 2, 5));
        assert!(world.stack.add_route(best) && world.stack.add_route(next));
        assert_eq!(world.counts(), [0, 64, 0]);
        world.ends[1].set(false);
        world.pass();
        assert_eq!(world.counts(), [0, 0, 64]);
        world.ends[1].set(true);
        world.pass();
        assert_eq!(world.counts(), [0, 64, 0]);
        // A port that is removed while its link is down leaves nothing behind.
        world.ends[1].set(false);
        world.pass();
        assert!(world.stack.remove_port(PortId(1)).is_some());
        assert_eq!(world.counts(), [0, 0, 64]);
    }
}

/// RFC 1812 5.2.7.1-a.
#[test]
fn without_another_way_the_source_is_told() {
    for in_bursts in [false, true] {
        let mut world = World::new(in_bursts);
        let only = world.route("198.51.100.9", 1, 0);
        assert!(world.stack.add_route(only));
        world.ends[1].set(false);
        world.pass();
        let [back, one, two] = world.flows();
        assert_eq!((one.len(), two.len()), (0, 0));
        let said = error(back.first().expect("a message"), "192.0.2.1", A);
        assert!(matches!(said, ErrorKind::Unreachable(Unreachable::Net)), "{said:?}");
        assert_eq!(world.stack.drops().of(DropReason::IpNoRoute), 64);
    }
}

#[test]
fn a_host_asks_no_device() {
    let mut world = World::new(true);
    let asked = |world: &World| world.ends[0].asked();
    world.pass();
    let while_on = asked(&world);
    assert!(while_on >= 2);
    world.ends[1].set(false);
    world.pass();
    world.stack.set_forwarding(false);
    let then = asked(&world);
    world.pass();
    assert_eq!((asked(&world), world.stack.next_deadline()), (then, Instant::NEVER));
    // Without forwarding routes are used as if all links were up.
    assert!(world.stack.source_for("198.51.100.9:7".parse().expect("an address")).is_some());
}

/// With a program that is notified of link changes, ports are checked at each notification; without
/// one, the stack checks them soon by itself.
#[test]
fn a_link_is_looked_at_when_there_is_news_of_it() {
    for in_bursts in [false, true] {
        let mut world = World::new(in_bursts);
        let (best, next) = (world.route("198.51.100.9", 1, 0), world.route("203.0.113.9", 2, 5));
        assert!(world.stack.add_route(best) && world.stack.add_route(next));
        world.pass();
        world.stack.set_link_news(true);
        let asked = world.ends[1].asked();
        world.pass();
        assert_eq!(world.ends[1].asked(), asked, "a port was asked without a notification");
        world.ends[1].set(false);
        world.stack.look_at_links();
        assert_eq!(world.counts(), [0, 0, 64], "the change did not count at once");
        // A change that was not reported.
        world.ends[1].set(true);
        world.now += LOOK_WITH_NEWS;
        world.stack.poll(world.now);
        assert_eq!(world.counts(), [0, 64, 0]);
        world.stack.set_link_news(false);
        world.ends[1].set(false);
        world.pass();
        assert_eq!(world.counts(), [0, 0, 64]);
    }
    let mut host = World::new(true);
    host.stack.set_forwarding(false);
    host.pass();
    let asked = host.ends[0].asked();
    host.stack.set_link_news(true);
    host.stack.look_at_links();
    assert_eq!((host.ends[0].asked(), host.stack.next_deadline()), (asked, Instant::NEVER));
}
