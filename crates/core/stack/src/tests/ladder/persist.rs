//! Persist: a zero window is probed with backoff until it opens. Also keepalive.

use super::*;
use tcp::Error;

/// A connection whose peer has closed its window while 2000 bytes are unsent.
fn shut() -> Ladder {
    let mut t = Setup::plain().peer_window(2000).established();
    t.write(4000);
    assert_eq!(t.take_seen().len(), 2);
    t.send(seg().ack(2001).win(0));
    t.nothing();
    t
}

/// The probe has no data: it is a segment from before the window, which the peer must answer (RFC
/// 9293 section 3.10.7.4). Linux and Windows send the same probe, BSD sends one byte of data.
/// RFC 9293 MUST-36, SHLD-29, SHLD-30.
#[test]
fn persist_probes_a_shut_window_with_backoff() {
    let mut t = shut();
    let mut wait = t.info().rto.as_millis();
    for _ in 0..6 {
        t.expect_after(wait, seg().seq(2000).ack(1));
        t.send(seg().ack(2001).win(0));
        wait *= 2;
    }
}

#[test]
fn persist_ends_when_the_window_opens() {
    let mut t = shut();
    t.expect_after(t.info().rto.as_millis(), seg().seq(2000));
    t.send(seg().ack(2001).win(2000));
    t.expect(seg().seq(2001).data(1000));
    t.expect(seg().seq(3001).data(1000));
    // The next wait is the time-out without backoff again.
    let rto = t.info().rto.as_millis();
    assert!(rto < 300, "{rto}");
    t.expect_after(rto, seg().seq(2001).data(1000));
}

/// The update that opened the window is lost; the answer to a probe reports the window.
#[test]
fn persist_recovers_a_lost_window_update() {
    let mut t = shut();
    t.expect_after(t.info().rto.as_millis(), seg().seq(2000));
    t.pass(10);
    t.send(seg().ack(2001).win(1000));
    t.expect(seg().seq(2001).data(1000));
}

/// RFC 9293 MUST-37.
#[test]
fn persist_is_not_given_up_while_probes_are_answered() {
    let mut t = shut();
    for _ in 0..40 {
        t.run_until(t.now + Duration::from_secs(200), true);
        t.expect(seg().seq(2000));
        t.send(seg().ack(2001).win(0));
    }
    t.state(State::Established);
}

#[test]
fn persist_is_given_up_when_nobody_answers() {
    let mut t = Setup::plain().tcp(|c| c.retries_max = 3).peer_window(2000).established();
    t.write(4000);
    t.take_seen();
    t.send(seg().ack(2001).win(0));
    t.pass(600_000);
    assert_eq!(t.take_seen().len(), 3);
    assert_eq!(t.write_result(), Err(CallError::Failed(Error::TimedOut)));
}

/// The receiving side: a probe with a byte of data is refused and answered.
#[test]
fn a_probe_of_our_shut_window_is_answered() {
    let mut t = Setup::plain().tcp(|c| c.receive_buffer_bytes = 1000).established();
    t.send(seg().data(1000));
    t.expect(seg().ack(1001).win(0));
    t.send(seg().seq(1001).data(1));
    t.expect(seg().ack(1001).win(0));
    t.send(seg().seq(1000));
    t.expect(seg().ack(1001).win(0));
    assert_eq!(t.drops(DropReason::TcpReceiveFull), 1);
    t.read(1000);
    t.expect(seg().ack(1001).win(1000));
}

/// ACKs are processed even while the stack's own window is zero (RFC 9293 section 3.10.7.4).
#[test]
fn acks_are_taken_while_our_window_is_shut() {
    let mut t = Setup::plain().tcp(|c| c.receive_buffer_bytes = 1000).established();
    t.write(500);
    t.expect(seg().data(500));
    t.send(seg().ack(1).data(1000));
    t.expect(seg().ack(1001).win(0));
    t.send(seg().seq(1001).ack(501).data(1));
    assert_eq!(t.info().bytes_acked, 500);
}

/// RFC 9293 section 3.8.6.1: data in flight when the window closes is retransmitted as long as the
/// peer answers, however often.
/// RFC 9293 SHLD-16, SHLD-17, MUST-35.
#[test]
fn a_peer_that_shuts_its_window_on_data_in_flight_is_not_given_up() {
    let mut t = Setup::plain().tcp(|c| c.retries_max = 3).peer_window(2000).established();
    t.write(2000);
    t.take_seen();
    for _ in 0..10 {
        t.send(seg().ack(1).win(0));
        t.run_until(t.now + Duration::from_secs(200), true);
        assert!(!t.take_seen().is_empty());
    }
    t.state(State::Established);
}

/// The timer for a small window must not fire for data that a larger window has released.
#[test]
fn data_sent_when_a_small_window_grows_gets_a_whole_time_out() {
    let mut t = Setup::plain().peer_window(4000).established();
    t.write(5000);
    assert_eq!(t.take_seen().len(), 4);
    t.send(seg().ack(4001).win(100));
    t.silence(150);
    t.send(seg().ack(4001).win(4000));
    t.expect(seg().seq(4001).data(1000));
    let rto = t.info().rto.as_millis();
    t.expect_after(rto, seg().seq(4001).data(1000));
}

fn kept_alive() -> Ladder {
    let change = |c: &mut tcp::Config| {
        c.keepalive_idle = Some(Duration::from_secs(60));
        c.keepalive_interval = Duration::from_secs(10);
        c.keepalive_probes_max = 3;
    };
    Setup::plain().tcp(change).established()
}

/// RFC 9293 MUST-25.
#[test]
fn keepalive_is_off_unless_asked_for() {
    let mut t = Setup::plain().established();
    t.silence(1_000_000);
    t.state(State::Established);
}

/// RFC 9293 MUST-26, MUST-27, SHLD-12.
#[test]
fn keepalive_probes_after_idle_and_is_answered() {
    let mut t = kept_alive();
    for _ in 0..3 {
        t.expect_after(60_000, seg().seq(0).ack(1));
        t.send(seg().ack(1));
    }
    // Data also shows that the peer is alive.
    t.pass(50_000);
    t.send(seg().data(10));
    t.pass(50);
    t.expect(seg().ack(11));
    t.expect_after(59_950, seg().seq(0).ack(11));
    t.state(State::Established);
}

/// RFC 9293 MUST-29.
#[test]
fn keepalive_gives_up_with_a_rst_and_an_error() {
    let mut t = kept_alive();
    t.expect_after(60_000, seg().seq(0).ack(1));
    t.expect_after(10_000, seg().seq(0).ack(1));
    t.expect_after(10_000, seg().seq(0).ack(1));
    t.expect_after(10_000, seg().and_rst().seq(1).ack(1));
    assert_eq!(t.read_result(), Err(CallError::Failed(Error::TimedOut)));
    t.close();
    t.all_gone();
}

/// The receiving side: a probe is answered.
#[test]
fn a_keepalive_probe_is_answered() {
    let mut t = Setup::plain().established();
    t.send(seg().seq(0));
    t.expect(seg().seq(1).ack(1));
    t.send(seg().seq(0).data(1));
    t.expect(seg().seq(1).ack(1));
}
