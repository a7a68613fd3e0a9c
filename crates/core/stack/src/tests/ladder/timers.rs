//! RFC 6298: the time-out before and after measurements, backoff, Karn's rule, and giving up.

use super::*;
use tcp::Error;

/// Waits for the next segment; returns the waiting time in ms.
#[track_caller]
fn wait_for(t: &mut Ladder, wanted: Seg) -> u64 {
    t.nothing();
    let from = t.now;
    t.run_until(t.now + Duration::from_secs(400), true);
    t.expect(wanted);
    t.now.since(from).as_millis()
}

/// Asserts that the time is at most two timer ticks too long, and never too short.
#[track_caller]
fn about(waited: u64, wanted: u64) {
    assert!((wanted..=wanted + 3).contains(&waited), "{waited} for {wanted}");
}

/// RFC 9293 MUST-22, MUST-23. RFC 6298 2-a.
#[test]
fn initial_rto_is_one_second_and_doubles_for_a_syn() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.expect(syn());
    for wait in [1000, 2000, 4000, 8000, 16_000, 32_000, 64_000] {
        about(wait_for(&mut t, syn()), wait);
    }
    t.silence(119_900);
    t.pass(200);
    assert_eq!(t.write_result(), Err(CallError::Failed(Error::TimedOut)));
    t.nothing();
    t.close();
    t.all_gone();
}

/// The time-out of a SYN-ACK with a peer that sends SACKs too: it has no tail loss probe before.
#[test]
fn syn_ack_is_retransmitted_and_given_up() {
    for sack in [false, true] {
        let mut t = Setup::plain().tcp(|c| c.syn_retries_max = 2).ladder();
        t.listen();
        t.send(syn().mss(1000).sack_ok(sack));
        t.expect(syn_ack());
        about(wait_for(&mut t, syn_ack()), 1000);
        about(wait_for(&mut t, syn_ack()), 2000);
        t.silence(5000);
        t.all_gone();
    }
}

/// The backoff of a SYN-ACK ends at the longest time-out, too.
/// RFC 6298 2-e.
#[test]
fn no_timeout_is_longer_than_the_longest() {
    let setup =
        Setup::plain().tcp(|c| (c.rto_max, c.syn_retries_max) = (Duration::from_secs(3), 4));
    let mut t = setup.ladder();
    t.listen();
    t.send(syn().mss(1000));
    t.expect(syn_ack());
    for wait in [1000, 2000, 3000, 3000] {
        about(wait_for(&mut t, syn_ack()), wait);
    }
}

/// RFC 6298 rule 5.7 and RFC 5681 section 3.1: 3 s and one segment after a lost SYN.
/// RFC 6298 5-e. RFC 5681 3.1-c.
#[test]
fn rto_is_3_s_and_the_window_one_segment_after_syn_loss() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.expect(syn());
    t.expect_after(1000, syn());
    t.send(syn_ack().mss(1000));
    t.expect(seg());
    t.write(5000);
    t.expect(seg().seq(1).data(1000));
    t.nothing();
    about(wait_for(&mut t, seg().seq(1).data(1000)), 3000);
}

/// RFC 6298 2-b, 2-c, 3-b.
#[test]
fn rto_follows_the_measured_round_trip() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.expect(syn());
    t.pass(500);
    t.send(syn_ack().mss(1000));
    t.expect(seg());
    // Rule 2.2: SRTT = R, RTTVAR = R/2, RTO = SRTT + 4 RTTVAR.
    assert_eq!(t.info().srtt.as_millis(), 500);
    assert_eq!(t.info().rttvar.as_millis(), 250);
    assert_eq!(t.info().rto.as_millis(), 1500);
    t.write(100);
    t.expect(seg().data(100));
    t.pass(340);
    t.send(seg().ack(101));
    // Rule 2.3: RTTVAR = 3/4 * 250 + 1/4 * 160, SRTT = 7/8 * 500 + 1/8 * 340.
    assert_eq!(t.info().rttvar.as_micros(), 227_500);
    assert_eq!(t.info().srtt.as_millis(), 480);
    assert_eq!(t.info().rto.as_millis(), 1390);
}

/// The variance term is at least 200 ms here, while RFC 6298 rule 2.4 recommends (SHOULD) a minimum
/// time-out of 1 s.
#[test]
fn rto_min_of_200_ms() {
    let mut t = Setup::plain().established();
    assert_eq!(t.info().rto.as_millis(), 200);
    t.write(10);
    t.expect(seg().data(10));
    about(wait_for(&mut t, seg().seq(1).data(10)), 200);
    let mut t = Setup::plain().tcp(|c| c.rto_min = Duration::from_secs(1)).established();
    t.write(10);
    t.expect(seg().data(10));
    about(wait_for(&mut t, seg().seq(1).data(10)), 1000);
}

/// RFC 9293 MUST-19, MUST-20, SHLD-11. RFC 6298 2-e, 5-d.
#[test]
fn backoff_doubles_up_to_the_maximum_and_the_connection_is_given_up() {
    let mut t = Setup::plain().established();
    t.write(10);
    t.expect(seg().data(10));
    let mut wait = 200;
    for _ in 0..15 {
        about(wait_for(&mut t, seg().seq(1).data(10)), wait);
        wait = (wait * 2).min(120_000);
    }
    t.pass(wait + 3);
    t.nothing();
    assert_eq!(t.info().retransmits, 15);
    assert_eq!(t.write_result(), Err(CallError::Failed(Error::TimedOut)));
    t.close();
    t.all_gone();
}

/// Karn's rule: an ACK of retransmitted data measures nothing, and the backoff stays until an ACK
/// of data that was sent once (RFC 6298 section 5, last paragraph).
/// RFC 9293 MUST-18. RFC 6298 3-a.
#[test]
fn karn_keeps_the_backoff_until_a_clean_measurement() {
    let mut t = Setup::plain().established();
    t.write(10);
    t.expect(seg().data(10));
    about(wait_for(&mut t, seg().seq(1).data(10)), 200);
    about(wait_for(&mut t, seg().seq(1).data(10)), 400);
    let srtt = t.info().srtt;
    t.pass(300);
    t.send(seg().ack(11));
    assert_eq!(t.info().srtt, srtt, "an ambiguous ACK was measured");
    assert_eq!(t.info().rto.as_millis(), 800, "the backoff ended");
    t.write(10);
    t.expect(seg().seq(11).data(10));
    t.pass(1);
    t.send(seg().ack(21));
    assert!(t.info().rto.as_millis() < 300, "a clean measurement did not end the backoff");
}

/// The user is notified once of a series of time-outs, and may act on it.
/// RFC 9293 SHLD-9.
#[test]
fn the_user_is_told_when_nobody_answers() {
    let mut t = Setup::plain().established();
    let told = |t: &mut Ladder| {
        let of_that = |e: &Event| matches!(e, Event::Tcp(_, e) if e.has(tcp::Events::UNANSWERED));
        t.events.drain(..).filter(of_that).count()
    };
    t.write(10);
    t.expect(seg().seq(1).data(10));
    assert_eq!(told(&mut t), 0);
    t.pass(5000);
    assert!(t.take_seen().len() > 2);
    assert_eq!(told(&mut t), 1);
    t.send(seg().ack(11));
    t.write(10);
    t.pass(5000);
    assert_eq!(told(&mut t), 1);
}

/// The retries after which a connection is given up are counted for one piece of data: progress
/// restarts the count.
#[test]
fn retries_are_counted_anew_after_progress() {
    let mut t = Setup::plain().tcp(|c| c.retries_max = 3).established();
    for i in 0..5 {
        t.write(10);
        t.expect(seg().seq(1 + 10 * i).data(10));
        wait_for(&mut t, seg().seq(1 + 10 * i).data(10));
        wait_for(&mut t, seg().seq(1 + 10 * i).data(10));
        t.send(seg().ack(11 + 10 * i));
        t.state(State::Established);
    }
}

/// With timestamps the echo shows which transmission was acknowledged (RFC 7323 section 4.1).
/// RFC 6298 3-a.
#[test]
fn timestamps_measure_what_was_retransmitted() {
    let mut t = Setup::plain().ts().established();
    t.write(10);
    t.expect(seg().data(10));
    about(wait_for(&mut t, seg().seq(1).data(10)), 200);
    t.pass(80);
    t.send(seg().ack(11));
    // SRTT was 0 ms before; now it is 1/8 of 80 ms.
    let srtt = t.info().srtt.as_millis();
    assert!((9..=11).contains(&srtt), "{srtt}");
    assert!(t.info().rto.as_millis() < 400);
}

/// Rules 5.2 and 5.3: each ACK of new data restarts the timer, and the ACK of the last data stops
/// it.
/// RFC 6298 5-a, 5-b.
#[test]
fn the_timer_starts_anew_with_each_ack_and_stops_with_the_last() {
    let mut t = Setup::plain().established();
    t.write(2000);
    t.take_seen();
    t.pass(150);
    t.send(seg().ack(1001));
    let rto = t.info().rto.as_millis();
    about(wait_for(&mut t, seg().seq(1001).data(1000)), rto);
    t.send(seg().ack(2001));
    t.silence(500_000);
}

/// RFC 6298 5-c. RFC 5681 3.1-i. RFC 6582 3.2-e.
#[test]
fn after_a_time_out_the_first_segment_goes_and_slow_start_repairs_the_rest() {
    for with_sack in [false, true] {
        let setup = if with_sack { Setup::plain().sack() } else { Setup::plain() };
        let mut t = setup.off(Switch::TailProbe).established();
        t.write(8000);
        assert_eq!(t.take_seen().len(), 8);

        t.expect_after(200, seg().seq(1).data(1000));
        assert_eq!(t.info().cwnd, 1000);
        t.nothing();
        t.send(seg().ack(1001));
        t.expect(seg().seq(1001).data(1000));
        t.expect(seg().seq(2001).data(1000));
        t.nothing();
        t.send(seg().ack(3001));
        assert_eq!(t.take_seen().len(), 4, "an ACK of two segments did not release four");
        t.send(seg().ack(8001));
        assert_eq!(t.info().in_flight, 0);
        t.silence(500_000);
    }
}
