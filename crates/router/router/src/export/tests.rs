//! Flow export between two stacks: a router with rules, and a host that collects.

use std::sync::Arc;

use filter::Published;
use filter::states::Timeouts;
use filter::text;
use stack::pair::{End, PairConfig, pair};

use super::*;

struct World {
    router: End,
    host: End,
    export: Export,
    now: Instant,
}

impl World {
    fn new() -> World {
        let (mut router, host) = pair(&PairConfig::new([1, 2]));
        let source = text::Source { rules: "pass to self", ..text::Source::default() };
        let rules = text::parse(&source, &[], &|_| Err("no files".into())).expect("rules");
        let published: Arc<Published> =
            Published::compile(rules, Timeouts::default(), 1).expect("small");
        router.stack.set_forwarding(true);
        router.stack.set_filter(Some(published));
        World { router, host, export: Export::default(), now: Instant::from_nanos(1_000_000_000) }
    }

    fn to(&mut self, collector: SocketAddr) {
        let (active, template) = (Duration::from_secs(2), Duration::from_secs(60));
        let (domain, names) = (7, true);
        self.export.set(Some(Ipfix { collector, active, template, domain, names }));
    }

    /// Turns for so many seconds.
    fn wait(&mut self, seconds: u64) {
        let until = self.now + Duration::from_secs(seconds);
        while self.now < until {
            self.now += EVERY;
            self.router.stack.poll(self.now);
            self.export.turn(&mut [&mut self.router.stack]);
            self.export.encode();
            self.host.stack.poll(self.now);
        }
    }

    fn exported(&self) -> Exported {
        let firewall = self.router.stack.filter().expect("rules are set");
        firewall.exported().expect("there is a collector")
    }

    fn bind(&mut self, port: u16) -> UdpHandle {
        let local = SocketAddr::new(self.host.addr, port);
        self.host.stack.udp_bind(local, Owner::program()).expect("a free port")
    }

    /// The host begins flows to the router.
    fn flows(&mut self, count: u16) {
        let to = self.router.addr;
        for port in 1..=count {
            let socket = self.bind(20_000 + port);
            let to = SocketAddr::new(to, 9);
            self.host.stack.udp_send(socket, to, b"datagram", self.now).expect("room");
            self.host.stack.udp_close(socket);
            if port % 32 == 0 {
                self.host.stack.flush();
                self.router.stack.poll(self.now);
            }
        }
        self.host.stack.flush();
    }

    fn received(&mut self, socket: UdpHandle) -> Vec<Vec<u8>> {
        let stack = &mut self.host.stack;
        let all = core::iter::from_fn(|| stack.udp_receive(socket));
        all.map(|datagram| datagram.payload.as_slice().to_vec()).collect()
    }
}

/// RFC 7011 8-c, 8.4-a.
#[test]
fn a_collector_gets_templates_and_then_records() {
    let mut world = World::new();
    let socket = world.bind(4_739);
    world.to(SocketAddr::new(world.host.addr, 4_739));
    world.wait(1);
    let first = world.received(socket);
    assert_eq!((first.len(), &first[0][..2]), (1, &[0, 10][..]), "templates alone");
    assert_eq!(first[0][12..16], [0, 0, 0, 7]);
    world.flows(3);
    world.wait(4);
    let records = world.received(socket);
    assert!(!records.is_empty() && records.iter().all(|message| message[17] != 2));
    let exported = world.exported();
    assert_eq!((exported.records, exported.unsent, exported.errors), (1 + 3, 0, 0));
    world.wait(60);
    let again = world.received(socket);
    assert!(again.iter().any(|message| message[17] == 2), "templates come again");
    world.export.set(None);
    world.wait(1);
    assert_eq!(world.router.stack.filter().and_then(|one| one.exports()), None);
}

#[test]
fn nothing_waits_for_a_collector_that_is_away() {
    let mut world = World::new();
    world.to(SocketAddr::new(world.host.addr, 4_739));
    world.flows(3);
    world.wait(4);
    let gone = world.exported();
    assert!(gone.errors > 0 && gone.records >= 3, "{gone:?}");
    // Templates follow its errors, so that it can read what comes when it is back.
    let socket = world.bind(4_739);
    world.wait(2);
    assert!(world.received(socket).iter().any(|message| message[17] == 2));

    // A flood while there is no route: all is lost by name, and memory is bounded.
    world.to("203.0.113.9:4739".parse().expect("an address"));
    world.wait(1);
    world.flows(2_000);
    world.wait(5);
    let exported = world.exported();
    assert_eq!(exported.datagrams, 0);
    assert!(exported.unsent >= 2_000, "{exported:?}");
    let running = world.export.running.as_ref().expect("it exports");
    assert!(running.taken.is_empty() && running.shards[0].exporter.waiting() <= 2 * MESSAGES);
}
