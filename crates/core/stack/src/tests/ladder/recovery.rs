//! Recovery by time: RACK and its reordering window, tail loss probes, Proportional Rate Reduction,
//! and the undoing of spurious reductions (RFC 8985, 9937, 3522, 2883, 5682, 3042).

use super::*;

/// A connection with a round trip of 40 ms and SACK, and `n` segments of 1000 bytes, sent 40 ms
/// ago.
fn flying(setup: Setup, n: usize) -> Ladder {
    let mut t = setup.rtt(40).established();
    t.write(n * 1000);
    assert_eq!(t.take_seen().len(), n.min(10));
    t.pass(40);
    t
}

/// RFC 8985 4-a, 6.2-e.
#[test]
fn rack_finds_a_loss_by_the_clock_before_three_segments_have_passed_it() {
    let mut t = flying(Setup::plain().sack(), 3);
    // One segment after it has arrived: a quarter of a round trip later the first one counts as
    // lost.
    t.send(seg().ack(1).sack(&[(1001, 2001)]));
    t.expect_after(10, seg().seq(1).data(1000));
    assert_eq!((t.info().fast_recoveries, t.info().timeouts), (1, 0));
    t.send(seg().ack(3001));
    t.silence(1000);
}

/// RFC 8985 4-b, 6.2-b.
#[test]
fn rack_finds_a_lost_retransmission() {
    let mut t = flying(Setup::plain().sack(), 10);
    t.write(10_000);
    t.send(seg().ack(1).sack(&[(1001, 5001)]));
    t.expect(seg().seq(1).data(1000));
    let new: Vec<_> = t.take_seen().iter().filter_map(|s| s.seq).collect();
    assert_eq!(new, [10_001], "not one new segment beside seven in flight");
    t.pass(40);
    // Segments that were sent with the first one and after it have arrived, but it has not.
    t.send(seg().ack(1).sack(&[(1001, 11_001)]));
    let sent = t.take_seen();
    assert!(!sent.iter().any(|s| s.seq == Some(1)), "a segment was repaired too early");
    t.pass(40);
    t.send(seg().ack(1).sack(&[(1001, 13_001)]));
    t.expect(seg().seq(1).data(1000));
    assert_eq!(t.info().timeouts, 0);
}

/// After reordering was seen, three segments that overtook another one prove no loss any longer. A
/// quarter of a round trip proves it, and after each spurious repair a longer time.
/// RFC 8985 4-c, 6.2-a.
#[test]
fn reordering_widens_the_window_in_which_segments_may_be_late() {
    let mut t = flying(Setup::plain().sack(), 10);
    t.send(seg().ack(1).sack(&[(1001, 2001)]));
    t.pass(2);
    t.send(seg().ack(2001));
    // The first segment came late, which shows reordering.
    t.send(seg().ack(2001).sack(&[(3001, 7001)]));
    t.nothing();
    t.expect_after(8, seg().seq(2001).data(1000));
    // The segment was only late.
    t.send(seg().ack(7001));
    t.take_seen();
    t.send(seg().ack(7001).sack(&[(2001, 3001)]));
    assert_eq!(t.info().undone, 1);
    t.pass(20);
    t.send(seg().ack(7001).sack(&[(8001, 10_001)]));
    // The wait is now half a round trip.
    t.expect_after(19, seg().seq(7001).data(1000));
}

/// RFC 8985 7.2-a, 7.2-b, 7.3-c, 7.4.2-a.
#[test]
fn tail_loss_probe_repeats_the_last_segment() {
    let mut t = flying(Setup::plain().sack(), 4);
    t.send(seg().ack(3001));
    // A single segment: the peer may delay its ACK.
    t.expect_after(125, seg().seq(3001).data(1000));
    assert_eq!((t.info().tail_probes, t.info().timeouts), (1, 0));
    let cwnd = t.info().cwnd;
    // The peer received the probe's data only once, so the original was lost, and congestion
    // control is notified.
    t.send(seg().ack(4001));
    t.write(1000);
    t.expect(seg().seq(4001).data(1000));
    t.send(seg().ack(5001));
    assert!(t.info().cwnd < cwnd, "{} {cwnd}", t.info().cwnd);
    t.silence(1000);
}

/// RFC 8985 7.4.2-b.
#[test]
fn tail_loss_probe_that_came_twice_reduces_nothing() {
    let mut t = flying(Setup::plain().sack(), 4);
    t.send(seg().ack(3001));
    t.expect_after(125, seg().seq(3001).data(1000));
    let cwnd = t.info().cwnd;
    t.send(seg().ack(4001).sack(&[(3001, 4001)]));
    t.write(1000);
    t.expect(seg().seq(4001).data(1000));
    t.send(seg().ack(5001));
    assert!(t.info().cwnd >= cwnd);
}

/// RFC 8985 7.3-b.
#[test]
fn tail_loss_probe_sends_what_is_new_if_there_is_any() {
    let mut t = flying(Setup::plain().sack(), 12);
    t.nothing();
    t.expect_after(40, seg().seq(10_001).data(1000));
    assert_eq!((t.info().tail_probes, t.info().retransmits), (1, 0));
    // Ten segments were lost: the answer to the probe shows that, and all are retransmitted without
    // a time-out.
    t.pass(40);
    t.send(seg().ack(1).sack(&[(10_001, 11_001)]));
    t.expect(seg().seq(1).data(1000));
    assert_eq!(t.info().timeouts, 0);
}

/// RFC 8985 7.3-a, 7.3-d.
#[test]
fn a_time_out_follows_a_tail_loss_probe_without_answer() {
    let mut t = flying(Setup::plain().sack(), 4);
    t.send(seg().ack(3001));
    t.expect_after(125, seg().seq(3001).data(1000));
    let rto = t.info().rto.as_millis();
    t.expect_after(rto, seg().seq(3001).data(1000));
    assert_eq!((t.info().tail_probes, t.info().timeouts), (1, 1));
}

/// Seven segments are sent for ten that arrive, evenly from the first ACK to the last.
/// RFC 9937 6.1-a, 6.2-a.
#[test]
fn prr_spreads_a_reduction_over_the_round_trip() {
    let mut t = flying(Setup::plain().sack(), 10);
    t.write(50_000);
    let mut sent = Vec::new();
    for end in (2001..=10_001).step_by(1000) {
        t.send(seg().ack(1).sack(&[(1001, end)]));
        sent.push(t.take_seen().len());
        t.pass(1);
    }
    // Two new segments by limited transmit (RFC 3042), then the retransmission, then two segments
    // for three ACKs.
    assert_eq!(sent[..3], [1, 1, 1]);
    let later: usize = sent[3..].iter().sum();
    assert!((3..=5).contains(&later) && sent[3..].iter().all(|&n| n <= 1), "{sent:?}");
    t.send(seg().ack(10_001));
    t.take_seen();
    t.send(seg().ack(12_001));
    assert_eq!(t.info().cwnd, 7000);
}

/// The first duplicate ACKs release new data, within the peer's window and beyond cwnd (RFC 3042).
/// RFC 5681 3.2-b, 3.2-c.
#[test]
fn limited_transmit_with_sack_and_without() {
    for with_sack in [false, true] {
        let setup = if with_sack { Setup::plain().sack() } else { Setup::plain() };
        let mut t = flying(setup, 12);
        for n in 0..2 {
            let line = seg().ack(1);
            let block = (1001, 2001 + n * 1000);
            t.send(if with_sack { line.sack(&[block]) } else { line });
            t.expect(seg().seq(10_001 + n * 1000).data(1000));
            t.nothing();
        }
        assert_eq!(t.info().cwnd, 10_000);
    }
}

/// A segment that was 30 ms late is retransmitted in vain; the timestamp echo shows it (RFC 3522).
#[test]
fn eifel_takes_a_reduction_back() {
    let mut t = Setup::plain().sack().ts().rtt(40).established();
    t.write(10_000);
    let first = t.take_seen()[0].ts.expect("timestamps").0;
    t.pass(40);
    let cwnd = t.info().cwnd;
    t.send(seg().ack(1).sack(&[(1001, 5001)]));
    t.expect(seg().seq(1).data(1000));
    assert!(t.info().cwnd < cwnd && t.info().ssthresh == 7000);
    t.pass(30);
    t.wire.last_ts = first;
    t.send(seg().ack(5001));
    assert_eq!((t.info().cwnd, t.info().ssthresh, t.info().undone), (cwnd, u64::MAX, 1));
    // If the retransmission arrives before the original, the repair is not spurious.
    let mut t = Setup::plain().sack().ts().rtt(40).established();
    t.write(10_000);
    t.take_seen();
    t.pass(40);
    t.send(seg().ack(1).sack(&[(1001, 5001)]));
    let again = t.expect(seg().seq(1).data(1000)).ts.expect("timestamps").0;
    t.pass(40);
    t.wire.last_ts = again;
    t.send(seg().ack(5001));
    assert_eq!((t.info().ssthresh, t.info().undone), (7000, 0));
}

/// For everything that was retransmitted, the peer reports that both transmissions arrived (RFC
/// 3708).
#[test]
fn d_sacks_take_a_reduction_back_once_all_is_explained() {
    let mut t = flying(Setup::plain().sack(), 10);
    t.send(seg().ack(1).sack(&[(2001, 10_001)]));
    assert_eq!(t.take_seen().len(), 2);
    t.send(seg().ack(10_001));
    t.write(1000);
    t.take_seen();
    t.send(seg().ack(10_001).sack(&[(1, 1001)]));
    assert_eq!(
        (t.info().ssthresh, t.info().undone),
        (7000, 0),
        "undone, although only half was reported twice"
    );
    t.send(seg().ack(10_001).sack(&[(1001, 2001)]));
    assert_eq!((t.info().ssthresh, t.info().undone), (u64::MAX, 1));
    assert_eq!(t.info().cwnd, 10_000);
}

/// A delay of half a second, without timestamps: the ACKs of the first transmissions arrive after
/// the time-out, and new data shows that nothing was lost (RFC 5682).
/// RFC 5682 3.1-a, 3.1-c, 3.1-d.
#[test]
fn f_rto_takes_a_time_out_back() {
    let mut t = flying(Setup::plain().sack().off(Switch::TailProbe), 14);
    let rto = t.info().rto.as_millis() - 40;
    t.expect_after(rto, seg().seq(1).data(1000));
    assert_eq!((t.info().cwnd, t.info().timeouts), (1000, 1));
    t.send(seg().ack(1001));
    t.expect(seg().seq(10_001).data(1000));
    t.expect(seg().seq(11_001).data(1000));
    t.nothing();
    t.send(seg().ack(3001));
    assert_eq!((t.info().undone, t.info().ssthresh), (1, u64::MAX));
    assert!(t.info().cwnd >= 10_000);
    assert_eq!(t.info().retransmits, 1);
}

/// The same delay with real losses: the next ACK is a duplicate, so everything is retransmitted.
/// RFC 5682 3.1-b.
#[test]
fn f_rto_believes_a_genuine_time_out() {
    let mut t = flying(Setup::plain().sack().off(Switch::TailProbe), 14);
    let rto = t.info().rto.as_millis() - 40;
    t.expect_after(rto, seg().seq(1).data(1000));
    t.send(seg().ack(1001));
    t.expect(seg().seq(10_001).data(1000));
    t.expect(seg().seq(11_001).data(1000));
    t.send(seg().ack(1001).sack(&[(10_001, 11_001)]));
    t.expect(seg().seq(1001).data(1000));
    assert_eq!((t.info().undone, t.info().ssthresh), (0, 7000));
}

/// Duplicate data is reported first, before data held out of order (RFC 2883 section 4).
/// RFC 2883 4-a, 4-b.
#[test]
fn d_sack_out() {
    let mut t = Setup::plain().sack().established();
    t.send(seg().seq(1).data(1000));
    t.expect(seg().ack(1001));
    t.send(seg().seq(1001).data(1000));
    t.expect(seg().ack(2001));
    t.send(seg().seq(1).data(1000));
    t.expect(seg().ack(2001).sack(&[(1, 1001)]));
    // The duplicate is reported only once.
    t.send(seg().seq(3001).data(1000));
    t.expect(seg().ack(2001).sack(&[(3001, 4001)]));
    // Duplicate data above the ACK: it is inside the block that follows.
    t.send(seg().seq(3001).data(1000));
    t.expect(seg().ack(2001).sack(&[(3001, 4001), (3001, 4001)]));
    // Half of the segment is new data.
    t.send(seg().seq(1001).data(1400));
    t.expect(seg().ack(2401).sack(&[(1001, 2001), (3001, 4001)]));
}
