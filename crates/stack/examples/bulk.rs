//! Bulk transfer between two stacks on one thread: `bulk [MTU] [SECONDS] [UNIT]`.

use std::time::Instant as Clock;

use base::{Instant, Mtu, Owner};
use core::net::SocketAddr;
use wirespeed_stack::pair::{PairConfig, pair};
use wirespeed_stack::{Event, ListenConfig};

fn main() {
    let arg = |n: usize, d: usize| std::env::args().nth(n).map_or(d, |a| a.parse().unwrap_or(d));
    let (mtu, seconds, unit) = (arg(1, 1500), arg(2, 2), arg(3, 16 * 1024));
    let mut config = PairConfig::new([1, 2]);
    config.wire.mtu = Mtu::new(mtu).unwrap_or(Mtu::ETHERNET);
    config.wire.depth_bytes = arg(4, config.wire.depth_bytes);
    let (mut a, mut b) = pair(&config);
    let clock = Clock::now();
    let now = || Instant::from_nanos(clock.elapsed().as_nanos() as u64 + 1);
    let to = SocketAddr::new(b.addr, 5001);
    let listener = b.stack.tcp_listen(to, ListenConfig::default()).expect("free");
    let c = a
        .stack
        .tcp_connect(to, None, &tcp::Config::default(), Owner::program(), now())
        .expect("routed");
    let mut s = None;
    while s.is_none() {
        a.stack.poll(now());
        b.stack.poll(now());
        while let Some(event) = b.stack.next_event() {
            if matches!(event, Event::Accept(_)) {
                s = b.stack.tcp_accept(listener);
            }
        }
    }
    a.stack.poll(now());
    let s = s.expect("accepted");
    let data = vec![0x5a; unit];
    let mut into = vec![0; 128 * 1024];
    let start = Clock::now();
    let mut bytes = 0u64;
    let (mut ta, mut tb) = (0u128, 0u128);
    while start.elapsed().as_secs() < seconds as u64 {
        for _ in 0..200 {
            let t0 = Clock::now();
            a.stack.poll(now());
            while a.stack.tcp_write(c, &data).is_ok_and(|n| n == data.len()) {}
            let t1 = Clock::now();
            b.stack.poll(now());
            while let Ok(n) = b.stack.tcp_read(s, &mut into) {
                bytes += n as u64;
                if n < into.len() {
                    break;
                }
            }
            ta += (t1 - t0).as_nanos();
            tb += t1.elapsed().as_nanos();
        }
    }
    let wall = start.elapsed().as_secs_f64();
    let seg = b.stack.counters().of(base::Counter::TcpSegmentsIn);
    println!(
        "{:.2} Gb/s, {:.1} ns/segment, segments {seg}, send {:.1}% acks {} predicted b {} a {}/{} bursts {} {:?}",
        bytes as f64 * 8.0 / wall / 1e9,
        wall * 1e9 / seg as f64,
        ta as f64 / (ta + tb) as f64 * 100.0,
        a.stack.counters().of(base::Counter::TcpSegmentsIn),
        b.stack.counters().of(base::Counter::TcpPredicted),
        a.stack.counters().of(base::Counter::TcpPredicted),
        a.stack.counters().of(base::Counter::TcpSegmentsIn),
        b.stack.counters().of(base::Counter::RxBursts),
        a.stack.drops().nonzero().chain(b.stack.drops().nonzero()).collect::<Vec<_>>(),
    );
}
