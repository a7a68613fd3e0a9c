//! VRFs: a router whose ports are in two VRFs with the same addresses, and in none. Hosts behind
//! its ports are stacks of their own.

mod isolation;
mod leaks;
mod sockets;

use core::net::{IpAddr, SocketAddr};

use base::{Duration, Instant, MacAddr, Owner, Switch};
use device::mem;
use inet::{Route, Vrf};

use crate::{Echo, IpSettings, PortConfig, PortId, Stack, StackConfig, UdpHandle};

/// The router's ports, and the hosts behind them: two in VRF blue, two in VRF red, one in none.
const BLUE_LAN: usize = 0;
const BLUE_UP: usize = 1;
const RED_LAN: usize = 2;
const RED_UP: usize = 3;
const MAIN: usize = 4;
/// Each port's VRF, the router's address and its host's.
const PORTS: [(Option<u32>, &str, &str); 5] = [
    (Some(10), "10.0.0.1/24", "10.0.0.9/24"),
    (Some(10), "10.1.0.1/24", "10.1.0.9/24"),
    (Some(20), "10.0.0.1/24", "10.0.0.9/24"),
    (Some(20), "10.1.0.1/24", "10.1.0.9/24"),
    (None, "192.0.2.1/24", "192.0.2.9/24"),
];

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address and a port")
}

fn vrf(table: u32) -> Vrf {
    Vrf::of_table(table).expect("a table of a VRF")
}

struct World {
    router: Stack,
    hosts: Vec<Stack>,
    now: Instant,
}

impl World {
    fn new(in_bursts: bool) -> World {
        let config = StackConfig { solicited_node_reports: false, ..StackConfig::new([5, 6]) };
        let mut router = Stack::new(config.clone());
        router.set_switch(Switch::ForwardBurst, in_bursts);
        let (mut hosts, mut number) = (Vec::new(), 0);
        for (table, ours, theirs) in PORTS {
            let (near, far) = mem::pair(&mem::Config::default());
            let add = |stack: &mut Stack, device, mac, cidr: &str| {
                let addresses = vec![cidr.parse().expect("a network")];
                let mac = MacAddr([2, 0, 0, 0, mac, number]);
                let port = PortConfig { mac, addresses, ..PortConfig::default() };
                stack.add_port(device, port)
            };
            let id = add(&mut router, Box::new(near), 1, ours);
            assert!(router.set_vrf(id, table.map_or(Vrf::NONE, vrf)));
            let mut host = Stack::new(config.clone());
            let port = add(&mut host, Box::new(far), 2, theirs);
            let gateway = ours.split('/').next().map(ip);
            let all = "0.0.0.0/0".parse().expect("a network");
            assert!(host.add_route(Route::new(all, gateway, port.0)));
            hosts.push(host);
            number += 1;
        }
        router.set_forwarding(true);
        World { router, hosts, now: Instant::from_nanos(5_000_000_000) }
    }

    /// Let every stack run until frames have crossed the router several times.
    fn run(&mut self) {
        for _ in 0..24 {
            self.now += Duration::from_millis(2);
            for stack in self.hosts.iter_mut().chain([&mut self.router]) {
                stack.poll(self.now);
                stack.flush();
            }
        }
    }

    /// A UDP socket of a host.
    fn udp(&mut self, host: usize, local: &str) -> UdpHandle {
        self.hosts[host].udp_bind(at(local), Owner::program()).expect("a socket")
    }

    /// What a host's socket has received: from whom, and the payload.
    fn received(&mut self, host: usize, socket: UdpHandle) -> Vec<(SocketAddr, String)> {
        received(&mut self.hosts[host], socket)
    }

    /// A host pings an address; returns the sender of the answer, and whether it is an error.
    fn ping(&mut self, host: usize, to: &str) -> Option<(IpAddr, bool)> {
        let socket = self.hosts[host].ping_open(Owner::program()).expect("a socket");
        self.hosts[host].ping_send(socket, ip(to), 1, b"?", self.now).expect("sent");
        self.run();
        let echo: Option<Echo> = self.hosts[host].ping_receive(socket);
        self.hosts[host].ping_close(socket);
        echo.map(|echo| (echo.from, echo.outcome.is_err()))
    }
}

fn received(stack: &mut Stack, socket: UdpHandle) -> Vec<(SocketAddr, String)> {
    let mut all = Vec::new();
    while let Some(datagram) = stack.udp_receive(socket) {
        all.push((datagram.from, String::from_utf8_lossy(datagram.payload.as_slice()).into()));
    }
    all
}

fn settings(table: u32) -> IpSettings {
    IpSettings { vrf: vrf(table), ..IpSettings::default() }
}

fn port(number: usize) -> PortId {
    PortId(number as u16)
}
