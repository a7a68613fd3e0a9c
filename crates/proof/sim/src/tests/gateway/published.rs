//! Published UDP ports: a permanent session of the guest's end, and clients that the guest sees.

use core::net::SocketAddr;

use base::{Instant, Limit};
use gateway::{Config, End, Protocol, Report};
use stack::{Stack, UdpHandle};

use super::bench::{Bench, at};

/// The guest's port, and the outside's.
const GUEST: &str = "10.0.2.100:53";
const PUBLISHED: &str = "198.51.100.1:8053";

/// A bench with a published port, and the guest's socket behind it.
fn published(config: Config) -> (Bench, UdpHandle) {
    let mut bench = Bench::new(config);
    let own = Bench::udp(&mut bench.guest, 53);
    let socket = Bench::udp(&mut bench.outer, 8_053).into();
    bench
        .with(|engine, around| engine.publish_udp(socket, at(GUEST), Vec::new(), around))
        .expect("it is bound");
    (bench, own)
}

fn send(stack: &mut Stack, own: UdpHandle, to: SocketAddr, payload: &[u8], now: Instant) {
    stack.udp_send(own, to, payload, now).expect("there is a route");
}

/// Ask from the server's port, and return as whom the guest sees it.
fn ask(bench: &mut Bench, client: UdpHandle, own: UdpHandle) -> SocketAddr {
    let now = bench.now;
    send(&mut bench.server, client, at(PUBLISHED), b"question", now);
    bench.settle();
    let got = bench.guest.udp_receive(own).expect("it arrives");
    assert_eq!(got.payload.as_slice(), b"question");
    got.from
}

/// Answer from the guest, and return from where the server's port hears it.
fn answer(bench: &mut Bench, own: UdpHandle, to: SocketAddr, client: UdpHandle) -> SocketAddr {
    let now = bench.now;
    send(&mut bench.guest, own, to, b"an answer", now);
    bench.settle();
    let got = bench.server.udp_receive(client).expect("it arrives");
    assert_eq!(got.payload.as_slice(), b"an answer");
    got.from
}

fn reports(bench: &mut Bench) -> Vec<Report> {
    core::iter::from_fn(|| bench.engine.next_report()).collect()
}

#[test]
fn the_guest_sees_its_clients_and_all_it_sends_leaves_by_the_published_port() {
    let (mut bench, own) = published(Config::default());
    let [one, two] = [7_001, 7_002].map(|port| Bench::udp(&mut bench.server, port));
    let seen = ask(&mut bench, one, own);
    assert_eq!(seen, at("198.51.100.7:7001"));
    assert_eq!(answer(&mut bench, own, seen, one), at(PUBLISHED));
    assert!(bench.policy.asked.is_empty(), "the port is published");
    // Somebody who has not asked: the policy decides, and the mapping is the same.
    assert_eq!(answer(&mut bench, own, at("198.51.100.7:7002"), two), at(PUBLISHED));
    assert_eq!(bench.policy.asked.len(), 1);
    // It stays.
    bench.pass(1_000);
    assert_eq!(bench.engine.session_counts(), (1, 0));
    assert_eq!(bench.engine.next_deadline(), Instant::NEVER);
    assert_eq!(ask(&mut bench, one, own), seen);
    let client = reports(&mut bench);
    let [Report { protocol: Protocol::Udp, ends, end: End::Finished, .. }] = client[..] else {
        panic!("{client:?}")
    };
    assert_eq!((ends.guest, ends.remote), (at(GUEST), seen));
    assert_eq!((client[0].bytes_up, client[0].bytes_down), (9, 8));
    bench.with(|engine, around| engine.shut_down(around));
    assert_eq!((bench.engine.session_counts(), bench.tokens.len()), ((0, 0), 0));
    assert_eq!(reports(&mut bench).len(), 2);
}

#[test]
fn a_client_that_the_guest_cannot_see_has_a_port_of_the_gateway() {
    let networks = vec!["198.51.100.0/24".parse().expect("a network")];
    let mut config = Config { networks, ..Config::default() };
    config.budget.set(Limit::GatewaySessionPeers, 2);
    let (mut bench, own) = published(config);
    let [one, two, three] = [53, 7_002, 7_003].map(|port| Bench::udp(&mut bench.server, port));
    let first = ask(&mut bench, one, own);
    let second = ask(&mut bench, two, own);
    assert_eq!(first.ip(), at("10.0.2.2:0").ip());
    assert_ne!(first.port(), 53, "that is the resolver's");
    assert_eq!(second, at("10.0.2.2:7002"), "its own port is free");
    for (seen, client) in [(first, one), (second, two)] {
        assert_eq!(answer(&mut bench, own, seen, client), at(PUBLISHED));
    }
    // The one that has been idle longest goes.
    bench.pass(2);
    assert_eq!(answer(&mut bench, own, first, one), at(PUBLISHED));
    ask(&mut bench, three, own);
    assert_eq!(bench.engine.budget().hits(Limit::GatewaySessionPeers), 1);
    let gone = reports(&mut bench);
    assert_eq!((gone.len(), gone[0].ends.remote, gone[0].end), (1, second, End::Evicted));
    assert_eq!(answer(&mut bench, own, first, one), at(PUBLISHED));
}

#[test]
fn two_published_ports_of_one_end_answer_each_by_its_own() {
    let (mut bench, own) = published(Config::default());
    let socket = Bench::udp(&mut bench.outer, 9_053).into();
    let token =
        bench.with(|engine, around| engine.publish_udp(socket, at(GUEST), Vec::new(), around));
    let client = Bench::udp(&mut bench.server, 7_001);
    let first = ask(&mut bench, client, own);
    let now = bench.now;
    send(&mut bench.server, client, at("198.51.100.1:9053"), b"question", now);
    bench.settle();
    let second = bench.guest.udp_receive(own).expect("it arrives").from;
    assert_ne!(first, second);
    assert_eq!(answer(&mut bench, own, first, client), at(PUBLISHED));
    assert_eq!(answer(&mut bench, own, second, client), at("198.51.100.1:9053"));
    let token = token.expect("it is bound");
    bench.with(|engine, around| engine.unpublish_udp(token, around));
    assert_eq!(bench.engine.session_counts(), (1, 0));
    assert_eq!(answer(&mut bench, own, first, client), at(PUBLISHED));
}

#[test]
fn only_admitted_networks_reach_a_published_port() {
    let mut bench = Bench::new(Config::default());
    let own = Bench::udp(&mut bench.guest, 53);
    let client = Bench::udp(&mut bench.server, 7_001);
    for (network, port) in [("203.0.113.0/24", 8_053), ("198.51.100.0/28", 8_054)] {
        let socket = Bench::udp(&mut bench.outer, port).into();
        let from = vec![network.parse().expect("a network")];
        bench.with(|engine, around| engine.publish_udp(socket, at(GUEST), from, around));
        let (to, now) = (SocketAddr::from(([198, 51, 100, 1], port)), bench.now);
        send(&mut bench.server, client, to, b"question", now);
        bench.settle();
        assert_eq!(bench.guest.udp_receive(own).is_some(), port == 8_054);
        assert_eq!(bench.engine.counts().datagrams_filtered, 1);
    }
}

#[test]
fn published_ports_make_no_room_and_take_none() {
    let mut config = Config::default();
    config.budget.set(Limit::GatewaySessions, 1);
    let (mut bench, own) = published(config);
    bench.pass(60);
    let there = Bench::udp(&mut bench.server, 7_001);
    for port in [5_000, 5_001] {
        let other = Bench::udp(&mut bench.guest, port);
        answer(&mut bench, other, at("198.51.100.7:7001"), there);
        bench.pass(15);
    }
    assert_eq!(bench.engine.counts().sessions_evicted, 1);
    ask(&mut bench, there, own);
    // Nobody is at the guest's port: the client is forgotten, and the port stays.
    bench.guest.udp_close(own);
    let now = bench.now;
    send(&mut bench.server, there, at(PUBLISHED), b"question", now);
    bench.settle();
    assert_eq!(bench.engine.counts().datagrams_unwanted, 1);
    let own = Bench::udp(&mut bench.guest, 53);
    ask(&mut bench, there, own);
}
