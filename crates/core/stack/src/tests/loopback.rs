//! A stack reaches its own addresses, 127.0.0.1 and ::1, without a device. RFC 1122 section
//! 3.2.1.3: packets from outside with such addresses are martians.

use core::net::{IpAddr, SocketAddr};

use base::{Counter, DropReason, Duration, IpVersion, Limit, Owner, SeqNumber};
use tcp::{Config, State};
use wire::tcp::Flags;

use super::craft::{Bench, Tcp, frame_between};
use super::icmp::{BOTH, NOW, bench};
use crate::{
    EchoError, Event, ListenConfig, ListenerHandle, Stack, StackConfig, TcpHandle, UdpError,
};

fn owner() -> Owner {
    Owner::program()
}

fn localhost(version: IpVersion) -> IpAddr {
    match version {
        IpVersion::V4 => [127, 0, 0, 1].into(),
        IpVersion::V6 => "::1".parse().expect("an address"),
    }
}

fn any(version: IpVersion) -> IpAddr {
    match version {
        IpVersion::V4 => IpAddr::from([0; 4]),
        IpVersion::V6 => IpAddr::from([0; 16]),
    }
}

/// Polls until nothing more happens at this time; returns the accepted connection.
fn settle(stack: &mut Stack, listener: ListenerHandle) -> Option<TcpHandle> {
    let mut accepted = None;
    for _ in 0..50 {
        stack.poll(NOW);
        while let Some(event) = stack.next_event() {
            if matches!(event, Event::Accept(_)) {
                accepted = stack.tcp_accept(listener).or(accepted);
            }
        }
        if !stack.has_input() && stack.next_deadline() > NOW {
            return accepted;
        }
    }
    panic!("polls at one time go on for ever");
}

/// A connection of a stack with itself: both ends.
fn connected(stack: &mut Stack, at: IpAddr, to: IpAddr) -> (TcpHandle, TcpHandle) {
    let listener = stack.tcp_listen(SocketAddr::new(at, 80), ListenConfig::default());
    let listener = listener.expect("free");
    let to = SocketAddr::new(to, 80);
    let client = stack.tcp_connect(to, None, &Config::default(), owner(), NOW).expect("ourselves");
    let server = settle(stack, listener).expect("accepted");
    for handle in [client, server] {
        assert_eq!(stack.tcp_state(handle), Some((State::Established, None)), "{at} {to}");
    }
    (client, server)
}

fn moves_bytes(stack: &mut Stack, from: TcpHandle, to: TcpHandle) {
    let data: Vec<u8> = (0..300_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
    let (mut sent, mut received) = (0, Vec::new());
    let (mut now, mut room) = (NOW, vec![0; 65_536]);
    for _ in 0..2_000 {
        if sent < data.len() {
            sent += stack.tcp_write(from, &data[sent..]).unwrap_or(0);
        }
        stack.poll(now);
        while stack.next_event().is_some() {}
        while let Ok(count @ 1..) = stack.tcp_read(to, &mut room) {
            received.extend_from_slice(&room[..count]);
        }
        if received.len() == data.len() {
            break;
        }
        now += Duration::from_micros(50);
    }
    assert!(received == data, "{} of {}", received.len(), data.len());
}

#[test]
fn a_stack_without_a_device_connects_to_itself() {
    for version in BOTH {
        for at in [localhost(version), any(version)] {
            let mut stack = Stack::new(StackConfig::new([1, 2]));
            let (client, server) = connected(&mut stack, at, localhost(version));
            moves_bytes(&mut stack, client, server);
            moves_bytes(&mut stack, server, client);
            assert!(stack.counters().of(Counter::Looped) > 4);
            stack.tcp_close(client);
            let later = NOW + Duration::from_secs(1);
            (0..4).for_each(|_| _ = stack.poll(later));
            assert_eq!(stack.tcp_readable(server), Some((0, true)), "the end was not received");
        }
    }
}

#[test]
fn a_stack_connects_to_its_own_address_and_nothing_leaves() {
    for version in BOTH {
        for wild in [false, true] {
            let mut bench = bench(version);
            let ours = bench.ours;
            let at = if wild { any(version) } else { ours };
            let (client, server) = connected(&mut bench.stack, at, ours);
            moves_bytes(&mut bench.stack, client, server);
            let (local, remote) = bench.stack.tcp_addresses(server).expect("there");
            assert_eq!((local.ip(), remote.ip()), (ours, ours));
            assert!(bench.sent().is_empty(), "a packet left by a port");
        }
    }
}

#[test]
fn a_closed_port_of_ours_refuses() {
    for version in BOTH {
        let mut bench = bench(version);
        for to in [bench.ours, localhost(version)] {
            let to = SocketAddr::new(to, 81);
            let config = Config::default();
            let client = bench.stack.tcp_connect(to, None, &config, owner(), NOW).expect("us");
            (0..4).for_each(|_| _ = bench.stack.poll(NOW));
            let (_, why) = bench.stack.tcp_state(client).expect("there");
            assert_eq!(why, Some(tcp::Error::Refused), "{to}");
            let udp = bench.stack.udp_bind(SocketAddr::new(any(version), 0), owner()).expect("one");
            bench.stack.udp_send(udp, to, b"hello", NOW).expect("sent");
            (0..4).for_each(|_| _ = bench.stack.poll(NOW));
            assert!(bench.stack.udp_take_error(udp).is_some(), "{to}");
        }
        assert!(bench.sent().is_empty(), "a packet left by a port");
    }
}

#[test]
fn datagrams_and_echoes_come_back() {
    for version in BOTH {
        let mut bench = bench(version);
        for to in [bench.ours, localhost(version)] {
            for at in [to, any(version)] {
                let at = SocketAddr::new(at, 2_000);
                let there = bench.stack.udp_bind(at, owner()).expect("free");
                let here = bench.stack.udp_bind(SocketAddr::new(any(version), 0), owner());
                let here = here.expect("one is free");
                for len in [0, 5, 1_473, 60_000] {
                    let to = SocketAddr::new(to, 2_000);
                    bench.stack.udp_send(here, to, &vec![7; len], NOW).expect("sent");
                    bench.stack.flush();
                    bench.stack.poll(NOW);
                    let datagram = bench.stack.udp_receive(there).expect("it came");
                    assert_eq!((datagram.to, datagram.from.ip()), (to, to.ip()));
                    assert!(datagram.payload.as_slice() == vec![7; len]);
                    bench.stack.give_back(datagram.payload);
                }
                bench.stack.udp_close(there);
                bench.stack.udp_close(here);
            }
            let ping = bench.stack.ping_open(owner()).expect("one");
            assert_eq!(bench.stack.ping_send(ping, to, 3, b"echo", NOW), Ok(to));
            (0..4).for_each(|_| _ = bench.stack.poll(NOW));
            let echo = bench.stack.ping_receive(ping).expect("it came");
            assert_eq!((echo.from, echo.seq), (to, 3));
            let payload: Result<_, EchoError> = echo.outcome;
            bench.stack.give_back(payload.expect("a reply"));
            bench.stack.ping_close(ping);
        }
        assert!(bench.sent().is_empty(), "a packet left by a port");
    }
}

/// RFC 1122 section 3.2.1.3: a packet from the stack's own address, or to a loopback address, that
/// arrives by a port is dropped, even if it fits a connection of the stack with itself.
#[test]
fn what_comes_by_a_port_with_such_addresses_is_dropped() {
    for version in BOTH {
        for of_port in [false, true] {
            let mut bench = bench(version);
            let host = if of_port { bench.ours } else { localhost(version) };
            let (client, server) = connected(&mut bench.stack, any(version), host);
            let (local, remote) = bench.stack.tcp_addresses(server).expect("there");
            let before = bench.stack.drops().total();
            for (from, to) in [(remote, local), (local, remote)] {
                let reset = Tcp {
                    ports: (from.port(), to.port()),
                    seq: SeqNumber(0),
                    ack: SeqNumber(0),
                    flags: Flags::RST,
                    window: 0,
                    urgent: 0,
                    options: Vec::new(),
                    payload: Vec::new(),
                };
                let bytes = reset.bytes(from.ip(), to.ip());
                let frame = frame_between(from.ip(), to.ip(), 6, &bytes);
                assert!(bench.exchange(&frame, NOW).is_empty());
            }
            assert_eq!(bench.stack.drops().total(), before + 2);
            let martians = [DropReason::IpMartianSource, DropReason::IpNotForUs];
            let dropped: u64 = martians.map(|reason| bench.stack.drops().of(reason)).iter().sum();
            assert_eq!(dropped, 2, "{host}");
            for handle in [client, server] {
                assert_eq!(bench.stack.tcp_state(handle), Some((State::Established, None)));
            }
            moves_bytes(&mut bench.stack, client, server);
        }
    }
}

#[test]
fn a_loopback_address_never_leaves() {
    for version in BOTH {
        let mut bench: Bench = bench(version);
        let there = SocketAddr::new(bench.theirs, 9);
        let from = SocketAddr::new(localhost(version), 2_000);
        let udp = bench.stack.udp_bind(from, owner()).expect("free");
        let sent = bench.stack.udp_send(udp, there, b"hello", NOW);
        assert_eq!(sent, Err(UdpError::Unsendable(DropReason::IpMartianSource)));
        let opened = bench.stack.tcp_connect(there, Some(from), &Config::default(), owner(), NOW);
        assert!(opened.is_err());
        assert!(bench.sent().is_empty());
    }
}

/// The loopback takes a limited number of frames, and then pushes senders back.
#[test]
fn a_flood_to_oneself_is_bounded() {
    let mut stack = Stack::new(StackConfig::new([1, 2]));
    let to = SocketAddr::new(localhost(IpVersion::V4), 2_000);
    let there = stack.udp_bind(to, owner()).expect("free");
    let here = stack.udp_bind(SocketAddr::new(to.ip(), 0), owner()).expect("free");
    let mut sent = 0;
    let refused = loop {
        match stack.udp_send(here, to, &[0; 1_000], NOW) {
            Ok(()) => sent += 1,
            Err(why) => break why,
        }
        assert!(sent < 10_000, "the loopback takes any number of frames");
    };
    assert_eq!(refused, UdpError::WouldBlock);
    while stack.has_input() {
        stack.poll(NOW);
    }
    let mut received = 0;
    while let Some(datagram) = stack.udp_receive(there) {
        stack.give_back(datagram.payload);
        received += 1;
    }
    let full = stack.drops().of(DropReason::UdpQueueFull);
    assert_eq!(received + full, sent);
    assert!(received > 0 && stack.budget().hits(Limit::UdpQueueBytes) > 0);
    stack.udp_send(here, to, b"again", NOW).expect("there is room");
}
