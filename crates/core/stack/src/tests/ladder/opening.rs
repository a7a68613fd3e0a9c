//! Opening a connection: active, passive and simultaneous opens, and the listener's backlog.

use super::seg::{bare, rst};
use super::*;
use tcp::Error;
use tcp::Events;
use wire::tcp::Flags;

#[test]
fn active_open() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.state(State::SynSent);
    t.expect(syn().mss(1460).win(65_535));
    t.send(syn_ack().mss(1000).win(5000));
    t.expect(seg().seq(1).ack(1));
    t.state(State::Established);
    assert_eq!(t.info().snd_wnd, 5000);
    assert!(t.events.contains(&Event::Tcp(t.h(), Events(Events::CONNECTED | Events::WRITABLE))));
    assert_eq!(t.count(Counter::TcpConnects), 1);
}

#[test]
fn passive_open() {
    let mut t = Setup::plain().ladder();
    t.listen();
    t.send(syn().mss(1000).win(5000));
    t.expect(syn_ack().mss(1460).win(65_535));
    assert!(t.events.is_empty(), "a half-open connection was reported");
    assert_eq!(t.end.stack.tcp_accept(t.listener.expect("listens")), None);
    t.send(seg().seq(1).ack(1));
    t.nothing();
    t.accept();
    t.state(State::Established);
    assert_eq!(t.count(Counter::TcpAccepts), 1);
}

/// RFC 9293 figure 8. A SYN-ACK in SYN-RECEIVED starts before RCV.NXT: it is not acceptable by
/// table 6 and causes an ACK, which opens the other side.
/// RFC 9293 MUST-10.
#[test]
fn simultaneous_open() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.expect(syn());
    t.send(syn().mss(1000).win(8000));
    t.state(State::SynReceived);
    t.expect(syn_ack());
    t.send(syn_ack().win(8000));
    t.expect(seg().seq(1).ack(1));
    t.send(seg().seq(1).ack(1));
    t.state(State::Established);
    t.write(10);
    t.expect(seg().seq(1).ack(1).data(10));
}

#[test]
fn simultaneous_open_with_the_first_ack_carrying_data() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.expect(syn());
    t.send(syn().mss(1000));
    t.expect(syn_ack());
    t.send(seg().seq(1).ack(1).data(100));
    t.state(State::Established);
    t.read(100);
}

#[test]
fn syn_ack_again_for_a_repeated_syn() {
    let mut t = Setup::plain().ladder();
    t.listen();
    t.send(syn().mss(1000));
    t.expect(syn_ack());
    t.send(syn().mss(1000));
    t.expect(syn_ack());
}

/// Data on a SYN is not kept and not acknowledged; the peer sends it again.
#[test]
fn data_on_a_syn_is_sent_again() {
    let mut t = Setup::plain().ladder();
    t.listen();
    t.send(syn().mss(1000).data(100));
    t.expect(syn_ack());
    t.send(seg().seq(1).ack(1).data(100));
    t.accept();
    t.read(100);
}

#[test]
fn data_and_fin_on_a_syn_ack() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.expect(syn());
    t.send(syn_ack().mss(1000).data(100).fin());
    t.expect(seg().seq(1).ack(102));
    t.state(State::CloseWait);
    t.read(100);
    assert_eq!(t.read_result(), Ok(0));
}

#[test]
fn data_on_a_syn_ack_past_the_window_is_cut() {
    let mut t = Setup::plain().tcp(|c| c.receive_buffer_bytes = 60).ladder();
    t.connect();
    t.expect(syn().win(60));
    t.send(syn_ack().mss(1000).data(100));
    t.expect(seg().seq(1).ack(61).win(0));
}

#[test]
fn syn_sent_with_a_bad_ack_is_reset() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.expect(syn());
    t.send(syn_ack().ack(2));
    t.expect(rst().seq(2));
    t.expect(syn());
    t.send(syn_ack().ack(0));
    t.expect(rst().seq(0));
    // A bad ACK on a RST is dropped without an answer.
    t.send(rst().seq(0).ack(2));
    t.nothing();
    t.state(State::SynSent);
    assert_eq!(t.drops(DropReason::TcpBadAck), 3);
}

/// The peer still has an old connection: the stack's RST ends it, and the SYN that follows at once
/// opens the new one.
#[test]
fn syn_sent_asks_again_at_once_behind_the_rst_for_an_old_ack() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.expect(syn());
    t.send(seg().seq(777).ack(-5000));
    t.expect(rst().seq(-5000));
    t.expect(syn().mss(1460));
    assert_eq!(t.count(Counter::TcpRetransmits), 1);
    // This is done once: forged ACKs cause no more SYNs.
    for _ in 0..50 {
        t.send(seg().seq(777).ack(-5000));
    }
    assert!(t.take_seen().iter().all(|seen| !seen.has(Flags::SYN)));
    // Then the SYN is repeated as usual, a second after the last one.
    t.expect_after(1000, syn());
    t.send(syn_ack().mss(1000));
    t.expect(seg().seq(1).ack(1));
    t.state(State::Established);
}

/// Which of the SYNs was answered is unknown, so no round trip is measured, and nothing counts as
/// lost.
#[test]
fn a_syn_sent_again_at_once_measures_nothing_and_costs_no_window() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.expect(syn());
    t.pass(100);
    t.send(seg().seq(777).ack(-5000));
    t.take_seen();
    t.pass(100);
    t.send(syn_ack().mss(1000));
    t.expect(seg().seq(1).ack(1));
    assert_eq!(t.info().srtt, Duration::ZERO);
    assert_eq!(t.info().cwnd, 10_000);
}

/// RFC 9293 section 3.10.4: a close without data to send sends the FIN now. The handshake goes on,
/// and the FIN is retransmitted like any other.
#[test]
fn close_in_syn_received_sends_its_fin_at_once() {
    for setup in [Setup::plain(), Setup::plain().sack().ts()] {
        let mut t = setup.ladder();
        t.connect();
        t.expect(syn());
        let ours = t.setup.syn.clone();
        t.send(ours);
        t.expect(syn_ack());
        t.close();
        t.expect(seg().seq(1).ack(1).fin());
        // The SYN-ACK and the FIN are lost.
        t.expect_after(1000, syn_ack());
        t.nothing();
        t.send(seg().seq(1).ack(1));
        t.pass(4000);
        let again = t.take_seen();
        assert!(!again.is_empty() && again.iter().all(|seen| seen.has(Flags::FIN)), "{again:?}");
        t.send(seg().seq(1).ack(2));
        t.send(seg().seq(1).ack(2).fin());
        t.expect(seg().seq(2).ack(2));
        assert_eq!(t.end.stack.time_wait_count(), 1);
    }
}

/// One segment acknowledges the FIN and everything before it.
#[test]
fn close_in_syn_received_is_acknowledged_with_the_syn() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.expect(syn());
    t.shutdown();
    t.send(syn().mss(1000));
    t.expect(syn_ack());
    t.expect(seg().seq(1).ack(1).fin());
    t.send(seg().seq(1).ack(2));
    t.state(State::FinWait2);
}

/// With data to send, the FIN waits after the data for the end of the handshake.
#[test]
fn close_in_syn_received_with_data_waits() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.expect(syn());
    t.send(syn().mss(1000));
    t.expect(syn_ack());
    t.write(10);
    t.close();
    t.nothing();
    t.send(seg().seq(1).ack(1));
    t.expect(seg().seq(1).ack(1).data(10).fin());
}

#[test]
fn syn_sent_refused() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.expect(syn());
    // A RST without an ACK cannot be matched.
    t.send(rst().seq(0));
    t.state(State::SynSent);
    assert_eq!(t.drops(DropReason::TcpBadRst), 1);
    t.send(rst().seq(0).ack(1));
    assert_eq!(t.write_result(), Err(CallError::Failed(Error::Refused)));
    t.close();
    t.all_gone();
}

#[test]
fn syn_sent_without_a_syn_waits() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.expect(syn());
    t.send(seg().seq(0).ack(1));
    t.nothing();
    assert_eq!(t.drops(DropReason::TcpSynSentNoSyn), 1);
    t.state(State::SynSent);
}

#[test]
fn close_in_syn_sent() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.expect(syn());
    t.close();
    t.nothing();
    t.all_gone();
}

/// Data and a FIN may be queued before the connection is open (RFC 9293 section 3.10.4).
#[test]
fn write_and_shutdown_in_syn_sent() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.expect(syn());
    t.write(10);
    t.shutdown();
    t.send(syn_ack().mss(1000));
    t.expect(seg().seq(1).ack(1).data(10).fin());
    t.state(State::FinWait1);
}

/// RFC 9293 MUST-11.
#[test]
fn syn_received_reset_by_peer_returns_to_listen() {
    let mut t = Setup::plain().ladder();
    t.listen();
    t.send(syn().mss(1000));
    t.expect(syn_ack());
    t.send(rst().seq(1));
    t.nothing();
    t.all_gone();
    t.handshake();
    t.accept();
}

#[test]
fn syn_received_with_a_bad_ack_is_reset() {
    let mut t = Setup::plain().ladder();
    t.listen();
    t.send(syn().mss(1000));
    t.expect(syn_ack());
    t.send(seg().seq(1).ack(2));
    t.expect(rst().seq(2));
    t.send(seg().seq(1).ack(0));
    t.expect(rst().seq(0));
    t.send(seg().seq(1).ack(1));
    t.accept();
}

#[test]
fn listen_ignores_rst_resets_ack_and_ignores_the_rest() {
    let mut t = Setup::plain().ladder();
    t.listen();
    t.send(rst().seq(5));
    t.nothing();
    t.send(seg().seq(5).ack(77));
    t.expect(rst().seq(77));
    t.send(bare(Flags::FIN).seq(5));
    t.nothing();
    assert_eq!(t.drops(DropReason::TcpListenRst), 1);
    assert_eq!(t.drops(DropReason::TcpListenAck), 1);
    assert_eq!(t.drops(DropReason::TcpListenNotSyn), 1);
    t.all_gone();
}

#[test]
fn a_syn_with_fin_opens_nothing() {
    let mut t = Setup::plain().ladder();
    t.listen();
    t.send(syn().fin());
    t.nothing();
    assert_eq!(t.drops(DropReason::TcpListenSynFin), 1);
    // The port still accepts connections.
    t.handshake();
}

#[test]
fn backlog_full() {
    let mut setup = Setup::plain();
    setup.backlog = 2;
    let mut t = setup.ladder();
    t.listen();
    for port in [1, 2] {
        t.wire.ports.0 = port;
        t.handshake();
    }
    t.wire.ports.0 = 3;
    t.send(syn());
    t.nothing();
    assert_eq!(t.drops(DropReason::TcpBacklogFull), 1);
    // One connection is accepted, so there is room again, and the peer's SYN is repeated.
    t.accept();
    t.handshake();
}

#[test]
fn unlisten_resets_what_nobody_accepted() {
    let mut t = Setup::plain().ladder();
    t.listen();
    t.handshake();
    t.end.stack.tcp_unlisten(t.listener.expect("listens"));
    t.collect();
    t.expect(seg().and_rst().seq(1).ack(1));
    t.all_gone();
}

/// A user is notified of a connection by `Accept`; the connection's events follow once the user has
/// its handle.
#[test]
fn events_of_a_connection_wait_until_it_is_accepted() {
    let mut t = Setup::plain().ladder();
    t.listen();
    t.handshake();
    t.send(seg().seq(1).ack(1).data(100));
    t.pass(100);
    let listener = t.listener.expect("listening");
    assert_eq!(t.events, [Event::Accept(listener)]);
    // There is no poll in between: a user that sleeps until an event must be notified now.
    let handle = t.end.stack.tcp_accept(listener).expect("waiting");
    let due = Events(Events::CONNECTED | Events::READABLE | Events::WRITABLE);
    assert_eq!(t.end.stack.next_event(), Some(Event::Tcp(handle, due)));
    assert_eq!(t.end.stack.next_event(), None);
    t.handle = Some(handle);
    t.read(100);
    t.send(seg().seq(101).ack(1).data(1));
    assert_eq!(t.events[1..], [Event::Tcp(handle, Events(Events::READABLE))]);
}

#[test]
fn events_of_a_connection_that_ended_before_it_was_accepted() {
    let mut t = Setup::plain().ladder();
    t.listen();
    t.handshake();
    t.send(rst().seq(1));
    let listener = t.listener.expect("listening");
    assert_eq!(t.events, [Event::Accept(listener)]);
    let handle = t.end.stack.tcp_accept(listener).expect("waiting");
    let Some(Event::Tcp(about, events)) = t.end.stack.next_event() else {
        t.fail("no event");
    };
    assert_eq!(about, handle);
    assert!(events.has(Events::CLOSED));
    t.handle = Some(handle);
    assert_eq!(t.read_result(), Err(CallError::Failed(Error::Reset)));
    t.close();
    t.all_gone();
}
