//! Values of other connections that a peer might predict: ports and IP identifications. The test of
//! initial sequence numbers is in the ladders (`number_jack_predictable_isn`). RFC 6056, RFC 6864.

use std::collections::BTreeSet;

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::Owner;
use inet::icmp::Unreachable;

use super::{MSS, NOW, Scene};
use crate::EPHEMERAL_PORTS;
use crate::pair::PairConfig;
use crate::tests::craft::Bench;
use crate::tests::icmp::{What, tell};

/// The local ports of `count` connections to the attacker's host, and of as many to another host,
/// opened in turn.
fn ports_drawn(seed: u64, count: usize) -> [Vec<u16>; 2] {
    let mut bench = Bench::new(&PairConfig::new([seed, 99]));
    let other = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 77));
    let mut drawn = [Vec::new(), Vec::new()];
    for n in 0..2 * count {
        let to = SocketAddr::new([bench.theirs, other][n % 2], 80);
        let config = tcp::Config::default();
        let handle = bench.stack.tcp_connect(to, None, &config, Owner::program(), NOW);
        let (local, _) = bench.stack.tcp_addresses(handle.expect("free")).expect("there");
        drawn[n % 2].push(local.port());
        bench.stack.tcp_abort(handle.expect("free"));
        bench.sent();
    }
    drawn
}

/// RFC 6056: from the port of its own connection a peer does not learn the port of a connection to
/// another host.
#[test]
fn ephemeral_port_prediction() {
    let mut first = BTreeSet::new();
    let mut apart = BTreeSet::new();
    const HOSTS: usize = 200;
    for seed in 0..HOSTS as u64 {
        let [his, others] = ports_drawn(seed, 4);
        for port in his.iter().chain(&others) {
            assert!(EPHEMERAL_PORTS.contains(port), "{port}");
        }
        first.insert(his[0]);
        apart.insert(others[0].wrapping_sub(his[0]));
    }
    // In a range of 28,232 ports, few of the 200 draws are equal.
    assert!(first.len() > HOSTS - 10, "{} first ports", first.len());
    assert!(apart.len() > HOSTS - 10, "{} distances", apart.len());
}

/// RFC 6864 section 4.1: a packet that may not be fragmented needs no identification. The stack's
/// is zero, so that nobody can count packets to others by it, as an idle scan does.
#[test]
fn ip_id_prediction() {
    let mut s = Scene::new(&MSS);
    let mut frames = Vec::new();
    let mut take = |sent: Vec<Vec<u8>>| frames.extend(sent);
    // A SYN-ACK, data, a challenge ACK, a RST, an echo reply, an ICMP error and a SYN are sent.
    s.write(s.victim, 20_000);
    s.bench.stack.flush();
    let sent = s.bench.sent();
    let quoted = sent[0][14..].to_vec();
    take(sent);
    for (port, ports) in [(80, s.next.ports.0), (81, 9)] {
        let mut odd = super::syn(ports);
        odd.ports.1 = port;
        let frame = s.bench.tcp_frame(&odd);
        take(s.bench.exchange(&frame, s.now));
    }
    let mut echo = vec![8, 0, 0, 0, 0, 1, 0, 1];
    let sum = wire::checksum::Ladder::Word64.sum(&echo);
    echo[2..4].copy_from_slice(&sum.field());
    for (protocol, packet) in [(1, &echo[..]), (99, b"nobody")] {
        let frame = s.bench.frame(protocol, packet);
        take(s.bench.exchange(&frame, s.now));
    }
    take(tell(&mut s.bench, &quoted, What::Unreachable(Unreachable::Net), s.now));
    let to = SocketAddr::new(s.bench.theirs, 99);
    let config = tcp::Config::default();
    let third = s.bench.stack.tcp_connect(to, None, &config, Owner::program(), s.now);
    take(s.bench.sent());
    assert!(frames.len() >= 6, "{}", frames.len());
    for frame in &frames {
        let (id, flags) = (&frame[18..20], frame[20] >> 5);
        assert_eq!((id, flags), (&[0, 0][..], 2), "zero, and may not be fragmented: {frame:x?}");
    }
    s.bench.stack.tcp_abort(third.expect("free"));
    s.end();
}
