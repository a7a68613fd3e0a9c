//! The source of every kind of socket is an address of the stack. RFC 1122 section 3.3.4.2, RFC
//! 2827.

use core::net::{IpAddr, SocketAddr};

use base::{IpVersion, Owner};
use tcp::Config;

use super::icmp::{BOTH, NOW, bench};
use crate::{
    ConnectError, IpSettings, ListenConfig, ListenError, PortId, UdpError, UdpHandle, UdpOptions,
};

const PORT: PortId = PortId(0);

/// Addresses that no host of the test has.
fn strangers(version: IpVersion) -> Vec<IpAddr> {
    let all: &[&str] = match version {
        IpVersion::V4 => &["9.9.9.9", "192.0.2.99", "240.0.0.1", "0.0.0.1"],
        IpVersion::V6 => &["2001:db8:9::9", "fe80::9", "::2", "::ffff:9.9.9.9"],
    };
    all.iter().map(|text| text.parse().expect("an address")).collect()
}

fn owner() -> Owner {
    Owner { uid: 1_000, ..Owner::program() }
}

/// The source addresses of the frames that left; none may be another host's.
fn sources(frames: &[Vec<u8>]) -> Vec<IpAddr> {
    let source = |frame: &Vec<u8>| match frame[14] >> 4 {
        4 => IpAddr::from(<[u8; 4]>::try_from(&frame[26..30]).expect("four bytes")),
        _ => IpAddr::from(<[u8; 16]>::try_from(&frame[22..38]).expect("sixteen bytes")),
    };
    frames.iter().map(source).collect()
}

#[test]
fn a_socket_is_bound_to_an_address_of_the_stack() {
    for version in BOTH {
        let mut bench = bench(version);
        let there = SocketAddr::new(bench.theirs, 9);
        for stranger in strangers(version) {
            let from = SocketAddr::new(stranger, 2_000);
            let none = Some(UdpError::NoAddress);
            assert_eq!(bench.stack.udp_bind(from, owner()).err(), none, "{stranger}");
            let pair = bench.stack.udp_bind_connected(from, there, owner());
            assert_eq!(pair.err(), none, "{stranger}");
            let listening = bench.stack.tcp_listen(from, ListenConfig::default());
            assert_eq!(listening.err(), Some(ListenError::NoAddress), "{stranger}");
            let (config, owner) = (Config::default(), owner());
            let opened = bench.stack.tcp_connect(there, Some(from), &config, owner, NOW);
            assert_eq!(opened.err(), Some(ConnectError::NoAddress), "{stranger}");
        }
        assert!(bench.sent().is_empty());
    }
}

/// As on Linux: a socket bound to such an address receives, and sends from an address of the stack.
#[test]
fn a_socket_at_a_broadcast_address_sends_from_an_address_of_ours() {
    let mut bench = bench(IpVersion::V4);
    let there = SocketAddr::new(bench.theirs, 9);
    for (at, port) in [("255.255.255.255", 68), ("192.0.2.255", 69), ("224.0.0.9", 70)] {
        let at = SocketAddr::new(at.parse().expect("an address"), port);
        let socket = bench.stack.udp_bind(at, owner()).expect("to receive at");
        bench.stack.udp_send(socket, there, b"hello", NOW).expect("sent");
        let group = SocketAddr::new([224, 0, 0, 9].into(), 9);
        bench.stack.udp_send(socket, group, b"hello", NOW).expect("sent");
        let frames = bench.sent();
        assert_eq!(sources(&frames), [bench.ours; 2], "{at}");
    }
}

/// The address is removed while the socket is open. The same for the source address that a program
/// sets for a datagram.
#[test]
fn a_source_that_is_ours_no_more_sends_nothing() {
    for version in BOTH {
        let mut bench = bench(version);
        let (ours, there) = (bench.ours, SocketAddr::new(bench.theirs, 9));
        let group: IpAddr = match version {
            IpVersion::V4 => [224, 0, 0, 9].into(),
            IpVersion::V6 => "ff02::9".parse().expect("a group"),
        };
        let socket = bench.stack.udp_bind(SocketAddr::new(ours, 2_000), owner()).expect("free");
        let any = match version {
            IpVersion::V4 => IpAddr::from([0; 4]),
            IpVersion::V6 => IpAddr::from([0; 16]),
        };
        let wild = bench.stack.udp_bind(SocketAddr::new(any, 2_001), owner()).expect("free");
        bench.stack.udp_send(socket, there, b"hello", NOW).expect("sent");
        for stranger in strangers(version) {
            let sent = bench.stack.udp_send_from(wild, stranger, there, b"hello", NOW);
            assert_eq!(sent, Err(UdpError::NoAddress), "{stranger}");
        }
        assert_eq!(sources(&bench.sent()), [ours]);
        assert!(bench.stack.remove_address(PORT, ours));
        let sent = bench.stack.udp_send(socket, there, b"hello", NOW);
        assert_eq!(sent, Err(UdpError::NoAddress));
        let to_group = bench.stack.udp_send(socket, SocketAddr::new(group, 9), b"hello", NOW);
        assert_eq!(to_group, Err(UdpError::NoAddress));
        assert!(bench.sent().is_empty());
    }
}

/// An option for the program that owns the stack: for proxies that send with another host's
/// address.
#[test]
fn a_transparent_socket_sends_in_another_hosts_name() {
    for version in BOTH {
        let mut bench = bench(version);
        let (stranger, there) = (strangers(version)[0], SocketAddr::new(bench.theirs, 9));
        let from = SocketAddr::new(stranger, 2_000);
        let socket: UdpHandle = bench.stack.udp_bind_transparent(from, owner()).expect("free");
        bench.stack.udp_send(socket, there, b"hello", NOW).expect("sent");
        assert_eq!(sources(&bench.sent()), [stranger]);
        let ip = IpSettings { transparent: true, ..IpSettings::default() };
        let config = Config::default();
        let opened = bench.stack.tcp_connect_with(there, Some(from), &config, owner(), ip, NOW);
        opened.expect("in another host's name");
        assert_eq!(sources(&bench.sent()), [stranger]);
        let listen = ListenConfig { ip, ..ListenConfig::default() };
        bench.stack.tcp_listen(from, listen).expect("free");
        // Setting other options does not change this one.
        bench.stack.udp_set_options(socket, UdpOptions::default()).expect("open");
        bench.stack.udp_send(socket, there, b"hello", NOW).expect("sent");
        assert_eq!(sources(&bench.sent()), [stranger]);
    }
}
