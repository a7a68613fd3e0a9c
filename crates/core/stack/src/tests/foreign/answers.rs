//! Echo replies and ICMP errors in the name of other hosts.

use base::{Counter, DropReason, Duration, IpVersion, Limit};
use inet::icmp;

use super::*;
use crate::tests::craft::{Bench, frame_between};
use crate::{
    EchoError, ErrorKind, Event, ForeignError, ForeignFlow, ForeignKind, IpSettings, ListenConfig,
    UdpOptions, Unreachable,
};

/// A router on the way to the other host.
fn router(version: IpVersion) -> IpAddr {
    match version {
        IpVersion::V4 => "203.0.113.1".parse().expect("an address"),
        IpVersion::V6 => "2001:db8:2::1".parse().expect("an address"),
    }
}

#[test]
fn an_echo_is_answered_in_the_name_of_the_other_host() {
    for version in BOTH {
        for len in [0, 56, 4_001] {
            let (mut guest, mut gateway) = guest_and_gateway(&config(version));
            let ping = guest.stack.ping_open(Owner::program()).expect("room");
            let data: Vec<u8> = (0..len).map(|n| n as u8).collect();
            guest.stack.ping_send(ping, other(version), 3, &data, NOW).expect("routed");
            exchange(&mut guest, &mut gateway);
            let request = take(&mut gateway.stack).remove(0);
            let ForeignKind::Echo { id, seq } = request.flow.kind else { panic!("an echo") };
            let (ends, ip) = ((request.flow.dst.ip(), request.flow.src), IpSettings::default());
            let ip = IpSettings { ttl: 49, ..ip };
            let data_in = request.payload.as_slice();
            gateway.stack.echo_reply(ends, (id, seq), ip, data_in, NOW).expect("sent");
            exchange(&mut gateway, &mut guest);
            let echo = guest.stack.ping_receive(ping).expect("a reply");
            assert_eq!((echo.from, echo.seq, echo.ttl), (other(version), 3, 49));
            assert!(echo.outcome.expect("no error").as_slice() == data);
            assert_eq!(gateway.stack.counters().of(Counter::ForeignEchoReplies), 1);
        }
    }
}

#[test]
fn errors_about_datagrams_reach_the_socket_that_sent_them() {
    let kinds = [
        ErrorKind::Unreachable(Unreachable::Net),
        ErrorKind::Unreachable(Unreachable::Host),
        ErrorKind::Unreachable(Unreachable::Port),
        ErrorKind::Unreachable(Unreachable::Prohibited),
        ErrorKind::Transient,
        ErrorKind::TooBig(1_400),
    ];
    for version in BOTH {
        let (mut guest, mut gateway) = guest_and_gateway(&config(version));
        let (socket, asked) = ask(&mut guest, &[1; 500]);
        let options = UdpOptions { error_queue: true, ..UdpOptions::default() };
        guest.stack.udp_set_options(socket, options).expect("open");
        exchange(&mut guest, &mut gateway);
        let flow = take(&mut gateway.stack)[0].flow;
        for kind in kinds {
            gateway.stack.icmp_error(&flow, 500, kind, router(version), NOW).expect("sent");
            exchange(&mut gateway, &mut guest);
            let report = guest.stack.udp_take_errors(socket).remove(0);
            assert_eq!((report.kind, report.from), (kind, router(version)));
            assert_eq!((report.remote, report.local.port()), (asked, 4_000));
            let larger = matches!(kind, ErrorKind::TooBig(_));
            assert!(report.payload_len == 500 || larger, "{kind:?}: {}", report.payload_len);
        }
        assert_eq!(gateway.stack.counters().of(Counter::ForeignErrors), 6);
    }
}

#[test]
fn errors_about_echoes_reach_the_one_who_asked() {
    for version in BOTH {
        let (mut guest, mut gateway) = guest_and_gateway(&config(version));
        let ping = guest.stack.ping_open(Owner::program()).expect("room");
        guest.stack.ping_send(ping, other(version), 3, &[1; 56], NOW).expect("routed");
        exchange(&mut guest, &mut gateway);
        let flow = take(&mut gateway.stack)[0].flow;
        let prohibited = ErrorKind::Unreachable(Unreachable::Prohibited);
        for kind in [prohibited, ErrorKind::Transient] {
            gateway.stack.icmp_error(&flow, 56, kind, router(version), NOW).expect("sent");
        }
        exchange(&mut gateway, &mut guest);
        let mut next = || guest.stack.ping_receive(ping).expect("news");
        let echo = next();
        assert_eq!((echo.from, echo.seq), (router(version), 3));
        assert_eq!(echo.outcome.err(), Some(EchoError::Unreachable(Unreachable::Prohibited)));
        assert_eq!(next().outcome.err(), Some(EchoError::TimeExceeded));
    }
}

/// All errors of a gateway go to one host: three traceroutes of 30 hops with three probes each lose
/// none, and a flood is bounded.
#[test]
fn a_traceroute_loses_no_answer_and_a_flood_is_limited() {
    let (guest, mut gateway) = guest_and_gateway(&config(IpVersion::V4));
    let version = IpVersion::V4;
    let flow = ForeignFlow {
        src: SocketAddr::new(guest.addr, 4_000),
        dst: SocketAddr::new(other(version), 33_434),
        kind: ForeignKind::Udp,
    };
    let send = |stack: &mut Stack, now| {
        stack.icmp_error(&flow, 32, ErrorKind::Transient, router(version), now)
    };
    let sent = (0..1_500).filter(|_| send(&mut gateway.stack, NOW).is_ok()).count();
    assert_eq!(sent, 1_000);
    assert!(sent > 3 * 30 * 3);
    assert_eq!(send(&mut gateway.stack, NOW), Err(DropReason::IcmpRateLimited));
    assert_eq!(gateway.stack.budget().hits(Limit::ForeignErrorsPerSecond), 501);
    assert_eq!(send(&mut gateway.stack, NOW + Duration::from_secs(1)), Ok(()));
}

#[test]
fn an_error_quotes_the_packet_and_has_its_checksums() {
    for version in BOTH {
        let mut bench = Bench::new(&config(version));
        let (src, dst) = (SocketAddr::new(bench.theirs, 7), SocketAddr::new(other(version), 53));
        let flow = ForeignFlow { src, dst, kind: ForeignKind::Udp };
        let kind = ErrorKind::Unreachable(Unreachable::Host);
        bench.stack.icmp_error(&flow, 20, kind, router(version), NOW).expect("sent");
        let frame = bench.sent().remove(0);
        let (ip_len, quoted_ip) = if version == IpVersion::V4 { (20, 20) } else { (40, 40) };
        let message = &frame[14 + ip_len..];
        assert_eq!(message.len(), 8 + quoted_ip + 8);
        let quoted = icmp::quoted(&message[8..], version).expect("a packet");
        assert_eq!((quoted.src, quoted.dst), (src.ip(), dst.ip()));
        assert_eq!((quoted.ports(), quoted.total_len), (Some((7, 53)), quoted_ip + 8 + 20));
        assert_eq!(quoted.transport, [0, 7, 0, 53, 0, 28, 0, 0]);
        if version == IpVersion::V4 {
            assert!(wire::checksum::Ladder::Word64.sum(message).is_whole());
            let quoted_sum = wire::checksum::Ladder::Word64.sum(&message[8..28]);
            assert!(quoted_sum.is_whole());
        }
    }
}

#[test]
fn answers_of_hosts_that_cannot_be_are_refused() {
    let (guest, mut gateway) = guest_and_gateway(&config(IpVersion::V4));
    let (to, ip) = (SocketAddr::new(guest.addr, 0), IpSettings::default());
    let stack = &mut gateway.stack;
    for from in ["0.0.0.0", "224.0.0.1", "127.0.0.1", "255.255.255.255"] {
        let from = from.parse().expect("an address");
        let refused = stack.echo_reply((from, to), (1, 1), ip, b"", NOW);
        assert_eq!(refused, Err(DropReason::IpMartianSource), "{from}");
    }
    let refused = stack.echo_reply((other(IpVersion::V6), to), (1, 1), ip, b"", NOW);
    assert_eq!(refused, Err(DropReason::IpMartianDestination));
    let refused = stack.echo_reply((other(IpVersion::V4), to), (1, 1), ip, &[0; 65_510], NOW);
    assert_eq!(refused, Err(DropReason::IpTooBig));
    let (src, dst) = (to, SocketAddr::new(other(IpVersion::V6), 1));
    let flow = ForeignFlow { src, dst, kind: ForeignKind::Udp };
    let error = ErrorKind::Transient;
    let refused = stack.icmp_error(&flow, 0, error, router(IpVersion::V4), NOW);
    assert_eq!(refused, Err(DropReason::IpMartianDestination));
}

#[test]
fn an_error_about_a_datagram_in_another_hosts_name_comes_to_the_program() {
    for version in BOTH {
        let (mut guest, mut gateway) = guest_and_gateway(&config(version));
        let (from, to) = (SocketAddr::new(other(version), 53), SocketAddr::new(guest.addr, 4_000));
        let ip = IpSettings::default();
        for _ in 0..2 {
            gateway.stack.udp_send_between(from, to, ip, b"late", NOW).expect("sent");
        }
        exchange(&mut gateway, &mut guest);
        assert_eq!(gateway.stack.next_event(), Some(Event::Foreign));
        assert_eq!(gateway.stack.next_event(), None);
        let about = ForeignFlow { src: from, dst: to, kind: ForeignKind::Udp };
        let error = ErrorKind::Unreachable(Unreachable::Port);
        let expected = ForeignError { about, error, from: guest.addr };
        assert_eq!(gateway.stack.foreign_take_error(), Some(expected));
        assert_eq!(gateway.stack.foreign_take_error(), Some(expected));
        assert_eq!(gateway.stack.foreign_take_error(), None);
        assert_eq!(gateway.stack.counters().of(Counter::IcmpErrorsIn), 2);
        assert!(take(&mut gateway.stack).is_empty());
    }
}

/// An error whose quote is of another host than the one it is sent to, or of no datagram.
#[test]
fn errors_about_other_packets_do_not_come_to_the_program() {
    let version = IpVersion::V4;
    let mut bench = Bench::new(&config(version));
    let of = |src: IpAddr, dst: IpAddr, number: u8, ports: [u8; 8]| {
        let packet = &frame_between(src, dst, number, &ports)[14..];
        let mut message = [&[3, 3, 0, 0, 0, 0, 0, 0][..], packet].concat();
        let sum = wire::checksum::Ladder::Word64.sum(&message);
        message[2..4].copy_from_slice(&sum.field());
        message
    };
    let ports = [0, 53, 15, 160, 0, 8, 0, 0];
    let (there, here) = (other(version), bench.theirs);
    let wrong = [of(router(version), here, 17, ports), of(there, here, 6, ports)];
    for message in wrong {
        bench.exchange(&frame_between(here, there, 1, &message), NOW);
    }
    assert_eq!(bench.stack.drops().of(DropReason::IcmpErrorNoMatch), 2);
    assert_eq!(bench.stack.foreign_take_error(), None);
    let right = frame_between(here, there, 1, &of(there, here, 17, ports));
    let most = bench.stack.budget().of(Limit::ForeignDatagrams);
    for _ in 0..most + 3 {
        bench.exchange(&right, NOW);
    }
    let taken = core::iter::from_fn(|| bench.stack.foreign_take_error()).count();
    assert_eq!(taken, most);
    assert_eq!(bench.stack.drops().of(DropReason::ForeignQueueFull), 3);
}

#[test]
fn a_held_syn_is_answered_by_an_error() {
    let cases = [
        (Unreachable::Port, tcp::Error::Refused),
        (Unreachable::Protocol, tcp::Error::ProtocolUnreachable),
        (Unreachable::Net, tcp::Error::NetUnreachable),
        (Unreachable::Host, tcp::Error::HostUnreachable),
        (Unreachable::Prohibited, tcp::Error::Prohibited),
    ];
    for version in BOTH {
        for (why, expected) in cases {
            let (mut guest, mut gateway) = guest_and_gateway(&config(version));
            let config = ListenConfig { inspect: true, ..ListenConfig::default() };
            let any = "0.0.0.0:0".parse().expect("an address");
            let listener = gateway.stack.tcp_listen(any, config).expect("free");
            let (to, tcp) = (SocketAddr::new(other(version), 80), tcp::Config::default());
            let owner = Owner::program();
            let handle = guest.stack.tcp_connect(to, None, &tcp, owner, NOW).expect("routed");
            exchange(&mut guest, &mut gateway);
            let (request, dst, _) = gateway.stack.tcp_request(listener).expect("a SYN");
            assert_eq!(dst, to);
            gateway.stack.tcp_unreachable(request, why);
            assert_eq!(gateway.stack.request_count(), 0);
            exchange(&mut gateway, &mut guest);
            assert_eq!(guest.stack.counters().of(Counter::IcmpErrorsIn), 1, "{why:?}");
            let is_hard = matches!(why, Unreachable::Port | Unreachable::Protocol);
            let error = || guest.stack.tcp_state(handle).expect("kept").1;
            assert_eq!(error(), is_hard.then_some(expected));
            assert_eq!(gateway.stack.drops().total(), 0);
            // A handle that was used means nothing.
            gateway.stack.tcp_unreachable(request, why);
            assert_eq!(gateway.stack.counters().of(Counter::ForeignErrors), 1);
        }
    }
}
