//! Windows and small segments: Nagle's algorithm, silly window avoidance at both ends, and a window
//! that never shrinks.

use super::*;

/// RFC 9293 SHLD-7, SHLD-28. RFC 1122 4.2.3.4-a.
#[test]
fn nagle_holds_a_small_segment_while_data_is_in_flight() {
    let mut t = Setup::plain().established();
    t.write(10);
    t.expect(seg().seq(1).data(10));
    t.write(10);
    t.write(10);
    t.nothing();
    t.send(seg().ack(11));
    t.expect(seg().seq(11).data(20));
    t.write(10);
    t.nothing();
    // A full segment goes at once.
    t.write(990);
    t.expect(seg().seq(31).data(1000));
}

/// RFC 9293 MUST-17.
#[test]
fn nagle_off_with_no_delay() {
    let mut t = Setup::plain().tcp(|c| c.no_delay = true).established();
    t.write(10);
    t.write(10);
    t.expect(seg().seq(1).data(10));
    t.expect(seg().seq(11).data(10));
}

#[test]
fn nagle_does_not_hold_back_the_last_segment_and_its_fin() {
    let mut t = Setup::plain().established();
    t.write(10);
    t.expect(seg().seq(1).data(10));
    t.write(10);
    t.nothing();
    t.shutdown();
    t.expect(seg().seq(11).data(10).fin());
}

/// RFC 9293 section 3.8.6.2.1: a tiny window is not filled with a tiny segment.
/// RFC 9293 MUST-38.
#[test]
fn sender_sws_avoidance_sends_no_tiny_segment_into_a_tiny_window() {
    let mut t = Setup::plain().peer_window(4000).established();
    t.write(8000);
    assert_eq!(t.take_seen().len(), 4);
    t.send(seg().ack(4001).win(100));
    t.nothing();
    t.send(seg().ack(4001).win(999));
    t.nothing();
    t.send(seg().ack(4001).win(1000));
    t.expect(seg().seq(4001).data(1000));
}

/// RFC 9293 section 3.8.6.2.1: half of the largest window ever offered is worth a segment.
#[test]
fn sender_sws_avoidance_sends_half_of_the_largest_window() {
    let mut t = Setup::plain().peer_window(800).established();
    t.write(3000);
    t.expect(seg().seq(1).data(800));
    t.send(seg().ack(801).win(399));
    t.nothing();
    // The rest of the 1000 bytes that were cut is sent as a separate segment.
    t.send(seg().ack(801).win(400));
    t.expect(seg().seq(801).data(200));
    t.send(seg().ack(1001).win(400));
    t.expect(seg().seq(1001).data(400));
}

/// RFC 9293 section 3.8.6.2.1, the override: after a time-out as much is sent as fits, since two
/// ends with different ideas of a worthwhile window would wait for ever.
/// RFC 9293 MUST-38. RFC 1122 4.2.3.4-a.
#[test]
fn sender_sws_override_timeout() {
    let mut t = Setup::plain().peer_window(4000).established();
    t.write(4000);
    assert_eq!(t.take_seen().len(), 4);
    t.write(2000);
    t.send(seg().ack(4001).win(300));
    let rto = t.info().rto.as_millis();
    t.expect_after(rto, seg().seq(4001).data(300));
    t.send(seg().ack(4301).win(300));
    let rto = t.info().rto.as_millis();
    t.expect_after(rto, seg().seq(4301).data(300));
}

/// RFC 9293 section 3.8.6.2.2: the window opens by at least a segment at a time, not with each byte
/// that is read.
/// RFC 9293 MUST-39.
#[test]
fn receiver_sws_avoidance_offers_no_small_steps() {
    let mut t = Setup::plain().tcp(|c| c.receive_buffer_bytes = 10_000).established();
    for i in 1..=5 {
        t.burst(&[seg().data(1000), seg().data(1000)]);
        t.expect(seg().ack(i * 2000 + 1).win((10_000 - i * 2000) as u16));
    }
    t.read(500);
    t.nothing();
    t.send(seg().seq(1).data(10));
    t.expect(seg().ack(10_001).win(0));
    t.read(499);
    t.nothing();
    t.read(1001);
    t.expect(seg().ack(10_001).win(2000));
    // Then an update is sent once a quarter of the buffer, or two segments if more, was read.
    t.read(2000);
    t.nothing();
    t.read(500);
    t.expect(seg().ack(10_001).win(4500));
}

/// With a window scale of zero the right edge never moves back, whatever is read or received.
/// RFC 9293 SHLD-14.
#[test]
fn window_never_shrunk() {
    let mut t = Setup::plain().tcp(|c| c.receive_buffer_bytes = 20_000).established();
    let mut edge = 0;
    let sizes = [1000, 1, 999, 37, 500, 1000, 3, 1000, 700];
    for (i, &size) in sizes.iter().cycle().take(60).enumerate() {
        t.send(seg().data(size));
        if i % 3 == 0 {
            let n = t.info().unread.min(1500);
            t.read(n);
        }
        for seen in t.take_seen() {
            let new = seen.ack.expect("ACK") + i64::from(seen.win.expect("window"));
            assert!(new >= edge, "{new} < {edge}");
            edge = new;
        }
        if edge - t.wire.next_seq < 1000 {
            let n = t.info().unread;
            t.read(n);
        }
    }
}

/// With a window scale the field is rounded down: the right edge on the wire may move back by less
/// than one unit, as in RFC 7323 section 2.4 and 4.4BSD. All data for which the window was offered
/// is accepted. Rounding up instead would let one-byte segments move the edge forward without end.
#[test]
fn tiny_segments_cannot_push_the_window_past_the_buffer() {
    let mut t = Setup::plain().ws(0).tcp(|c| c.receive_buffer_bytes = 1 << 20).established();
    let mut edge = 0;
    for _ in 0..2000 {
        t.send(seg().data(1));
        t.pass(45);
        for seen in t.take_seen() {
            let new = seen.ack.expect("ACK") + (i64::from(seen.win.expect("window")) << 5);
            assert!(new > edge - 32, "{new} < {edge}");
            assert!(new <= 1 + (1 << 20), "{new} is past the buffer");
            edge = edge.max(new);
        }
    }
}

#[test]
fn data_beyond_the_window_is_cut() {
    let mut t = Setup::plain().tcp(|c| c.receive_buffer_bytes = 1500).established();
    t.burst(&[seg().seq(1).data(1000), seg().seq(1001).data(1000)]);
    t.expect(seg().ack(1501).win(0));
    t.read(1500);
}

#[test]
fn the_send_window_is_never_overrun() {
    let mut t = Setup::plain().peer_window(2500).established();
    t.write(10_000);
    t.expect(seg().seq(1).data(1000));
    t.expect(seg().seq(1001).data(1000));
    t.nothing();
    t.send(seg().ack(1001).win(2500));
    t.expect(seg().seq(2001).data(1000));
    t.nothing();
}

/// RFC 9293: SND.WL1 and SND.WL2 keep an old segment from undoing a newer window.
#[test]
fn an_old_segment_does_not_change_the_window() {
    let mut t = Setup::plain().established();
    t.send(seg().seq(1).data(100).win(9000));
    t.send(seg().seq(101).data(100).win(8000));
    assert_eq!(t.info().snd_wnd, 8000);
    t.send(seg().seq(1).data(100).win(2000));
    t.send(seg().seq(50).data(152).win(2000));
    assert_eq!(t.info().snd_wnd, 8000);
}

/// A window that shrinks to less than the bytes in flight (SHLD-14: a peer should not do that): no
/// new data is sent, and lost data is retransmitted.
/// RFC 9293 MUST-34, SHLD-15. RFC 7323 2.4-a.
#[test]
fn a_window_that_the_peer_shrinks_is_survived() {
    let mut t = Setup::plain().established();
    t.write(5000);
    assert_eq!(t.take_seen().len(), 5);
    t.send(seg().ack(1001).win(1000));
    t.write(1000);
    t.nothing();
    t.send(seg().ack(5001).win(1000));
    t.expect(seg().seq(5001).data(1000));
}

/// The peer repeats an early segment and acknowledges new data with it: its window is used,
/// although a later segment set the window before (SND.WL1). The old window, counted from the new
/// SND.UNA, would extend past anything that was offered.
#[test]
fn the_window_of_a_retransmission_that_acknowledges_more_counts() {
    for predict in [true, false] {
        let mut setup = Setup::plain().peer_window(3000);
        setup.pair.stack.switches = setup.pair.stack.switches.with(Switch::Predict, predict);
        let mut t = setup.established();
        t.send(seg().seq(1001).data(1000).ack(1).win(3000));
        t.write(6000);
        t.take_seen();
        t.send(seg().seq(1).data(1000).ack(3001).win(500));
        let end = t.take_seen().iter().filter_map(|s| Some(s.seq? + s.len as i64)).max();
        assert!(end <= Some(3501), "sent up to {end:?}, but 3501 was offered");
    }
}

/// A short segment among full ones (a loaned buffer that was not full) takes only its length of the
/// window: the segments after it stay in the window.
#[test]
fn a_short_segment_among_full_ones_counts_against_the_window() {
    let mut t = Setup::plain().peer_window(1000).established();
    for len in [1000, 1000, 1000, 300, 1000, 1000, 1000] {
        t.write_loaned(len);
    }
    t.expect(seg().seq(1).data(1000));
    t.send(seg().ack(1001).win(4000));
    let end = t.take_seen().iter().filter_map(|s| Some(s.seq? + s.len as i64)).max();
    assert_eq!(end, Some(4301), "not 1000, 1000, 300 and 1000 bytes in a window up to 5001");
}
