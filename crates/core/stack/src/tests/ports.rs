//! Ephemeral ports are random, so that one of them does not reveal another (RFC 6056).

use core::net::SocketAddr;
use std::collections::BTreeSet;

use base::{Instant, Owner};

use crate::pair::{End, PairConfig, pair};
use crate::{ConnectError, EPHEMERAL_PORTS, TcpHandle};

const NOW: Instant = Instant::from_nanos(5_000_000_000);

fn connect(end: &mut End, remote: SocketAddr) -> Result<(TcpHandle, u16), ConnectError> {
    let config = tcp::Config::default();
    let handle = end.stack.tcp_connect(remote, None, &config, Owner::program(), NOW)?;
    let (local, _) = end.stack.tcp_addresses(handle).expect("there");
    Ok((handle, local.port()))
}

/// The ports of connections to one destination; if `elsewhere`, every second connection is to
/// another one.
fn ports(seed: u64, elsewhere: bool) -> Vec<u16> {
    let (mut end, other) = pair(&PairConfig::new([seed, 2]));
    let next = |n: u16| {
        let remote = SocketAddr::new(other.addr, if elsewhere { 1 + n % 2 } else { 1 });
        connect(&mut end, remote).expect("free").1
    };
    (0..400).map(next).collect()
}

/// An observer who knows one port, for instance that of his own connection, can predict neither the
/// next nor the one before, to the same destination or to another.
#[test]
fn no_port_tells_of_its_neighbour() {
    for elsewhere in [false, true] {
        let drawn = ports(1, elsewhere);
        let near = |pair: &&[u16]| pair[0].abs_diff(pair[1]) < 100;
        // The number expected by chance is 400 * 200 / 28232, which is 3.
        let count = drawn.windows(2).filter(near).count();
        assert!(count <= 12, "{count} of 400 ports are near the port before: {drawn:?}");
        let steps: BTreeSet<_> = drawn.windows(2).map(|p| p[1].wrapping_sub(p[0])).collect();
        assert!(steps.len() > 380, "{} steps", steps.len());
        let halves = drawn.iter().filter(|&&port| port < 46_884).count();
        assert!((140..=260).contains(&halves), "{halves} of 400 in the lower half");
        assert!(drawn.iter().all(|port| EPHEMERAL_PORTS.contains(port)));
        // Another secret yields other ports.
        let others = ports(7, elsewhere);
        let same = drawn.iter().zip(&others).filter(|(a, b)| a == b).count();
        assert!(same <= 3, "{same} ports are the same");
    }
}

/// Each port is tried once: the last free port is found.
#[test]
fn all_ports_are_tried() {
    let (mut end, _) = pair(&PairConfig::new([1, 2]));
    let tried: Vec<u16> = end.stack.ports_to_try().collect();
    let all: BTreeSet<u16> = tried.iter().copied().collect();
    assert_eq!(all, EPHEMERAL_PORTS.collect());
    assert_eq!(tried.len(), all.len());
}
