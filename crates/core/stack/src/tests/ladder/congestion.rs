//! The congestion window, observed on the wire: the initial window, slow start, congestion
//! avoidance, and idle times.

use super::*;
use tcp::cc::Algorithm;

/// Writes as much as possible; returns the bytes that leave before any ACK.
fn flood(t: &mut Ladder) -> usize {
    loop {
        let data = wire_end::stream(t.written, 10_000);
        match t.end.stack.tcp_write(t.h(), &data) {
            Ok(n) => t.written += n,
            Err(_) => break,
        }
    }
    t.collect();
    t.take_seen().iter().map(|s| s.len).sum()
}

#[test]
fn initial_window_of_ten_segments() {
    let mut t = Setup::plain().established();
    assert_eq!(flood(&mut t), 10_000);
    assert_eq!(t.info().cwnd, 10_000);
}

/// RFC 6928: at most max(2 MSS, 14600) bytes.
#[test]
fn initial_window_of_large_segments_is_less() {
    let mut setup = Setup::plain();
    setup.pair.wire.mtu = base::Mtu::new(9000).expect("in range");
    setup.syn = setup.syn.mss(8960);
    let mut t = setup.established();
    t.write(4 * 8960);
    let sent: usize = t.take_seen().iter().map(|s| s.len).sum();
    assert_eq!(sent, 2 * 8960);
}

/// RFC 9293 MUST-19. RFC 5681 3.1-a, 3.1-d. RFC 9438 4.10-a.
#[test]
fn slow_start_doubles_the_window_each_round() {
    for &algorithm in Algorithm::ALL {
        let setup = Setup::plain().off(Switch::Pacing).tcp(|c| c.algorithm = algorithm);
        let mut t = setup.established();
        assert_eq!(flood(&mut t), 10_000);
        t.pass(10);
        t.send(seg().ack(10_001));
        assert_eq!(flood(&mut t), 20_000);
        t.pass(10);
        t.send(seg().ack(30_001));
        assert_eq!(flood(&mut t), 40_000);
    }
}

/// The window does not grow while the user, not the window, is the limit (RFC 9293, 7661).
/// RFC 9438 5.8-a.
#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut t = Setup::plain().established();
    for i in 0..20 {
        t.write(1000);
        t.take_seen();
        t.send(seg().ack(1001 + i * 1000));
    }
    assert_eq!(t.info().cwnd, 10_000);
}

/// A loss, then rounds of 10 ms; returns the bytes sent in each round.
fn after_a_loss(algorithm: Algorithm, rounds: usize) -> Vec<u64> {
    let mut t = Setup::plain().sack().tcp(|c| c.algorithm = algorithm).established();
    flood(&mut t);
    t.send(seg().ack(1).sack(&[(1001, 10_001)]));
    t.send(seg().ack(10_001));
    let mut windows = vec![t.info().cwnd];
    for _ in 0..rounds {
        flood(&mut t);
        t.pass(10);
        let all = t.wire.stack_next;
        t.send(seg().ack(all));
        windows.push(t.info().cwnd);
    }
    windows
}

/// RFC 9293 MUST-19. RFC 5681 3.1-f.
#[test]
fn newreno_grows_by_a_segment_each_round() {
    let windows = after_a_loss(Algorithm::NewReno, 10);
    assert_eq!(windows[0], 5000);
    for pair in windows.windows(2) {
        let gained = pair[1] - pair[0];
        assert!((900..=1001).contains(&gained), "{windows:?}");
    }
}

/// With ten segments and a round trip of 10 ms, CUBIC is in its Reno-friendly region: cwnd grows by
/// 3 * 0.3 / 1.7 = 0.53 segments a round until the old window is reached again, then by one (RFC
/// 9438 section 4.3).
/// RFC 9438 4.3-a.
#[test]
fn cubic_grows_like_reno_at_small_windows() {
    let windows = after_a_loss(Algorithm::Cubic, 10);
    assert_eq!(windows[0], 7000);
    for pair in windows.windows(2) {
        let gained = pair[1] - pair[0];
        assert!((400..=1010).contains(&gained), "{windows:?}");
    }
    let gained = windows[5] - windows[0];
    assert!((2200..3000).contains(&gained), "{windows:?}");
}

/// RFC 5681 section 4.1: after the connection was idle for longer than a time-out, it sends at most
/// the initial window.
/// RFC 5681 4.1-a.
#[test]
fn restart_after_idle() {
    let mut t = Setup::plain().established();
    flood(&mut t);
    t.send(seg().ack(10_001));
    flood(&mut t);
    let all = t.wire.stack_next;
    t.send(seg().ack(all));
    while t.info().unsent > 0 || t.info().in_flight > 0 {
        t.take_seen();
        let all = t.wire.stack_next;
        t.send(seg().ack(all));
    }
    assert!(t.info().cwnd > 20_000);
    t.take_seen();
    t.pass(1000);
    assert_eq!(flood(&mut t), 10_000);
}
