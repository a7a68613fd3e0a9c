//! Whole transfers between two stacks.

use core::net::SocketAddr;

use base::{Duration, Instant, IpVersion, Mtu, Owner};
use tcp::usrreq::CallError;

use crate::pair::{PairConfig, pair};
use crate::{Event, ListenConfig};

/// Moves `len` bytes in one direction in virtual time, and checks them at the receiver.
fn transfer(config: &PairConfig, len: usize) {
    let (mut client, mut server) = pair(config);
    let mut now = Instant::from_nanos(1_000_000);
    let listener = server
        .stack
        .tcp_listen(SocketAddr::new(server.addr, 5001), ListenConfig::default())
        .expect("free");
    let c = client
        .stack
        .tcp_connect(
            SocketAddr::new(server.addr, 5001),
            None,
            &tcp::Config::default(),
            Owner::program(),
            now,
        )
        .expect("routed");
    let data: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
    let mut received = Vec::new();
    let mut sent = 0;
    let mut s = None;
    let mut buf = vec![0; 64 * 1024];
    for _ in 0..len / 100 + 1000 {
        now += Duration::from_micros(10);
        let busy = client.stack.poll(now) + server.stack.poll(now);
        while let Some(event) = server.stack.next_event() {
            if matches!(event, Event::Accept(_)) {
                s = server.stack.tcp_accept(listener);
            }
        }
        if sent < len {
            match client.stack.tcp_write(c, &data[sent..]) {
                Ok(n) => sent += n,
                Err(CallError::WouldBlock) => {}
                Err(other) => panic!("{other:?}"),
            }
            if sent == len {
                client.stack.tcp_shutdown_write(c);
            }
        }
        if let Some(s) = s {
            match server.stack.tcp_read(s, &mut buf) {
                Ok(0) => break,
                Ok(n) => received.extend_from_slice(&buf[..n]),
                Err(CallError::WouldBlock) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        if busy == 0 {
            let next = client.stack.next_deadline().min(server.stack.next_deadline());
            if next != Instant::NEVER {
                now = now.max(next);
            }
        }
    }
    assert_eq!(received.len(), len);
    assert!(received == data);
    let (_, peer_closed) = server.stack.tcp_readable(s.expect("accepted")).expect("there");
    assert!(peer_closed);
}

#[test]
fn bytes_arrive_whole_at_every_mtu_and_version() {
    for version in [IpVersion::V4, IpVersion::V6] {
        for mtu in [68, 256, 536, 1280, 1500, 9000, 65_535] {
            if version == IpVersion::V6 && mtu < 1280 {
                continue;
            }
            let mut config = PairConfig::new([7, 9]);
            config.wire.mtu = Mtu::new(mtu).expect("in range");
            config.version = version;
            transfer(&config, 300_000);
        }
    }
}

/// A sender may have no buffers except those that its peer has just read: a driver thread that
/// polls a stack until `has_input` is false, and then sleeps, must hold none of them.
#[test]
fn who_sleeps_holds_no_buffers_of_its_peer() {
    let (mut client, mut server) = pair(&PairConfig::new([5, 6]));
    let mut now = Instant::from_nanos(1_000_000);
    let local = SocketAddr::new(server.addr, 5001);
    let listener = server.stack.tcp_listen(local, ListenConfig::default()).expect("free");
    let tcp = tcp::Config { no_delay: true, ..tcp::Config::default() };
    let c = client.stack.tcp_connect(local, None, &tcp, Owner::program(), now).expect("routed");
    for _ in 0..4 {
        now += Duration::from_micros(10);
        client.stack.poll(now);
        server.stack.poll(now);
    }
    let s = server.stack.tcp_accept(listener).expect("established");
    let mut buf = [0; 256];
    for len in [1, 100, 256] {
        now += Duration::from_micros(10);
        assert_eq!(client.stack.tcp_write(c, &buf[..len]), Ok(len));
        client.stack.poll(now);
        server.stack.poll(now);
        assert_eq!(server.stack.tcp_read(s, &mut buf), Ok(len));
        assert_eq!(server.stack.tcp_write(s, &buf[..1]), Ok(1));
        server.stack.flush();
        while server.stack.has_input() {
            server.stack.poll(now);
        }
        client.stack.poll(now);
        assert_eq!(client.stack.tcp_read(c, &mut buf), Ok(1));
        // The byte from the server is in a buffer of the server's pool, so no buffer of the
        // client's pool is in use.
        assert_eq!(client.stack.pool().outstanding(), 0, "buffers are in use after {len} bytes");
    }
}

/// Loaned writes are limited by the send buffer, like copies.
#[test]
fn loaned_buffers_fill_the_send_buffer_and_no_more() {
    let (mut client, mut server) = pair(&PairConfig::new([7, 9]));
    let mut now = Instant::from_nanos(1_000_000);
    let to = SocketAddr::new(server.addr, 5001);
    server.stack.tcp_listen(to, ListenConfig::default()).expect("free");
    let config = tcp::Config {
        send_buffer_bytes: 100_000,
        send_buffer_max_bytes: 0,
        ..tcp::Config::default()
    };
    let connected = client.stack.tcp_connect(to, None, &config, Owner::program(), now);
    let handle = connected.expect("routed");
    let mut taken = 0;
    for _ in 0..2000 {
        now += Duration::from_micros(10);
        client.stack.poll(now);
        server.stack.poll(now);
        let (mut m, unit) = client.stack.tcp_alloc(handle).expect("buffers");
        m.put(unit, |bytes| bytes.fill(7));
        match client.stack.tcp_write_mbuf(handle, m) {
            Ok(()) => taken += unit,
            Err((error, m)) => {
                assert_eq!(error, CallError::WouldBlock);
                client.stack.give_back(m);
            }
        }
    }
    // The peer does not read: bytes in its receive buffer have left the send buffer.
    let most = (config.send_buffer_bytes + config.receive_buffer_bytes) as usize + 1448;
    assert!((500_000..=most).contains(&taken), "{taken} bytes were taken");
}
