//! Old segments, and segments outside the window: a retransmission is always acknowledged, the
//! answers to others are limited per second, and challenge ACKs (RFC 5961) have a separate limit.

use super::seg::{bare, rst};
use super::*;
use wire::tcp::Flags;

/// A keepalive probe: an empty segment just before the window.
fn probe(next: i64) -> Seg {
    seg().seq(next - 1)
}

/// The stack's ACK was lost, again and again: the peer must get one, or it gives the connection up.
#[test]
fn retransmissions_are_always_acked() {
    let mut t = Setup::plain().established();
    t.send(seg().seq(1).data(1000));
    t.expect(seg().ack(1001));
    for _ in 0..300 {
        t.send(seg().seq(1).data(1000));
        t.expect(seg().ack(1001));
    }
    t.send(seg().seq(1001).data(10).fin());
    t.expect(seg().ack(1012));
    for _ in 0..300 {
        t.send(seg().seq(1011).fin());
        t.expect(seg().ack(1012));
    }
    assert_eq!(t.count(Counter::TcpChallengeAcks), 0);
    assert_eq!(t.drops(DropReason::TcpDuplicate), 600);
}

/// The last ACK of the handshake was lost.
#[test]
fn retransmissions_of_a_syn_ack_are_always_acked() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.expect(syn().mss(1460));
    for _ in 0..300 {
        t.send(syn_ack().mss(1000));
        t.expect(seg().seq(1).ack(1));
    }
    assert_eq!(t.count(Counter::TcpChallengeAcks), 0);
}

/// A retransmitted SYN-ACK is accepted only at the sequence number of the peer's SYN: at any other
/// it is forged, however recent the number.
#[test]
fn syn_acks_elsewhere_are_challenged() {
    let mut t = Setup::plain().limit(Limit::ChallengeAcksPerSecond, 3).established();
    t.send(seg().seq(1).data(1000));
    t.expect(seg().ack(1001));
    for _ in 0..10 {
        t.send(seg().and_syn().seq(900));
    }
    let answers = t.take_seen().len() as u64;
    assert!((2..=3).contains(&answers), "{answers}");
    assert_eq!(t.drops(DropReason::TcpDuplicate), answers);
    assert_eq!(t.drops(DropReason::TcpChallengeLimited), 10 - answers);
}

/// PAWS drops the segment, but the peer still lacks the stack's ACK (RFC 7323 section 5.3, R1).
#[test]
fn retransmissions_with_an_old_timestamp_are_always_acked() {
    let mut t = Setup::plain().ts().established();
    t.send(seg().seq(1).data(1000).ts(9000, 0));
    t.expect(seg().ack(1001));
    for _ in 0..300 {
        t.send(seg().seq(1).data(1000).ts(8999, 0));
        t.expect(seg().ack(1001));
    }
    assert_eq!(t.drops(DropReason::TcpPaws), 300);
}

/// A segment that the peer cannot have sent before, with or without text, is no retransmission.
#[test]
fn out_of_window_segments_draw_two_acks_a_second() {
    let before = seg().seq(-100).data(50);
    let behind = seg().seq(70_000).data(50);
    for stray in [probe(1), before, behind, seg().seq(70_000), seg().seq(-3).fin()] {
        let mut t = Setup::plain().established();
        for _ in 0..10 {
            t.send(stray.clone());
        }
        assert_eq!(t.take_seen().len(), 2, "{stray}");
        assert_eq!(t.hits(Limit::OutOfWindowAcksPerSecond), 8);
        t.pass(1000);
        t.send(stray);
        t.expect(seg().seq(1).ack(1));
    }
}

/// A segment from before the window that was acknowledged last. The peer knows that ACK, because it
/// has sent more than a window since.
#[test]
fn out_of_window_segments_are_those_from_before_the_last_window() {
    let mut t = Setup::plain().tcp(|c| c.receive_buffer_bytes = 2000).established();
    for _ in 0..3 {
        t.send(seg().data(1000));
        t.read(1000);
    }
    t.pass(1000);
    t.take_seen();
    for _ in 0..10 {
        t.send(seg().seq(1001).data(500));
    }
    assert_eq!(t.take_seen().len(), 10);
    for _ in 0..10 {
        t.send(seg().seq(1).data(500));
    }
    assert_eq!(t.take_seen().len(), 2);
}

#[test]
fn out_of_window_segments_with_an_old_timestamp_draw_two_acks_a_second() {
    let mut t = Setup::plain().ts().established();
    t.send(seg().seq(1).data(1000).ts(9000, 0));
    t.expect(seg().ack(1001));
    for _ in 0..10 {
        t.send(seg().seq(1001).ts(8999, 0));
    }
    assert_eq!(t.take_seen().len(), 2);
    assert_eq!(t.drops(DropReason::TcpPaws), 10);
    assert_eq!(t.count(Counter::TcpChallengeAcks), 0);
}

/// A flood of one kind does not use up the answers to the other kind.
#[test]
fn challenges_and_answers_to_duplicates_do_not_starve_each_other() {
    let mut t = Setup::plain().limit(Limit::ChallengeAcksPerSecond, 3).established();
    for _ in 0..300 {
        t.send(probe(1));
    }
    t.take_seen();
    t.send(rst().seq(2));
    t.expect(seg().seq(1).ack(1));

    let mut t = Setup::plain().limit(Limit::ChallengeAcksPerSecond, 3).established();
    for _ in 0..300 {
        t.send(bare(Flags::SYN).seq(700));
    }
    t.take_seen();
    t.send(probe(1));
    t.expect(seg().seq(1).ack(1));
}
