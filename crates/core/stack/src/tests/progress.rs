//! Neighbours that are confirmed by the progress of a TCP connection. RFC 4861 section 7.3.1.

use core::net::SocketAddr;

use base::{Counter, Duration, Instant, Owner};
use inet::neighbour::State;

use super::resolve::strangers;
use crate::{ListenConfig, PortId, Stack, pair};

/// What the connection does while its neighbour is in DELAY.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Traffic {
    None,
    Sent,
    Received,
}

fn settle(stacks: &mut [Stack; 2], now: Instant) {
    for _ in 0..10 {
        for stack in stacks.iter_mut() {
            stack.poll(now);
        }
    }
}

/// The state of the client's neighbour after DELAY, and how often the client solicited it
/// meanwhile.
fn after_delay(version: usize, traffic: Traffic) -> (Option<State>, u64) {
    let mut stacks = strangers();
    let mut now = Instant::from_nanos(5_000_000_000);
    let to = pair::addresses(2)[version].addr;
    let at = SocketAddr::new(to, 80);
    let listener = stacks[1].tcp_listen(at, ListenConfig::default()).expect("free");
    let config = tcp::Config::default();
    let client = stacks[0].tcp_connect(at, None, &config, Owner::program(), now).expect("routed");
    settle(&mut stacks, now);
    let server = stacks[1].tcp_accept(listener).expect("connected");
    now += Duration::from_secs(60);
    settle(&mut stacks, now);
    let ours = SocketAddr::new(pair::addresses(1)[version].addr, 7);
    let socket = stacks[0].udp_bind(ours, Owner::program()).expect("free");
    stacks[0].udp_send(socket, SocketAddr::new(to, 9), b"use", now).expect("sent");
    assert_eq!(stacks[0].neighbour_state(PortId(0), to), Some(State::Delay));
    let asked = stacks[0].counters().of(Counter::NeighbourSolicitations);
    for _ in 0..11 {
        match traffic {
            Traffic::None => {}
            Traffic::Sent => _ = stacks[0].tcp_write(client, b"data").expect("open"),
            Traffic::Received => _ = stacks[1].tcp_write(server, b"data").expect("open"),
        }
        now += Duration::from_millis(500);
        settle(&mut stacks, now);
    }
    let asked = stacks[0].counters().of(Counter::NeighbourSolicitations) - asked;
    (stacks[0].neighbour_state(PortId(0), to), asked)
}

#[test]
fn progress_confirms_the_neighbour_without_a_solicitation() {
    for version in [0, 1] {
        for traffic in [Traffic::Sent, Traffic::Received] {
            let after = after_delay(version, traffic);
            assert_eq!(after, (Some(State::Reachable), 0), "{version} {traffic:?}");
        }
        let (_, asked) = after_delay(version, Traffic::None);
        assert_eq!(asked, 1, "the neighbour of an idle connection was not solicited once");
    }
}
