//! Echo requests: which answers reach the socket that sent the request, and which do not.

use super::*;
use crate::EchoError;

#[test]
fn an_echo_comes_back_with_its_time_and_data() {
    for version in BOTH {
        let config = PairConfig { version, ..PairConfig::new([8, 9]) };
        let (mut left, mut right) = crate::pair::pair(&config);
        let socket = left.stack.ping_open(Owner::program()).expect("a socket");
        left.stack.ping_send(socket, right.addr, 5, b"payload", NOW).expect("sent");
        left.stack.flush();
        right.stack.poll(NOW);
        let later = NOW + Duration::from_millis(3);
        left.stack.poll(later);
        assert_eq!(left.stack.next_event(), Some(Event::Ping(socket)));
        let echo = left.stack.ping_receive(socket).expect("an echo");
        assert_eq!((echo.from, echo.seq, echo.ttl, echo.at), (right.addr, 5, 64, later));
        let payload = echo.outcome.expect("a reply");
        assert_eq!(payload.as_slice(), b"payload");
        left.stack.give_back(payload);
        left.stack.ping_close(socket);
        assert_eq!(left.stack.pool().outstanding(), 0);
    }
}

#[test]
fn echo_replies_to_nobody_and_to_a_full_socket_are_counted() {
    let mut bench = bench(IpVersion::V4);
    bench.stack.core.cx.budget.set(base::Limit::PingReplies, 2);
    let socket = bench.stack.ping_open(Owner::program()).expect("a socket");
    let theirs = bench.theirs;
    bench.stack.ping_send(socket, theirs, 1, b"abc", NOW).expect("sent");
    let request = bench.sent().remove(0);
    let mut message = request[34..].to_vec();
    icmp::make_reply(&mut message, true);
    let reply = bench.frame(1, &message);
    (0..5).for_each(|_| drop(bench.exchange(&reply, NOW)));
    assert_eq!(bench.stack.drops().of(DropReason::IcmpEchoQueueFull), 3);
    bench.stack.ping_close(socket);
    bench.exchange(&reply, NOW);
    assert_eq!(bench.stack.drops().of(DropReason::IcmpEchoNoSocket), 1);
    assert_eq!(bench.peers_buffers_out(), 0);
}

#[test]
fn an_error_about_an_echo_reaches_who_asked() {
    for version in BOTH {
        let mut bench = bench(version);
        let socket = bench.stack.ping_open(Owner::program()).expect("a socket");
        let theirs = bench.theirs;
        bench.stack.ping_send(socket, theirs, 9, &[0; 64], NOW).expect("sent");
        let request = bench.sent().remove(0);
        tell(&mut bench, &request[14..], What::Unreachable(Unreachable::Host), NOW);
        let echo = bench.stack.ping_receive(socket).expect("news");
        assert_eq!((echo.from, echo.seq), (bench.theirs, 9));
        assert_eq!(echo.outcome.err(), Some(EchoError::Unreachable(Unreachable::Host)));
    }
}
