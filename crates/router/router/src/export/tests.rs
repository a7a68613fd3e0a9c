//! Flow export between two stacks: a router with rules, and a host that collects.

use std::sync::Arc;

use base::{DropReason, Mtu};
use filter::Published;
use filter::firewall::Event;
use filter::firewall::Exported;
use filter::states::Timeouts;
use filter::text;
use stack::pair::{End, PairConfig, pair};

use super::*;

const DOMAIN: [u8; 4] = [0, 0, 0, 7];

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
        let (domain, names, destinations) = (7, true, true);
        let wanted = Ipfix { collector, active, template, domain, names, destinations };
        self.export.set(Some(wanted));
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
        firewall.exported().expect("there is a collector").clone()
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

/// Messages by their first set: T for templates, R for records.
fn kinds(messages: &[Vec<u8>]) -> String {
    messages.iter().map(|message| if matches!(message[17], 2 | 3) { 'T' } else { 'R' }).collect()
}

/// RFC 7011 8-c, 8.4-a, 8.4-c.
#[test]
fn a_collector_gets_templates_and_then_records() {
    let mut world = World::new();
    let socket = world.bind(4_739);
    world.to(SocketAddr::new(world.host.addr, 4_739));
    world.wait(1);
    let first = world.received(socket);
    assert_eq!(
        kinds(&first),
        "TTR",
        "two copies of templates, in messages of their own, and names"
    );
    assert!(first.iter().all(|message| message[..2] == [0, 10] && message[12..16] == DOMAIN));
    world.flows(3);
    world.wait(4);
    let records = world.received(socket);
    assert!(!records.is_empty() && !kinds(&records).contains('T'));
    let exported = world.exported();
    assert_eq!((exported.records, exported.unsent, exported.errors), (1 + 3, 0, 0));
    world.wait(60);
    let again = world.received(socket);
    assert_eq!(kinds(&again).matches('T').count(), 1, "templates come again");
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
    let failure = format!("Destination Port Unreachable, from {}", world.host.addr);
    assert_eq!(gone.failure, Some(failure));
    // Templates follow its errors, so that it can read what comes when it is back.
    let socket = world.bind(4_739);
    world.wait(2);
    assert!(kinds(&world.received(socket)).starts_with('T'));
    // As far as can be known, it is back.
    world.wait(70);
    assert_eq!(world.exported().failure, None);

    // A flood while there is no route: all is lost by name, and memory is bounded.
    world.to("203.0.113.9:4739".parse().expect("an address"));
    world.wait(1);
    world.flows(2_000);
    world.wait(5);
    let exported = world.exported();
    assert_eq!(exported.datagrams, 0);
    assert_eq!(exported.failure.as_deref(), Some(DropReason::IpNoRoute.meaning()));
    assert!(exported.unsent >= 2_000, "{exported:?}");
    let running = world.export.running.as_ref().expect("it exports");
    assert!(running.taken.is_empty() && running.shards[0].exporter.waiting() <= 2 * MESSAGES);
}

/// RFC 7011 8-b.
#[test]
fn templates_are_before_records_when_the_collector_can_be_reached_at_last() {
    let mut world = World::new();
    let addr = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let socket = world.bind(4_739);
    world.to(addr("203.0.113.9:4739"));
    world.flows(3);
    world.wait(4);
    assert_eq!(world.exported().failure.as_deref(), Some(DropReason::IpNoRoute.meaning()));
    assert!(world.exported().unsent >= 3 && world.received(socket).is_empty());
    // Now there is a route, and flows end at that time.
    let (port, host) = (world.router.port, world.host.port);
    world.host.stack.udp_close(socket);
    for (stack, port, own) in [
        (&mut world.router.stack, port, "203.0.113.1:0"),
        (&mut world.host.stack, host, "203.0.113.9:0"),
    ] {
        let net = base::Cidr { addr: addr(own).ip(), prefix_len: 24 };
        stack.add_address(port, stack::Address::fixed(net)).expect("room");
    }
    let at = addr("203.0.113.9:4739");
    let socket = world.host.stack.udp_bind(at, Owner::program()).expect("a free port");
    world.flows(3);
    world.wait(4);
    let all = world.received(socket);
    assert!(kinds(&all).starts_with("TT") && kinds(&all).contains('R'), "{}", kinds(&all));
    assert_eq!(world.exported().failure, None);
}

/// RFC 7011 3.1-b, 8-b.
#[test]
fn another_socket_is_another_session() {
    let mut world = World::new();
    let socket = world.bind(4_739);
    world.to(SocketAddr::new(world.host.addr, 4_739));
    world.flows(3);
    world.wait(2);
    assert!(kinds(&world.received(socket)).contains('R'));
    let ours = world.export.running.as_ref().expect("it exports").socket;
    world.router.stack.udp_close(ours.expect("a socket"));
    world.wait(1);
    world.flows(3);
    world.wait(4);
    let all = world.received(socket);
    assert!(kinds(&all).starts_with("TT"), "{}", kinds(&all));
    let first = all.iter().find(|message| message[17] != 2).expect("records");
    assert_eq!(first[8..12], [0; 4], "sequence numbers are those of the session");
}

/// RFC 7011 3.1-d.
#[test]
fn shards_have_domains_of_their_own() {
    let (mut world, mut other) = (World::new(), World::new());
    let socket = world.bind(4_739);
    world.to(SocketAddr::new(world.host.addr, 4_739));
    world.flows(2);
    other.flows(2);
    for _ in 0..100 {
        world.now += EVERY;
        world.router.stack.poll(world.now);
        other.router.stack.poll(world.now);
        world.export.turn(&mut [&mut world.router.stack, &mut other.router.stack]);
        world.export.encode();
        world.host.stack.poll(world.now);
    }
    let all = world.received(socket);
    for domain in [7, 8] {
        let of = |message: &&Vec<u8>| message[12..16] == [0, 0, 0, domain];
        let its: Vec<Vec<u8>> = all.iter().filter(of).cloned().collect();
        assert!(kinds(&its).starts_with("TTR"), "{domain}: {}", kinds(&its));
    }
    assert!(all.iter().all(|message| matches!(message[15], 7 | 8)));
}

/// RFC 7011 10.3.3-a, 10.3.3-c.
#[test]
fn messages_are_as_large_as_the_path_lets_through() {
    let mut world = World::new();
    let socket = world.bind(4_739);
    let mut sizes = Vec::new();
    for mtu in [1_500, 400, 200] {
        let (port, addr) = (world.router.port, world.host.addr);
        world.router.stack.set_neighbour_mtu(port, addr, Mtu::new(mtu)).expect("room");
        world.export.set(None);
        world.wait(1);
        world.to(SocketAddr::new(addr, 4_739));
        world.flows(100);
        world.wait(4);
        let all = world.received(socket);
        let largest = all.iter().map(Vec::len).max().expect("messages");
        assert!(largest + 28 <= mtu, "{largest} bytes of {mtu}");
        assert_eq!((world.exported().unsent, world.exported().failure), (0, None));
        sizes.push(largest);
    }
    assert!(sizes[0] > 1_000 && sizes[1] > 300 && sizes[2] > 130, "{sizes:?}");
    // No record fits into this one: they are lost by name.
    let (port, addr) = (world.router.port, world.host.addr);
    world.router.stack.set_neighbour_mtu(port, addr, Mtu::new(100)).expect("room");
    world.flows(3);
    world.wait(4);
    let exported = world.exported();
    assert!(exported.unsent > 0 && world.received(socket).is_empty());
    assert_eq!(exported.failure.as_deref(), Some("message too long, mtu=100"));
}

/// RFC 7011 8.4-a, 8.4-e.
#[test]
fn templates_stay_due_while_messages_wait() {
    let (now, interval) = (Instant::from_nanos(1_000_000_000), Duration::from_secs(60));
    let collector = "192.0.2.9:4739".parse().expect("an address");
    let mut shard = Shard::new(collector, 8, false, clock(now));
    assert!(shard.templates(now, interval, &[]));
    while let Some(message) = shard.exporter.next_message(&clock(now)) {
        shard.sent(&message, now);
    }
    let block = filter::nat::BlockEvent {
        is_allocation: true,
        at: now,
        inside: [10, 0, 0, 5].into(),
        outside: [192, 0, 2, 1].into(),
        ports: (1_024, 1_535),
    };
    shard.exporter.event(&Event::Block(block));
    shard.exporter.finish();
    let later = now + interval;
    assert!(!shard.templates(now, interval, &[]), "not yet");
    assert!(!shard.templates(later, interval, &[]) && shard.is_due(later), "a message waits");
    assert!(shard.exporter.next_message(&clock(later)).is_some());
    assert!(shard.templates(later, interval, &[]) && !shard.is_due(later));
    assert!(shard.exporter.next_message(&clock(later)).is_some_and(|one| one.has_templates));
}

#[test]
fn a_collector_is_reached_again_when_no_errors_follow() {
    let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
    let end = SocketAddr::from(([192, 0, 2, 9], 4_739));
    let report = |kind, icmp| stack::UdpErrorReport {
        kind,
        icmp,
        from: end.ip(),
        local: end,
        remote: end,
        payload: Vec::new(),
        payload_len: 0,
    };
    let mut reach = Reach::default();
    reach.refused(&"no route", at(0));
    assert_eq!(reach.failure().map(String::as_str), Some("no route"));
    reach.sent(at(1));
    assert_eq!(reach.failure(), None);
    // The next hop does not answer: it is one failure, whatever the stack says of it meanwhile.
    let silent = report(stack::ErrorKind::Unreachable(stack::Unreachable::Host), None);
    let is_silent = |reach: &Reach| {
        assert_eq!(reach.failure().map(String::as_str), Some("next hop does not answer"));
    };
    for again in 0..5 {
        reach.heard(&silent, at(10_000 + again * 3_000));
        reach.refused(&"no link address", at(10_500 + again * 3_000));
        reach.sent(at(12_000 + again * 3_000));
        reach.look(at(12_900 + again * 3_000));
        is_silent(&reach);
    }
    reach.sent(at(24_000));
    reach.look(at(28_900));
    is_silent(&reach);
    reach.look(at(29_000));
    assert_eq!(reach.failure(), None);
    reach.heard(&report(stack::ErrorKind::TooBig(600), Some((3, 4))), at(30_000));
    assert_eq!(reach.failure(), None, "messages become smaller");
}
