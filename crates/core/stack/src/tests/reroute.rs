//! Connections whose link is cut, whose route goes over another port, or whose port is removed: two
//! hosts with two wires between them. The other end always answers by its second wire.

use core::net::{IpAddr, SocketAddr};

use base::{Cidr, Counter, DropReason, Duration, Instant, MacAddr, Mtu, Owner};
use device::{Offloads, mem};
use inet::Route;
use inet::icmp::{self, Unreachable};
use tcp::State;

use super::cable::{Cable, End};
use super::craft::frame_between;
use crate::forward::links::LOOK_EVERY;
use crate::{ListenConfig, PortConfig, PortId, Stack, StackConfig, TcpHandle};

/// The address of the stack and of the other end on each wire; one more address of the other end is
/// reached by both wires.
const NETS: [[[&str; 2]; 2]; 2] = [
    [["192.0.2.1/24", "192.0.2.2/24"], ["198.51.100.1/24", "198.51.100.2/24"]],
    [["2001:db8:1::1/64", "2001:db8:1::2/64"], ["2001:db8:2::1/64", "2001:db8:2::2/64"]],
];
const FAR: [&str; 2] = ["203.0.113.9/32", "2001:db8:9::9/128"];

struct World {
    ours: Stack,
    theirs: Stack,
    cables: Vec<End>,
    version: usize,
    now: Instant,
}

fn ip(net: &str) -> IpAddr {
    net.split('/').next().and_then(|ip| ip.parse().ok()).expect("an address")
}

fn wire(offloads: Offloads, mtu: usize) -> mem::Config {
    let mtu = Mtu::new(mtu).expect("an MTU");
    mem::Config { offloads, mtu, depth: 8, ..mem::Config::default() }
}

impl World {
    fn new(version: usize, wires: [mem::Config; 2]) -> World {
        let stack = |seed| Stack::new(StackConfig::new([7, seed]));
        let (mut ours, mut theirs, mut cables) = (stack(1), stack(2), Vec::new());
        for (number, config) in wires.iter().enumerate() {
            let (near, far) = mem::pair(config);
            let (cable, end) = Cable::new(near);
            let port = |end: usize| PortConfig {
                mac: MacAddr([2, 0, 0, 0, number as u8, end as u8]),
                addresses: NETS
                    .iter()
                    .map(|nets| nets[number][end].parse().expect("one"))
                    .collect(),
                ..PortConfig::default()
            };
            ours.add_port(Box::new(cable), port(0));
            let mut other = port(1);
            if number == 0 {
                other.addresses.extend(FAR.map(|far| far.parse::<Cidr>().expect("an address")));
            }
            theirs.add_port(Box::new(far), other);
            cables.push(end);
        }
        let mut world = World { ours, theirs, cables, version, now: Instant::from_nanos(1 << 40) };
        for (port, metric) in [(0, 0), (1, 5)] {
            let route = world.route(port, metric);
            assert!(world.ours.add_route(route));
        }
        let host = format!("{}/{}", ip(NETS[version][0][0]), if version == 0 { 32 } else { 128 });
        let back = Route::new(host.parse().expect("a host"), Some(ip(NETS[version][1][0])), 1);
        assert!(world.theirs.add_route(back));
        world
    }

    /// The stack's route to the address that is reached by both wires.
    fn route(&self, port: u16, metric: u32) -> Route {
        let via = ip(NETS[self.version][usize::from(port)][1]);
        Route { metric, ..Route::new(FAR[self.version].parse().expect("one"), Some(via), port) }
    }

    fn run(&mut self, turns: usize) {
        for _ in 0..turns {
            self.ours.poll(self.now);
            self.theirs.poll(self.now);
            self.now += Duration::from_millis(1);
        }
    }

    /// A connection from the stack's address on the first wire.
    fn connect(&mut self) -> (TcpHandle, TcpHandle) {
        let at = SocketAddr::new(ip(FAR[self.version]), 80);
        let from = SocketAddr::new(ip(NETS[self.version][0][0]), 5_000);
        let listener = self.theirs.tcp_listen(at, ListenConfig::default()).expect("free");
        let config = tcp::Config::default();
        let ours = self.ours.tcp_connect(at, Some(from), &config, Owner::program(), self.now);
        self.run(10);
        (ours.expect("routed"), self.theirs.tcp_accept(listener).expect("accepted"))
    }

    /// The same connection, then moved to the second wire.
    fn connect_and_move(&mut self) -> (TcpHandle, TcpHandle) {
        let ends = self.connect();
        let first = self.route(0, 9);
        assert!(self.ours.add_route(first));
        self.transfer(ends, 1_000, |_| {});
        assert_eq!(self.port_of(ends.0), 1);
        ends
    }

    fn port_of(&self, handle: TcpHandle) -> u16 {
        self.ours.connections.get(handle).expect("open").port
    }

    /// Sends `total` bytes, which all arrive; in the middle, while the wire is full, `change`
    /// changes the network.
    fn transfer(
        &mut self,
        (ours, theirs): (TcpHandle, TcpHandle),
        total: usize,
        mut change: impl FnMut(&mut World),
    ) {
        let data: Vec<u8> = (0..total).map(|n| (n * 7 % 251) as u8).collect();
        let (mut sent, mut got, mut room) = (0, Vec::new(), vec![0; 1 << 16]);
        let mut is_changed = false;
        for _ in 0..5_000 {
            if let Ok(count) = self.ours.tcp_write(ours, &data[sent..]) {
                sent += count;
            }
            if got.len() > total / 2 && !core::mem::replace(&mut is_changed, true) {
                change(self);
            }
            self.run(1);
            while let Ok(count @ 1..) = self.theirs.tcp_read(theirs, &mut room) {
                got.extend_from_slice(&room[..count]);
            }
            if got.len() == total {
                break;
            }
        }
        assert!(got == data, "{} of {total} bytes", got.len());
    }
}

const SAME: fn() -> [mem::Config; 2] = || [wire(Offloads::default(), 1_500); 2];

/// RFC 1122 section 3.3.1.4: the connection's address stays, and its route is looked up again.
#[test]
fn a_connection_goes_on_by_another_port_when_its_link_is_cut_and_back() {
    for version in [0, 1] {
        // The other link's MTU may be smaller or larger.
        for mtus in [[1_500, 1_500], [4_000, 1_400], [1_400, 4_000]] {
            let mut world = World::new(version, mtus.map(|mtu| wire(Offloads::default(), mtu)));
            world.ours.set_forwarding(true);
            let ends = world.connect();
            assert_eq!(world.port_of(ends.0), 0);
            world.transfer(ends, 300_000, |world| world.cables[0].set(false));
            assert_eq!(world.port_of(ends.0), 1);
            assert_eq!(world.ours.counters().of(Counter::TcpRerouted), 1);
            world.cables[0].set(true);
            world.now += LOOK_EVERY;
            world.transfer(ends, 100_000, |_| {});
            assert_eq!(world.port_of(ends.0), 0);
            let (local, _) = world.ours.tcp_addresses(ends.0).expect("open");
            assert_eq!(local.ip(), ip(NETS[version][0][0]), "the connection's address changed");
        }
    }
}

/// A host does not watch its links: its program adds and removes routes.
#[test]
fn a_connection_follows_the_routes_of_a_host() {
    let mut world = World::new(0, SAME());
    let ends = world.connect();
    world.transfer(ends, 100_000, |world| {
        let (best, next) = (world.route(0, 0), world.route(1, 5));
        assert!(world.ours.remove_one_route(&best) && world.ours.add_route(next));
    });
    assert_eq!((world.port_of(ends.0), world.ours.counters().of(Counter::TcpRerouted)), (1, 1));
}

/// When a port is removed, connections that use it from the address of another port move to another
/// port; connections from its own addresses fail, whatever port they use.
#[test]
fn a_port_that_is_removed_takes_the_connections_from_its_addresses_with_it() {
    let mut world = World::new(0, SAME());
    let ends = world.connect_and_move();
    let mut device = None;
    world.transfer(ends, 100_000, |world| {
        device = world.ours.remove_port(PortId(1));
        // The other end gets another route.
        let to_us = ip(NETS[0][0][0]);
        let back = world.theirs.routes.iter().find(|r| r.dest.addr == to_us).expect("one").dest;
        assert_eq!(world.theirs.remove_route(back, PortId(1)), 1);
    });
    assert!(device.is_some(), "the other end still has its own");
    let state = world.ours.tcp_state(ends.0);
    assert_eq!((world.port_of(ends.0), state), (0, Some((State::Established, None))));
}

#[test]
fn a_connection_fails_with_its_address_whatever_port_it_goes_by() {
    for is_port in [true, false] {
        let mut world = World::new(0, SAME());
        let ends = world.connect_and_move();
        if is_port {
            assert!(world.ours.remove_port(PortId(0)).is_some());
        } else {
            assert!(world.ours.remove_address(PortId(0), ip(NETS[0][0][0])));
        }
        world.run(1);
        let failed = world.ours.tcp_state(ends.0).and_then(|(_, why)| why);
        assert_eq!(failed, Some(tcp::Error::NetworkDown));
        let why = world.ours.tcp_failure(ends.0).expect("a reason");
        assert!(why.contains(if is_port { "port was removed" } else { "address was" }), "{why}");
    }
}

/// Segments that the device must finish (checksum, cutting) are made already, so the connection
/// cannot move.
#[test]
fn a_connection_stays_where_its_device_finishes_what_the_other_cannot() {
    let offloads = Offloads { tx_checksum: true, rx_checksum: true, ..Offloads::default() };
    let wires = [wire(offloads, 1_500), wire(Offloads::default(), 1_500)];
    let mut world = World::new(0, wires);
    let ends = world.connect();
    let best = world.route(0, 0);
    assert!(world.ours.remove_one_route(&best));
    world.transfer(ends, 10_000, |_| {});
    assert_eq!((world.port_of(ends.0), world.ours.counters().of(Counter::TcpRerouted)), (0, 0));
}

/// ICMP errors about a connection's segments may arrive by the port that the segments leave by and
/// by the port of the connection's address, but by no other.
#[test]
fn errors_about_a_connection_come_by_the_port_that_it_goes_by() {
    for is_moved in [true, false] {
        let mut world = World::new(0, SAME());
        let ends = if is_moved { world.connect_and_move() } else { world.connect() };
        world.run(10);
        assert_eq!(world.ours.tcp_write(ends.0, &[7; 100]), Ok(100));
        world.ours.flush();
        let (local, remote) = world.ours.tcp_addresses(ends.0).expect("open");
        let seq = world.ours.connections.get(ends.0).expect("open").tcb.snd_una;
        let ports = [local.port().to_be_bytes(), remote.port().to_be_bytes()].concat();
        let segment = [&ports[..], &seq.0.to_be_bytes(), &[0; 12]].concat();
        let quoted = frame_between(local.ip(), remote.ip(), 6, &segment)[14..].to_vec();
        let mut message = [&[0; icmp::HEADER_LEN][..], &quoted].concat();
        let gateway = ip(NETS[0][1][1]);
        icmp::error(&mut message, Unreachable::Host, gateway, local.ip());
        let mut frame = frame_between(gateway, local.ip(), 1, &message);
        frame[..6].copy_from_slice(&[2, 0, 0, 0, 1, 0]);
        let m = world.theirs.core.cx.pool.copy_of(&frame).expect("room");
        crate::pace::put(&mut world.theirs, 1, m);
        world.theirs.flush();
        world.ours.poll(world.now);
        let counted = world.ours.counters().of(Counter::IcmpErrorsIn);
        let dropped = world.ours.drops().of(DropReason::IpNotForUs);
        let drops = world.ours.drops();
        let all: Vec<_> = DropReason::ALL.iter().filter(|&&why| drops.of(why) > 0).collect();
        assert_eq!((counted, dropped), if is_moved { (1, 0) } else { (0, 1) }, "{all:?}");
    }
}
