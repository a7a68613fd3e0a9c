use base::{Counter, DropReason, Duration, Limit, Switch};
use wire::tcp::Flags;

use super::{NOW, established, handshake, nothing_is_left, syn};
use crate::pair::PairConfig;
use crate::tests::craft::{Bench, Tcp};
use crate::{ListenConfig, Stack};

fn config(limit: Limit, value: usize) -> PairConfig {
    let mut config = without_cookies();
    config.stack.budget.set(limit, value);
    config
}

/// When a limit is reached, an old entry is evicted.
fn without_cookies() -> PairConfig {
    let mut config = PairConfig::new([5, 6]);
    config.stack.switches = config.stack.switches.with(Switch::SynCookies, false);
    config
}

#[test]
fn half_open_connections_are_bounded_and_time_out() {
    let mut bench = Bench::new(&config(Limit::HalfOpen, 50));
    let local = bench.listen_at(80);
    bench.stack.tcp_listen(local, ListenConfig::default()).expect("free");
    for port in 1..=500 {
        let frame = bench.tcp_frame(&syn(port));
        bench.exchange(&frame, NOW);
    }
    assert_eq!(bench.stack.connection_count(), 50);
    assert_eq!(bench.stack.listeners.half_open.count(), 50);
    assert_eq!(bench.stack.drops().of(DropReason::TcpConnectionLimit), 450);
    assert_eq!(bench.stack.budget().hits(Limit::HalfOpen), 450);
    // Later each half-open connection is overdue, and is evicted for a new one.
    for port in 501..=600 {
        let frame = bench.tcp_frame(&syn(port));
        bench.exchange(&frame, NOW + Duration::from_millis(20 * u64::from(port - 500)));
        assert_eq!(bench.stack.listeners.half_open.count(), 50);
    }
    assert_eq!(bench.stack.counters().of(Counter::TcpHalfOpenReplaced), 100);
    nothing_is_left(&mut bench, &[], NOW);
    assert_eq!(bench.stack.listeners.half_open.count(), 0);
}

/// Overdue half-open connections are evicted; a peer that answers is served, and connections that
/// wait for accept keep their entries.
#[test]
fn a_listener_whose_backlog_is_full_of_half_open_connections_serves() {
    let mut bench = Bench::new(&without_cookies());
    let local = bench.listen_at(80);
    let listen = ListenConfig { backlog: 20, ..ListenConfig::default() };
    let listener = bench.stack.tcp_listen(local, listen).expect("free");
    let (mut flood, mut now) = (0, NOW);
    for honest in 1..=20 {
        for _ in 0..100 {
            flood += 1;
            let frame = bench.tcp_frame(&syn(10_000 + flood));
            bench.exchange(&frame, now);
            assert!(bench.stack.connection_count() <= 20);
        }
        // Many SYNs at once are accepted up to the backlog, and none of them is evicted.
        let frame = bench.tcp_frame(&syn(honest));
        assert_eq!(bench.exchange(&frame, now).len(), 0, "{honest}");
        now += Duration::from_millis(10);
        handshake(&mut bench, honest, now);
    }
    // All entries are now open connections: a new SYN is refused, however late it arrives.
    let before = bench.stack.drops().of(DropReason::TcpBacklogFull);
    let frame = bench.tcp_frame(&syn(9_999));
    now += Duration::from_secs(1);
    assert_eq!(bench.exchange(&frame, now).len(), 0);
    assert_eq!(bench.stack.drops().of(DropReason::TcpBacklogFull), before + 1);
    assert!(bench.stack.counters().of(Counter::TcpHalfOpenReplaced) > 20);
    assert_eq!(bench.stack.listeners.half_open.count(), 0);
    let handles: Vec<_> = core::iter::from_fn(|| bench.stack.tcp_accept(listener)).collect();
    assert_eq!(handles.len(), 20);
    nothing_is_left(&mut bench, &handles, now);
}

/// On a slow path a half-open connection keeps its entry longer, but not for ever.
#[test]
fn how_long_a_half_open_connection_keeps_its_place_is_learned() {
    let mut bench = Bench::new(&without_cookies());
    let local = bench.listen_at(80);
    let listen = ListenConfig { backlog: 2, ..ListenConfig::default() };
    let listener = bench.stack.tcp_listen(local, listen).expect("free");
    let ms = |ms| NOW + Duration::from_millis(ms);
    let slow = bench.tcp_frame(&syn(1));
    let answer = bench.exchange(&slow, ms(0));
    let (header, _) = crate::tests::craft::parse_tcp(&answer[0]).expect("SYN, ACK");
    let ack = Tcp { seq: syn(1).seq + 1, ack: header.seq + 1, flags: Flags::ACK, ..syn(1) };
    let frame = bench.tcp_frame(&ack);
    bench.exchange(&frame, ms(200));
    let handle = bench.stack.tcp_accept(listener).expect("open");
    let mut answers = |port, at| {
        let frame = bench.tcp_frame(&syn(port));
        bench.exchange(&frame, ms(at)).len()
    };
    assert_eq!([answers(2, 300), answers(3, 301)], [1, 1]);
    assert_eq!(answers(4, 690), 0, "evicted before twice 200 ms");
    assert_eq!(answers(4, 700), 1, "the first was not evicted");
    nothing_is_left(&mut bench, &[handle], ms(700));
}

/// Peers that open and reset connections leave no state behind, however many they are; nor do
/// requests to a listener whose user never accepts them.
#[test]
fn connections_opened_and_reset_for_ever_take_no_memory() {
    let mut bench = Bench::new(&PairConfig::new([5, 6]));
    let local = bench.listen_at(80);
    bench.stack.tcp_listen(local, ListenConfig::default()).expect("free");
    for n in 0..20_000 {
        let open = syn(1 + n);
        let reset = Tcp { seq: open.seq + 1, flags: Flags::RST, ..open.clone() };
        for segment in [open, reset] {
            let frame = bench.tcp_frame(&segment);
            bench.exchange(&frame, NOW);
        }
    }
    assert_eq!(bench.stack.connection_count(), 0);
    assert!(wheel_entries(&bench.stack) < 8_500, "{} entries", wheel_entries(&bench.stack));
    nothing_is_left(&mut bench, &[], NOW);
}

#[test]
fn requests_that_a_forwarder_never_asks_for_take_no_memory() {
    let mut bench = Bench::new(&config(Limit::ForwardRequests, 50));
    let anything = core::net::SocketAddr::from(([0; 4], 0));
    let inspect = ListenConfig { inspect: true, ..ListenConfig::default() };
    let listener = bench.stack.tcp_listen(anything, inspect).expect("free");
    let mut now = NOW;
    for round in 0..40 {
        for port in 1..=60 {
            let frame = bench.tcp_frame(&syn(port));
            bench.exchange(&frame, now);
        }
        assert_eq!(bench.stack.request_count(), 50);
        let waiting = bench.stack.listeners.get_mut(listener).expect("listens").requests.len();
        assert!(waiting <= 200, "{waiting} places are in use after {round} rounds");
        now += crate::socket::listener::REQUEST_WAIT;
    }
    assert_eq!(bench.stack.drops().of(DropReason::TcpBacklogFull), 400);
    bench.poll(now);
    assert_eq!(bench.stack.tcp_request(listener), None, "a request is left after its time");
    bench.stack.tcp_unlisten(listener);
    nothing_is_left(&mut bench, &[], now);
}

/// A decision may take as long as a connect of a host: its SYN is held while the peer repeats it.
#[test]
fn a_syn_that_its_peer_repeats_is_held_for_two_minutes() {
    let mut bench = Bench::new(&PairConfig::new([5, 6]));
    let anything = core::net::SocketAddr::from(([0; 4], 0));
    let inspect = ListenConfig { inspect: true, ..ListenConfig::default() };
    let listener = bench.stack.tcp_listen(anything, inspect).expect("free");
    let (own, quiet) = (bench.tcp_frame(&syn(7)), bench.tcp_frame(&syn(8)));
    bench.exchange(&quiet, NOW);
    for seconds in [0, 1, 3, 7, 15, 31, 63] {
        bench.exchange(&own, NOW + Duration::from_secs(seconds));
    }
    let all = [bench.stack.tcp_request(listener), bench.stack.tcp_request(listener)];
    let [Some(_), Some((held, ..))] = all else { panic!("two SYNs") };
    // Another connection of this peer is not taken for the same.
    let first = syn(7);
    let other = bench.tcp_frame(&Tcp { seq: first.seq + 77, ..first });
    bench.exchange(&other, NOW + Duration::from_secs(127));
    assert_eq!(bench.stack.request_count(), 1, "the quiet peer has given up");
    assert!(bench.stack.tcp_complete(held).is_ok(), "after 127 s");
    bench.stack.tcp_unlisten(listener);
}

/// RFC 4443 2.4-f.
#[test]
fn each_kind_of_answer_has_a_rate_limit_of_its_own() {
    let mut config = config(Limit::ResetsPerSecond, 20);
    config.stack.budget.set(Limit::IcmpErrorsPerSecond, 30);
    config.stack.budget.set(Limit::EchoRepliesPerSecond, 10);
    let mut bench = Bench::new(&config);
    let stray = bench.tcp_frame(&Tcp { flags: Flags::ACK, ..syn(7) });
    // A datagram to a closed port, with checksum 0 for none.
    let datagram = bench.frame(17, &[0, 7, 0, 9, 0, 8, 0, 0]);
    let mut echo = vec![8, 0, 0, 0, 0, 0, 0, 0];
    let sum = wire::checksum::Ladder::Word64.sum(&echo);
    echo[2..4].copy_from_slice(&sum.field());
    let echo = bench.frame(1, &echo);
    for second in 1..=2 {
        let now = NOW + Duration::from_secs(second);
        // A flood of one kind leaves the answers to the other kinds: a host whose closed port is
        // flooded still answers pings.
        for (frame, least, most) in [(&stray, 20, 20), (&datagram, 15, 30), (&echo, 10, 10)] {
            let replies: usize = (0..100).map(|_| bench.exchange(frame, now).len()).sum();
            assert!((least..=most).contains(&replies), "{replies}");
        }
    }
    assert_eq!(bench.stack.drops().of(DropReason::IcmpRateLimited), 180);
    assert_eq!(bench.stack.drops().of(DropReason::TcpNoSocket), 200);
    assert_eq!(bench.stack.drops().of(DropReason::UdpNoSocket), 200);
    assert_eq!(bench.stack.budget().hits(Limit::ResetsPerSecond), 160);
    let errors = bench.stack.counters().of(base::Counter::IcmpErrorsOut);
    assert_eq!(bench.stack.budget().hits(Limit::IcmpErrorsPerSecond), 200 - errors);
    assert_eq!(bench.stack.budget().hits(Limit::EchoRepliesPerSecond), 180);
    nothing_is_left(&mut bench, &[], NOW);
}

#[test]
fn answers_to_lies_are_rate_limited_for_each_connection() {
    let mut config = config(Limit::ChallengeAcksPerSecond, 7);
    config.stack.budget.set(Limit::OutOfWindowAcksPerSecond, 3);
    let (mut bench, handle, next) = established(&config, tcp::Config::default());
    let lies = [
        Tcp { flags: Flags::SYN, ..next.clone() },
        Tcp { flags: Flags::RST, seq: next.seq + 9, ..next.clone() },
        Tcp { ack: next.ack + 9, ..next.clone() },
        Tcp { ack: next.ack - (1 << 30), ..next.clone() },
        Tcp { seq: next.seq - 9, payload: vec![1; 5], ..next.clone() },
        Tcp { seq: next.seq + (1 << 30), payload: vec![1; 5], ..next },
    ];
    let mut answers = 0;
    for _ in 0..20 {
        for lie in &lies {
            let frame = bench.tcp_frame(lie);
            answers += bench.exchange(&frame, NOW).len();
        }
    }
    let challenges = bench.stack.counters().of(Counter::TcpChallengeAcks);
    assert!((4..=7).contains(&challenges), "{challenges}");
    assert_eq!(answers as u64, challenges + 3);
    assert_eq!(bench.stack.drops().of(DropReason::TcpChallengeLimited), 80 - challenges);
    assert_eq!(bench.stack.budget().hits(Limit::OutOfWindowAcksPerSecond), 40 - 3);
    nothing_is_left(&mut bench, &[handle], NOW);
}

/// CVE-2016-5696: an off-path attacker counts, on his own connection, how many challenge ACKs are
/// left after he provoked another connection's. He must learn nothing.
#[test]
fn challenge_acks_of_one_connection_do_not_show_on_another() {
    let config = config(Limit::ChallengeAcksPerSecond, 10);
    let (mut bench, handle, victim) = established(&config, tcp::Config::default());
    let his = handshake(&mut bench, 3_000, NOW);
    let ask = |bench: &mut Bench| {
        let rst = Tcp { flags: Flags::RST, seq: his.seq + 9, ..his.clone() };
        let frame = bench.tcp_frame(&rst);
        (0..20).map(|_| bench.exchange(&frame, NOW).len()).sum::<usize>()
    };
    let guess = Tcp { flags: Flags::RST, seq: victim.seq + 9, ..victim };
    let frame = bench.tcp_frame(&guess);
    for _ in 0..5 {
        assert_eq!(bench.exchange(&frame, NOW).len(), 1);
    }
    let asked = ask(&mut bench);
    assert!((5..=10).contains(&asked), "{asked}");
    let listener = bench.stack.listeners.find(bench.ours, 80).expect("listening");
    let second = bench.stack.tcp_accept(listener).expect("waiting");
    nothing_is_left(&mut bench, &[handle, second], NOW);
}

/// The number of challenge ACKs in a second is random, for each connection and second: an attacker
/// who counts the answers does not know whether another connection used some of them.
#[test]
fn the_number_of_challenge_acks_in_a_second_tells_nothing() {
    let (mut bench, handle, first) = established(&PairConfig::new([5, 6]), tcp::Config::default());
    let second = handshake(&mut bench, 3_000, NOW);
    let mut counts = [Vec::new(), Vec::new()];
    for after in 1..=60 {
        let now = NOW + Duration::from_secs(after);
        for (peer, counts) in [&first, &second].into_iter().zip(&mut counts) {
            let rst = Tcp { flags: Flags::RST, seq: peer.seq + 9, ..peer.clone() };
            let frame = bench.tcp_frame(&rst);
            let count: usize = (0..110).map(|_| bench.exchange(&frame, now).len()).sum();
            assert!((50..=100).contains(&count), "{count}");
            counts.push(count);
        }
    }
    let [a, b] = &counts;
    let same = a.iter().zip(b).filter(|(a, b)| a == b).count();
    assert!(same < 10, "{same} of 60 seconds admit the same number on both");
    for counts in &counts {
        let distinct: std::collections::BTreeSet<_> = counts.iter().collect();
        assert!(distinct.len() > 20, "{distinct:?}");
    }
    let listener = bench.stack.listeners.find(bench.ours, 80).expect("listening");
    let other = bench.stack.tcp_accept(listener).expect("waiting");
    nothing_is_left(&mut bench, &[handle, other], NOW + Duration::from_secs(60));
}

/// Opens a connection from `port` and closes it from the stack's side first; returns the peer's
/// segment for the TIME-WAIT record.
fn into_time_wait(bench: &mut Bench, port: u16, listener: crate::ListenerHandle) -> Tcp {
    let mut next = handshake(bench, port, NOW);
    let handle = bench.stack.tcp_accept(listener).expect("established");
    bench.stack.tcp_close(handle);
    next.ack += 1;
    next.flags = Flags::ACK | Flags::FIN;
    let frame = bench.tcp_frame(&next);
    bench.exchange(&frame, NOW);
    next
}

/// An attacker who knows the endpoints of one record gets two answers a second, and other records
/// are not affected.
#[test]
fn answers_from_time_wait_are_rate_limited_for_each_record() {
    let mut bench = Bench::new(&PairConfig::new([5, 6]));
    let local = bench.listen_at(80);
    let listener = bench.stack.tcp_listen(local, ListenConfig::default()).expect("free");
    let records = [1, 2].map(|port| into_time_wait(&mut bench, port, listener));
    for second in 1..=2 {
        let now = NOW + Duration::from_secs(second);
        for record in &records {
            let lie = Tcp { seq: record.seq + 70_000, payload: vec![1; 5], ..record.clone() };
            let frame = bench.tcp_frame(&lie);
            let answers: usize = (0..100).map(|_| bench.exchange(&frame, now).len()).sum();
            assert_eq!(answers, 2);
        }
    }
    assert_eq!(bench.stack.drops().of(DropReason::TcpTimeWait), 400);
    assert_eq!(bench.stack.budget().hits(Limit::OutOfWindowAcksPerSecond), 400 - 8);
    nothing_is_left(&mut bench, &[], NOW);
}

#[test]
fn time_wait_records_are_bounded_whatever_becomes_of_the_oldest() {
    let mut bench = Bench::new(&config(Limit::TimeWait, 10));
    let local = bench.listen_at(80);
    let listener = bench.stack.tcp_listen(local, ListenConfig::default()).expect("free");
    for round in 0..5 {
        for port in 1..=40 {
            let next = into_time_wait(&mut bench, port, listener);
            assert!(bench.stack.time_wait_count() <= 10, "round {round} port {port}");
            if port % 3 == 0 {
                // A newer SYN removes the record; the queue of expiries still contains its entry.
                let reopen = Tcp { seq: next.seq + 70_000, ..syn(port) };
                let frame = bench.tcp_frame(&reopen);
                bench.exchange(&frame, NOW);
                let reset = Tcp { flags: Flags::RST, seq: reopen.seq + 1, ..reopen };
                let frame = bench.tcp_frame(&reset);
                bench.exchange(&frame, NOW);
            }
        }
    }
    assert!(bench.stack.budget().hits(Limit::TimeWait) > 100);
    nothing_is_left(&mut bench, &[], NOW);
}

/// An attacker that reopens one record again and again must not make the queue of expiries grow.
#[test]
fn reopening_a_time_wait_record_keeps_few_places_in_the_queue() {
    let mut bench = Bench::new(&PairConfig::new([5, 6]));
    let local = bench.listen_at(80);
    let listener = bench.stack.tcp_listen(local, ListenConfig::default()).expect("free");
    let mut isn = syn(9).seq;
    for _ in 0..200 {
        let open = Tcp { seq: isn, ..syn(9) };
        let frame = bench.tcp_frame(&open);
        let answer = bench.exchange(&frame, NOW);
        let (header, _) = crate::tests::craft::parse_tcp(&answer[0]).expect("SYN, ACK");
        let ack = Tcp { seq: isn + 1, ack: header.seq + 1, flags: Flags::ACK, ..open };
        let frame = bench.tcp_frame(&ack);
        bench.exchange(&frame, NOW);
        let handle = bench.stack.tcp_accept(listener).expect("established");
        bench.stack.tcp_close(handle);
        let fin = Tcp { ack: ack.ack + 1, flags: Flags::ACK | Flags::FIN, ..ack };
        let frame = bench.tcp_frame(&fin);
        bench.exchange(&frame, NOW);
        assert_eq!(bench.stack.time_wait_count(), 1);
        isn += 100_000;
    }
    assert!(bench.stack.connections.time_wait_places() <= 20);
    nothing_is_left(&mut bench, &[], NOW);
}

#[test]
fn the_wheel_keeps_few_entries_for_a_connection_with_a_far_deadline() {
    let idle = Some(Duration::from_secs(7_200));
    let tcp = tcp::Config { keepalive_idle: idle, ..tcp::Config::default() };
    let (mut bench, handle, mut next) = established(&PairConfig::new([5, 6]), tcp);
    let mut now = NOW;
    for _ in 0..1_000 {
        next.payload = vec![1];
        let frame = bench.tcp_frame(&next);
        bench.exchange(&frame, now);
        next.seq += 1;
        // The delayed ACK's timer expires each time.
        now += Duration::from_millis(60);
        bench.stack.poll(now);
        bench.sent();
    }
    assert!(wheel_entries(&bench.stack) <= 8, "{} entries", wheel_entries(&bench.stack));
    nothing_is_left(&mut bench, &[handle], now);
}

fn wheel_entries(stack: &Stack) -> usize {
    stack.wheel.entries()
}
