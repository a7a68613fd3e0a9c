//! Guests that send as much as they can, and ends that read slowly: nothing grows without bound,
//! and nothing is left.

use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use base::{Duration, Limit, Owner};
use gateway::Config;
use stack::{IpSettings, Route};
use tcp::State;

use super::bench::Bench;

/// A bench whose outside has a way to everywhere, and no host but the server answers.
fn bench(config: Config) -> Bench {
    let mut bench = Bench::new(config);
    let all = "0.0.0.0/0".parse().expect("a network");
    bench.outer.add_route(Route::new(all, None, 0));
    bench
}

/// A host far away.
fn far(number: u32) -> SocketAddr {
    SocketAddrV4::new(Ipv4Addr::from_bits(0x0808_0000 + number), 80).into()
}

/// Everything that a gateway and its stacks may hold with flows of today's limits.
const HELD_MAX: usize = 32 << 20;

#[test]
fn a_hundred_thousand_syns_to_silent_hosts_are_bounded() {
    const SYNS: u32 = 100_000;
    let mut bench = bench(Config::default());
    bench.is_server_deaf = true;
    let config = tcp::Config::default();
    for first in (0..SYNS).step_by(500) {
        let syns = first..first + 500;
        let made: Vec<_> = syns
            .map(|number| {
                let (to, owner) = (far(number), Owner::program());
                bench.guest.tcp_connect(to, None, &config, owner, bench.now).expect("a route")
            })
            .collect();
        bench.settle();
        for handle in made {
            bench.guest.tcp_abort(handle);
        }
        bench.now += Duration::from_millis(100);
        assert!(bench.engine.flow_count() <= 512, "after {first}");
    }
    let counts = *bench.engine.counts();
    assert!(counts.unanswered > u64::from(SYNS) / 2, "{counts:?}");
    assert!(bench.engine.budget().hits(Limit::GatewayPending) > 0);
    let held = bench.inner.pool().in_use_bytes();
    assert!(held < HELD_MAX, "the gateway holds {held} bytes");
    bench.pass(140);
    assert_eq!((bench.engine.flow_count(), bench.engine.pending_count()), (0, 0));
    assert_eq!(bench.tokens.len(), 0);
    let snapshot = bench.inner.snapshot();
    assert_eq!((snapshot.connections, snapshot.half_open), (0, 0));
    // And there is room for a guest that means it.
    bench.is_server_deaf = false;
    Bench::listen(&mut bench.server, 80);
    let client = bench.connect("198.51.100.7:80");
    assert_eq!(bench.guest.tcp_state(client), Some((State::Established, None)));
}

#[test]
fn a_million_sessions_are_bounded() {
    const SESSIONS: u32 = 1_000_000;
    let mut config = Config::default();
    config.budget.set(Limit::GatewaySessions, 1_024);
    let mut bench = bench(config);
    bench.is_server_deaf = true;
    let ip = IpSettings::default();
    for first in (0..SESSIONS).step_by(250) {
        for number in first..first + 250 {
            let guest = Ipv4Addr::from_bits(0x0a00_0264 + number / 60_000);
            let own = SocketAddrV4::new(guest, (number % 60_000) as u16 + 1_024);
            let sent = bench.guest.udp_send_between(own.into(), far(number), ip, b"?", bench.now);
            sent.expect("a route");
        }
        bench.settle();
        // Ten seconds are 2,500 datagrams: more than there is room for, so some find none.
        bench.now += Duration::from_secs(1);
        assert!(bench.engine.session_counts().0 <= 1_024, "after {first}");
    }
    let counts = *bench.engine.counts();
    let all = counts.sessions_opened + counts.datagrams_without_room;
    assert_eq!(all, u64::from(SESSIONS));
    assert!(counts.sessions_evicted > 0 && counts.datagrams_without_room > 0, "{counts:?}");
    let held = bench.inner.pool().in_use_bytes() + bench.outer.pool().in_use_bytes();
    assert!(held < HELD_MAX, "the gateway holds {held} bytes");
    bench.pass(310);
    assert_eq!((bench.engine.session_counts(), bench.tokens.len()), ((0, 0), 0));
    assert_eq!(bench.engine.next_deadline(), base::Instant::NEVER);
}

#[test]
fn a_guest_that_reads_slowly_stops_the_server() {
    let mut bench = bench(Config::default());
    let listener = Bench::listen(&mut bench.server, 80);
    let client = bench.connect("198.51.100.7:80");
    let there = bench.server.tcp_accept(listener).expect("it is connected");
    let data = vec![7; 1 << 20];
    let mut written = 0;
    for _ in 0..200 {
        written += bench.server.tcp_write(there, &data).unwrap_or(0);
        bench.settle();
    }
    bench.pass(30);
    assert!(written < 64 << 20, "{written}");
    let held = bench.inner.pool().in_use_bytes();
    assert!(held < 8 << 20, "the gateway holds {held} bytes");
    // The server ends; everything arrives all the same.
    bench.server.tcp_close(there);
    let mut into = vec![0; 64 << 10];
    let mut read = 0;
    for _ in 0..4_000 {
        read += bench.guest.tcp_read(client, &mut into).unwrap_or(0);
        bench.pass(1);
        if read == written {
            break;
        }
    }
    assert_eq!(read, written);
    bench.guest.tcp_close(client);
    bench.pass(2);
    assert_eq!(bench.engine.flow_count(), 0);
}
