//! What the kernel and its programs see of a stack that answers for every host.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use testbed::{Case, Need, until};

use crate::gateway::{
    CLOSED, ECHO, GUEST, Gateway, NARROW, NARROW_MTU, NO_HOST, NO_NET, PROHIBITED, router,
};

const TRACEROUTE: Need = Need::Program("traceroute", "traceroute");

pub(crate) const CASES: &[Case] = &[
    ("every_host_answers_ping", &[Need::PING], every_host_answers_ping),
    ("a_traceroute_sees_every_router", &[TRACEROUTE], a_traceroute_sees_every_router),
    ("datagrams_go_to_every_host_and_back", &[], datagrams_go_to_every_host_and_back),
    ("errors_reach_udp_sockets", &[], errors_reach_udp_sockets),
    ("a_reported_mtu_is_used", &[], a_reported_mtu_is_used),
    ("connects_fail_with_the_error_that_was_sent", &[], connects_fail_with_the_error_that_was_sent),
    ("the_guest_keeps_its_addresses", &[], the_guest_keeps_its_addresses),
];

const HOSTS: [&str; 2] = ["198.51.100.7", "2001:db8:1::7"];
const SOON: Duration = Duration::from_secs(20);

fn output(program: &str, arguments: &str) -> String {
    let output = Command::new(program).args(arguments.split(' ')).output().expect("it is there");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn at(host: &str, port: u16) -> SocketAddr {
    SocketAddr::new(host.parse().expect("an address"), port)
}

fn every_host_answers_ping() {
    let _gateway = Gateway::start();
    for host in HOSTS {
        for size in [56, 4_000] {
            let seen = output("ping", &format!("-n -c 3 -i 0.2 -W 10 -s {size} {host}"));
            assert!(seen.contains("3 received") && seen.contains("ttl=61"), "{seen}");
        }
    }
}

fn a_traceroute_sees_every_router() {
    let _gateway = Gateway::start();
    for host in HOSTS {
        for how in ["-U", "-I"] {
            let seen = output("traceroute", &format!("-n -q 3 -w 10 -m 10 {how} {host}"));
            let hops: Vec<&str> = seen.lines().skip(1).collect();
            assert_eq!(hops.len(), 4, "{seen}");
            assert!(!seen.contains('*') && !seen.contains('!'), "{seen}");
            for (n, hop) in (1..).zip(&hops) {
                let expected = match n {
                    4 => host.to_owned(),
                    _ => router(n, !host.contains(':')).to_string(),
                };
                assert!(hop.split_whitespace().nth(1) == Some(&expected), "{seen}");
            }
        }
    }
}

/// A socket of the kernel for this host's version of IP.
fn socket(host: &str) -> UdpSocket {
    let any = if host.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any).expect("a port");
    socket.set_read_timeout(Some(SOON)).expect("a time");
    socket
}

fn datagrams_go_to_every_host_and_back() {
    let _gateway = Gateway::start();
    for host in HOSTS {
        let socket = socket(host);
        for len in [0, 1, 1_400, 20_000, 65_507 - 40] {
            let payload: Vec<u8> = (0..len).map(|n| (n * 7) as u8).collect();
            socket.send_to(&payload, at(host, ECHO)).expect("routed");
            let mut bytes = vec![0; 70_000];
            let (n, from) = socket.recv_from(&mut bytes).expect("an answer");
            assert_eq!(from, at(host, ECHO));
            assert!(bytes[..n] == payload, "{n} of {len} bytes");
        }
    }
}

/// The error that a connected socket gets about a datagram to this port.
fn error_of(host: &str, port: u16) -> ErrorKind {
    let socket = socket(host);
    socket.connect(at(host, port)).expect("routed");
    socket.send(b"anybody?").expect("routed");
    socket.recv(&mut [0; 10]).expect_err("nobody answers").kind()
}

fn errors_reach_udp_sockets() {
    let _gateway = Gateway::start();
    for host in HOSTS {
        assert_eq!(error_of(host, 9), ErrorKind::ConnectionRefused, "{host}");
    }
    // Over IPv6 the kernel reports "prohibited"; over IPv4 only to sockets that ask for it.
    assert_eq!(error_of(HOSTS[1], PROHIBITED), ErrorKind::PermissionDenied);
}

fn a_reported_mtu_is_used() {
    let _gateway = Gateway::start();
    for host in HOSTS {
        let socket = socket(host);
        let route = |host: &str| output("ip", &format!("route get {host}"));
        assert!(!route(host).contains("mtu"));
        socket.send_to(&[7; 1_450], at(host, NARROW)).expect("it fits the interface");
        assert!(until(SOON, || route(host).contains(&format!("mtu {NARROW_MTU}"))), "{host}");
    }
}

fn connects_fail_with_the_error_that_was_sent() {
    let _gateway = Gateway::start();
    for host in HOSTS {
        let connect = |port| TcpStream::connect_timeout(&at(host, port), SOON);
        let mut stream = connect(ECHO).expect("it is completed");
        stream.write_all(b"hello").expect("open");
        stream.shutdown(std::net::Shutdown::Write).expect("open");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("until the end");
        assert_eq!(text, "hello");
        let error = |port| connect(port).expect_err("no such host").kind();
        assert_eq!(error(NO_HOST), ErrorKind::HostUnreachable, "{host}");
        assert_eq!(error(NO_NET), ErrorKind::NetworkUnreachable, "{host}");
        assert_eq!(error(CLOSED), ErrorKind::ConnectionRefused, "{host}");
        // RFC 4443's code has an error of its own, RFC 1812's has not.
        let prohibited = match host.contains(':') {
            true => ErrorKind::PermissionDenied,
            false => ErrorKind::HostUnreachable,
        };
        assert_eq!(error(PROHIBITED), prohibited, "{host}");
    }
}

/// A port that answers for every address does not answer for those of the guest: duplicate address
/// detection succeeds, and gateways that do not exist have our link address.
fn the_guest_keeps_its_addresses() {
    let _gateway = Gateway::start();
    assert!(testbed::ip("addr add fd77::5/64 dev ws0"));
    let state = || output("ip", "-6 addr show dev ws0");
    let is_checked = || !state().contains("tentative") || state().contains("dadfailed");
    assert!(until(SOON, is_checked), "{}", state());
    assert!(!state().contains("dadfailed"), "{}", state());
    for (host, network) in ["10.77.0.99", "fd77::99"].iter().zip(GUEST) {
        assert!(socket(host).send_to(b"x", at(host, ECHO)).is_ok(), "{network}");
        let known = || output("ip", &format!("neigh show {host}")).contains("02:00:00:00:00:01");
        assert!(until(SOON, known), "{}", output("ip", "neigh"));
    }
}
