//! Urgent data: the sender announces it until it is acknowledged; at the receiver it is a mark in
//! the stream at which reads end. Also invalid urgent pointers.

use super::*;
use tcp::Events;

/// Writes `len` bytes, of which the last is urgent.
fn write_urgent(t: &mut Ladder, len: usize) {
    let data = wire_end::stream(t.written, len);
    assert_eq!(t.end.stack.tcp_write_urgent(t.h(), &data), Ok(len));
    t.written += len;
    t.collect();
}

/// The number of unread bytes up to the urgent mark, and whether the last urgent byte is the next
/// to read.
fn mark(t: &Ladder) -> (u64, bool) {
    let stack = &t.end.stack;
    (stack.tcp_urgent_left(t.h()).expect("there"), stack.tcp_at_mark(t.h()).expect("there"))
}

/// How many times the user was notified of urgent data.
fn told(t: &mut Ladder) -> usize {
    let of_urgent = |e: &Event| matches!(e, Event::Tcp(_, e) if e.has(Events::URGENT));
    t.events.drain(..).filter(of_urgent).count()
}

#[track_caller]
fn expect_urgent(t: &mut Ladder, wanted: Seg) {
    let pointer = wanted.urgent;
    let seen = t.expect(wanted);
    assert_eq!(seen.urgent, pointer, "{seen}");
}

/// RFC 9293 MUST-30, MUST-62.
#[test]
fn an_urgent_byte_leaves_at_once_with_a_pointer_behind_it() {
    let mut t = Setup::plain().established();
    t.write(1000);
    t.expect(seg().seq(1).data(1000));
    // Nagle's algorithm would hold these bytes, because data is in flight.
    write_urgent(&mut t, 3);
    expect_urgent(&mut t, seg().seq(1001).data(3).urg(3));
    t.send(seg().ack(1004));
    // The urgent data is acknowledged: segments have no URG any more.
    t.write(10);
    t.expect(seg().seq(1004).data(10));
}

/// RFC 9293 MUST-30, MUST-31.
#[test]
fn each_segment_up_to_the_urgent_byte_says_so_and_none_behind_it() {
    let mut t = Setup::plain().established();
    write_urgent(&mut t, 2500);
    expect_urgent(&mut t, seg().seq(1).data(1000).urg(2500));
    expect_urgent(&mut t, seg().seq(1001).data(1000).urg(1500));
    expect_urgent(&mut t, seg().seq(2001).data(500).urg(500));
    t.write(1000);
    t.expect(seg().seq(2501).data(1000));
    t.send(seg().ack(1001));
    // A retransmission has the urgent pointer again.
    let rto = t.info().rto.as_millis();
    expect_urgent_after(&mut t, rto, seg().seq(1001).data(1000).urg(1500));
}

#[track_caller]
fn expect_urgent_after(t: &mut Ladder, ms: u64, wanted: Seg) {
    let pointer = wanted.urgent;
    let seen = t.expect_after(ms, wanted);
    assert_eq!(seen.urgent, pointer, "{seen}");
}

/// RFC 9293 MUST-31: a pointer that does not fit the field is sent later.
#[test]
fn a_pointer_that_does_not_fit_waits_until_it_does() {
    let mut t = Setup::plain().ws(2).off(Switch::Pacing).established();
    write_urgent(&mut t, 70_000);
    // Segments that left while the data was being written do not announce the urgent byte.
    let mut sent: i64 = t.take_seen().iter().map(|s| s.len as i64).sum();
    assert!(sent <= 10_000, "{sent}");
    t.send(seg().ack(1001));
    while sent < 70_000 {
        let burst = t.take_seen();
        assert!(!burst.is_empty(), "stopped at {sent}");
        for s in burst {
            let ahead = 70_001 - s.seq.expect("data");
            let wanted = if ahead <= 65_535 { (true, ahead) } else { (false, 0) };
            assert_eq!((s.has(wire::tcp::Flags::URG), i64::from(s.urgent)), wanted, "{s}");
            sent += s.len as i64;
        }
        t.send(seg().ack(sent + 1));
    }
}

#[test]
fn a_shut_window_does_not_keep_urgency_back() {
    let mut t = Setup::plain().peer_window(1000).established();
    t.write(1000);
    t.expect(seg().seq(1).data(1000));
    t.send(seg().ack(1001).win(0));
    write_urgent(&mut t, 1);
    expect_urgent(&mut t, seg().seq(1001).urg(1));
    // Window probes have the pointer too, counted from their sequence number before the window.
    let rto = t.info().rto.as_millis();
    expect_urgent_after(&mut t, rto, seg().seq(1000).urg(2));
    t.send(seg().ack(1001).win(1000));
    expect_urgent(&mut t, seg().seq(1001).data(1).urg(1));
}

#[test]
fn super_segments_are_cut_while_urgent_data_is_on_its_way() {
    let mut setup = Setup::plain();
    setup.pair.wire.offloads.tso_max_bytes = 65_535;
    let mut t = setup.established();
    write_urgent(&mut t, 3000);
    for (seq, ahead) in [(1, 3000), (1001, 2000), (2001, 1000)] {
        expect_urgent(&mut t, seg().seq(seq).data(1000).size(0).urg(ahead));
    }
    t.send(seg().ack(3001));
    t.write(2000);
    t.expect(seg().seq(3001).data(2000).size(1000));
}

/// RFC 9293 MUST-32, MUST-33, MUST-62.
#[test]
fn a_reader_hears_of_urgent_data_before_it_gets_there() {
    let mut t = Setup::plain().established();
    t.send(seg().data(100));
    t.send(seg().data(100).urg(150));
    assert_eq!(told(&mut t), 1);
    assert_eq!(mark(&t), (250, false), "the mark is not 50 bytes past the received data");
    t.send(seg().data(100));
    assert_eq!(told(&mut t), 0);
    // A read ends at the mark, and the next goes past it.
    let mut into = [0; 300];
    assert_eq!(t.end.stack.tcp_read(t.h(), &mut into), Ok(249));
    assert_eq!(mark(&t), (1, true));
    assert_eq!(t.end.stack.tcp_peek(t.h(), &mut into), Ok(51));
    assert_eq!(mark(&t), (1, true));
    assert_eq!(t.end.stack.tcp_read(t.h(), &mut into), Ok(51));
    assert_eq!(mark(&t), (0, false));
}

/// RFC 9293 MUST-32: the user is notified again when the pointer moves on, and only then.
#[test]
fn a_pointer_that_moves_on_is_told_again() {
    let mut t = Setup::plain().established();
    for (pointer, tells) in [(100, 1), (0, 0), (50, 1), (100, 1), (0, 0)] {
        t.send(seg().data(100).urg(pointer));
        assert_eq!(told(&mut t), tells, "{pointer}");
    }
    assert_eq!(mark(&t), (400, false));
    // The last two bytes are left: the bytes before them are no longer urgent.
    t.read(398);
    assert_eq!(mark(&t), (2, false));
    t.read(1);
    assert_eq!(mark(&t), (1, true));
}

#[test]
fn loaned_buffers_end_at_the_mark() {
    let mut t = Setup::plain().established();
    t.send(seg().data(1000).urg(500));
    for wanted in [499, 501] {
        let m = t.end.stack.tcp_read_mbuf(t.h()).expect("data").expect("no end");
        assert_eq!(m.as_slice(), wire_end::stream(t.read, wanted));
        t.read += wanted;
        t.end.stack.give_back(m);
    }
    assert_eq!(mark(&t), (0, false));
}

/// Pointers as in URGENT/11: they are only numbers here, and do no harm.
#[test]
fn hostile_pointers_do_nothing() {
    let mut t = Setup::plain().established();
    // A pointer of zero sets no mark.
    t.send(seg().urg(0));
    t.send(seg().data(10).urg(0));
    assert_eq!((told(&mut t), mark(&t)), (0, (0, false)));
    // A pointer far beyond the window, on a segment without data.
    t.send(seg().seq(11).urg(65_535));
    assert_eq!((told(&mut t), mark(&t)), (1, (65_545, false)));
    // On a segment outside the window the pointer is ignored.
    t.send(seg().seq(1_000_000).urg(65_535));
    t.take_seen();
    assert_eq!(told(&mut t), 0);
    // A segment with SYN and URG gets a challenge ACK.
    t.send(seg().seq(11).and_syn().urg(7));
    t.take_seen();
    assert_eq!(told(&mut t), 0);
    t.read(10);
    // With a FIN, urgent data ends at the end of the stream, wherever the pointer points.
    t.send(seg().seq(11).data(20).fin().urg(60_000));
    assert_eq!(mark(&t), (20, false));
    let mut into = [0; 100];
    assert_eq!(t.end.stack.tcp_read(t.h(), &mut into), Ok(19));
    assert_eq!(t.end.stack.tcp_read(t.h(), &mut into), Ok(1));
    assert_eq!(t.end.stack.tcp_read(t.h(), &mut into), Ok(0));
    assert_eq!(mark(&t), (0, false));
}

/// The mark is a position in the stream, not a sequence number: it does not appear again after 4
/// GB, and a pointer across the wrap of the sequence numbers works like any other (the script's
/// numbers wrap after 2 KB).
#[test]
fn a_mark_across_the_wrap_of_sequence_numbers() {
    let mut t = Setup::plain().established();
    t.send(seg().data(1000));
    t.send(seg().data(990).urg(1500));
    assert_eq!(mark(&t), (2500, false));
    t.send(seg().data(1000));
    let mut into = [0; 3000];
    assert_eq!(t.end.stack.tcp_read(t.h(), &mut into), Ok(2499));
    assert_eq!(mark(&t), (1, true));
}

#[test]
fn urgent_data_changes_nothing_for_who_does_not_ask() {
    let mut t = Setup::plain().established();
    t.send(seg().data(500).urg(1));
    t.send(seg().data(500).urg(500));
    let mut into = [0; 1000];
    let mut read = 0;
    while read < 1000 {
        read += t.end.stack.tcp_read(t.h(), &mut into[read..]).expect("all of it");
    }
    assert!(into[..] == wire_end::stream(0, 1000));
}
