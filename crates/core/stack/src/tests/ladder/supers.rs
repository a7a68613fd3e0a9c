//! Super-segments: a device that cuts them gets one frame of up to 64 KB.

use super::*;

/// A connection over a device that takes super-segments, with SACK and a window for two of them.
fn setup() -> Setup {
    let mut setup = Setup::plain().sack().ws(2);
    setup.pair.wire.offloads.tso_max_bytes = 65_535;
    setup.tcp.unsent_limit_bytes = 1 << 20;
    setup
}

/// Opens cwnd to `segments` segments by slow start.
fn opened(setup: Setup, segments: u64) -> Ladder {
    let mut t = setup.established();
    while t.info().cwnd < segments * 1000 {
        t.write(segments as usize * 1000);
        while t.info().in_flight > 0 {
            let all = t.wire.stack_next;
            t.take_seen();
            t.send(seg().ack(all));
        }
    }
    t.take_seen();
    t.nothing();
    t
}

#[test]
fn super_segment_is_one_unit_of_64_kb_with_its_segment_size() {
    let mut t = opened(setup(), 200);
    let at = t.wire.stack_next;
    t.write(130_000);
    let sent = t.take_seen();
    assert_eq!(sent[0].len, 65_000, "not the most full segments below 65,535 with headers");
    assert_eq!(sent[0].size, Some(1000));
    assert_eq!(sent.iter().map(|s| s.len).sum::<usize>(), 130_000);
    assert_eq!(t.info().in_flight, 130_000);
    t.send(seg().ack(at + 130_000));
    assert_eq!(t.info().in_flight, 0);
}

#[test]
fn a_small_write_has_no_segment_size() {
    let mut t = setup().established();
    t.write(1000);
    t.expect(seg().seq(1).data(1000).size(0));
}

#[test]
fn super_segment_is_cut_at_the_congestion_window() {
    let mut t = setup().established();
    t.write(50_000);
    t.expect(seg().seq(1).data(10_000).size(1000));
    t.nothing();
    t.send(seg().ack(4001));
    // Slow start: cwnd is 14 segments, 6 are in flight.
    t.expect(seg().seq(10_001).data(8000).size(1000));
}

#[test]
fn super_segment_waits_for_more_than_a_sliver_of_window() {
    let mut t = setup().established();
    t.write(50_000);
    t.expect(seg().seq(1).data(10_000).size(1000));
    t.send(seg().ack(1001));
    // There is room for two segments of eleven, and nine are in flight: their ACKs will free more.
    t.nothing();
    t.send(seg().ack(4001));
    t.expect(seg().seq(10_001).data(8000).size(1000));
}

#[test]
fn super_segment_is_cut_at_the_window() {
    let mut t = opened(setup(), 60);
    let at = t.wire.stack_next;
    t.send(seg().ack(at).win(1375));
    t.write(20_000);
    // The window is 5500 bytes: five whole segments.
    t.expect(seg().seq(at).data(5000).size(1000));
    t.nothing();
}

#[test]
fn partial_ack_inside_a_super_segment() {
    let mut t = setup().off(Switch::TailProbe).established();
    t.write(10_000);
    t.expect(seg().seq(1).data(10_000).size(1000));
    t.send(seg().ack(3501));
    assert_eq!(t.info().in_flight, 6500);
    let rto = t.info().rto.as_millis();
    // The rest is retransmitted, a single segment first.
    t.expect_after(rto, seg().seq(3501).data(1000).size(0));
    t.send(seg().ack(10_001));
    assert_eq!(t.info().in_flight, 0);
    t.silence(100_000);
}

#[test]
fn sack_inside_a_super_segment() {
    let mut t = setup().established();
    t.write(10_000);
    t.expect(seg().seq(1).data(10_000).size(1000));
    t.send(seg().ack(2001).sack(&[(4001, 5001), (6001, 10_001)]));
    // The first hole is retransmitted as a super-segment of two, the second as a plain segment.
    t.expect(seg().seq(2001).data(2000).size(1000));
    t.expect(seg().seq(5001).data(1000).size(0));
    t.nothing();
    assert_eq!(t.info().retransmits, 2);
    t.send(seg().ack(10_001));
    assert_eq!(t.info().in_flight, 0);
    assert_eq!(t.info().bytes_acked, 10_000);
}

#[test]
fn super_segment_retransmitted_after_a_time_out_in_pieces() {
    let mut t = setup().off(Switch::TailProbe).established();
    t.write(10_000);
    t.expect(seg().seq(1).data(10_000));
    t.expect_after(200, seg().seq(1).data(1000).size(0));
    t.send(seg().ack(1001));
    t.expect(seg().seq(1001).data(2000).size(1000));
    t.send(seg().ack(3001));
    t.expect(seg().seq(3001).data(4000).size(1000));
    t.send(seg().ack(10_001));
    t.silence(100_000);
}

/// Lost bytes that an ACK covers in the middle of a piece are not counted as lost later.
#[test]
fn partial_ack_inside_a_lost_super_segment() {
    let mut t = setup().off(Switch::TailProbe).established();
    t.write(10_000);
    t.expect(seg().seq(1).data(10_000));
    t.expect_after(200, seg().seq(1).data(1000));
    t.send(seg().ack(1501));
    t.expect(seg().seq(1501).data(2000).size(1000));
    t.take_seen();
    t.send(seg().ack(10_001));
    assert_eq!(t.info().fast_recoveries, 0);
    assert_eq!(t.info().in_flight, 0);
    t.silence(100_000);
}

#[test]
fn super_segment_with_fin_and_a_ragged_end() {
    let mut t = setup().established();
    t.write(4500);
    t.expect(seg().seq(1).data(4500).size(1000));
    t.send(seg().ack(4501));
    t.write(2500);
    t.expect(seg().seq(4501).data(2500).size(1000));
    t.shutdown();
    t.expect(seg().seq(7001).fin());
    t.send(seg().ack(5001).sack(&[(6001, 7001)]));
    t.send(seg().ack(7002));
    t.state(State::FinWait2);
}
