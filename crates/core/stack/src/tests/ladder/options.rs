//! Options of SYNs and their negotiation: MSS, window scale, timestamps and PAWS.

use super::seg::{NONE, rst};
use super::*;
use base::Mtu;

/// RFC 9293 MUST-15.
#[test]
fn mss_option_absent_means_536_over_ipv4() {
    for mtu in [600, 1000, 1500, 9000] {
        let mut setup = Setup::plain();
        setup.pair.wire.mtu = Mtu::new(mtu).expect("in range");
        setup.syn = syn().win(65_535);
        let t = setup.established();
        assert_eq!(t.info().snd_mss, 536.min(mtu - 40), "MTU {mtu}");
    }
}

/// RFC 9293 MUST-15.
#[test]
fn mss_option_absent_means_1220_over_ipv6() {
    for mtu in [1280, 1500, 9000] {
        let mut setup = Setup::plain();
        setup.pair.version = IpVersion::V6;
        setup.pair.wire.mtu = Mtu::new(mtu).expect("in range");
        setup.syn = syn().win(65_535);
        let t = setup.established();
        assert_eq!(t.info().snd_mss, 1220, "MTU {mtu}");
    }
}

/// RFC 9293 MUST-14, SHLD-5, MUST-16, MUST-67.
#[test]
fn mss_is_offered_from_the_mtu_and_never_exceeded() {
    for (version, mss) in [(IpVersion::V4, 1460), (IpVersion::V6, 1440)] {
        let mut setup = Setup::plain();
        setup.pair.version = version;
        let mut t = setup.ladder();
        t.connect();
        t.expect(syn().mss(mss));
        t.send(syn_ack().mss(9000));
        t.expect(seg());
        assert_eq!(t.info().snd_mss, usize::from(mss));
    }
}

/// A peer cannot make the stack send packets that are nearly all headers (CVE-2019-11479); Linux
/// has the same minimum.
#[test]
fn a_tiny_mss_is_raised_to_the_floor() {
    for mss in [0, 1, 47, 48] {
        let mut setup = Setup::plain();
        setup.syn = syn().mss(mss);
        let mut t = setup.established();
        assert_eq!(t.info().snd_mss, 48);
        t.write(100);
        t.expect(seg().data(48));
    }
}

/// A minimum MSS that many systems have: 536, which every host accepts (RFC 9293 section 3.7.1).
#[test]
fn the_floor_of_the_mss_can_be_raised() {
    let mut setup = Setup::plain().tcp(|c| c.mss_min = 536);
    setup.syn = syn().win(65_535).mss(1);
    let mut t = setup.established();
    t.write(600);
    t.expect(seg().data(536));
    // The MSS is never larger than the stack's own, nor than the link's.
    let mut setup = Setup::plain().tcp(|c| (c.mss_min, c.mss_max) = (2000, 700));
    setup.syn = syn().win(65_535).mss(1);
    let mut t = setup.established();
    t.write(800);
    t.expect(seg().data(700));
    // A peer on a narrow link that announces its MSS, and a smaller minimum.
    let mut setup = Setup::plain().tcp(|c| c.mss_min = 0);
    setup.syn = syn().win(65_535).mss(1);
    let mut t = setup.established();
    t.write(100);
    t.expect(seg().data(48));
}

/// RFC 6691: options are subtracted from the MSS, not added to it.
/// RFC 9293 MUST-16.
#[test]
fn options_are_taken_off_the_mss() {
    let mut setup = Setup::plain().ts();
    setup.syn = setup.syn.mss(1000);
    let mut t = setup.established();
    assert_eq!(t.info().snd_mss, 988);
    t.write(2000);
    t.expect(seg().seq(1).data(988));
}

/// RFC 9293 REC-1. RFC 7323 2.2-c, 2.3-b.
#[test]
fn window_scale_negotiated() {
    let mut t = Setup::plain().ws(3).tcp(|c| c.receive_buffer_bytes = 1 << 20).ladder();
    t.listen();
    t.send(t.setup.syn.clone().win(1000));
    // A SYN's window is never scaled (RFC 7323 section 2.2), and 1 MB needs a shift of 5.
    t.expect(syn_ack().ws(5).win(65_535));
    t.send(seg().seq(1).ack(1).win(1000));
    t.accept();
    assert_eq!(t.info().snd_wnd, 8000);
    t.send(seg().data(1000).win(500));
    assert_eq!(t.info().snd_wnd, 4000);
    let ack = t.expect(seg().ack(1001));
    assert_eq!(ack.win, Some((((1 << 20) - 1000) >> 5) as u16));
}

/// RFC 7323 2.2-c.
#[test]
fn the_window_of_a_syn_is_not_scaled() {
    let mut t = Setup::plain().ws(7).ladder();
    t.connect();
    t.expect(syn().ws(0));
    t.send(syn_ack().ws(7).mss(1000).win(2000));
    t.expect(seg());
    assert_eq!(t.info().snd_wnd, 2000);
    t.write(5000);
    assert_eq!(t.take_seen().len(), 2);
}

/// RFC 9293 MUST-1. RFC 7323 2.2-b.
#[test]
fn window_scale_absent_at_the_peer() {
    let mut t = Setup::plain().tcp(|c| {
        c.window_scaling = true;
        c.receive_buffer_bytes = 1 << 20;
    });
    t.syn = t.syn.win(60_000);
    let mut t = t.ladder();
    t.listen();
    t.send(t.setup.syn.clone());
    t.expect(syn_ack().ws(NONE).win(65_535));
    t.send(seg().seq(1).ack(1).data(1000));
    t.expect(seg().ack(1001).win(65_535));
    t.accept();
    assert_eq!(t.info().snd_wnd, 60_000);
}

/// RFC 7323 2.2-a.
#[test]
fn window_scale_off_here() {
    let mut t = Setup::plain().ladder();
    t.listen();
    t.send(syn().ws(7).win(1000));
    t.expect(syn_ack().ws(NONE));
    t.send(seg().seq(1).ack(1).win(1000));
    t.accept();
    assert_eq!(t.info().snd_wnd, 1000);
}

/// RFC 7323 3.2-e, 5.4-a.
#[test]
fn timestamps_negotiated_and_echoed() {
    let mut t = Setup::plain().ts().ladder();
    t.listen();
    t.send(syn().ts(1000, 0).mss(1012));
    let syn_ack = t.expect(syn_ack());
    assert_eq!(syn_ack.ts.expect("timestamps").1, 1000);
    t.send(seg().seq(1).ack(1).ts(1005, syn_ack.ts.expect("timestamps").0));
    t.accept();
    t.pass(7);
    t.write(100);
    let data = t.expect(seg().data(100));
    let (value, echo) = data.ts.expect("timestamps");
    assert_eq!(echo, 1005);
    assert_eq!(value.wrapping_sub(syn_ack.ts.expect("timestamps").0), 7);
}

#[test]
fn timestamps_absent_at_the_peer() {
    let mut t = Setup::plain().tcp(|c| c.timestamps = true).ladder();
    t.connect();
    assert!(t.expect(syn()).ts.is_some());
    t.send(syn_ack().mss(1000));
    t.expect(seg().ack(1).no_ts());
    t.write(1000);
    t.expect(seg().data(1000).no_ts());
}

/// RFC 7323 section 4.3: while ACKs are delayed, the oldest segment's timestamp is echoed, so that
/// the peer's measurement includes the delay.
/// RFC 7323 4.3-a, 4.3-b.
#[test]
fn the_timestamp_echoed_is_of_the_segment_that_spans_the_last_ack() {
    let mut t = Setup::plain().ts().tcp(|c| c.timestamps = true).established();
    t.send(seg().data(100).ts(7000, 0));
    t.send(seg().data(100).ts(7010, 0));
    t.pass(45);
    let ack = t.expect(seg().ack(201));
    assert_eq!(ack.ts.expect("timestamps").1, 7000);
    // There is a hole: the timestamp of a segment after it must not be echoed.
    t.send(seg().seq(301).data(100).ts(7100, 0));
    let ack = t.expect(seg().ack(201));
    assert_eq!(ack.ts.expect("timestamps").1, 7000);
    t.send(seg().seq(201).data(100).ts(7090, 0));
    let ack = t.expect(seg().ack(401));
    assert_eq!(ack.ts.expect("timestamps").1, 7090);
}

/// RFC 7323 5.3-a.
#[test]
fn paws_drops_an_old_timestamp_and_acks() {
    let mut t = Setup::plain().ts().established();
    t.send(seg().seq(1).data(1000).ts(9000, 0));
    t.expect(seg().ack(1001));
    // A timestamp from before the connection; then, without data, one from before the last
    // timestamp.
    t.send(seg().seq(1001).data(1000).ts(999, 0));
    t.expect(seg().ack(1001));
    t.send(seg().seq(1001).ts(8999, 0));
    t.expect(seg().ack(1001));
    assert_eq!(t.drops(DropReason::TcpPaws), 2);
    t.send(seg().seq(1001).data(1000).ts(9000, 0));
    t.expect(seg().ack(2001));
}

/// A retransmission has overtaken segments that were sent before it: their data is late, not old.
#[test]
fn paws_lets_late_data_in() {
    let mut t = Setup::plain().ts().established();
    t.send(seg().seq(1001).data(1000).ts(7000, 0));
    t.expect(seg().ack(1));
    t.send(seg().seq(1).data(1000).ts(9000, 0));
    t.expect(seg().ack(2001));
    t.send(seg().seq(2001).data(1000).ts(7001, 0));
    t.send(seg().seq(3001).data(1000).ts(7002, 0));
    let ack = t.expect(seg().ack(4001));
    assert_eq!(ack.ts.expect("timestamps").1, 9000, "TS.Recent went back");
    assert_eq!(t.drops(DropReason::TcpPaws), 0);
}

/// Timestamps wrap around: they are compared modulo 2^32.
/// RFC 7323 5.3-b.
#[test]
fn paws_over_the_wrap_of_the_timestamp_clock() {
    let mut setup = Setup::plain().ts();
    setup.syn = setup.syn.ts(u32::MAX - 5, 0);
    let mut t = setup.ladder();
    t.listen();
    t.send(t.setup.syn.clone());
    t.expect(syn_ack());
    t.send(seg().seq(1).ack(1).ts(u32::MAX, 0));
    t.accept();
    t.send(seg().seq(1).data(1000).ts(3, 0));
    let ack = t.expect(seg().ack(1001));
    assert_eq!(ack.ts.expect("timestamps").1, 3);
    t.send(seg().seq(1001).data(1000).ts(u32::MAX - 6, 0));
    t.expect(seg().ack(1001));
    assert_eq!(t.drops(DropReason::TcpPaws), 1);
}

/// RFC 7323 section 5.5: after 24 days of silence TS.Recent is invalid.
/// RFC 7323 5.5-a.
#[test]
fn paws_forgets_after_24_days_of_silence() {
    const DAY_MS: u64 = 86_400_000;
    let mut t = Setup::plain().ts().established();
    t.send(seg().seq(1).data(1000).ts(7000, 0));
    t.expect(seg().ack(1001));
    t.pass(20 * DAY_MS);
    t.send(seg().seq(1001).data(1000).ts(500, 0));
    t.expect(seg().ack(1001));
    assert_eq!(t.drops(DropReason::TcpPaws), 1);
    t.pass(5 * DAY_MS);
    t.send(seg().seq(1001).data(1000).ts(500, 0));
    t.expect(seg().ack(2001));
    assert_eq!(t.drops(DropReason::TcpPaws), 1);
}

/// RFC 7323 section 5.2: a RST without a timestamp or with an old one is accepted.
/// RFC 7323 5.2-a.
#[test]
fn paws_exempts_rst() {
    for ts in [None, Some(5)] {
        let mut t = Setup::plain().ts().established();
        t.send(match ts {
            None => rst().seq(1).no_ts(),
            Some(old) => rst().seq(1).ts(old, 0),
        });
        t.state(State::Closed);
        assert_eq!(t.drops(DropReason::TcpRst), 1);
    }
}

/// RFC 7323 section 3.2: once timestamps are agreed on, a segment without the option is dropped
/// silently, if the user asks for that.
/// RFC 7323 3.2-d.
#[test]
fn a_missing_timestamp_is_dropped_where_it_is_required() {
    let mut t = Setup::plain().ts().tcp(|c| c.timestamps_required = true).established();
    t.send(seg().seq(1).data(1000).no_ts());
    t.nothing();
    assert_eq!(t.drops(DropReason::TcpPaws), 1);
    assert_eq!(t.info().bytes_received, 0);
}

/// RFC 9293 MUST-7.
#[test]
fn options_of_length_zero_and_one_are_survived_and_counted() {
    for raw in [[2, 0, 0, 0], [8, 1, 0, 0], [5, 40, 0, 0], [1, 1, 1, 2]] {
        let mut t = Setup::plain().established();
        t.send(seg().seq(1).data(10).options(&raw));
        t.nothing();
        assert_eq!(t.drops(DropReason::TcpOptions), 1);
        t.send(seg().seq(1).data(1000));
        t.expect(seg().ack(1001));
    }
}
