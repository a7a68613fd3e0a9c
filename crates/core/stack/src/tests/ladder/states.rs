//! Closing: every state of RFC 9293 figure 5 after ESTABLISHED, entered and left.

use super::seg::rst;
use super::*;
use tcp::Error;

#[test]
fn close_from_our_side() {
    let mut t = Setup::plain().established();
    t.shutdown();
    t.expect(seg().fin().seq(1).ack(1));
    t.state(State::FinWait1);
    t.send(seg().seq(1).ack(2));
    t.state(State::FinWait2);
    t.send(seg().fin().seq(1).ack(2));
    t.expect(seg().seq(2).ack(2));
    t.state(State::TimeWait);
    assert_eq!(t.end.stack.time_wait_count(), 1);
    assert_eq!(t.read_result(), Ok(0));
    t.close();
    assert_eq!(t.end.stack.connection_count(), 0);
    t.silence(61_000);
    t.all_gone();
}

/// RFC 9293 MUST-12.
#[test]
fn close_from_the_peers_side() {
    let mut t = Setup::plain().established();
    t.send(seg().fin().seq(1).ack(1));
    t.expect(seg().seq(1).ack(2));
    t.state(State::CloseWait);
    assert_eq!(t.read_result(), Ok(0));
    t.shutdown();
    t.expect(seg().fin().seq(1).ack(2));
    t.state(State::LastAck);
    t.send(seg().seq(2).ack(2));
    t.state(State::Closed);
    t.close();
    t.all_gone();
}

#[test]
fn simultaneous_close_through_closing() {
    let mut t = Setup::plain().established();
    t.close();
    t.expect(seg().fin().seq(1).ack(1));
    t.send(seg().fin().seq(1).ack(1));
    t.expect(seg().seq(2).ack(2));
    t.state(State::Closing);
    t.send(seg().seq(2).ack(2));
    assert_eq!(t.end.stack.connection_count(), 0);
    assert_eq!(t.end.stack.time_wait_count(), 1);
}

#[test]
fn fin_with_the_ack_of_ours_goes_to_time_wait_at_once() {
    let mut t = Setup::plain().established();
    t.shutdown();
    t.expect(seg().fin().seq(1));
    t.send(seg().fin().seq(1).ack(2));
    t.expect(seg().seq(2).ack(2));
    t.state(State::TimeWait);
}

#[test]
fn half_close_by_us_and_data_still_comes() {
    let mut t = Setup::plain().established();
    t.write(100);
    t.shutdown();
    t.expect(seg().seq(1).data(100));
    t.expect(seg().fin().seq(101));
    t.send(seg().seq(1).ack(102));
    t.state(State::FinWait2);
    t.send(seg().data(1000));
    t.send(seg().data(1000));
    t.pass(50);
    t.take_seen();
    t.read(2000);
    assert_eq!(t.write_result(), Err(CallError::Closed));
    t.send(seg().data(500).fin());
    t.expect(seg().seq(102).ack(2502));
    t.read(500);
    assert_eq!(t.read_result(), Ok(0));
    t.state(State::TimeWait);
}

#[test]
fn half_close_by_the_peer_and_data_still_goes() {
    let mut t = Setup::plain().established();
    t.send(seg().data(100).fin());
    t.expect(seg().ack(102));
    t.state(State::CloseWait);
    t.read(100);
    t.write(2000);
    t.expect(seg().seq(1).ack(102).data(1000));
    t.expect(seg().seq(1001).ack(102).data(1000));
    t.send(seg().ack(2001));
    t.close();
    t.expect(seg().fin().seq(2001).ack(102));
    t.state(State::LastAck);
    t.send(seg().ack(2002));
    t.all_gone();
}

#[test]
fn queued_data_is_sent_before_the_fin_of_a_close() {
    let mut t = Setup::plain().peer_window(1000).established();
    t.write(1500);
    t.close();
    t.expect(seg().seq(1).data(1000));
    t.send(seg().ack(1001));
    t.expect(seg().seq(1001).data(500).fin());
    t.send(seg().ack(1502));
    t.state(State::FinWait2);
}

#[test]
fn fin_is_retransmitted_in_fin_wait_1_and_last_ack() {
    let mut t = Setup::plain().established();
    t.shutdown();
    t.expect(seg().fin().seq(1));
    let rto = t.info().rto.as_millis();
    t.expect_after(rto, seg().fin().seq(1));
    let mut t = Setup::plain().established();
    t.send(seg().fin());
    t.expect(seg().ack(2));
    t.close();
    t.expect(seg().fin().seq(1));
    let rto = t.info().rto.as_millis();
    t.expect_after(rto, seg().fin().seq(1).ack(2));
    t.send(seg().ack(2));
    t.all_gone();
}

/// The limit of Linux's tcp_fin_timeout. RFC 9293 has no such limit, but no user can read the
/// connection any more.
#[test]
fn fin_wait_2_ends_when_nobody_can_read() {
    let mut t = Setup::plain().established();
    t.close();
    t.expect(seg().fin().seq(1));
    t.send(seg().ack(2));
    t.state(State::FinWait2);
    t.pass(60_010);
    assert_eq!(t.end.stack.connection_count(), 0);
    assert_eq!(t.end.stack.time_wait_count(), 1);
    t.nothing();
}

/// Fewer retries once the user has closed, as by tcp_orphan_retries of Linux.
#[test]
fn who_was_closed_is_given_up_sooner() {
    for (closes, tries) in [(false, 5), (true, 2)] {
        let few = |c: &mut tcp::Config| (c.retries_max, c.orphan_retries_max) = (5, 2);
        let mut t = Setup::plain().tcp(few).established();
        t.write(10);
        t.expect(seg().seq(1).data(10));
        if closes {
            t.close();
            t.expect(seg().seq(11).fin());
        }
        t.pass(600_000);
        assert_eq!(t.take_seen().iter().filter(|s| s.seq == Some(1)).count(), tries);
        assert_eq!(t.end.stack.connection_count(), usize::from(!closes));
    }
}

/// A peer that answers but reads nothing keeps an orphan only for a limited time: if the orphan has
/// unsent data, and if it has data in flight from before the window was closed.
#[test]
fn a_shut_window_does_not_hold_for_ever_what_was_closed() {
    for written in [1000, 2000] {
        let few = |c: &mut tcp::Config| c.orphan_retries_max = 3;
        let mut t = Setup::plain().tcp(few).peer_window(1000).established();
        t.write(written);
        t.close();
        t.send(seg().ack(if written == 1000 { 1 } else { 1001 }).win(0));
        t.take_seen();
        let mut probes = 0;
        while t.end.stack.connection_count() > 0 {
            probes += 1;
            assert!(probes < 10);
            t.run_until(t.now + Duration::from_secs(200), true);
            t.take_seen();
            t.send(seg().ack(if written == 1000 { 1 } else { 1001 }).win(0));
        }
        t.take_seen();
        t.all_gone();
    }
}

#[test]
fn a_fin_out_of_order_waits_for_the_data_before_it() {
    let mut t = Setup::plain().established();
    t.send(seg().seq(101).data(100).fin());
    t.expect(seg().ack(1));
    t.state(State::Established);
    t.send(seg().seq(1).data(100));
    t.expect(seg().ack(202));
    t.state(State::CloseWait);
    t.read(200);
    assert_eq!(t.read_result(), Ok(0));
}

/// A peer that sends data past its own FIN breaks the protocol; the fast path must not stay off for
/// ever.
#[test]
fn a_fin_that_data_passed_is_forgotten() {
    let mut t = Setup::plain().established();
    t.send(seg().seq(1001).fin());
    t.expect(seg().ack(1));
    t.send(seg().seq(1).data(1400));
    t.send(seg().seq(1401).data(600));
    t.take_seen();
    let before = t.count(Counter::TcpPredicted);
    t.send(seg().seq(2001).data(1000));
    assert_eq!(t.count(Counter::TcpPredicted), before + 1);
    t.state(State::Established);
}

/// RFC 9293 SHLD-3.
#[test]
fn data_after_close_is_answered_with_rst() {
    let mut t = Setup::plain().established();
    t.close();
    t.expect(seg().fin().seq(1));
    t.send(seg().ack(2).data(100));
    t.expect(super::seg::rst().seq(2));
    assert_eq!(t.drops(DropReason::TcpAfterClose), 1);
    t.all_gone();
}

/// RFC 9293 SHLD-3.
#[test]
fn unread_data_at_close_gives_rst() {
    let mut t = Setup::plain().established();
    t.send(seg().data(1000));
    t.expect(seg().ack(1001));
    t.close();
    t.expect(seg().and_rst().seq(1).ack(1001));
    t.all_gone();
}

#[test]
fn abort_gives_rst() {
    let mut t = Setup::plain().established();
    t.write(100);
    t.expect(seg().data(100));
    t.abort();
    t.expect(seg().and_rst().seq(101).ack(1));
    t.all_gone();
}

#[test]
fn shutdown_read_acknowledges_and_discards() {
    let mut t = Setup::plain().established();
    t.end.stack.tcp_shutdown_read(t.h());
    t.send(seg().data(1000));
    t.expect(seg().ack(1001).win(65_535));
    assert_eq!(t.read_result(), Ok(0));
}

/// RFC 9293 MUST-12.
#[test]
fn reset_by_peer_tells_the_user() {
    let mut t = Setup::plain().established();
    t.send(seg().data(10));
    t.send(rst().seq(11));
    // Data that arrived before the reset can still be read.
    t.read(10);
    assert_eq!(t.read_result(), Err(CallError::Failed(Error::Reset)));
    assert_eq!(t.write_result(), Err(CallError::Failed(Error::Reset)));
    t.close();
    t.all_gone();
}
