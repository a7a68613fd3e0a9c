//! Flags of a write (more data follows, a record ends, nothing may wait), segments with PSH, and
//! super-segments that wait.

use wire::tcp::Flags;

use super::*;
use crate::Follows;

/// A connection over a device that takes super-segments of two segments.
fn pairs() -> Setup {
    let mut setup = Setup::plain().ws(2).off(Switch::Pacing).tcp(|c| {
        c.super_segments_max = 2;
        c.unsent_limit_bytes = 1 << 20;
    });
    setup.pair.wire.offloads.tso_max_bytes = 65_535;
    setup
}

fn part(t: &mut Ladder, len: usize, follows: Follows) {
    let h = t.h();
    let data = wire_end::stream(t.written, len);
    t.written += len;
    assert_eq!(t.end.stack.tcp_write_part(h, &data, follows), Ok(len));
    t.end.stack.flush();
    t.collect();
}

/// The segments that were sent, as (bytes, PSH).
fn seen(t: &mut Ladder) -> Vec<(usize, bool)> {
    t.take_seen().iter().map(|s| (s.len, s.has(Flags::PSH))).collect()
}

#[test]
fn a_reader_says_nothing_of_room_that_the_window_field_cannot_say() {
    let mut t = Setup::plain().tcp(|c| c.receive_buffer_bytes = 300_000).established();
    for _ in 0..4 {
        t.send(seg().data(1000));
        t.pass(50);
        assert!(t.take_seen().iter().all(|s| s.win == Some(65_535)));
        t.read(1000);
        t.nothing();
    }
}

#[test]
fn super_segments_are_pushed_and_so_is_the_end_of_the_queue() {
    let mut t = pairs().established();
    t.write(5000);
    assert_eq!(seen(&mut t), [(2000, true), (2000, true), (1000, true)]);
    t.send(seg().ack(5001));
    t.write(20_000);
    let sent = seen(&mut t);
    assert!(sent.len() >= 5 && sent.iter().all(|&s| s == (2000, true)), "{sent:?}");
}

#[test]
fn a_segment_that_goes_again_is_pushed_if_it_ended_the_queue() {
    let mut t = pairs().sack().off(Switch::TailProbe).established();
    t.write(5000);
    assert_eq!(seen(&mut t).len(), 3);
    t.send(seg().ack(1).sack(&[(1001, 2001), (3001, 4001)]));
    t.pass(1000);
    let again = seen(&mut t);
    assert_eq!(again.first(), Some(&(1000, false)), "{again:?}");
}

#[test]
fn without_sack_one_segment_goes_again_of_a_super_segment() {
    let mut t = pairs().off(Switch::TailProbe).established();
    t.write(4000);
    t.take_seen();
    for _ in 0..3 {
        t.send(seg().ack(1));
    }
    t.expect(seg().seq(1).data(1000).size(0));
    t.nothing();
}

#[test]
fn a_super_segment_does_not_wait_for_room_when_acks_come_slowly() {
    let mut t = pairs().tcp(|c| c.super_segments_max = 64).established();
    t.write(50_000);
    t.expect(seg().seq(1).data(10_000).size(1000));
    t.pass(5);
    t.send(seg().ack(1001));
    t.expect(seg().seq(10_001).data(2000).size(1000));
    t.nothing();
}

#[test]
fn a_record_shares_no_segment_with_the_next() {
    let mut t = pairs().established();
    part(&mut t, 400, Follows::Anything);
    assert_eq!(seen(&mut t), [(400, true)]);
    // Nagle's algorithm holds these writes together, except at the end of a record.
    part(&mut t, 300, Follows::Record);
    part(&mut t, 300, Follows::Record);
    part(&mut t, 100, Follows::Anything);
    part(&mut t, 100, Follows::Anything);
    t.send(seg().ack(401));
    let sent = seen(&mut t);
    assert_eq!(sent[..2], [(300, true), (300, true)]);
    t.send(seg().ack(1001));
    assert_eq!(seen(&mut t), [(200, true)]);
}

#[test]
fn what_more_follows_waits_for_it_and_not_for_ever() {
    let mut t = pairs().tcp(|c| c.no_delay = true).rtt(10).established();
    part(&mut t, 40, Follows::More);
    t.nothing();
    part(&mut t, 1000, Follows::More);
    assert_eq!(seen(&mut t), [(1000, false)]);
    t.send(seg().ack(1001));
    assert_eq!(seen(&mut t), [(40, false)], "an ACK did not release it");
    t.send(seg().ack(1041));
    part(&mut t, 40, Follows::More);
    t.silence(150);
    t.pass(100);
    assert_eq!(seen(&mut t), [(40, true)], "a time-out did not release it");
    t.send(seg().ack(1081));
    part(&mut t, 40, Follows::More);
    part(&mut t, 10, Follows::Anything);
    assert_eq!(seen(&mut t), [(50, true)]);
}

/// A write that more data follows is cut inside a super-segment, so its end shares a buffer with
/// the part that left. The end waits for an ACK, and makes one segment with data that is written
/// until then.
#[test]
fn the_end_of_a_marked_write_is_one_segment_with_the_next() {
    let mut t = pairs().tcp(|c| c.no_delay = true).rtt(10).established();
    part(&mut t, 3100, Follows::More);
    assert_eq!(seen(&mut t).iter().map(|sent| sent.0).sum::<usize>(), 3000);
    part(&mut t, 50, Follows::More);
    t.nothing();
    t.send(seg().ack(2001));
    assert_eq!(seen(&mut t), [(150, false)]);
    // Without the flag it leaves with the next write, and no short segment leaves before it.
    part(&mut t, 3100, Follows::More);
    assert_eq!(seen(&mut t).iter().map(|sent| sent.0).sum::<usize>(), 3000);
    part(&mut t, 1950, Follows::Anything);
    assert_eq!(seen(&mut t).iter().map(|sent| sent.0).collect::<Vec<_>>(), [2000, 50]);
}

#[test]
fn a_cork_holds_the_small_end_until_it_is_pulled() {
    let mut t = pairs().tcp(|c| c.no_delay = true).established();
    let h = t.h();
    t.end.stack.tcp_set_cork(h, true);
    part(&mut t, 1500, Follows::Anything);
    assert_eq!(seen(&mut t), [(1000, false)]);
    t.end.stack.tcp_set_cork(h, false);
    t.end.stack.flush();
    t.collect();
    assert_eq!(seen(&mut t), [(500, true)]);
}

#[test]
fn an_mss_that_was_set_is_offered_and_kept_to() {
    let mut t = Setup::plain().tcp(|c| c.mss_max = 700).ladder();
    t.listen();
    t.send(t.setup.syn.clone());
    t.expect(syn_ack().mss(700));
    t.send(seg().seq(1).ack(1));
    t.accept();
    t.write(1400);
    t.expect(seg().seq(1).data(700));
    t.expect(seg().seq(701).data(700));
}

#[test]
fn a_segment_without_the_timestamps_that_were_agreed_is_taken_unless_they_are_required() {
    for required in [true, false] {
        let mut t = Setup::plain().ts().tcp(|c| c.timestamps_required |= required).established();
        // A keepalive that a middlebox sends in the peer's name.
        t.send(seg().seq(0).ack(1).no_ts());
        if !required {
            t.expect(seg().seq(1).ack(1));
        }
        t.send(seg().data(1000).no_ts());
        let dropped = t.drops(DropReason::TcpPaws);
        assert_eq!(dropped, if required { 2 } else { 0 });
        t.state(State::Established);
        if !required {
            t.read(1000);
        }
    }
}

#[test]
fn the_window_grows_by_what_an_ack_acknowledges_or_by_what_it_delivers() {
    for (by_delivery, cwnd) in [(false, 13_000), (true, 11_000)] {
        let mut t = Setup::plain()
            .sack()
            .off(Switch::Pacing)
            .tcp(|c| c.compat.growth_by_delivery = by_delivery)
            .rtt(20)
            .established();
        t.write(15_000);
        t.take_seen();
        t.pass(20);
        t.send(seg().ack(1).sack(&[(1001, 2001)]));
        t.send(seg().ack(1).sack(&[(1001, 3001)]));
        t.send(seg().ack(3001));
        assert_eq!(t.info().cwnd, cwnd);
    }
}
