//! Departure times, observed on the wire: a window that is spread over a round trip, the switch,
//! and waiting frames whose connection or port goes away.

use super::*;

/// An open connection whose round trip is `rtt` ms. Its first window of ten segments is
/// acknowledged, so twenty may be in flight.
fn far_away(setup: Setup, rtt: u64) -> Ladder {
    let mut t = setup.ladder();
    t.listen();
    t.send(t.setup.syn.clone());
    t.expect(syn_ack());
    t.pass(rtt);
    t.send(seg().seq(1).ack(1));
    t.accept();
    t.write(60_000);
    assert_eq!(t.take_seen().len(), 10, "the first window did not leave at once");
    t.pass(rtt);
    t.send(seg().ack(10_001));
    t
}

/// Lets `ms` milliseconds pass; returns when each segment was sent, in milliseconds from now.
fn departures(t: &mut Ladder, ms: u64) -> Vec<u64> {
    let from = t.now;
    t.pass(ms);
    t.seen.drain(..).map(|(at, _)| at.since(from).as_millis()).collect()
}

#[test]
fn pacing_spreads_a_window_over_half_a_round_trip_in_slow_start() {
    let mut t = far_away(Setup::plain(), 100);
    assert_eq!(t.info().pacing_rate, 2 * 20_000 * 10, "not two windows a round trip");
    let at = departures(&mut t, 99);
    assert_eq!(at.len(), 20);
    // A segment takes 2.5 ms; departures are rounded to about a quarter of a millisecond.
    for (i, ms) in at.iter().enumerate() {
        let exact = i as u64 * 5 / 2;
        assert!((exact.saturating_sub(1)..=exact + 1).contains(ms), "{at:?}");
    }
}

#[test]
fn pacing_lets_a_short_answer_leave_at_once_after_a_pause() {
    let mut t = far_away(Setup::plain(), 100);
    for ack in [30_001, 60_001] {
        t.pass(100);
        t.send(seg().ack(ack));
    }
    t.pass(120);
    t.take_seen();
    t.write(8_000);
    assert_eq!(t.take_seen().len(), 8, "not an initial window");
}

#[test]
fn pacing_off_sends_a_window_at_once() {
    let mut t = far_away(Setup::plain().off(Switch::Pacing), 100);
    assert_eq!(t.take_seen().len(), 20);
}

/// The round trip is too short for the ticks of the timer wheel.
#[test]
fn pacing_leaves_short_ways_alone() {
    let mut t = Setup::plain().established();
    t.write(60_000);
    t.pass(1);
    t.send(seg().ack(10_001));
    assert_eq!(t.take_seen().len(), 30);
    assert_eq!(t.info().pacing_rate, 0);
}

#[test]
fn pacing_spreads_what_is_sent_again() {
    let mut t = far_away(Setup::plain(), 100);
    t.pass(99);
    t.take_seen();
    // Nothing is acknowledged: after the time-out slow start begins again, and each window is
    // spread.
    t.pass(300);
    let first = t.take_seen();
    assert_eq!(first.len(), 1);
    t.send(seg().ack(11_001));
    let at = departures(&mut t, 90);
    assert!(at.len() >= 2, "{at:?}");
    assert!(at.windows(2).all(|w| w[1] > w[0]), "{at:?}");
}

/// Frames in the release queue count as sent: they leave, the RST after them, and no buffer is left
/// in use.
#[test]
fn pacing_lets_frames_of_an_aborted_connection_leave_in_order() {
    let mut t = far_away(Setup::plain(), 20);
    t.end.stack.tcp_abort(t.h());
    t.pass(10);
    let seen = t.take_seen();
    assert!(!seen.is_empty());
    let (last, data) = seen.split_last().expect("some");
    assert!(last.flags & wire::tcp::Flags::RST.0 != 0, "{seen:?}");
    assert!(data.iter().all(|s| s.len == 1000), "{seen:?}");
    t.all_gone();
}

#[test]
fn pacing_frames_of_a_port_that_goes_are_counted_and_freed() {
    let mut t = far_away(Setup::plain(), 20);
    let waiting = t.end.stack.release.len();
    assert!(waiting > 0);
    let port = t.end.port;
    let h = t.h();
    drop(t.end.stack.remove_port(port));
    assert_eq!(t.end.stack.release.len(), 0);
    assert_eq!(t.drops(DropReason::TxNoPort), waiting as u64);
    t.end.stack.tcp_close(h);
    t.end.stack.poll(t.now);
    t.take_seen();
    t.all_gone();
}

/// When the release queue is full, no frame is delayed longer or lost: further frames leave at
/// once.
#[test]
fn pacing_queue_full_lets_the_rest_leave_at_once() {
    let mut t = far_away(Setup::plain().limit(Limit::PacedFrames, 0), 20);
    assert!(t.hits(Limit::PacedFrames) > 0);
    let at = departures(&mut t, 19);
    assert_eq!(at.len(), 20);
    assert_eq!(t.end.stack.release.len(), 0);
}

/// RFC 7661: a validated window outlives a pause, since pacing prevents a burst; after five minutes
/// without use it is halved.
#[test]
fn pacing_keeps_the_window_over_a_pause() {
    let mut t = far_away(Setup::plain(), 100);
    t.pass(99);
    t.send(seg().ack(30_001));
    t.pass(99);
    t.take_seen();
    t.send(seg().ack(60_001));
    let window = t.info().cwnd;
    assert!(window >= 40_000, "{window}");
    for (pause_s, kept) in [(60, window), (250, window / 2)] {
        t.pass(pause_s * 1000);
        t.write(1000);
        assert_eq!(t.info().cwnd, kept);
        let seq = t.take_seen().last().and_then(|s| s.seq).expect("sent");
        t.send(seg().ack(seq + 1000));
    }
}

/// A connection after slow start, with twenty segments in flight and a departure clock that is
/// behind the time.
fn beyond_slow_start() -> Ladder {
    let mut t = far_away(Setup::plain(), 100);
    t.pass(99);
    t.take_seen();
    // Three duplicate ACKs end slow start; the retransmission repairs the loss.
    for _ in 0..3 {
        t.send(seg().ack(10_001));
    }
    t.pass(99);
    t.send(seg().ack(30_001));
    t.pass(99);
    t.take_seen();
    assert!(t.info().ssthresh < 20_000 && t.info().ssthresh <= t.info().cwnd);
    t
}

/// The segments that an ordinary ACK frees leave together, as from a host that does not pace: if
/// they were spread, they would find room in a full queue where the bursts of other flows find
/// none. If an ACK frees more segments than that, they are spread.
#[test]
fn pacing_lets_what_an_ack_frees_leave_with_it_and_spreads_more() {
    let mut t = beyond_slow_start();
    let (una, in_flight) = (30_001, i64::from(t.info().in_flight));
    assert!(in_flight >= 10_000, "{in_flight}");
    t.write(40_000);
    t.send(seg().ack(una + 2_000));
    let at_once = t.take_seen().len();
    assert!((2..=3).contains(&at_once), "{at_once}");
    t.pass(50);
    t.take_seen();
    t.send(seg().ack(una + in_flight));
    let at_once = t.take_seen().len();
    assert!((4..=5).contains(&at_once), "{at_once}");
    let at = departures(&mut t, 90);
    assert!(at.len() >= 4 && at.windows(2).all(|pair| pair[1] - pair[0] >= 3), "{at:?}");
}

/// An ACK that waits behind paced data leaves with the data's timestamp or a later one: with an
/// older timestamp the peer would drop it (RFC 7323 section 5.3).
#[test]
fn pacing_lets_no_ack_leave_behind_data_with_an_older_timestamp() {
    let mut t = Setup::plain().ts().ladder();
    t.listen();
    t.send(t.setup.syn.clone());
    let (ours, _) = t.expect(syn_ack()).ts.expect("timestamps");
    t.pass(100);
    t.send(seg().seq(1).ack(1).ts(1_100, ours));
    t.accept();
    t.write(60_000);
    assert_eq!(t.take_seen().len(), 10, "the first window did not leave at once");
    t.pass(100);
    t.send(seg().ack(10_001).ts(1_200, ours + 100));
    for _ in 0..9 {
        t.send(seg().data(1_000).ts(1_200, ours + 100));
        t.send(seg().data(1_000).ts(1_200, ours + 100));
        t.pass(10);
    }
    let seen = t.take_seen();
    let stamps: Vec<u32> = seen.iter().map(|s| s.ts.expect("timestamps").0).collect();
    assert!(seen.iter().any(|s| s.len == 0) && seen.iter().any(|s| s.len > 0), "{seen:?}");
    assert!(stamps.is_sorted(), "{stamps:?}");
}
