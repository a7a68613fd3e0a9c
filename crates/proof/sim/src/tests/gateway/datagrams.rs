//! Sessions of datagrams and echoes through a gateway: the laws of RFC 4787.

use base::{Limit, Owner};
use gateway::{Config, Filtering, Verdict};
use stack::Unreachable;

use super::bench::{Bench, GUEST, SERVER, at};

/// Send from the guest's socket, and return where the server saw it from.
fn question(bench: &mut Bench, own: stack::UdpHandle, there: stack::UdpHandle, to: &str) -> String {
    let now = bench.now;
    bench.guest.udp_send(own, at(to), b"which?", now).expect("there is room");
    bench.settle();
    let datagram = bench.server.udp_receive(there).expect("it arrives");
    assert_eq!(datagram.payload.as_slice(), b"which?");
    datagram.from.to_string()
}

#[test]
fn an_answer_comes_from_the_address_that_was_asked() {
    let mut bench = Bench::new(Config::default());
    let own = Bench::udp(&mut bench.guest, 5_000);
    let there = Bench::udp(&mut bench.server, 53);
    bench.policy.verdicts.push_back(Verdict::To(at("198.51.100.7:53")));
    // REQ-3: the port is kept.
    let from = question(&mut bench, own, there, "203.0.113.9:53");
    assert_eq!(from, "198.51.100.1:5000");
    let now = bench.now;
    bench.server.udp_send(there, at(&from), b"this one", now).expect("there is room");
    bench.settle();
    let answer = bench.guest.udp_receive(own).expect("it arrives");
    assert_eq!(answer.from, at("203.0.113.9:53"));
    assert_eq!(answer.payload.as_slice(), b"this one");
}

#[test]
fn a_mapping_is_of_the_guest_alone_and_a_filter_of_the_peer() {
    for filtering in [Filtering::AddressAndPort, Filtering::Address, Filtering::Endpoint] {
        let mut bench = Bench::new(Config { filtering, ..Config::default() });
        let own = Bench::udp(&mut bench.guest, 5_000);
        let [one, two] = [7_001, 7_002].map(|port| Bench::udp(&mut bench.server, port));
        let from = question(&mut bench, own, one, "198.51.100.7:7001");
        let now = bench.now;
        // From a port that the guest has not sent anything.
        bench.server.udp_send(two, at(&from), b"other", now).expect("there is room");
        bench.settle();
        let passes = filtering != Filtering::AddressAndPort;
        assert_eq!(bench.guest.udp_receive(own).is_some(), passes, "{filtering:?}");
        assert_eq!(bench.engine.counts().datagrams_filtered, u64::from(!passes));
        // REQ-1: the same socket for another destination.
        assert_eq!(question(&mut bench, own, two, "198.51.100.7:7002"), from);
        let now = bench.now;
        bench.server.udp_send(two, at(&from), b"other", now).expect("there is room");
        bench.settle();
        assert!(bench.guest.udp_receive(own).is_some());
        assert_eq!(bench.engine.session_counts(), (1, 0));
    }
}

#[test]
fn a_session_lives_as_long_as_its_guest_sends() {
    let mut bench = Bench::new(Config::default());
    let there = Bench::udp(&mut bench.server, 7_001);
    let names = Bench::udp(&mut bench.server, 53);
    let [single, other, asks] =
        [5_000, 5_001, 5_002].map(|port| Bench::udp(&mut bench.guest, port));
    question(&mut bench, single, there, "198.51.100.7:7001");
    question(&mut bench, asks, names, "198.51.100.7:53");
    for _ in 0..3 {
        question(&mut bench, other, there, "198.51.100.7:7001");
    }
    for (seconds, left) in [(8, 3), (4, 2), (16, 2), (4, 1), (260, 1)] {
        bench.pass(seconds);
        assert_eq!(bench.engine.session_counts().0, left, "after {seconds} s more");
    }
    // REQ-6: what the guest sends refreshes.
    question(&mut bench, other, there, "198.51.100.7:7001");
    bench.pass(290);
    assert_eq!(bench.engine.session_counts().0, 1);
    bench.pass(20);
    assert_eq!((bench.engine.session_counts().0, bench.tokens.len()), (0, 0));
    assert_eq!(bench.engine.next_deadline(), base::Instant::NEVER);
}

#[test]
fn the_oldest_session_makes_room_but_no_active_one() {
    let mut config = Config::default();
    config.budget.set(Limit::GatewaySessions, 2);
    let mut bench = Bench::new(config);
    let there = Bench::udp(&mut bench.server, 7_001);
    let own = [5_000, 5_001, 5_002].map(|port| Bench::udp(&mut bench.guest, port));
    let to = "198.51.100.7:7001";
    for _ in 0..3 {
        question(&mut bench, own[0], there, to);
    }
    bench.pass(1);
    question(&mut bench, own[1], there, to);
    let now = bench.now;
    bench.guest.udp_send(own[2], at(to), b"which?", now).expect("there is room");
    bench.settle();
    assert!(bench.server.udp_receive(there).is_none(), "both are active");
    assert_eq!(bench.engine.counts().datagrams_without_room, 1);
    bench.pass(15);
    question(&mut bench, own[2], there, to);
    // That with a single exchange went, although it was younger.
    assert_eq!(bench.engine.counts().sessions_evicted, 1);
    assert_eq!(question(&mut bench, own[0], there, to), "198.51.100.1:5000");
    assert_eq!(bench.engine.counts().sessions_evicted, 1);
}

#[test]
fn errors_reach_the_guest() {
    let mut bench = Bench::new(Config::default());
    let own = Bench::udp(&mut bench.guest, 5_000);
    let now = bench.now;
    let to = at("198.51.100.7:9");
    bench.guest.udp_send(own, to, b"anybody?", now).expect("there is room");
    bench.settle();
    assert_eq!(bench.guest.udp_take_error(own), Some((to, Unreachable::Port)));
    bench.policy.verdicts.push_back(Verdict::Unreachable(Unreachable::Prohibited));
    let to = at("198.51.100.8:9");
    bench.guest.udp_send(own, to, b"anybody?", now).expect("there is room");
    bench.settle();
    assert_eq!(bench.guest.udp_take_error(own), Some((to, Unreachable::Prohibited)));
    assert_eq!(bench.engine.counts().datagrams_refused, 1);
}

#[test]
fn a_peer_that_the_guest_does_not_listen_to_is_not_let_in_any_more() {
    let mut bench = Bench::new(Config::default());
    let own = Bench::udp(&mut bench.guest, 5_000);
    let [one, two] = [7_001, 7_002].map(|port| Bench::udp(&mut bench.server, port));
    let from = at(&question(&mut bench, own, one, "198.51.100.7:7001"));
    question(&mut bench, own, two, "198.51.100.7:7002");
    bench.guest.udp_close(own);
    for (socket, left) in [(one, 1), (two, 0)] {
        let now = bench.now;
        bench.server.udp_send(socket, from, b"late", now).expect("there is room");
        bench.settle();
        assert_eq!(bench.engine.session_counts().0, left);
    }
    assert_eq!((bench.engine.counts().datagrams_unwanted, bench.tokens.len()), (2, 0));
    // Now the outside says so itself.
    let now = bench.now;
    bench.server.udp_send(one, from, b"late", now).expect("there is room");
    bench.settle();
    assert_eq!(bench.server.udp_take_error(one), Some((from, Unreachable::Port)));
}

#[test]
fn a_ping_is_answered_by_the_host_that_was_asked() {
    let mut bench = Bench::new(Config::default());
    let own = bench.guest.ping_open(Owner::program()).expect("room");
    let (to, now) = (SERVER.parse().expect("an address"), bench.now);
    let from = bench.guest.ping_send(own, to, 7, b"hello", now).expect("a route");
    assert_eq!(from.to_string(), GUEST);
    bench.settle();
    let echo = bench.guest.ping_receive(own).expect("a reply");
    assert_eq!((echo.from, echo.seq), (to, 7));
    assert_eq!(echo.outcome.expect("no error").as_slice(), b"hello");
    assert_eq!(bench.engine.session_counts(), (0, 1));
    bench.pass(31);
    assert_eq!(bench.engine.session_counts(), (0, 0));
}
