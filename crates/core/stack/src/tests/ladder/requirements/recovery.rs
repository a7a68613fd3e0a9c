//! Requirements on loss recovery that no other ladder covers: RFC 2883, RFC 6675, RFC 8985.

use super::*;

/// Segments that are lost again while a time-out is repaired belong to the same episode: there is
/// no second reduction until everything is acknowledged that was sent by then.
/// RFC 6675 5.1-a. RFC 6582 3.2-e.
#[test]
fn a_time_out_is_one_episode_until_all_is_acknowledged() {
    let mut t = Setup::plain().sack().off(Switch::TailProbe).established();
    t.write(8000);
    assert_eq!(t.take_seen().len(), 8);
    t.expect_after(200, seg().seq(1).data(1000));
    let threshold = t.info().ssthresh;
    t.send(seg().ack(1001));
    t.expect(seg().seq(1001).data(1000));
    t.expect(seg().seq(2001).data(1000));
    t.pass(20);
    t.send(seg().ack(2001));
    t.expect(seg().seq(3001).data(1000));
    t.expect(seg().seq(4001).data(1000));
    t.pass(20);
    // The segment at 2001 is lost once more, while segments sent after it have arrived.
    t.send(seg().ack(2001).sack(&[(3001, 5001)]));
    t.expect(seg().seq(2001).data(1000));
    assert_eq!((t.info().fast_recoveries, t.info().ssthresh), (0, threshold));
}

/// Three segments have overtaken the first one, and nothing was ever reordered: the reordering
/// window is zero.
/// RFC 8985 6.2-c.
#[test]
fn without_reordering_three_segments_that_passed_are_proof() {
    let mut t = Setup::plain().sack().rtt(80).established();
    t.write(10_000);
    assert_eq!(t.take_seen().len(), 10);
    t.pass(80);
    t.send(seg().ack(1).sack(&[(1001, 3001)]));
    t.nothing();
    t.send(seg().ack(1).sack(&[(1001, 4001)]));
    t.expect(seg().seq(1).data(1000));
}

/// A D-SACK above the ACK, inside the block after it. With another one below the ACK, everything
/// that was retransmitted had arrived the first time.
/// RFC 2883 4-c.
#[test]
fn a_d_sack_inside_a_larger_block_counts() {
    let mut t = Setup::plain().sack().established();
    t.write(10_000);
    assert_eq!(t.take_seen().len(), 10);
    t.send(seg().ack(1).sack(&[(4001, 10_001), (1001, 3001)]));
    let again: Vec<_> = t.take_seen().iter().filter_map(|s| s.seq).collect();
    assert_eq!(again, [1, 3001]);
    t.send(seg().ack(1).sack(&[(3001, 4001), (1001, 10_001)]));
    assert_eq!(t.info().undone, 0, "undone, although only half was reported twice");
    t.send(seg().ack(10_001).sack(&[(1, 1001)]));
    assert_eq!(t.info().undone, 1);
}

/// A segment that fills more than the first gap, and one that overlaps held data: the first run of
/// duplicate bytes is reported, not the whole segment.
/// RFC 2883 4.2-a.
#[test]
fn a_d_sack_reports_the_bytes_that_were_held() {
    let mut t = Setup::plain().sack().established();
    for (at, blocks) in [
        (1001, vec![(1001, 2001)]),
        (2001, vec![(1001, 3001)]),
        (4001, vec![(4001, 5001), (1001, 3001)]),
        (7001, vec![(7001, 8001), (4001, 5001), (1001, 3001)]),
    ] {
        t.send(seg().seq(at).data(1000));
        t.expect(seg().ack(1).sack(&blocks));
    }
    t.send(seg().seq(6501).data(1000));
    t.expect(seg().ack(1).sack(&[(7001, 7501), (6501, 8001), (4001, 5001), (1001, 3001)]));
    t.send(seg().seq(1).data(1400));
    t.expect(seg().ack(3001).sack(&[(1001, 1401), (6501, 8001), (4001, 5001)]));
    t.send(seg().seq(3001).data(1000));
    t.expect(seg().ack(5001).sack(&[(6501, 8001)]));
    t.send(seg().seq(5001).data(1460));
    t.expect(seg().ack(6461).sack(&[(6501, 8001)]));
    t.send(seg().seq(6461).data(1460));
    t.expect(seg().ack(8001).sack(&[(6501, 7921)]));
    // No new duplicates: there is no D-SACK block to report.
    t.send(seg().seq(8001).data(1460));
    t.send(seg().seq(9461).data(1460));
    t.expect(seg().ack(10_921).sack(&[]));
}

/// Two segments with duplicate bytes below RCV.NXT: one ends before the held data, and one fills
/// the gap and repeats held bytes too. The first run of duplicate bytes is reported.
/// RFC 2883 4.2-a.
#[test]
fn a_d_sack_of_two_duplicate_runs_is_the_first() {
    let mut t = Setup::plain().sack().established();
    t.send(seg().seq(1).data(1000));
    t.expect(seg().ack(1001));
    t.send(seg().seq(2001).data(1000));
    t.expect(seg().ack(1001).sack(&[(2001, 3001)]));
    t.send(seg().seq(501).data(1460));
    t.expect(seg().ack(1961).sack(&[(501, 1001), (2001, 3001)]));
    t.send(seg().seq(1501).data(1200));
    t.expect(seg().ack(3001).sack(&[(1501, 1961)]));
}

/// The record of a duplicate must not stay for ever, because output would never take the fast path
/// again.
#[test]
fn no_duplicate_is_noted_for_a_peer_without_sack() {
    let mut t = Setup::plain().established();
    for _ in 0..2 {
        t.send(seg().seq(1).data(1000));
        t.pass(50);
        t.expect(seg().ack(1001));
    }
    let pcb = t.end.stack.connections.get(t.h()).expect("open");
    assert!(pcb.tcb.reports_nothing());
}

/// Seven segments are lost and cwnd is five.
/// RFC 6675 5-d.
#[test]
fn no_more_goes_again_than_the_window_admits() {
    let setup = Setup::plain().sack().off(Switch::Prr);
    let mut t = setup.tcp(|c| c.algorithm = tcp::cc::Algorithm::NewReno).established();
    t.write(10_000);
    assert_eq!(t.take_seen().len(), 10);
    t.send(seg().ack(1).sack(&[(7001, 10_001)]));
    let again: Vec<_> = t.take_seen().iter().filter_map(|s| s.seq).collect();
    assert_eq!(again, [1, 1001, 2001, 3001, 4001]);
}
