//! TIME-WAIT: a small record that only answers late segments.

use super::seg::rst;
use super::*;
use base::Limit;

/// A connection that the stack closed first, now in TIME-WAIT.
fn time_wait(setup: Setup) -> Ladder {
    let mut t = setup.established();
    t.close();
    t.expect(seg().fin().seq(1).ack(1));
    t.send(seg().ack(2).fin());
    t.expect(seg().seq(2).ack(2));
    assert_eq!(t.end.stack.time_wait_count(), 1);
    t
}

/// RFC 9293 MUST-13.
#[test]
fn connection_memory_is_gone_in_time_wait() {
    let mut t = time_wait(Setup::plain());
    assert_eq!(t.end.stack.connection_count(), 0);
    assert_eq!(t.end.stack.pool().outstanding(), 0);
    assert!(size_of::<tcp::TimeWait>() <= 64);
    t.silence(61_000);
    t.all_gone();
}

/// RFC 9293 MUST-13.
#[test]
fn a_late_segment_is_answered_and_the_wait_starts_anew() {
    let mut t = time_wait(Setup::plain());
    t.pass(40_000);
    t.send(seg().fin().seq(1).ack(2));
    t.expect(seg().seq(2).ack(2));
    assert_eq!(t.drops(DropReason::TcpTimeWait), 1);
    t.pass(40_000);
    assert_eq!(t.end.stack.time_wait_count(), 1);
    t.pass(21_000);
    t.all_gone();
}

/// Decision 0014: segments outside the window cause two ACKs a second, in TIME-WAIT as in other
/// states.
#[test]
fn answers_are_limited() {
    let mut t = time_wait(Setup::plain());
    for second in 1..=3 {
        for line in [seg().seq(70_000).ack(2).data(5), seg().seq(-9).ack(2), syn().seq(-5000)] {
            for _ in 0..4 {
                t.send(line.clone());
            }
        }
        assert_eq!(t.take_seen().len(), 2);
        // Each segment is dropped under one reason, whether it is answered or not.
        assert_eq!(t.drops(DropReason::TcpTimeWait), second * 12);
        assert_eq!(t.hits(Limit::OutOfWindowAcksPerSecond), second * 10);
        t.pass(1000);
    }
}

/// The peer doubles its time-out after each FIN for which it got no ACK.
#[test]
fn a_fin_that_comes_again_is_always_answered() {
    let mut t = time_wait(Setup::plain());
    for _ in 0..10 {
        t.send(seg().seq(70_000).ack(2).data(5));
    }
    assert_eq!(t.take_seen().len(), 2);
    for _ in 0..10 {
        t.send(seg().fin().seq(1).ack(2));
        t.expect(seg().seq(2).ack(2));
    }
    // A FIN at another sequence number does not belong to this connection.
    t.send(seg().fin().seq(9).ack(2));
    t.nothing();
}

/// RFC 9293 section 3.10.7.4: only the peer's FIN may extend TIME-WAIT; nothing else does, however
/// often it comes.
#[test]
fn only_a_fin_that_comes_again_starts_the_wait_anew() {
    let mut t = time_wait(Setup::plain());
    t.pass(40_000);
    t.send(seg().seq(70_000).ack(2).data(5));
    t.expect(seg().seq(2).ack(2));
    t.pass(21_000);
    t.all_gone();
}

/// Two ends out of step: each answers the other's ACK with an ACK.
#[test]
fn a_loop_of_acks_between_two_ends_in_time_wait_dies() {
    let mut t = time_wait(Setup::plain());
    let mut answers = 0;
    t.send(seg().seq(-9).ack(2));
    while answers < 20 && !t.take_seen().is_empty() {
        answers += 1;
        t.pass(10);
        t.send(seg().seq(-9).ack(2));
    }
    assert_eq!(answers, 2);
    t.silence(61_000);
    t.all_gone();
}

#[test]
fn the_answer_carries_timestamps() {
    let mut t = time_wait(Setup::plain().ts());
    let first = t.info_less_ts();
    t.pass(10);
    t.send(seg().fin().seq(1).ack(2));
    let answer = t.expect(seg().seq(2).ack(2));
    assert!(answer.ts.expect("timestamps").0.wrapping_sub(first) >= 10);
}

impl Ladder {
    fn info_less_ts(&self) -> u32 {
        self.wire.last_ts
    }
}

/// RFC 9293 section 3.10.7.4, decision 0107.
#[test]
fn a_rst_at_the_next_byte_ends_time_wait_and_no_other_does() {
    for exact in [rst().seq(2), rst().seq(2).ack(2)] {
        let mut t = time_wait(Setup::plain());
        for seq in [0, 1, 3, 70_000] {
            t.send(rst().seq(seq));
            t.send(rst().seq(seq).ack(2));
            t.nothing();
        }
        assert_eq!(t.end.stack.time_wait_count(), 1);
        assert_eq!(t.drops(DropReason::TcpTimeWait), 8);
        t.send(exact);
        t.nothing();
        assert_eq!(t.drops(DropReason::TcpRst), 1);
        t.all_gone();
    }
}

/// A RST that PAWS refuses does not end the record; a RST without timestamps is not checked by
/// PAWS.
#[test]
fn a_rst_older_than_the_connection_does_not_end_time_wait() {
    let mut t = time_wait(Setup::plain().ts());
    t.send(rst().seq(2).ts(1, 0));
    assert_eq!(t.end.stack.time_wait_count(), 1);
    t.send(rst().seq(2).no_ts());
    t.all_gone();
}

/// A client that restarted, or another one with the same address. Its SYN is older; the stack's
/// answer reports the old connection, the client's RST ends that connection, and the client repeats
/// its SYN.
#[test]
fn a_client_that_restarted_is_back_after_one_rst() {
    let mut t = Setup::plain().ladder();
    t.listen();
    t.handshake();
    t.accept();
    t.close();
    t.expect(seg().fin().seq(1).ack(1));
    t.send(seg().ack(2).fin());
    t.expect(seg().seq(2).ack(2));
    t.send(syn().seq(-100_000));
    t.expect(seg().seq(2).ack(2));
    t.send(rst().seq(2));
    t.send(syn().seq(-100_000).mss(1000));
    assert_eq!(t.take_seen().len(), 1, "not one SYN-ACK");
    assert_eq!(t.end.stack.time_wait_count(), 0);
}

#[test]
fn a_plain_ack_in_time_wait_is_ignored() {
    let mut t = time_wait(Setup::plain());
    t.send(seg().seq(2).ack(2));
    t.nothing();
}

/// RFC 9293 section 3.10.7.4 and RFC 1122 4.2.2.13: the new ISN must be after the sequence numbers
/// that were used.
#[test]
fn a_newer_syn_reopens() {
    let mut t = time_wait(Setup::plain());
    let old = t.wire.stack_isn;
    t.send(syn().seq(100_000).mss(1000));
    let answer = t.expect(syn_ack().seq(0).ack(100_001));
    assert_eq!(answer.seq, Some(0));
    assert!(t.wire.stack_isn.gt(old + 2));
    assert_eq!(t.end.stack.time_wait_count(), 0);
    t.send(seg().seq(100_001).ack(1));
    t.accept();
    t.state(State::Established);
}

/// The old connection sent more than the clock of RFC 6528 advanced meanwhile: 100 KB in no time.
/// RFC 1122 4.2.2.13-a.
#[test]
fn the_isn_of_a_reopened_connection_is_behind_all_that_was_sent() {
    let mut t = Setup::plain().established();
    for _ in 0..10 {
        t.write(10_000);
        let sent = t.take_seen().iter().map(Seg::space).sum::<i64>();
        assert_eq!(sent, 10_000);
        t.send(seg());
    }
    t.close();
    t.expect(seg().fin().seq(100_001));
    t.send(seg().fin());
    t.expect(seg().seq(100_002).ack(2));
    let end = t.wire.stack_isn + 100_002;
    t.send(syn().seq(100_000).mss(1000));
    t.expect(syn_ack().ack(100_001));
    assert!(t.wire.stack_isn.gt(end));
}

#[test]
fn an_older_syn_does_not_reopen() {
    let mut t = time_wait(Setup::plain());
    t.send(syn().seq(-5000));
    t.expect(seg().seq(2).ack(2));
    assert_eq!(t.end.stack.time_wait_count(), 1);
}

/// RFC 6191: with timestamps, the timestamp decides which connection is newer.
/// RFC 9293 SHLD-4.
#[test]
fn a_syn_with_a_newer_timestamp_reopens_whatever_its_sequence_number() {
    let mut t = time_wait(Setup::plain().ts());
    t.send(syn().seq(-5000).ts(500, 0));
    t.expect(seg().seq(2).ack(2));
    t.send(syn().seq(-5000).ts(50_000, 0));
    t.expect(syn_ack().ack(-4999));
}

#[test]
fn the_limit_drops_the_oldest_record() {
    let mut setup = Setup::plain();
    setup.pair.stack.budget.set(Limit::TimeWait, 3);
    let mut t = setup.ladder();
    t.listen();
    for port in 1..=5 {
        t.wire.ports.0 = port;
        (t.wire.next_seq, t.wire.stack_next) = (0, 0);
        t.handshake();
        t.accept();
        t.close();
        t.expect(seg().fin().seq(1));
        t.send(seg().fin());
        t.expect(seg().seq(2).ack(2));
        t.pass(10);
    }
    assert_eq!(t.end.stack.time_wait_count(), 3);
    assert_eq!(t.end.stack.budget().hits(Limit::TimeWait), 2);
    // The first record was evicted: its peer's FIN is now answered with a RST (by the listener).
    t.wire.ports.0 = 1;
    t.send(seg().fin().seq(1).ack(2));
    t.expect(rst().seq(2));
}

/// A record that was reopened leaves its old entry in the queue of expiries: the limit of the queue
/// still holds.
#[test]
fn the_limit_holds_after_a_record_was_reopened() {
    let mut setup = Setup::plain();
    setup.pair.stack.budget.set(Limit::TimeWait, 2);
    let mut t = time_wait(setup);
    t.send(syn().seq(1000));
    t.expect(syn_ack().ack(1001));
    t.send(seg());
    t.accept();
    for port in [7, 8, 9] {
        t.wire.ports.0 = port;
        (t.wire.next_seq, t.wire.stack_next) = (0, 0);
        t.handshake();
        t.accept();
        t.close();
        t.expect(seg().fin().seq(1));
        t.send(seg().fin());
        t.expect(seg().seq(2));
        assert!(t.end.stack.time_wait_count() <= 2);
    }
}

/// The user still has the handle; keepalive must not send for a connection that is over.
#[test]
fn keepalive_is_silent_in_time_wait() {
    let mut t =
        Setup::plain().tcp(|c| c.keepalive_idle = Some(Duration::from_secs(5))).established();
    t.shutdown();
    t.expect(seg().fin());
    t.send(seg().fin());
    t.expect(seg().seq(2).ack(2));
    t.state(State::TimeWait);
    t.silence(1_000_000);
}
