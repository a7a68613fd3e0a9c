//! Connections that their program has closed and whose peers never finish: their number is bounded,
//! and they time out sooner than others.

use core::net::SocketAddr;

use base::{Counter, Duration, Limit};
use wire::tcp::Flags;

use super::{NOW, handshake, nothing_is_left, syn};
use crate::pair::{self, PairConfig};
use crate::tests::craft::{Bench, Tcp, parse_tcp};
use crate::{ListenConfig, ListenerHandle, PortId, TcpHandle};

fn bench(limit: usize) -> (Bench, ListenerHandle) {
    let mut config = PairConfig::new([7, 9]);
    config.stack.budget.set(Limit::Orphans, limit);
    let mut bench = Bench::new(&config);
    let local: SocketAddr = bench.listen_at(80);
    let listener = bench.stack.tcp_listen(local, ListenConfig::default()).expect("free");
    (bench, listener)
}

/// An accepted connection from `port`.
fn open(bench: &mut Bench, listener: ListenerHandle, port: u16) -> (TcpHandle, Tcp) {
    let next = handshake(bench, port, NOW);
    (bench.stack.tcp_accept(listener).expect("open"), next)
}

/// The peers' ports to which the stack sent RSTs.
fn resets(bench: &mut Bench) -> Vec<u16> {
    let frames = bench.sent();
    let headers = frames.iter().filter_map(|frame| parse_tcp(frame));
    headers.filter(|(h, _)| h.flags.contains(Flags::RST)).map(|(h, _)| h.dst_port).collect()
}

#[test]
fn at_the_limit_of_orphans_the_one_that_waited_longest_is_reset() {
    let (mut bench, listener) = bench(10);
    for port in 1..=30 {
        let (handle, _) = open(&mut bench, listener, port);
        bench.stack.tcp_close(handle);
        let reset = resets(&mut bench);
        assert_eq!(reset, if port > 10 { vec![port - 10] } else { vec![] });
        assert_eq!(bench.stack.connection_count(), usize::from(port).min(10));
        assert_eq!(bench.stack.orphans.count(), usize::from(port).min(10));
    }
    assert_eq!(bench.stack.budget().hits(Limit::Orphans), 20);
    assert_eq!(bench.stack.counters().of(Counter::TcpOrphansReset), 20);
    nothing_is_left(&mut bench, &[], NOW);
    assert_eq!(bench.stack.orphans.count(), 0);
}

/// An orphan whose peer takes its queued data keeps its entry, however old it is.
#[test]
fn an_orphan_that_gets_on_is_not_reset_for_one_that_does_not() {
    let (mut bench, listener) = bench(2);
    let (slow, mut next) = open(&mut bench, listener, 1);
    assert!(bench.stack.tcp_write(slow, &[7; 5000]).is_ok());
    bench.stack.tcp_close(slow);
    bench.sent();
    let (silent, _) = open(&mut bench, listener, 2);
    bench.stack.tcp_close(silent);
    bench.sent();
    for port in 3..=10 {
        next = Tcp { ack: next.ack + 100, ..next };
        let frame = bench.tcp_frame(&next);
        bench.exchange(&frame, NOW);
        bench.poll(NOW);
        let (handle, _) = open(&mut bench, listener, port);
        bench.stack.tcp_close(handle);
        assert_eq!(
            resets(&mut bench),
            [port - 1],
            "not only the silent connection before it was reset"
        );
    }
    assert_eq!(bench.stack.connection_count(), 2);
    nothing_is_left(&mut bench, &[], NOW);
}

#[test]
fn without_room_for_orphans_closing_resets() {
    let (mut bench, listener) = bench(0);
    let (handle, _) = open(&mut bench, listener, 1);
    bench.stack.tcp_close(handle);
    assert_eq!(resets(&mut bench), [1]);
    assert_eq!((bench.stack.connection_count(), bench.stack.orphans.count()), (0, 0));
}

/// Orphans that close normally are subtracted from the count.
#[test]
fn orphans_that_end_are_counted_out() {
    let (mut bench, listener) = bench(3);
    let mut now = NOW;
    for port in 1..=200 {
        let next = handshake(&mut bench, port, now);
        let handle = bench.stack.tcp_accept(listener).expect("open");
        bench.stack.tcp_close(handle);
        bench.sent();
        let fin = Tcp { ack: next.ack + 1, flags: Flags::ACK | Flags::FIN, ..next };
        let frame = bench.tcp_frame(&fin);
        bench.exchange(&frame, now);
        assert_eq!(bench.stack.orphans.count(), 0);
        now += Duration::from_millis(1);
    }
    assert_eq!(bench.stack.budget().hits(Limit::Orphans), 0);
    nothing_is_left(&mut bench, &[], now);
}

/// An attacker guesses the ISN of a SYN-ACK that never left, because its link address was unknown,
/// and so opens a connection that can send nothing. It ends like a connection whose segments are
/// not answered.
#[test]
fn an_orphan_that_never_had_a_link_address_ends() {
    let config = PairConfig::new([7, 9]);
    let mut known = Bench::among_strangers(&config);
    assert!(known.stack.add_neighbour(PortId(0), known.theirs, pair::mac(2)));
    known.stack.tcp_listen(known.listen_at(80), ListenConfig::default()).expect("free");
    let guess = handshake(&mut known, 1, NOW);
    for (bytes, what) in [(0, "a FIN alone"), (4_501, "data and a FIN")] {
        let mut bench = Bench::among_strangers(&config);
        let local = bench.listen_at(80);
        let listener = bench.stack.tcp_listen(local, ListenConfig::default()).expect("free");
        for next in [&syn(1), &guess] {
            let frame = bench.tcp_frame(next);
            bench.exchange(&frame, NOW);
        }
        let handle = bench.stack.tcp_accept(listener).expect("the same secrets, the same number");
        if bytes > 0 {
            assert_eq!(bench.stack.tcp_write(handle, &vec![7; bytes]), Ok(bytes));
        }
        bench.stack.tcp_close(handle);
        assert_eq!(bench.stack.connection_count(), 1, "{what}");
        nothing_is_left(&mut bench, &[], NOW);
    }
}
