//! Losses that are detected and repaired: with received SACKs (RFC 2018, RFC 6675), and by NewReno
//! without them (RFC 5681, RFC 6582).

use super::*;

/// A connection with `n` segments of 1000 bytes in flight.
fn flying(setup: Setup, n: usize) -> Ladder {
    let mut t = setup.established();
    t.write(n * 1000);
    assert_eq!(t.take_seen().len(), n);
    t
}

/// RFC 5681 3.2-a.
#[test]
fn fast_retransmit_after_three_duplicate_acks() {
    let mut t = flying(Setup::plain(), 10);
    t.send(seg().ack(1));
    t.send(seg().ack(1));
    t.nothing();
    t.send(seg().ack(1));
    t.expect(seg().seq(1).data(1000));
    t.nothing();
    assert_eq!(t.info().fast_recoveries, 1);
    assert_eq!(t.info().duplicate_acks, 3);
    assert_eq!(t.info().timeouts, 0);
}

/// RFC 5681 section 2: an ACK with data, with another window, or with nothing in flight is no
/// duplicate.
#[test]
fn what_is_not_a_duplicate_ack() {
    let mut t = flying(Setup::plain(), 10);
    for i in 0..5 {
        t.send(seg().seq(1 + i * 10).ack(1).data(10));
        t.send(seg().seq(11 + i * 10).ack(1).win(60_000 - i as u16));
    }
    t.pass(45);
    assert_eq!(t.info().duplicate_acks, 0);
    assert_eq!(t.info().retransmits, 0);
    let mut t = Setup::plain().established();
    for _ in 0..5 {
        t.send(seg().seq(1).ack(1));
    }
    assert_eq!(t.info().duplicate_acks, 0);
}

/// RFC 6582 3.2-b, 3.2-c.
#[test]
fn newreno_partial_ack_retransmits_the_next_hole_and_a_full_ack_ends_it() {
    let mut t = flying(Setup::plain(), 10);
    for _ in 0..3 {
        t.send(seg().ack(1));
    }
    t.expect(seg().seq(1).data(1000));
    // Segments 1 and 4 were lost: the ACK goes up to 3001, which is a partial ACK.
    t.send(seg().ack(3001));
    t.expect(seg().seq(3001).data(1000));
    t.nothing();
    t.send(seg().ack(10_001));
    assert_eq!(t.info().fast_recoveries, 1);
    assert_eq!(t.info().in_flight, 0);
    // 0.7 (CUBIC) of the ten segments that were in flight.
    assert_eq!(t.info().cwnd, 7000);
    assert_eq!(t.info().ssthresh, 7000);
}

/// Each duplicate ACK reports that a segment has left the network: the first two release new data
/// (RFC 3042), the later ones release at most one segment each, once less is in flight than the
/// reduced window.
/// RFC 5681 3.2-f.
#[test]
fn newreno_window_inflation_and_its_limit() {
    let mut t = flying(Setup::plain().off(Switch::Prr), 10);
    t.write(20_000);
    t.nothing();
    t.send(seg().ack(1));
    t.expect(seg().seq(10_001).data(1000));
    t.send(seg().ack(1));
    t.expect(seg().seq(11_001).data(1000));
    t.send(seg().ack(1));
    t.expect(seg().seq(1).data(1000));
    // Twelve less three segments are in flight; cwnd is 7, which is 0.7 of the ten that were in
    // flight before the last two.
    assert_eq!(t.info().cwnd, 7000);
    t.send(seg().ack(1));
    t.send(seg().ack(1));
    t.nothing();
    t.send(seg().ack(1));
    t.expect(seg().seq(12_001).data(1000));
    for i in 0..5 {
        t.send(seg().ack(1));
        t.expect(seg().seq(13_001 + i * 1000).data(1000));
        t.nothing();
    }
    // At most eleven of the twelve segments can have arrived: further ACKs report nothing new.
    for _ in 0..20 {
        t.send(seg().ack(1));
        t.nothing();
    }
    // The full ACK deflates the window to the threshold.
    t.send(seg().ack(12_001));
    assert_eq!((t.info().cwnd, t.info().ssthresh), (7000, 7000));
}

/// Endless duplicate ACKs: no more segments can have left the network than were sent, less the lost
/// one.
#[test]
fn newreno_inflation_is_limited_to_what_was_sent() {
    let mut t = flying(Setup::plain().off(Switch::Prr), 4);
    for _ in 0..50 {
        t.send(seg().ack(1));
    }
    t.expect(seg().seq(1).data(1000));
    assert_eq!(t.info().cwnd, 2800);
    // One segment is in flight, and 2.8 are allowed.
    t.write(5000);
    t.expect(seg().seq(4001).data(1000));
    t.nothing();
}

/// As 4.3BSD Tahoe: after a loss slow start begins at the first missing segment and sends
/// everything that was in flight again, with one reduction, however many holes there are.
#[test]
fn tahoe_sends_all_again_from_a_window_of_one_segment() {
    let mut t = flying(Setup::plain().tcp(|c| c.algorithm = tcp::cc::Algorithm::Tahoe), 10);
    for _ in 0..3 {
        t.send(seg().ack(1));
    }
    t.expect(seg().seq(1).data(1000));
    t.nothing();
    assert_eq!((t.info().cwnd, t.info().ssthresh), (1000, 5000));
    // Slow start counts bytes: three segments have arrived, so four may be in flight.
    t.send(seg().ack(3001));
    for seq in [3001, 4001, 5001, 6001] {
        t.expect(seg().seq(seq).data(1000));
    }
    t.nothing();
    assert_eq!(t.info().fast_recoveries, 1);
}

/// As 4.3BSD Reno: the window is halved, and the first ACK of new data ends the repair; the next
/// hole needs three duplicate ACKs again.
#[test]
fn reno_ends_a_repair_with_the_first_new_ack() {
    let mut t = flying(Setup::plain().tcp(|c| c.algorithm = tcp::cc::Algorithm::Reno), 10);
    for _ in 0..3 {
        t.send(seg().ack(1));
    }
    t.expect(seg().seq(1).data(1000));
    t.send(seg().ack(3001));
    t.nothing();
    assert_eq!((t.info().cwnd, t.info().ssthresh), (5000, 5000));
    for _ in 0..3 {
        t.send(seg().ack(3001));
    }
    t.expect(seg().seq(3001).data(1000));
    assert_eq!(t.info().fast_recoveries, 2);
}

/// RFC 5681 3.2-g. RFC 9937 6.4-a. RFC 9438 4.6-a.
#[test]
fn newreno_halves_and_cubic_reduces_to_seven_tenths() {
    for (algorithm, left) in
        [(tcp::cc::Algorithm::NewReno, 5000), (tcp::cc::Algorithm::Cubic, 7000)]
    {
        for sack in [false, true] {
            let mut setup = Setup::plain().off(Switch::Prr).tcp(|c| c.algorithm = algorithm);
            if sack {
                setup = setup.sack();
            }
            let mut t = flying(setup, 10);
            for i in 1..=3 {
                let line = seg().ack(1);
                t.send(if sack { line.sack(&[(1001, 1001 + i * 1000)]) } else { line });
            }
            t.expect(seg().seq(1).data(1000));
            assert_eq!((t.info().cwnd, t.info().ssthresh), (left, left));
        }
    }
}

/// RFC 2018 5-a.
#[test]
fn sack_in_retransmits_the_hole_only() {
    let mut t = flying(Setup::plain().sack().rtt(20), 10);
    t.pass(20);
    t.send(seg().ack(2001).sack(&[(3001, 4001)]));
    t.send(seg().ack(2001).sack(&[(3001, 5001)]));
    t.nothing();
    t.send(seg().ack(2001).sack(&[(3001, 6001)]));
    t.expect(seg().seq(2001).data(1000));
    t.nothing();
    t.send(seg().ack(2001).sack(&[(3001, 10_001)]));
    t.nothing();
    t.send(seg().ack(10_001));
    t.silence(100_000);
    assert_eq!(t.info().retransmits, 1);
}

/// One ACK reports more than two full segments after a hole: the hole counts as lost (RFC 6675,
/// IsLost).
/// RFC 6675 5-a.
#[test]
fn sack_in_one_ack_is_enough_when_it_covers_three_segments() {
    let mut t = flying(Setup::plain().sack(), 10);
    t.send(seg().ack(1).sack(&[(1001, 4001)]));
    t.expect(seg().seq(1).data(1000));
}

/// RFC 6675 3-a, 4-c.
#[test]
fn sack_in_several_holes() {
    let mut t = flying(Setup::plain().sack(), 10);
    let blocks = [(1001, 2001), (3001, 4001), (5001, 9001)];
    t.send(seg().ack(1).sack(&blocks));
    t.expect(seg().seq(1).data(1000));
    t.expect(seg().seq(2001).data(1000));
    t.expect(seg().seq(4001).data(1000));
    t.nothing();
    assert_eq!(t.info().retransmits, 3);
    assert_eq!(t.info().fast_recoveries, 1);
    t.send(seg().ack(9001));
    t.nothing();
    assert_eq!(t.info().in_flight, 1000);
}

/// RFC 6675: cwnd less "pipe" may be sent.
/// RFC 6675 4-b.
#[test]
fn sack_in_pipe_limits_what_is_sent() {
    let mut t = flying(Setup::plain().sack().off(Switch::Prr), 10);
    t.write(10_000);
    t.nothing();
    // Six are lost, then four are SACKed: no bytes are in flight after the loss detection, and cwnd
    // is 7, so six holes and one new segment are sent.
    t.send(seg().ack(1).sack(&[(6001, 10_001)]));
    let sent: Vec<_> = t.take_seen().iter().filter_map(|s| s.seq).collect();
    // The segment at 5001 has four SACKed segments after it, like the others.
    assert_eq!(sent, [1, 1001, 2001, 3001, 4001, 5001, 10_001]);
    t.send(seg().ack(1001).sack(&[(6001, 10_001)]));
    t.expect(seg().seq(11_001).data(1000));
    t.nothing();
}

#[test]
fn sack_in_nonsense_is_ignored() {
    let mut t = flying(Setup::plain().sack(), 10);
    let nonsense = [(20_000, 30_000), (-500, 1), (0, 11_000), (5001, 4001), (3001, 3001)];
    for block in nonsense {
        for _ in 0..4 {
            t.send(seg().ack(1).sack(&[block]));
        }
    }
    t.nothing();
    assert_eq!(t.info().fast_recoveries, 0);
    // The invalid blocks have no later effect either: valid blocks still work.
    t.send(seg().ack(1).sack(&[(1001, 4001)]));
    t.expect(seg().seq(1).data(1000));
}

/// A peer that did not agree to SACK sends blocks: they are ignored.
#[test]
fn sack_in_without_agreement_is_ignored() {
    let mut t = flying(Setup::plain(), 10);
    t.send(seg().ack(1).sack(&[(1001, 10_001)]));
    t.nothing();
    assert_eq!(t.info().fast_recoveries, 0);
}

/// Blocks whose edges are inside segments.
#[test]
fn sack_in_with_borders_inside_segments() {
    let mut t = flying(Setup::plain().sack(), 10);
    t.send(seg().ack(1).sack(&[(501, 7501)]));
    t.expect(seg().seq(1).data(500));
    t.nothing();
    t.send(seg().ack(7501));
    // Nothing was reported about the last 2500 bytes.
    t.nothing();
    t.send(seg().ack(10_001));
    assert_eq!(t.info().in_flight, 0);
    assert_eq!(t.info().bytes_acked, 10_000);
}

/// RFC 2018 section 8: a peer that has SACKed the very next byte and does not acknowledge it has
/// reneged; after a time-out none of its SACKs is trusted any longer.
/// RFC 2018 5-b, 8-a.
#[test]
fn sack_in_is_cleared_by_a_time_out_of_a_peer_that_reneged() {
    let mut t = flying(Setup::plain().sack().rtt(20), 4);
    t.pass(20);
    t.send(seg().ack(1).sack(&[(1001, 4001)]));
    t.expect(seg().seq(1).data(1000));
    t.pass(20);
    t.send(seg().ack(1001));
    let rto = t.info().rto.as_millis();
    t.expect_after(rto, seg().seq(1001).data(1000));
    t.send(seg().ack(2001));
    t.expect(seg().seq(2001).data(1000));
    t.expect(seg().seq(3001).data(1000));
    t.send(seg().ack(4001));
    assert_eq!(t.info().in_flight, 0);
}

/// A peer that has not reneged holds what it SACKed: after a time-out only the holes are sent.
/// RFC 8985 6.3-a.
#[test]
fn sack_in_survives_a_time_out() {
    let mut t = flying(Setup::plain().sack().rtt(20), 5);
    t.pass(20);
    t.send(seg().ack(1).sack(&[(1001, 4001)]));
    t.expect(seg().seq(1).data(1000));
    let rto = t.info().rto.as_millis();
    t.expect_after(rto, seg().seq(1).data(1000));
    t.send(seg().ack(4001));
    t.expect(seg().seq(4001).data(1000));
    t.nothing();
    assert_eq!(t.info().retransmits, 3);
}

/// The retransmission is lost too: the timer detects it.
#[test]
fn a_lost_retransmission_is_found_by_the_timer() {
    let mut t = flying(Setup::plain().sack(), 10);
    t.send(seg().ack(1).sack(&[(1001, 10_001)]));
    t.expect(seg().seq(1).data(1000));
    let rto = t.info().rto.as_millis();
    t.expect_after(rto, seg().seq(1).data(1000));
    t.send(seg().ack(10_001));
    t.silence(300_000);
}

/// One reduction for the losses of one window, and a second one for losses after it.
/// RFC 5681 4.3-a. RFC 6582 3.2-a. RFC 6675 5-b. RFC 2018 5.1-a.
#[test]
fn one_reduction_for_each_window() {
    let mut t = flying(Setup::plain().sack(), 10);
    t.send(seg().ack(1).sack(&[(1001, 4001)]));
    t.expect(seg().seq(1).data(1000));
    t.send(seg().ack(4001).sack(&[(5001, 10_001)]));
    t.expect(seg().seq(4001).data(1000));
    assert_eq!(t.info().cwnd, 7000);
    t.send(seg().ack(10_001));
    t.write(7000);
    assert_eq!(t.take_seen().len(), 7);
    t.send(seg().ack(10_001).sack(&[(11_001, 17_001)]));
    t.expect(seg().seq(10_001).data(1000));
    assert_eq!(t.info().fast_recoveries, 2);
    assert_eq!(t.info().cwnd, 4900);
}
