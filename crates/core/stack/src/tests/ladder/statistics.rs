//! Statistics: the fields of `Info` and the counters agree with what happened.

use super::*;

#[test]
fn info_agrees_with_what_happened() {
    let mut t = Setup::plain().sack().established();
    t.pass(100);
    t.write(3500);
    assert_eq!(t.take_seen().len(), 3, "the last 500 bytes did not wait (Nagle)");
    let info = t.info();
    assert_eq!((info.in_flight, info.unsent), (3000, 500));
    assert_eq!((info.snd_mss, info.snd_wnd), (1000, 65_535));
    t.pass(50);
    t.send(seg().ack(3001).win(40_000));
    t.expect(seg().seq(3001).data(500));
    t.send(seg().ack(3501).data(700));
    t.expect(seg().ack(701));
    t.send(seg().seq(1001).data(100));
    t.expect(seg().ack(701).sack(&[(1001, 1101)]));
    let info = t.info();
    assert_eq!(info.state, State::Established);
    assert_eq!(info.algorithm, "cubic");
    assert_eq!((info.bytes_acked, info.bytes_received), (3500, 700));
    assert_eq!((info.in_flight, info.unsent, info.unread), (0, 0, 700));
    assert_eq!(info.snd_wnd, 65_535);
    assert_eq!(info.rcv_wnd, 65_535 - 700);
    assert_eq!((info.rcv_mss, info.send_space_bytes), (700, 700));
    assert_eq!((info.retransmits, info.timeouts, info.fast_recoveries), (0, 0, 0));
    assert_eq!((info.duplicate_acks, info.out_of_order), (0, 1));
    // In: the ACK of the handshake and three more. Out: SYN-ACK, four with data, two ACKs.
    assert_eq!((info.segments_in, info.segments_out), (4, 7));
    assert!(info.min_rtt <= info.srtt && info.srtt.as_millis() <= 50);
}

#[test]
fn info_of_losses() {
    let mut t = Setup::plain().sack().established();
    t.write(10_000);
    t.take_seen();
    t.send(seg().ack(1).sack(&[(1001, 5001)]));
    t.expect(seg().seq(1).data(1000));
    let info = t.info();
    assert_eq!((info.fast_recoveries, info.retransmits, info.timeouts), (1, 1, 0));
    assert_eq!((info.cwnd, info.ssthresh), (7000, 7000));
    let rto = info.rto.as_millis();
    t.expect_after(rto, seg().seq(1).data(1000));
    let info = t.info();
    assert_eq!((info.retransmits, info.timeouts), (2, 1));
    assert_eq!(info.cwnd, 1000);
    assert_eq!(t.count(Counter::TcpRetransmits), 2);
    assert_eq!(t.count(Counter::TcpTimeouts), 1);
}

#[test]
fn counters_agree_with_the_wire() {
    let mut t = Setup::plain().established();
    t.send(seg().data(1000));
    t.expect(seg().ack(1001));
    t.write(10);
    t.expect(seg().data(10));
    t.abort();
    t.expect(seg().and_rst());
    assert_eq!(t.count(Counter::TcpSegmentsIn), 3);
    assert_eq!(t.count(Counter::TcpSegmentsOut), 4);
    assert_eq!(t.count(Counter::TcpAcksOut), 1);
    assert_eq!(t.count(Counter::TcpResetsOut), 1);
    assert_eq!(t.count(Counter::TcpPredicted), 1);
    assert_eq!(t.count(Counter::TcpAccepts), 1);
    assert_eq!(t.count(Counter::RxFrames), 3);
    assert_eq!(t.count(Counter::TxFrames), 4);
}

/// RFC 9293 MUST-3.
#[test]
fn a_wrong_checksum_is_dropped_and_counted() {
    let mut t = Setup::plain().established();
    t.wire.corrupt = true;
    t.send(seg().data(10));
    assert_eq!(t.drops(DropReason::TcpChecksum), 1);
}

/// The memory of a connection holds only the connection's own state: 10,000 connections share one
/// copy of the settings.
#[test]
fn connections_share_the_settings_of_their_listener() {
    let mut t = Setup::plain().established();
    let listener = t.listener.expect("listens");
    let config = &t.end.stack.listeners.get_mut(listener).expect("there").config;
    assert_eq!(std::sync::Arc::strong_count(config), 2);
}

/// Segments of one burst follow their leader, with timestamps and without.
#[test]
fn bulk_data_follows_its_leader() {
    for setup in [Setup::plain(), Setup::plain().ts()] {
        let mut t = setup.established();
        let before = t.count(Counter::TcpFollowed);
        t.burst(&[seg().data(1000), seg().data(1000), seg().data(1000)]);
        assert_eq!(t.count(Counter::TcpFollowed), before + 2);
        t.read(3000);
    }
}
