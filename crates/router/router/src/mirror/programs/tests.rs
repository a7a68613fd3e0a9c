use stack::pair::{End, PairConfig, mac, pair};

use super::*;

const VIRTUAL: MacAddr = MacAddr([0, 0, 0x5e, 0, 1, 51]);

struct World {
    router: End,
    host: End,
    programs: Programs,
    now: Instant,
}

impl World {
    fn new() -> World {
        let (router, host) = pair(&PairConfig::new([1, 2]));
        let programs = Programs::default();
        World { router, host, programs, now: Instant::from_nanos(1_000_000_000) }
    }

    /// Programs have given these addresses, with the link address of VRRP or without.
    fn set(&mut self, addresses: &[(&str, bool)]) {
        let of = |(ip, is_virtual): &(&str, bool)| {
            let (ip, mac) = (ip.parse().expect("an address"), is_virtual.then_some(VIRTUAL.0));
            OfProgram { ip, prefix_len: 24, mac }
        };
        self.programs.set(&addresses.iter().map(of).collect::<Vec<_>>());
        self.follow();
    }

    fn follow(&mut self) {
        let port = Some(self.router.port);
        self.programs.follow("wan", port, &mut [&mut self.router.stack]);
    }

    /// The link address that the host has for an address after it has asked anew, if it answers.
    fn asks(&mut self, ip: &str) -> Option<MacAddr> {
        let (ip, port) = (ip.parse().expect("an address"), self.host.port);
        self.host.stack.forget_neighbour(port, ip);
        let to = core::net::SocketAddr::new(ip, 9);
        let local = core::net::SocketAddr::new(self.host.addr, 0);
        let socket = self.host.stack.udp_bind(local, base::Owner::program()).expect("a free port");
        self.host.stack.udp_send(socket, to, b"datagram", self.now).expect("room");
        for _ in 0..4 {
            self.host.stack.flush();
            self.now += base::Duration::from_millis(1);
            self.router.stack.poll(self.now);
            self.host.stack.poll(self.now);
        }
        self.host.stack.udp_close(socket);
        let neighbours = self.host.stack.neighbours_page(0, 100).rows;
        neighbours.iter().find(|row| row.ip == ip).and_then(|row| row.mac)
    }

    fn origin(&self, ip: &str) -> Option<Origin> {
        let ip: IpAddr = ip.parse().expect("an address");
        let all = self.router.stack.addresses(self.router.port);
        all.iter().find(|address| address.ip() == ip).map(|address| address.origin)
    }
}

#[test]
fn a_port_has_what_programs_gave_its_mirror() {
    let mut world = World::new();
    assert_eq!(world.asks("192.0.2.77"), None);
    world.set(&[("192.0.2.77", false)]);
    assert_eq!(world.asks("192.0.2.77"), Some(mac(1)));
    // The same with a link address of its own.
    world.set(&[("192.0.2.77", true), ("192.0.2.78", true)]);
    assert_eq!(world.asks("192.0.2.77"), Some(VIRTUAL));
    assert_eq!(world.asks("192.0.2.78"), Some(VIRTUAL));
    world.set(&[("192.0.2.78", true)]);
    assert_eq!(world.origin("192.0.2.77"), None);
    assert_eq!(world.asks("192.0.2.78"), Some(VIRTUAL));
    world.set(&[]);
    assert_eq!(world.origin("192.0.2.78"), None);
    assert!(!world.router.stack.remove_port_mac(world.router.port, VIRTUAL), "it was left");
}

/// The router's own packets have its own address.
#[test]
fn an_address_of_a_program_is_no_source_of_the_routers_own() {
    let mut world = World::new();
    world.set(&[("192.0.2.77", true)]);
    let stack = &mut world.router.stack;
    let remote = core::net::SocketAddr::new(world.host.addr, 9);
    assert_eq!(stack.source_for(remote), Some(world.router.addr));
    // Also if the port got its own later.
    let IpAddr::V4(_) = world.router.addr else { panic!("the pair has IPv4") };
    stack.remove_address(world.router.port, world.router.addr);
    assert_eq!(stack.source_for(remote).map(|ip| ip.to_string()).as_deref(), Some("192.0.2.77"));
    let own = Cidr { addr: world.router.addr, prefix_len: 24 };
    stack.add_address(world.router.port, Address::fixed(own)).expect("room");
    assert_eq!(stack.source_for(remote), Some(world.router.addr));
}

#[test]
fn an_address_of_the_ports_own_stays() {
    let mut world = World::new();
    let own = world.router.addr.to_string();
    world.set(&[(&own, true)]);
    assert_eq!(world.origin(&own), Some(Origin::Static));
    assert_eq!(world.asks(&own), Some(VIRTUAL));
    world.set(&[]);
    assert_eq!(world.origin(&own), Some(Origin::Static));
    assert_eq!(world.asks(&own), Some(mac(1)));
    // The configuration gives the port an address that a program has.
    world.set(&[("192.0.2.77", false)]);
    let cidr = "192.0.2.77/24".parse().expect("an address");
    world.router.stack.add_address(world.router.port, Address::fixed(cidr)).expect("room");
    world.set(&[]);
    assert_eq!(world.origin("192.0.2.77"), Some(Origin::Static));
}

/// The port was opened anew: it may have the number that it had.
#[test]
fn a_port_that_is_another_one_gets_them_again() {
    let mut world = World::new();
    world.set(&[("192.0.2.77", false), ("192.0.2.78", false)]);
    let ip = "192.0.2.77".parse().expect("an address");
    assert!(world.router.stack.remove_address(world.router.port, ip));
    world.follow();
    assert_eq!(world.origin("192.0.2.77"), Some(Origin::Program));
    world.programs.follow("wan", None, &mut [&mut world.router.stack]);
    assert!(world.router.stack.remove_address(world.router.port, ip));
    world.follow();
    assert_eq!(world.origin("192.0.2.77"), Some(Origin::Program));
}

/// What cannot be leaves nothing behind, and the others are there.
#[test]
fn an_address_that_no_host_can_have_is_refused() {
    let mut world = World::new();
    world.set(&[("127.0.0.9", true), ("192.0.2.77", false)]);
    assert_eq!(world.origin("127.0.0.9"), None);
    assert_eq!(world.origin("192.0.2.77"), Some(Origin::Program));
    assert!(!world.router.stack.remove_port_mac(world.router.port, VIRTUAL), "it was left");
}
