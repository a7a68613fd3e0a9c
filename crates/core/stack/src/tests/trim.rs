//! Buffers go back to the system after a bulk transfer, and then there is no deadline.

use core::net::SocketAddr;

use base::{Duration, Instant, Owner};

use super::icmp::NOW;
use crate::ListenConfig;
use crate::pair::{PairConfig, pair};

/// What an idle stack may keep, beside what is in use.
const KEPT: usize = 5 << 20;

#[test]
fn a_bulk_transfer_leaves_few_buffers_behind() {
    let (mut left, mut right) = pair(&PairConfig::new([1, 2]));
    let to = SocketAddr::new(right.addr, 7);
    let listener = right.stack.tcp_listen(to, ListenConfig::default()).expect("free");
    let config = tcp::Config::default();
    let handle = left.stack.tcp_connect(to, None, &config, Owner::program(), NOW).expect("routed");
    for _ in 0..4 {
        left.stack.poll(NOW);
        right.stack.poll(NOW);
    }
    let accepted = right.stack.tcp_accept(listener).expect("open");
    // What a transfer over a long path has in flight.
    let alloc = |_| left.stack.pool().alloc(1_500).expect("memory");
    let in_flight: Vec<_> = (0..10_000).map(alloc).collect();
    in_flight.into_iter().for_each(|m| left.stack.give_back(m));
    let most = left.stack.pool().held_bytes();
    assert!(most > 20 << 20, "{most} bytes were held");
    let mut now = NOW;
    // From deadline to deadline, as a driver does.
    let mut wakes = 0;
    loop {
        while left.stack.poll(now) + right.stack.poll(now) > 0 {}
        let next = left.stack.next_deadline().min(right.stack.next_deadline());
        if next == Instant::NEVER {
            break;
        }
        now = now.max(next);
        wakes += 1;
        assert!(wakes < 30, "an idle stack ticks");
    }
    let held = left.stack.pool().held_bytes();
    assert!(held <= KEPT, "{held} of {most} bytes after {wakes} wake-ups");
    assert!(now.since(NOW) < Duration::from_secs(20));
    // The connection goes on as if nothing had happened.
    assert_eq!(left.stack.tcp_write(handle, b"more"), Ok(4));
    left.stack.poll(now);
    right.stack.poll(now);
    let (readable, _) = right.stack.tcp_readable(accepted).expect("open");
    assert!(readable >= 4);
}
