//! Explicit congestion notification, RFC 3168: the negotiation, which segments leave with ECT, and
//! what a mark and its echo cause.

use super::*;
use tcp::Ecn;
use tcp::cc::Algorithm;

fn ecn_syn() -> Seg {
    syn().win(65_535).mss(1000).ece().cwr()
}

/// A connection that the peer opened with ECN.
fn agreed(setup: Setup) -> Ladder {
    let mut t = setup.ladder();
    t.listen();
    let options = t.setup.syn.clone();
    t.send(options.ece().cwr());
    t.expect(syn_ack().ece().not_ect());
    t.send(seg().seq(1).ack(1));
    t.accept();
    assert!(t.info().ecn);
    t
}

#[test]
fn a_peer_that_asks_gets_it() {
    let t = agreed(Setup::plain());
    assert_eq!((t.info().ce_marks, t.info().ecn_reductions), (0, 0));
}

#[test]
fn a_peer_that_asks_is_refused_where_it_is_off() {
    let mut t = Setup::plain().tcp(|c| c.ecn = Ecn::Off).ladder();
    t.listen();
    t.send(ecn_syn());
    t.expect(syn_ack().not_ect());
    t.send(seg().seq(1).ack(1));
    t.accept();
    assert!(!t.info().ecn);
    t.write(1000);
    t.expect(seg().seq(1).data(1000).not_ect());
    t.send(seg().seq(1).ack(1001).data(100).ce());
    t.pass(45);
    t.expect(seg().ack(101));
}

#[test]
fn a_peer_that_does_not_ask_gets_none() {
    let mut t = Setup::plain().tcp(|c| c.ecn = Ecn::On).established();
    assert!(!t.info().ecn);
    t.write(1000);
    t.expect(seg().seq(1).data(1000).not_ect());
    // A SYN with only one of the two flags does not request ECN either.
    for half in [syn().ece(), syn().cwr()] {
        let mut t = Setup::plain().ladder();
        t.listen();
        t.send(half);
        t.expect(syn_ack());
    }
}

#[test]
fn our_syn_asks_where_it_is_on() {
    let mut t = Setup::plain().tcp(|c| c.ecn = Ecn::On).ladder();
    t.connect();
    t.expect(syn().ece().cwr().not_ect());
    t.send(syn_ack().mss(1000).ece());
    t.expect(seg().seq(1).ack(1).not_ect());
    assert!(t.info().ecn);
    t.write(1000);
    t.expect(seg().seq(1).data(1000).ect());
}

#[test]
fn our_syn_does_not_ask_by_default() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.expect(syn());
    // An answer cannot grant ECN without a request.
    t.send(syn_ack().mss(1000).ece());
    t.expect(seg().seq(1).ack(1));
    assert!(!t.info().ecn);
}

/// A peer or middlebox that reflects reserved bits sets both flags in its answer (section 6.1.1).
#[test]
fn a_syn_ack_without_ece_or_with_cwr_refuses() {
    for answer in [syn_ack(), syn_ack().ece().cwr(), syn_ack().cwr()] {
        let mut t = Setup::plain().tcp(|c| c.ecn = Ecn::On).ladder();
        t.connect();
        t.expect(syn().ece().cwr());
        t.send(answer.mss(1000));
        t.expect(seg().seq(1).ack(1));
        assert!(!t.info().ecn);
        t.write(1000);
        t.expect(seg().seq(1).data(1000).not_ect());
    }
}

#[test]
fn a_syn_sent_again_asks_for_nothing() {
    let mut t = Setup::plain().tcp(|c| c.ecn = Ecn::On).ladder();
    t.connect();
    t.expect(syn().ece().cwr());
    t.expect_after(1000, syn());
    t.send(syn_ack().mss(1000));
    t.expect(seg().seq(1).ack(1));
    assert!(!t.info().ecn);
}

/// Section 6.1.1: a host that sent its SYN without ECN sends no ECT; it still echoes marks.
#[test]
fn a_peer_whose_second_syn_does_not_ask_is_sent_no_ect() {
    let mut t = Setup::plain().ladder();
    t.listen();
    t.send(ecn_syn());
    t.expect(syn_ack().ece());
    t.send(syn().win(65_535).mss(1000));
    t.expect(syn_ack().ece());
    t.send(seg().seq(1).ack(1));
    t.accept();
    t.write(1000);
    t.expect(seg().seq(1).data(1000).not_ect());
    t.send(seg().seq(1).ack(1001).data(100).ce());
    t.expect(seg().ack(101).ece());
}

#[test]
fn new_data_leaves_with_ect_and_nothing_else_does() {
    let mut t = agreed(Setup::plain().sack());
    // Of a run of segments the first one's headers are built, and the others are copies of them.
    t.write(5000);
    for i in 0..5 {
        t.expect(seg().seq(1 + i * 1000).data(1000).ect());
    }
    assert!(t.count(Counter::TcpStamped) > 0);
    t.send(seg().seq(1).ack(5001).data(100).ect());
    t.pass(45);
    t.expect(seg().seq(5001).ack(101).not_ect());
    t.shutdown();
    t.expect(seg().seq(5001).fin().not_ect());
}

#[test]
fn no_ect_on_retransmissions_and_probes() {
    let mut t = agreed(Setup::plain().sack());
    t.write(4000);
    assert_eq!(t.take_seen().len(), 4);
    t.send(seg().ack(1).sack(&[(1001, 4001)]));
    t.expect(seg().seq(1).data(1000).not_ect());
    t.send(seg().ack(4001));
    // A tail loss probe, then the time-out.
    t.write(1000);
    t.expect(seg().seq(4001).data(1000).cwr().ect());
    t.pass(1000);
    let again = t.take_seen();
    assert!(again.len() >= 2 && again.iter().all(|s| s.ecn == Some(0)), "{again:?}");
    t.send(seg().ack(5001).win(0));
    t.write(1000);
    t.pass(1000);
    let probes = t.take_seen();
    assert!(!probes.is_empty() && probes.iter().all(|s| s.ecn == Some(0)), "{probes:?}");
    t.abort();
    t.expect(seg().and_rst().not_ect());
}

#[test]
fn a_mark_is_echoed_until_cwr_comes() {
    let mut t = agreed(Setup::plain());
    t.send(seg().seq(1).ack(1).data(100).ect());
    t.nothing();
    t.send(seg().seq(101).ack(1).data(100).ce());
    // The echo is sent at once, without a delayed ACK.
    t.expect(seg().ack(201).ece().not_ect());
    // Data carries the echo as well, and so does each ACK.
    t.write(1000);
    t.expect(seg().seq(1).ack(201).data(1000).ece().ect());
    t.send(seg().seq(201).ack(1001).data(1000).ect());
    t.send(seg().seq(1201).ack(1001).data(1000).ect());
    for seen in t.take_seen() {
        assert!(seen.has(wire::tcp::Flags::ECE), "{seen}");
    }
    t.send(seg().seq(2201).ack(1001).data(100).cwr().ect());
    t.expect(seg().ack(2301));
    // A mark on the segment with CWR itself is a new mark.
    t.send(seg().seq(2301).ack(1001).data(100).cwr().ce());
    t.expect(seg().ack(2401).ece());
    t.send(seg().seq(2401).ack(1001).data(100).cwr().ect());
    t.expect(seg().ack(2501));
    assert_eq!((t.info().ce_marks, t.count(Counter::TcpCeIn)), (2, 2));
    t.read(2500);
}

/// Section 6.1.5: a mark outside the window may be forged, and a mark on a bare ACK has no sender
/// of data to slow down.
#[test]
fn a_mark_outside_the_window_or_without_data_is_none() {
    let mut t = agreed(Setup::plain());
    t.send(seg().seq(1).ack(1).data(1000).ect());
    t.pass(45);
    t.expect(seg().ack(1001));
    t.send(seg().seq(1001).ack(1).ce());
    t.send(seg().seq(1).ack(1).data(1000).ce());
    t.expect(seg().ack(1001));
    t.send(seg().seq(200_000).ack(1).data(1000).ce());
    t.expect(seg().ack(1001));
    assert_eq!(t.info().ce_marks, 0);
}

/// A segment in the middle of a burst is marked: the segments around it take the fast path, the
/// marked one does not.
#[test]
fn a_mark_within_a_burst_is_seen() {
    let mut t = agreed(Setup::plain());
    let line = |i: i64| seg().seq(1 + i * 1000).ack(1).data(1000).ect();
    t.burst(&[line(0), line(1), line(2), line(3).ce(), line(4), line(5)]);
    let acks = t.take_seen();
    assert!(acks.last().is_some_and(|s| s.has(wire::tcp::Flags::ECE) && s.ack == Some(6001)));
    assert_eq!(t.info().ce_marks, 1);
    assert!(t.count(Counter::TcpFollowed) >= 2);
    t.read(6000);
}

/// RFC 9293 SHLD-8.
#[test]
fn one_reduction_for_a_window() {
    let mut t = agreed(Setup::plain().off(Switch::Pacing));
    t.write(30_000);
    assert_eq!(t.take_seen().len(), 10);
    t.send(seg().ack(1001).ece());
    // cwnd is CUBIC's 0.7 of the window and does not grow by this ACK; nothing is sent until fewer
    // bytes are in flight.
    assert_eq!((t.info().cwnd, t.info().ssthresh), (7000, 7000));
    t.nothing();
    for i in 2..4 {
        t.send(seg().ack(1 + i * 1000).ece());
        t.nothing();
    }
    t.send(seg().ack(4001).ece());
    t.expect(seg().seq(10_001).data(1000).cwr().ect());
    // CWR is sent once.
    t.send(seg().ack(6001).ece());
    t.expect(seg().seq(11_001).data(1000).ect());
    t.expect(seg().seq(12_001).data(1000).ect());
    // This ACK covers the whole marked window. The peer echoes the mark until it gets CWR, which
    // this ACK does not cover.
    t.send(seg().ack(10_001).ece());
    t.take_seen();
    assert_eq!((t.info().cwnd, t.info().ecn_reductions), (7000, 1));
    assert_eq!(t.count(Counter::TcpEcnReductions), 1);
    // After CWR an echo reports another mark.
    t.send(seg().ack(12_001).ece());
    assert_eq!(t.info().ecn_reductions, 2);
    assert!(t.info().cwnd < 7000);
    assert_eq!((t.info().retransmits, t.info().fast_recoveries), (0, 0));
}

#[test]
fn a_loss_in_a_marked_window_does_not_count_again() {
    let mut t = agreed(Setup::plain().sack().off(Switch::Pacing));
    t.write(10_000);
    assert_eq!(t.take_seen().len(), 10);
    t.send(seg().ack(1001).ece());
    assert_eq!(t.info().ssthresh, 7000);
    t.send(seg().ack(1001).ece().sack(&[(2001, 10_001)]));
    t.expect(seg().seq(1001).data(1000));
    t.send(seg().ack(10_001).ece());
    assert_eq!((t.info().ssthresh, t.info().cwnd), (7000, 7000));
    assert_eq!((t.info().fast_recoveries, t.info().ecn_reductions), (1, 1));
}

/// A mark in a window that had a loss does not reduce it again; CWR reports the loss
/// (section 6.1.2).
#[test]
fn a_mark_in_a_window_that_lost_does_not_count_again() {
    let mut t = agreed(Setup::plain().sack().off(Switch::Pacing));
    t.write(10_000);
    assert_eq!(t.take_seen().len(), 10);
    t.send(seg().ack(1).sack(&[(1001, 10_001)]));
    t.expect(seg().seq(1).data(1000).not_ect());
    t.send(seg().ack(10_001).ece());
    assert_eq!((t.info().ssthresh, t.info().ecn_reductions), (7000, 0));
    t.write(2000);
    t.expect(seg().seq(10_001).data(1000).cwr().ect());
    t.expect(seg().seq(11_001).data(1000).ect());
}

/// CWR belongs to one segment: a device that cuts a super-segment sets it on the first.
#[test]
fn a_super_segment_says_cwr_once() {
    let mut setup = Setup::plain().off(Switch::Pacing);
    setup.pair.wire.offloads.tso_max_bytes = 65_535;
    setup.pair.wire.offloads.tx_checksum = false;
    let mut t = agreed(setup);
    t.write(10_000);
    let sent = t.take_seen();
    assert!(sent.iter().all(|s| s.ecn == Some(2)), "{sent:?}");
    t.send(seg().ack(10_001).ece());
    t.write(20_000);
    let sent = t.take_seen();
    let cwr: Vec<bool> = sent.iter().map(|s| s.has(wire::tcp::Flags::CWR)).collect();
    assert_eq!(cwr.iter().filter(|&&cwr| cwr).count(), 1);
    assert!(cwr[0] && sent.iter().all(|s| s.ecn == Some(2)));
}

#[test]
fn bbr_echoes_marks_and_asks_for_none() {
    let mut t = agreed(Setup::plain().tcp(|c| c.algorithm = Algorithm::Bbr));
    t.write(1000);
    t.expect(seg().seq(1).data(1000).not_ect());
    t.send(seg().seq(1).ack(1001).data(100).ce());
    t.expect(seg().ack(101).ece());
    t.send(seg().seq(101).ack(1001).ece());
    assert_eq!(t.info().ecn_reductions, 0);
}

/// The IPv4 header checksum is right, and IPv6 has none: `wire_end` checks both.
#[test]
fn ect_over_ipv6() {
    let mut setup = Setup::plain();
    setup.pair.version = IpVersion::V6;
    let mut t = agreed(setup);
    t.write(3000);
    for i in 0..3 {
        t.expect(seg().seq(1 + i * 1000).data(1000).ect());
    }
    t.send(seg().seq(1).ack(3001).data(100).ce());
    t.expect(seg().ack(101).ece().not_ect());
}
