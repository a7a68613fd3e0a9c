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
    let config = tcp::Config { send_buffer_bytes: 16 << 20, ..tcp::Config::default() };
    let handle = left.stack.tcp_connect(to, None, &config, Owner::program(), NOW).expect("routed");
    let mut now = NOW;
    let mut turn = |left: &mut crate::Stack, right: &mut crate::Stack| {
        now += Duration::from_micros(100);
        left.poll(now);
        right.poll(now);
        now
    };
    (0..4).for_each(|_| _ = turn(&mut left.stack, &mut right.stack));
    let accepted = right.stack.tcp_accept(listener).expect("open");
    let (data, mut room) = (vec![7; 1 << 20], vec![0; 1 << 20]);
    // The reader is slow, so that data waits at both ends.
    let mut read = 0;
    for _ in 0..10_000 {
        let is_full = left.stack.tcp_write(handle, &data).is_err();
        turn(&mut left.stack, &mut right.stack);
        if is_full {
            read += right.stack.tcp_read(accepted, &mut room).unwrap_or(0);
        }
        if read > 32 << 20 {
            break;
        }
    }
    assert!(read > 32 << 20, "{read} bytes came");
    while right.stack.tcp_read(accepted, &mut room).is_ok() {
        turn(&mut left.stack, &mut right.stack);
    }
    let mut now = turn(&mut left.stack, &mut right.stack);
    let most = left.stack.pool().held_bytes();
    assert!(most > 2 * KEPT, "{most} bytes were held");
    // From deadline to deadline, as a driver does.
    let (mut wakes, began) = (0, now);
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
    assert!(now.since(began) < Duration::from_secs(20));
    // The connection goes on as if nothing had happened.
    assert_eq!(left.stack.tcp_write(handle, b"more"), Ok(4));
    left.stack.poll(now);
    right.stack.poll(now);
    let (readable, _) = right.stack.tcp_readable(accepted).expect("open");
    assert!(readable >= 4);
}
