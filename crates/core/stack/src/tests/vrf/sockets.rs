//! The router's own sockets in VRFs.

use base::DropReason;

use super::*;
use crate::{ConnectError, TcpHandle, UdpError};

fn connect(world: &mut World, table: u32, local: &str, to: &str) -> TcpHandle {
    let (config, now) = (tcp::Config::default(), world.now);
    let (owner, ip) = (Owner::program(), settings(table));
    let router = &mut world.router;
    let made = router.tcp_connect_with(at(to), Some(at(local)), &config, owner, ip, now);
    made.expect("a connection")
}

/// Two connections with the same four-tuple, one in each VRF, are two connections.
#[test]
fn connections_of_two_vrfs_may_have_the_same_ends() {
    let mut world = World::new(true);
    let listeners = [BLUE_LAN, RED_LAN].map(|host| {
        let config = crate::ListenConfig::default();
        world.hosts[host].tcp_listen(at("0.0.0.0:80"), config).expect("a listener")
    });
    let [blue, red] =
        [10, 20].map(|table| connect(&mut world, table, "10.0.0.1:4000", "10.0.0.9:80"));
    world.run();
    let servers = [(BLUE_LAN, listeners[0], "blue"), (RED_LAN, listeners[1], "red")];
    for ((host, listener, name), handle) in servers.into_iter().zip([blue, red]) {
        let server = world.hosts[host].tcp_accept(listener).expect("accepted");
        for round in 0..3 {
            let text = format!("{name} {round}");
            world.hosts[host].tcp_write(server, text.as_bytes()).expect("room");
            world.run();
            let mut bytes = [0; 32];
            assert_eq!(world.router.tcp_read(handle, &mut bytes), Ok(text.len()));
            assert_eq!(&bytes[..text.len()], text.as_bytes());
        }
    }
    // The address is none of ours outside.
    let (config, now) = (tcp::Config::default(), world.now);
    let local = Some(at("10.0.0.1:4000"));
    let outside =
        world.router.tcp_connect(at("192.0.2.9:80"), local, &config, Owner::program(), now);
    assert_eq!(outside, Err(ConnectError::NoAddress));
}

/// A socket receives only what comes in its VRF; one that is in none receives nothing of a VRF.
#[test]
fn sockets_hear_their_vrf_alone() {
    let mut world = World::new(true);
    let config = crate::ListenConfig { ip: settings(10), ..crate::ListenConfig::default() };
    let listener = world.router.tcp_listen(at("0.0.0.0:80"), config).expect("a listener");
    let outside = crate::ListenConfig::default();
    let elsewhere = world.router.tcp_listen(at("0.0.0.0:81"), outside).expect("a listener");
    let in_blue = world.router.udp_bind(at("0.0.0.0:7"), Owner::program()).expect("a socket");
    world.router.udp_ip_mut(in_blue).expect("open").vrf = vrf(10);
    let in_none = world.router.udp_bind(at("0.0.0.0:8"), Owner::program()).expect("a socket");
    for (host, to) in [(BLUE_LAN, "10.0.0.1"), (RED_LAN, "10.0.0.1"), (MAIN, "192.0.2.1")] {
        let (config, now) = (tcp::Config::default(), world.now);
        let socket = world.udp(host, "0.0.0.0:9");
        let host = &mut world.hosts[host];
        for port in [80, 81] {
            let to = SocketAddr::new(ip(to), port);
            host.tcp_connect(to, None, &config, Owner::program(), now).expect("a connection");
        }
        for port in [7, 8] {
            host.udp_send(socket, SocketAddr::new(ip(to), port), b"?", now).expect("sent");
        }
    }
    world.run();
    let accepted = [listener, elsewhere].map(|listener| {
        let taken = core::iter::from_fn(|| world.router.tcp_accept(listener)).collect::<Vec<_>>();
        taken.into_iter().map(|h| world.router.tcp_ip(h).expect("open").vrf).collect::<Vec<_>>()
    });
    assert_eq!(accepted, [vec![vrf(10)], vec![Vrf::NONE]]);
    assert_eq!(received(&mut world.router, in_blue), [(at("10.0.0.9:9"), "?".to_owned())]);
    assert_eq!(received(&mut world.router, in_none), [(at("192.0.2.9:9"), "?".to_owned())]);
    // Blue's answer goes to blue.
    let now = world.now;
    world.router.udp_send(in_blue, at("10.0.0.9:9"), b"!", now).expect("sent");
    let none = world.router.udp_send(in_none, at("10.0.0.9:9"), b"!", now);
    assert_eq!(none, Err(UdpError::Unsendable(DropReason::IpNoRoute)));
    assert_eq!(world.router.drops().of(DropReason::TcpNoSocket), 4);
    assert_eq!(world.router.drops().of(DropReason::UdpNoSocket), 4);
}

/// Echo sockets of two VRFs ping the same address, and each gets the answer of its own host.
#[test]
fn echo_sockets_ping_in_their_vrf() {
    let mut world = World::new(true);
    let sockets = [10, 20].map(|table| {
        let socket = world.router.ping_open(Owner::program()).expect("a socket");
        world.router.ping_set_vrf(socket, vrf(table)).expect("open");
        socket
    });
    let id = world.hosts[RED_LAN].port_ids()[0];
    assert!(world.hosts[RED_LAN].remove_address(id, ip("10.0.0.9")));
    for socket in sockets {
        let now = world.now;
        world.router.ping_send(socket, ip("10.0.0.9"), 1, b"?", now).expect("sent");
    }
    world.run();
    let [blue, red] = sockets.map(|socket| world.router.ping_receive(socket));
    assert_eq!(blue.map(|echo| echo.from), Some(ip("10.0.0.9")));
    assert!(red.is_none(), "the host of red is not there");
    // An answer in red to the socket of blue is not believed: it may be forged.
    let own = world.router.ping_open(Owner::program()).expect("a socket");
    let now = world.now;
    let sent = world.router.ping_send(own, ip("10.0.0.9"), 1, b"?", now);
    assert_eq!(sent, Err(UdpError::Unsendable(DropReason::IpNoRoute)));
}

/// A socket reaches the router's own addresses in its VRF, and not those of another one.
#[test]
fn loopback_stays_in_the_vrf() {
    let mut world = World::new(true);
    let socket = world.router.udp_bind(at("10.1.0.1:7"), Owner::program()).expect("a socket");
    world.router.udp_ip_mut(socket).expect("open").vrf = vrf(20);
    let from = world.router.udp_bind(at("0.0.0.0:9"), Owner::program()).expect("a socket");
    world.router.udp_ip_mut(from).expect("open").vrf = vrf(20);
    let now = world.now;
    world.router.udp_send(from, at("10.1.0.1:7"), b"self", now).expect("sent");
    world.run();
    assert_eq!(received(&mut world.router, socket), [(at("10.1.0.1:9"), "self".to_owned())]);
    let ping = world.router.ping_open(Owner::program()).expect("a socket");
    world.router.ping_set_vrf(ping, vrf(20)).expect("open");
    let now = world.now;
    world.router.ping_send(ping, ip("10.0.0.1"), 1, b"?", now).expect("sent");
    world.run();
    assert_eq!(world.router.ping_receive(ping).map(|echo| echo.from), Some(ip("10.0.0.1")));
    world.router.udp_ip_mut(from).expect("open").vrf = Vrf::NONE;
    let now = world.now;
    let sent = world.router.udp_send(from, at("10.1.0.1:7"), b"self", now);
    assert_eq!(sent, Err(UdpError::Unsendable(DropReason::IpNoRoute)));
}

/// Connections fail when the port of their address moves to another VRF.
#[test]
fn connections_end_when_their_port_moves() {
    let mut world = World::new(true);
    let config = crate::ListenConfig::default();
    let listener = world.hosts[BLUE_LAN].tcp_listen(at("0.0.0.0:80"), config).expect("a listener");
    let handle = connect(&mut world, 10, "10.0.0.1:4000", "10.0.0.9:80");
    world.run();
    assert!(world.hosts[BLUE_LAN].tcp_accept(listener).is_some());
    assert!(world.router.tcp_failure(handle).is_none());
    assert!(world.router.set_vrf(port(BLUE_LAN), Vrf::NONE));
    let why = world.router.tcp_failure(handle).expect("it failed");
    assert!(why.contains("another VRF"), "{why}");
}
