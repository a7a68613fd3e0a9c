//! Buffers that are tuned: the receive buffer grows with the rate of its reader, the send buffer
//! with the congestion window, both within the stack's budget; and what happens under memory
//! pressure.

use super::*;

const K64: usize = 65_536;

/// Settings with buffers that start at 64 KB and may grow to 4 MB, scaled windows, and no
/// timestamps.
fn setup() -> Setup {
    Setup::plain().ws(7).off(Switch::Pacing).tcp(|c| {
        (c.receive_buffer_bytes, c.receive_buffer_max_bytes) = (65_536, 4 << 20);
        (c.send_buffer_bytes, c.send_buffer_max_bytes) = (65_536, 4 << 20);
    })
}

/// A connection whose handshake took 20 ms.
fn opened(setup: Setup) -> Ladder {
    let mut t = setup.ladder();
    t.listen();
    t.send(t.setup.syn.clone());
    t.expect(syn_ack());
    t.pass(20);
    t.send(seg().seq(1).ack(1));
    t.accept();
    t
}

/// The peer sends this many segments of 1000 bytes, 8 in a millisecond; the user reads them at
/// once.
fn deliver(t: &mut Ladder, segments: usize) {
    for i in 1..=segments {
        t.send(seg().data(1000));
        t.read(1000);
        if i % 8 == 0 {
            t.pass(1);
        }
    }
}

fn buffer(t: &Ladder) -> usize {
    t.info().receive_buffer_bytes
}

fn reserved(t: &Ladder) -> usize {
    t.end.stack.budget().reserved(Limit::ReceiveBufferBytes)
}

/// Checks that no offered right edge is before an earlier one; returns the last.
#[track_caller]
fn last_edge(t: &mut Ladder, mut edge: i64) -> i64 {
    let shift =
        i64::from(WindowScale::for_window(t.setup.tcp.receive_buffer_max_bytes as usize).shift());
    for seen in t.take_seen() {
        let new = seen.ack.expect("ACK") + (i64::from(seen.win.expect("window")) << shift);
        assert!(new > edge - (1 << shift), "{new} < {edge}");
        edge = edge.max(new);
    }
    edge
}

#[test]
fn receive_auto_tuning_doubles_a_buffer_whose_quarter_came_within_a_round_trip() {
    let mut t = opened(setup());
    // The first quarter of the buffer starts the measurement: how long it took is unknown.
    deliver(&mut t, 17);
    assert_eq!(buffer(&t), K64);
    t.pass(15);
    deliver(&mut t, 17);
    assert_eq!(buffer(&t), 2 * K64);
    assert_eq!(reserved(&t), K64);
    let read = t.read as i64;
    t.pass(50);
    let edge = last_edge(&mut t, 0);
    assert!(edge > read + 120_000, "the peer was offered only {edge} after {read}");
}

#[test]
fn receive_auto_tuning_leaves_a_buffer_that_is_large_enough() {
    let mut t = opened(setup());
    for _ in 0..10 {
        deliver(&mut t, 17);
        t.pass(25);
    }
    assert_eq!((buffer(&t), reserved(&t)), (K64, 0));
}

/// Fast arrival with a slow reader needs no larger buffer, even if each read takes everything.
#[test]
fn receive_auto_tuning_waits_for_the_reader() {
    let mut t = opened(setup());
    for _ in 0..10 {
        for _ in 0..60 {
            t.send(seg().data(1000));
        }
        t.pass(30);
        (0..60).for_each(|_| t.read(1000));
    }
    assert_eq!(buffer(&t), K64);
}

/// A reader that lags by more than half of the buffer gets no larger buffer.
#[test]
fn receive_auto_tuning_waits_for_a_reader_that_lags() {
    for (lag, grows) in [(40, false), (20, true)] {
        let mut t = opened(setup());
        (0..lag).for_each(|_| t.send(seg().data(1000)));
        deliver(&mut t, 200);
        assert_eq!(buffer(&t) > K64, grows, "{lag} KB unread: {}", buffer(&t));
    }
}

/// The timestamp echo shows that the path became longer: each segment was released by an ACK 100 ms
/// ago, and a quarter of the buffer arrives in 80 ms.
#[test]
fn receive_auto_tuning_follows_a_round_trip_that_grows() {
    for (rtt_ms, grows) in [(100, true), (60, false)] {
        let mut t = opened(setup().ts());
        t.send(seg().data(1000));
        t.pass(100);
        let now_ms = |t: &Ladder| t.end.stack.now().as_millis() as u32;
        let (at, ack) = t.seen.pop_front().expect("an ACK");
        let (value, _) = ack.ts.expect("timestamps");
        let offset = value.wrapping_sub(at.as_millis() as u32);
        t.read(1000);
        for _ in 0..60 {
            t.pass(80);
            let echo = now_ms(&t).wrapping_add(offset).wrapping_sub(rtt_ms);
            for _ in 0..17 {
                let value = 1000 + now_ms(&t);
                t.send(seg().data(1000).ts(value, echo));
                t.read(1000);
            }
        }
        assert_eq!(buffer(&t) > K64, grows, "{rtt_ms} ms: {}", buffer(&t));
    }
}

#[test]
fn a_buffer_that_was_set_is_not_tuned() {
    let mut t = opened(setup().tcp(|c| c.set_fixed_buffers(65_536, 65_536)));
    deliver(&mut t, 100);
    assert_eq!((buffer(&t), t.info().send_buffer_bytes, reserved(&t)), (K64, K64, 0));
    // The maximum is set on an open connection: bytes that tuning added are returned to the budget.
    let mut t = opened(setup());
    deliver(&mut t, 200);
    assert!(buffer(&t) > 2 * K64 && reserved(&t) > 0);
    t.end.stack.tcp_configure(t.h(), |c| c.set_fixed_buffers(100_000, 100_000));
    deliver(&mut t, 200);
    assert_eq!((buffer(&t), t.info().send_buffer_bytes, reserved(&t)), (100_000, 100_000, 0));
}

#[test]
fn receive_auto_tuning_ends_at_the_largest_buffer() {
    let mut t = opened(setup().tcp(|c| c.receive_buffer_max_bytes = 200_000));
    deliver(&mut t, 1000);
    assert_eq!(buffer(&t), 200_000);
}

/// All connections of a stack share the budget; a connection that ends returns its part.
#[test]
fn the_budget_bounds_what_tuning_adds_to_receive_buffers() {
    let mut t = opened(setup().limit(Limit::ReceiveBufferBytes, 3 * K64));
    deliver(&mut t, 1000);
    assert_eq!((buffer(&t), reserved(&t)), (4 * K64, 3 * K64));
    assert!(t.hits(Limit::ReceiveBufferBytes) > 0);
    t.abort();
    assert_eq!(reserved(&t), 0);
    // The maximum is half of all buffers, whatever the limit is.
    let mut t = opened(setup().limit(Limit::MbufBytes, 2 << 20));
    deliver(&mut t, 2000);
    assert_eq!(buffer(&t), 1 << 20);
}

/// Under memory pressure the window's right edge does not move while data is read, until the window
/// has become small enough.
#[test]
fn shrinking_a_window_takes_nothing_back() {
    let mut t = opened(setup().limit(Limit::MbufBytes, 8 << 20));
    deliver(&mut t, 300);
    let large = buffer(&t);
    assert!(large >= 8 * K64, "{large}");
    t.pass(50);
    let mut edge = last_edge(&mut t, 0);
    let pool = t.end.stack.pool();
    let mut withheld = Vec::new();
    while pool.in_use_bytes() < pool.limit_bytes() / 8 * 7 {
        withheld.push(pool.alloc(1500).expect("under the limit"));
    }
    for _ in 0..300 {
        deliver(&mut t, 10);
        t.pass(10);
        edge = last_edge(&mut t, edge);
    }
    assert_eq!((buffer(&t), reserved(&t)), (K64, 0));
    assert!(t.info().rcv_wnd as usize <= K64, "{}", t.info().rcv_wnd);
    // The window grows again when there is memory.
    withheld.into_iter().for_each(|m| t.end.stack.pool().free(m));
    deliver(&mut t, 300);
    assert!(buffer(&t) >= 4 * K64, "{}", buffer(&t));
}

/// Sends data and acknowledges it at once, until cwnd has this size or stops growing.
fn with_cwnd(t: &mut Ladder, bytes: u64) {
    for _ in 0..30 {
        if t.info().cwnd >= bytes {
            break;
        }
        while let Ok(n) = t.end.stack.tcp_write(t.h(), &wire_end::stream(t.written, 16_384)) {
            t.written += n;
            t.collect();
        }
        let all = t.wire.stack_next;
        t.take_seen();
        t.send(seg().ack(all));
    }
}

fn fill(t: &mut Ladder) -> usize {
    while let Ok(n) = t.end.stack.tcp_write(t.h(), &wire_end::stream(t.written, 16_384)) {
        t.written += n;
        t.collect();
    }
    t.info().in_flight as usize + t.info().unsent
}

#[test]
fn send_auto_tuning_keeps_room_for_three_congestion_windows() {
    let mut t = opened(setup());
    assert!(t.info().send_buffer_bytes < 2 * K64);
    with_cwnd(&mut t, 600_000);
    let info = t.info();
    assert!(info.send_buffer_bytes as u64 >= 3 * info.cwnd, "{}", info.send_buffer_bytes);
    // A window in flight, and as much unsent data after it: the wire stays full until the writer
    // returns.
    let queued = fill(&mut t);
    let info = t.info();
    assert!(info.in_flight as u64 + 2000 > info.cwnd, "{} of {}", info.in_flight, info.cwnd);
    assert!(info.unsent >= 32_768 && queued < info.send_buffer_bytes, "{}", info.unsent);
}

#[test]
fn send_auto_tuning_wakes_the_writer_as_the_buffer_grows() {
    let mut t = opened(setup());
    let mut before = 0;
    for _ in 0..5 {
        fill(&mut t);
        assert!(t.write_result().is_err());
        t.events.clear();
        let (all, writable) = (t.wire.stack_next, tcp::Events::WRITABLE);
        t.send(seg().ack(all));
        let woken = |e: &Event| matches!(e, Event::Tcp(_, events) if events.has(writable));
        assert!(t.events.iter().any(woken));
        assert!(t.info().send_buffer_bytes >= before);
        before = t.info().send_buffer_bytes;
    }
    assert!(before > K64);
}

#[test]
fn the_budget_bounds_what_send_buffers_grow_to() {
    let mut t = opened(setup().limit(Limit::SendBufferBytes, 1 << 20));
    with_cwnd(&mut t, 2_000_000);
    let queued = fill(&mut t);
    assert!((K64..1 << 20).contains(&queued), "{queued}");
    assert!(t.hits(Limit::SendBufferBytes) > 0);
    // A writer whose write was refused is notified when there is room.
    t.events.clear();
    let all = t.wire.stack_next;
    t.send(seg().ack(all));
    assert!(!t.events.is_empty());
}

/// A reader that takes a few bytes at a time reopens a closed window once, by at least one unit of
/// the window scale: a smaller update would again be zero on the wire.
#[test]
fn a_shut_window_is_not_opened_by_less_than_a_unit() {
    let mut t = opened(setup().tcp(|c| c.receive_buffer_max_bytes = 1 << 28));
    let mut sent = 0;
    while t.info().rcv_wnd > 0 && sent < 200 {
        let len = (t.info().rcv_wnd as usize).min(500);
        t.send(seg().data(len));
        sent += 1;
    }
    t.pass(100);
    t.take_seen();
    for _ in 0..1000 {
        t.read(10);
    }
    let seen = t.take_seen();
    assert!((1..=2).contains(&seen.len()), "{} window updates", seen.len());
    assert!(seen.iter().all(|s| s.win > Some(0)));
}
