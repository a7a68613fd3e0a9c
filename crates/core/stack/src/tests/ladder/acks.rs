//! When an ACK is sent: delayed ACKs (RFC 5681 section 4.2) and the send-space estimate.

use super::*;

/// The settings without the send-space estimate, to test plain RFC 5681.
fn delaying() -> Ladder {
    let mut t = Setup::plain().off(Switch::SendSpace).established();
    // The first full-sized segment sets the full size.
    t.send(seg().data(1000));
    t.pass(45);
    t.expect(seg().ack(1001));
    t
}

/// RFC 9293 SHLD-19. RFC 5681 4.2-a, 4.2-d.
#[test]
fn delayed_ack_for_every_second_full_sized_segment() {
    let mut t = delaying();
    t.send(seg().data(1000));
    t.nothing();
    t.send(seg().data(1000));
    t.expect(seg().ack(3001));
    t.nothing();
}

/// RFC 9293 SHLD-18, MUST-40. RFC 5681 4.2-a.
#[test]
fn delayed_ack_after_its_time_out() {
    let mut t = delaying();
    t.send(seg().data(500));
    t.expect_after(40, seg().ack(1501));
    t.silence(5000);
}

#[test]
fn delayed_ack_rides_on_data() {
    let mut t = delaying();
    t.send(seg().data(1000));
    t.nothing();
    t.write(10);
    t.expect(seg().ack(2001).data(10));
    t.pass(100);
    t.nothing();
}

/// RFC 9293 SHLD-31. RFC 5681 4.2-b.
#[test]
fn ack_is_immediate_out_of_order_and_when_a_gap_fills() {
    let mut t = delaying();
    t.send(seg().seq(2001).data(100));
    t.expect(seg().ack(1001));
    t.send(seg().seq(2101).data(100));
    t.expect(seg().ack(1001));
    // Only the front of the gap is filled, so a gap is left.
    t.send(seg().seq(1001).data(1000));
    t.expect(seg().ack(2201));
    t.read(2200);
}

/// RFC 5681 section 4.2: an ACK is sent at once, even if only a part of the gap is filled.
/// RFC 5681 4.2-c.
#[test]
fn ack_is_immediate_when_a_part_of_a_gap_fills() {
    let mut t = delaying();
    t.send(seg().seq(2001).data(100));
    t.expect(seg().ack(1001));
    t.send(seg().seq(1001).data(500));
    t.expect(seg().ack(1501));
}

#[test]
fn ack_is_immediate_for_a_duplicate() {
    let mut t = delaying();
    t.send(seg().seq(1).data(1000));
    t.expect(seg().ack(1001));
    t.send(seg().seq(501).data(600));
    t.expect(seg().ack(1101));
    t.read(1100);
}

/// The peer's buffer holds two 700-byte segments: after them it waits for an ACK.
#[test]
fn send_space_estimate_acks_what_the_peer_can_send_at_most() {
    let mut t = Setup::plain().established();
    t.send(seg().data(700));
    t.expect(seg().ack(701));
    assert_eq!(t.info().send_space_bytes, 700);
    // The peer has sent as much as it ever sent between two ACKs: the ACK is not delayed.
    t.send(seg().data(700));
    t.expect(seg().ack(1401));
    // After fewer bytes the ACK is delayed.
    t.send(seg().data(300));
    t.expect_after(40, seg().ack(1701));
}

#[test]
fn send_space_estimate_switched_off_waits() {
    let mut t = Setup::plain().off(Switch::SendSpace).established();
    t.send(seg().data(700));
    t.expect_after(40, seg().ack(701));
    t.send(seg().data(700));
    t.expect_after(40, seg().ack(1401));
}

/// A peer that sends only a segment now and then does not wait for each ACK: the stack detects that
/// by the ninth.
#[test]
fn send_space_estimate_is_put_to_the_test() {
    let mut t = Setup::plain().established();
    for i in 1..=8 {
        t.send(seg().data(1000));
        t.expect(seg().ack(1 + i * 1000));
    }
    t.send(seg().data(1000));
    t.nothing();
    t.send(seg().data(1000));
    t.expect(seg().ack(10_001));
    assert_eq!(t.info().send_space_bytes, 2000);
    // From now on every second segment is acknowledged.
    t.send(seg().data(1000));
    t.nothing();
    t.send(seg().data(1000));
    t.expect(seg().ack(12_001));
}

/// For a peer that does wait, one ACK in eight is delayed, then one in 64.
#[test]
fn send_space_estimate_that_is_right_is_tested_ever_more_rarely() {
    let mut t = Setup::plain().established();
    for i in 1..=8 {
        t.send(seg().data(1000));
        t.expect(seg().ack(1 + i * 1000));
    }
    t.send(seg().data(1000));
    t.expect_after(40, seg().ack(9001));
    t.read(9000);
    for i in 10..=73 {
        t.send(seg().data(1000));
        t.expect(seg().ack(1 + i * 1000));
        t.read(1000);
    }
    t.send(seg().data(1000));
    t.expect_after(40, seg().ack(74_001));
}

#[test]
fn send_space_estimate_grows_with_what_the_peer_sends_between_acks() {
    let mut t = Setup::plain().established();
    t.send(seg().data(1000));
    t.expect(seg().ack(1001));
    t.burst(&[seg().data(1000), seg().data(1000), seg().data(1000)]);
    t.expect(seg().ack(4001));
    assert_eq!(t.info().send_space_bytes, 3000);
    t.send(seg().data(1000));
    t.nothing();
    t.send(seg().data(1000));
    t.expect(seg().ack(6001));
}

/// One ACK for a burst of segments; with the switch off, one for every second segment.
/// RFC 9293 MUST-58, MUST-59.
#[test]
fn one_ack_for_a_burst() {
    for (on, acks) in [(true, 1), (false, 4)] {
        let mut setup = Setup::plain().off(Switch::SendSpace);
        if !on {
            setup = setup.off(Switch::BurstAck);
        }
        let mut t = setup.established();
        t.send(seg().data(1000));
        t.pass(45);
        t.take_seen();
        t.burst(&vec![seg().data(1000); 8]);
        assert_eq!(t.take_seen().len(), acks);
    }
}

/// RFC 2018 4-a, 4-b.
#[test]
fn sack_blocks_out_most_recent_first_and_joined() {
    let mut t = Setup::plain().sack().established();
    t.send(seg().seq(1001).data(100));
    t.expect(seg().ack(1).sack(&[(1001, 1101)]));
    t.send(seg().seq(2001).data(100));
    t.expect(seg().ack(1).sack(&[(2001, 2101), (1001, 1101)]));
    t.send(seg().seq(3001).data(100));
    t.expect(seg().ack(1).sack(&[(3001, 3101), (2001, 2101), (1001, 1101)]));
    // A block that grows comes first.
    t.send(seg().seq(2101).data(100));
    t.expect(seg().ack(1).sack(&[(2001, 2201), (3001, 3101), (1001, 1101)]));
    // Two blocks merge.
    t.send(seg().seq(1101).data(900));
    t.expect(seg().ack(1).sack(&[(1001, 2201), (3001, 3101)]));
    // Blocks whose data was delivered are not reported any longer.
    t.send(seg().seq(1).data(1000));
    t.expect(seg().ack(2201).sack(&[(3001, 3101)]));
    t.send(seg().seq(2201).data(800));
    t.expect(seg().ack(3101).sack(&[]));
    t.read(3100);
}

/// RFC 2018 4-c.
#[test]
fn sack_blocks_out_four_and_three_beside_timestamps() {
    for with_ts in [false, true] {
        let mut setup = Setup::plain().sack();
        if with_ts {
            setup = setup.ts();
        }
        let mut t = setup.established();
        for i in 1..=5 {
            t.send(seg().seq(i * 1000).data(100));
        }
        let last = t.take_seen().pop().expect("an ACK");
        let blocks: Vec<_> = (2..=5).rev().map(|i| (i * 1000, i * 1000 + 100)).collect();
        let wanted = if with_ts { &blocks[..3] } else { &blocks[..] };
        assert_eq!(last.sacks.as_deref(), Some(wanted));
    }
}

/// RFC 2018 3-a.
#[test]
fn no_sack_blocks_to_a_peer_that_does_not_take_them() {
    let mut t = Setup::plain().tcp(|c| c.sack = true).established();
    t.send(seg().seq(1001).data(100));
    t.expect(seg().ack(1).sack(&[]));
}

/// Held segments are limited in number (CVE-2018-5390), and the limit's hits are counted.
#[test]
fn reassembly_has_a_limit() {
    let mut t = Setup::plain().limit(Limit::ReassemblySegments, 3).established();
    for i in 1..=4 {
        t.send(seg().seq(i * 100).data(50));
        t.expect(seg().ack(1));
    }
    assert_eq!(t.drops(DropReason::TcpReassemblyFull), 1);
    assert_eq!(t.hits(Limit::ReassemblySegments), 1);
    t.send(seg().seq(1).data(99));
    t.expect(seg().ack(150));
}

/// The data that arrived first is kept, but a held piece that is wholly inside a later one is
/// replaced by it.
#[test]
fn overlap_with_different_data_is_deterministic() {
    let mut t = Setup::plain().established();
    t.send(seg().seq(11).data(10));
    t.send(seg().seq(6).data(10).fill(b'x'));
    t.send(seg().seq(16).data(10).fill(b'y'));
    t.send(seg().seq(1).data(5));
    let mut into = [0; 64];
    let n = t.end.stack.tcp_read(t.h(), &mut into).expect("data");
    let mut wanted = wire_end::stream(0, 25);
    wanted[5..10].fill(b'x');
    wanted[20..25].fill(b'y');
    assert_eq!(&into[..n], &wanted[..]);
}
