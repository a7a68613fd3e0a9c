//! Binding, connecting and closing sockets, and which socket gets a datagram.

use std::collections::BTreeSet;

use core::net::{IpAddr, Ipv4Addr};

use base::{DropReason, Owner};

use super::*;
use crate::{EPHEMERAL_PORTS, UdpError};

#[test]
fn a_connected_socket_comes_before_one_without_a_peer() {
    for version in BOTH {
        for is_wild in [false, true] {
            let mut bench = bench(version);
            let any = if version == BOTH[0] { "0.0.0.0" } else { "::" };
            let ours = if is_wild { any.parse().expect("an address") } else { bench.ours };
            let (local, owner) = (SocketAddr::new(ours, 9), Owner::program);
            let all = bench.stack.udp_bind(local, owner()).expect("free");
            let [one, two] = [1, 2].map(|port| {
                let peer = peer(&bench, port);
                bench.stack.udp_bind_connected(local, peer, owner()).expect("another peer")
            });
            arrive(&mut bench, &[1, 2, 3, 1, 1, 3, 2], NOW);
            assert_eq!(taken(&mut bench.stack, one), [1, 1, 1]);
            assert_eq!(taken(&mut bench.stack, two), [2, 2]);
            assert_eq!(taken(&mut bench.stack, all), [3, 3]);
            bench.stack.udp_close(one);
            arrive(&mut bench, &[1, 2], NOW);
            assert_eq!(taken(&mut bench.stack, all), [1]);
            bench.stack.udp_close(all);
            arrive(&mut bench, &[1, 2], NOW);
            assert_eq!(taken(&mut bench.stack, two), [2, 2]);
            assert_eq!(bench.stack.drops().of(DropReason::UdpNoSocket), 1);
        }
    }
}

/// A datagram that is not from a socket's peer goes to the socket that is bound to every address.
#[test]
fn a_socket_that_takes_every_address_gets_what_the_connected_one_does_not() {
    let mut bench = bench(BOTH[0]);
    let exact = bound(&mut bench, 9);
    bench.stack.udp_connect(exact, peer(&bench, 1)).expect("open");
    arrive(&mut bench, &[1, 2], NOW);
    assert_eq!(bench.stack.drops().of(DropReason::UdpNotPeer), 1);
    let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 9);
    let wild = bench.stack.udp_bind(any, Owner::program()).expect("another address");
    arrive(&mut bench, &[1, 2], NOW);
    assert_eq!(taken(&mut bench.stack, exact), [1, 1]);
    assert_eq!(taken(&mut bench.stack, wild), [2]);
}

#[test]
fn two_ends_are_bound_once_and_by_one_user() {
    let mut bench = bench(BOTH[1]);
    let local = SocketAddr::new(bench.ours, 9);
    let (one, two) = (peer(&bench, 1), peer(&bench, 2));
    let socket = bound(&mut bench, 9);
    let other = Owner { uid: 1000, ..Owner::program() };
    let stack = &mut bench.stack;
    assert_eq!(stack.udp_bind(local, Owner::program()), Err(UdpError::AddressInUse));
    assert_eq!(stack.udp_bind_connected(local, one, other.clone()), Err(UdpError::AddressInUse));
    let first = stack.udp_bind_connected(local, one, Owner::program()).expect("free");
    let again = stack.udp_bind_connected(local, one, Owner::program());
    assert_eq!(again, Err(UdpError::AddressInUse));
    assert_eq!(stack.udp_connect(socket, one), Err(UdpError::AddressInUse));
    assert_eq!(stack.udp_connect(socket, two), Ok(()));
    assert_eq!(stack.udp_connect(socket, two), Ok(()), "connecting to the same peer was refused");
    assert_eq!((stack.udp_peer(first), stack.udp_peer(socket)), (Some(one), Some(two)));
    // A connected socket keeps its address even after the socket without a peer is closed.
    stack.udp_close(socket);
    assert_eq!(stack.udp_bind(local, other.clone()), Err(UdpError::AddressInUse));
    stack.udp_close(first);
    assert!(stack.udp_bind(local, other).is_ok());
}

/// RFC 6056 section 3.3.1: the search for a free port fails only if all ports are in use.
#[test]
fn port_0_is_any_free_port_until_there_is_none() {
    let mut bench = bench(BOTH[0]);
    let local = SocketAddr::new(bench.ours, 0);
    let wild = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    let stack = &mut bench.stack;
    let mut ports = BTreeSet::new();
    let mut sockets = Vec::new();
    for _ in EPHEMERAL_PORTS {
        let socket = stack.udp_bind(local, Owner::program()).expect("one is free");
        let (ip, port) = stack.udp_local(socket).expect("open");
        assert!(EPHEMERAL_PORTS.contains(&port) && ip == Some(local.ip()));
        assert!(ports.insert(port), "{port} was assigned twice");
        sockets.push((socket, port));
    }
    for address in [local, wild] {
        assert_eq!(stack.udp_bind(address, Owner::program()), Err(UdpError::AddressInUse));
    }
    let (socket, port) = sockets[20_000];
    stack.udp_close(socket);
    let socket = stack.udp_bind(wild, Owner::program()).expect("one is free");
    assert_eq!(stack.udp_local(socket), Some((None, port)));
}

#[test]
fn ports_in_a_row_do_not_tell_of_each_other() {
    let mut bench = bench(BOTH[0]);
    let local = SocketAddr::new(bench.ours, 0);
    let mut ports = Vec::new();
    for _ in 0..100 {
        let socket = bench.stack.udp_bind(local, Owner::program()).expect("free");
        ports.push(bench.stack.udp_local(socket).expect("open").1);
    }
    let near = ports.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 100).count();
    assert!(near < 5, "{near} of 99 ports are next to the port before");
}
