//! Paths whose MTU is smaller than the link's and that send no ICMP error: black holes, and the
//! search for larger segments (RFC 2923, RFC 4821). The tests of errors from routers are in
//! `tests/path_mtu.rs`.

use tcp::MtuProbing;

use super::*;

/// The payload of a full segment over IPv4 without options, and the payload of a segment of
/// BASE_PLPMTU.
const FULL: usize = 1460;
const BASE: usize = 1160;

fn setup(version: IpVersion) -> Setup {
    let mut setup = Setup::plain().sack().rtt(20);
    setup.pair.version = version;
    setup.syn = setup.syn.mss(1460);
    setup
}

/// The peer beyond a path that drops segments of more than `most` bytes; `got` contains the
/// received ranges, sorted. The peer acknowledges every segment, with SACK blocks where needed.
struct Narrow {
    most: usize,
    got: Vec<(i64, i64)>,
    /// Sizes of the dropped segments, in order.
    swallowed: Vec<usize>,
}

impl Narrow {
    fn new(most: usize) -> Narrow {
        Narrow { most, got: vec![(1, 1)], swallowed: Vec::new() }
    }

    fn take(&mut self, seq: i64, len: usize) {
        self.got.push((seq, seq + len as i64));
        self.got.sort_unstable();
        let mut joined: Vec<(i64, i64)> = Vec::new();
        for &(left, right) in &self.got {
            match joined.last_mut() {
                Some(last) if left <= last.1 => last.1 = last.1.max(right),
                _ => joined.push((left, right)),
            }
        }
        self.got = joined;
    }

    /// Answers the segments that were sent, `ms` milliseconds later; returns `false` if there were
    /// none.
    fn answer(&mut self, t: &mut Ladder, ms: u64) -> bool {
        let seen = t.take_seen();
        t.pass(ms);
        for s in seen.iter().filter(|s| s.len > 0) {
            if s.len > self.most {
                self.swallowed.push(s.len);
                continue;
            }
            let seq = s.seq.expect("a segment has one");
            self.take(seq, s.len);
            let holds = |r: &&(i64, i64)| r.0 <= seq && seq < r.1;
            let newest = self.got[1..].iter().filter(holds);
            let others = self.got[1..].iter().filter(|r| !holds(r));
            let blocks: Vec<_> = newest.chain(others).take(3).copied().collect();
            t.send(seg().ack(self.got[0].1).sack(&blocks));
        }
        !seen.is_empty()
    }

    /// Sends `len` bytes over the path, or fails after `seconds`.
    fn carry(&mut self, t: &mut Ladder, len: usize, seconds: u64) {
        let (mut left, end) = (len, t.now + Duration::from_secs(seconds));
        let all = t.written as i64 + len as i64 + 1;
        while self.got[0].1 < all {
            if left > 0 {
                let data = wire_end::stream(t.written, left.min(16_384));
                let taken = t.end.stack.tcp_write(t.h(), &data).unwrap_or(0);
                t.written += taken;
                left -= taken;
                t.collect();
            }
            if !self.answer(t, 20) {
                t.run_until(t.now + Duration::from_secs(5), true);
            }
            if t.now > end {
                t.fail("no segment passes the path");
            }
        }
        t.pass(20);
    }
}

/// A connection that has left a black hole, and its peer.
fn out_of_the_hole(setup: Setup, most: usize) -> (Ladder, Narrow) {
    let mut t = setup.established();
    let mut path = Narrow::new(most);
    t.write(3 * FULL);
    while t.info().snd_mss > most {
        if !path.answer(&mut t, 20) {
            t.run_until(t.now + Duration::from_secs(5), true);
        }
        if t.now.since(t.start) > Duration::from_secs(20) {
            t.fail("the black hole was not detected");
        }
    }
    (t, path)
}

/// One time-out proves nothing; the third transmission of the same segment is cut to a size that
/// nearly every path carries.
/// RFC 4821 7.7-a.
#[test]
fn a_black_hole_is_found_by_time_outs_in_a_row() {
    for version in [IpVersion::V4, IpVersion::V6] {
        let (full, base) = if version == IpVersion::V4 { (FULL, BASE) } else { (1440, 1220) };
        let mut t = setup(version).established();
        t.write(2 * full);
        t.expect(seg().seq(1).data(full));
        t.expect(seg().seq(1 + full as i64).data(full));
        // A tail loss probe, then a time-out.
        t.run_until(t.now + Duration::from_secs(1), true);
        t.expect(seg().seq(1 + full as i64).data(full));
        t.run_until(t.now + Duration::from_secs(1), true);
        t.expect(seg().seq(1).data(full));
        t.run_until(t.now + Duration::from_secs(2), true);
        t.expect(seg().seq(1).data(base));
        assert_eq!(t.info().snd_mss, base);
        assert_eq!(t.count(Counter::PathBlackHoles), 1);
        let before = t.info();
        t.take_seen();
        t.send(seg().ack(1 + base as i64));
        assert!(t.info().cwnd >= before.cwnd, "the smaller segment reduced cwnd");
        assert_eq!(t.info().ssthresh, before.ssthresh);
        assert!(t.take_seen().iter().all(|s| s.len <= base));
    }
}

/// Small segments arrive, so there is no time-out: their ACKs show that the retransmission is lost,
/// too.
#[test]
fn a_black_hole_is_found_while_small_segments_pass() {
    let mut t = setup(IpVersion::V4).tcp(|c| c.no_delay = true).established();
    t.write(FULL);
    let mut path = Narrow::new(1400);
    for _ in 0..30 {
        t.write(100);
        path.answer(&mut t, 20);
    }
    assert_eq!((t.count(Counter::PathBlackHoles), t.info().timeouts), (1, 0));
    path.carry(&mut t, 100, 5);
    assert!(path.swallowed.len() <= 3, "{:?}", path.swallowed);
}

/// Large segments after the missing one still arrive, so its size is not the cause.
#[test]
fn losses_among_large_segments_are_no_black_hole() {
    let mut t = setup(IpVersion::V4).established();
    t.write(8 * FULL);
    t.take_seen();
    let edge = |segments: usize| 1 + (segments * FULL) as i64;
    for arrived in 4..8 {
        t.send(seg().ack(1).sack(&[(edge(1), edge(arrived))]));
        t.run_until(t.now + Duration::from_secs(10), true);
        let seen = t.take_seen();
        assert!(
            seen.iter().any(|s| s.seq == Some(1)),
            "the first segment was not sent again: {seen:?}"
        );
        assert!(seen.iter().all(|s| s.len == FULL), "{seen:?}");
    }
    assert_eq!(t.count(Counter::PathBlackHoles), 0);
}

/// Large segments that arrived before the path became narrower hide the black hole only once.
#[test]
fn large_segments_that_arrived_before_the_hole_opened_do_not_hide_it() {
    let mut t = setup(IpVersion::V4).established();
    t.write(5 * FULL);
    t.take_seen();
    t.send(seg().ack(1).sack(&[(1 + FULL as i64, 1 + 5 * FULL as i64)]));
    t.expect(seg().seq(1).data(FULL));
    t.run_until(t.now + Duration::from_secs(1), true);
    t.expect(seg().seq(1).data(FULL));
    t.run_until(t.now + Duration::from_secs(1), true);
    t.expect(seg().seq(1).data(BASE));
    assert_eq!(t.count(Counter::PathBlackHoles), 1);
}

/// With the search off, only reports of routers make segments smaller.
#[test]
fn probing_off_leaves_a_black_hole_alone() {
    let mut t = setup(IpVersion::V4).tcp(|c| c.mtu_probing = MtuProbing::Off).established();
    t.write(FULL);
    t.run_until(t.now + Duration::from_secs(20), false);
    assert!(t.take_seen().iter().all(|s| s.len == FULL));
    assert_eq!(t.info().snd_mss, FULL);
}

#[test]
fn segments_as_small_as_every_host_takes_are_the_last_resort() {
    let (mut t, mut path) = out_of_the_hole(setup(IpVersion::V4), 900);
    assert_eq!((t.info().snd_mss, t.count(Counter::PathBlackHoles)), (536, 2));
    path.carry(&mut t, 300_000, 30);
    let size = t.info().snd_mss;
    assert!((900 - 16..=900).contains(&size), "{size}");
}

/// RFC 4821 section 7: the path MTU is searched upwards, with data of the stream, one probe at a
/// time, and a lost probe does not reduce cwnd.
/// RFC 4821 7.5-a, 7.6-a, 7.6-b.
#[test]
fn probes_find_what_the_path_carries_and_their_loss_reduces_nothing() {
    for version in [IpVersion::V4, IpVersion::V6] {
        let (mut t, mut path) = out_of_the_hole(setup(version), 1360);
        path.carry(&mut t, 20_000, 10);
        let (before, timeouts) = (t.info(), t.info().timeouts);
        path.swallowed.clear();
        path.carry(&mut t, 500_000, 30);
        let info = t.info();
        assert!((1360 - 16..=1360).contains(&info.snd_mss), "{} of 1360", info.snd_mss);
        assert!(!path.swallowed.is_empty() && path.swallowed.len() < 12, "{:?}", path.swallowed);
        assert_eq!((info.timeouts, info.fast_recoveries), (timeouts, before.fast_recoveries));
        assert!(info.cwnd > before.cwnd && info.ssthresh >= before.ssthresh);
        assert_eq!(t.count(Counter::PathBlackHoles), 1);
        assert!(t.count(Counter::PathMtuRaised) >= 1);
        // The next connection to the host starts with the result.
        let headers = if version == IpVersion::V4 { 40 } else { 60 };
        let known = t.end.stack.path_mtu(t.wire.addr).expect("known");
        assert_eq!(known.bytes(), info.snd_mss + headers);
    }
}

/// There was no black hole, only an outage: the first probe is as large as segments were before.
#[test]
fn a_false_alarm_is_over_with_the_first_probe() {
    let (mut t, mut path) = out_of_the_hole(setup(IpVersion::V4), 1200);
    path.most = FULL;
    path.swallowed.clear();
    path.carry(&mut t, 30_000, 10);
    assert_eq!(t.info().snd_mss, FULL);
    assert_eq!((t.count(Counter::PathMtuProbes), t.count(Counter::PathMtuRaised)), (1, 1));
    assert_eq!(path.swallowed, []);
}

/// Ten minutes after the search has ended it starts again, since the path may have become wider.
/// RFC 4821 7.3-a.
#[test]
fn ageing_has_larger_segments_tried_again() {
    let (mut t, mut path) = out_of_the_hole(setup(IpVersion::V4), 1360);
    path.carry(&mut t, 500_000, 30);
    path.most = FULL;
    path.carry(&mut t, 100_000, 30);
    assert!(t.info().snd_mss <= 1360);
    t.pass(600_000);
    path.carry(&mut t, 100_000, 30);
    assert_eq!(t.info().snd_mss, FULL);
}

/// With the search always on, every connection starts with small segments and probes for larger
/// ones.
#[test]
fn probing_always_begins_with_what_nearly_every_path_carries() {
    let mut t = setup(IpVersion::V4).tcp(|c| c.mtu_probing = MtuProbing::Always).established();
    let mut path = Narrow::new(FULL);
    t.write(BASE);
    t.expect(seg().seq(1).data(BASE));
    path.take(1, BASE);
    t.send(seg().ack(1 + BASE as i64));
    path.carry(&mut t, 30_000, 10);
    assert_eq!(t.info().snd_mss, FULL);
    assert_eq!(t.count(Counter::PathBlackHoles), 0);
}

/// Without SACK, segments become smaller in a black hole as well, but larger ones are not tried
/// later.
#[test]
fn without_sack_a_black_hole_is_left_for_good() {
    let mut setup = Setup::plain().rtt(20);
    setup.syn = setup.syn.mss(1460);
    let mut t = setup.established();
    t.write(4 * FULL);
    let mut arrived = 1;
    for _ in 0..200 {
        t.run_until(t.now + Duration::from_secs(1), true);
        for s in t.take_seen() {
            if s.len <= 1200 && s.seq == Some(arrived) {
                arrived += s.len as i64;
            }
        }
        t.send(seg().ack(arrived));
    }
    assert_eq!(arrived, 1 + 4 * FULL as i64);
    assert_eq!((t.info().snd_mss, t.count(Counter::PathMtuProbes)), (BASE, 0));
}
