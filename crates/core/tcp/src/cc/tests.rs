use super::*;

const MSS: usize = 1448;

fn grown(algorithm: Algorithm) -> Cc {
    let mut cc = Cc::new(algorithm);
    cc.start(MSS, false);
    cc
}

/// An ACK of `bytes` bytes while cwnd was the limit.
fn acked(cc: &mut Cc, bytes: u64, now: Instant, rtt: Duration) {
    cc.on_ack(&ack_of(bytes, now, rtt));
}

fn ack_of(bytes: u64, now: Instant, rtt: Duration) -> Ack {
    Ack {
        now,
        acked_bytes: bytes as u32,
        delivered_bytes: bytes as u32,
        lost_bytes: 0,
        rtt: Some(rtt),
        srtt: rtt,
        sent_at: now,
        una: SeqNumber(0),
        nxt: SeqNumber(0),
        pipe_bytes: 0,
        cwnd_limited: true,
        repairing: false,
    }
}

/// A loss and its recovery, until everything is repaired.
fn lost(cc: &mut Cc, flight_bytes: u64) {
    cc.on_congestion(flight_bytes);
    cc.recovered();
}

#[test]
fn initial_window_is_ten_segments_or_one_after_a_lost_syn() {
    assert_eq!(grown(Algorithm::Cubic).cwnd, 10 * 1448);
    let mut cc = Cc::new(Algorithm::Cubic);
    cc.start(MSS, true);
    assert_eq!(cc.cwnd, 1448);
    cc.start(8960, false);
    assert_eq!(cc.cwnd, 17_920);
}

#[test]
fn slow_start_doubles_a_round() {
    // BBR depends on rate samples; it has its own tests.
    for &algorithm in Algorithm::ALL.iter().filter(|a| **a != Algorithm::Bbr) {
        let mut cc = grown(algorithm);
        let before = cc.cwnd;
        acked(&mut cc, before, Instant::ZERO, Duration::from_millis(10));
        assert_eq!(cc.cwnd, 2 * before);
    }
}

/// RFC 5681 3.2-d.
#[test]
fn newreno_halves_and_then_adds_a_segment_a_round() {
    let mut cc = grown(Algorithm::NewReno);
    lost(&mut cc, 200 * 1448);
    assert_eq!(cc.cwnd, 100 * 1448);
    for _ in 0..100 {
        acked(&mut cc, 1448, Instant::ZERO, Duration::from_millis(10));
    }
    let gained = cc.cwnd - 100 * 1448;
    assert!((1400..=1460).contains(&gained), "{gained}");
}

/// RFC 9438 figure 1: K seconds after a loss at W_max the window is W_max again.
/// RFC 9438 4.2-a.
#[test]
fn cubic_is_back_at_w_max_after_k() {
    let mut cc = grown(Algorithm::Cubic);
    cc.cwnd = 1000 * 1448;
    cc.ssthresh = cc.cwnd;
    let flight = cc.cwnd;
    lost(&mut cc, flight);
    assert_eq!(cc.cwnd, 700 * 1448);
    let rtt = Duration::from_millis(100);
    let k = (1000.0 * 0.3 / 0.4f64).cbrt();
    let mut now = Instant::from_nanos(1);
    while now.as_nanos() as f64 / 1e9 < k {
        let flight = cc.cwnd;
        acked(&mut cc, flight, now, rtt);
        now += rtt;
    }
    let window = cc.cwnd as f64 / 1448.0;
    assert!((980.0..1010.0).contains(&window), "{window}");
}

/// RFC 9438 4.3-a.
#[test]
fn cubic_is_no_slower_than_reno_at_short_round_trips() {
    let mut cubic = grown(Algorithm::Cubic);
    cubic.cwnd = 20 * 1448;
    let flight = cubic.cwnd;
    lost(&mut cubic, flight);
    let start = cubic.cwnd;
    let mut now = Instant::from_nanos(1);
    for _ in 0..20 {
        let flight = cubic.cwnd;
        acked(&mut cubic, flight, now, Duration::from_millis(1));
        now += Duration::from_millis(1);
    }
    // Reno-friendly region: 20 rounds at 3 * 0.3 / 1.7 = 0.53 segments.
    let gained = (cubic.cwnd - start) / 1448;
    assert!(gained >= 9, "{gained}");
}

/// RFC 5681 3.1-g, 3.1-h, 3.1-i.
#[test]
fn a_timeout_leaves_one_segment_and_halves_the_threshold_once() {
    let mut cc = grown(Algorithm::NewReno);
    cc.on_timeout(100 * 1448, true);
    assert_eq!((cc.cwnd, cc.ssthresh), (1448, 50 * 1448));
    cc.on_timeout(1448, false);
    assert_eq!((cc.cwnd, cc.ssthresh), (1448, 50 * 1448));
}

/// RFC 9438 section 4.7: a second loss at a smaller window lowers W_max for other flows.
/// RFC 9438 4.7-a.
#[test]
fn cubic_aims_lower_if_it_did_not_reach_the_window_before() {
    let round = |cc: &mut Cc, now| {
        let flight = cc.cwnd;
        acked(cc, flight, now, Duration::from_millis(100));
    };
    let windows = [1000u64, 800].map(|second| {
        let mut cc = grown(Algorithm::Cubic);
        for window in [1000, second] {
            cc.cwnd = window * 1448;
            let flight = cc.cwnd;
            lost(&mut cc, flight);
        }
        // Grow to the plateau of the curve, which is W_max.
        let mut now = Instant::from_nanos(1);
        while now < Instant::ZERO + Duration::from_millis(8000) {
            round(&mut cc, now);
            now += Duration::from_millis(100);
        }
        cc.cwnd as f64 / 1448.0
    });
    assert!((950.0..1000.0).contains(&windows[0]), "{windows:?}");
    // 800 * (1 + 0.7) / 2.
    assert!((660.0..700.0).contains(&windows[1]), "{windows:?}");
}

/// RFC 9438 section 4.8: the curve does not lead back to the old window but begins where slow start
/// ended.
/// RFC 9438 4.8-a.
#[test]
fn cubic_begins_at_the_saddle_after_a_timeout() {
    let mut cc = grown(Algorithm::Cubic);
    cc.cwnd = 1000 * 1448;
    let flight = cc.cwnd;
    cc.on_timeout(flight, true);
    assert_eq!((cc.cwnd, cc.ssthresh), (1448, 700 * 1448));
    cc.cwnd = cc.ssthresh;
    let mut now = Instant::from_nanos(1);
    for _ in 0..10 {
        let flight = cc.cwnd;
        acked(&mut cc, flight, now, Duration::from_millis(100));
        now += Duration::from_millis(100);
    }
    // cwnd grows by at most Reno's 0.53 segments a round; towards 1000 it would grow by 25.
    assert!(cc.cwnd < 712 * 1448, "{}", cc.cwnd / 1448);
}

/// RFC 9438 section 5.8: idle time of the application is not time on the curve.
/// RFC 9438 5.8-a.
#[test]
fn cubic_does_not_grow_by_a_pause() {
    let windows = [0u64, 60].map(|pause_s| {
        let mut cc = grown(Algorithm::Cubic);
        cc.cwnd = 100 * 1448;
        let flight = cc.cwnd;
        lost(&mut cc, flight);
        let mut now = Instant::from_nanos(1);
        for round in 0..20 {
            if round == 10 {
                now += Duration::from_secs(pause_s);
            }
            let flight = cc.cwnd;
            acked(&mut cc, flight, now, Duration::from_millis(100));
            now += Duration::from_millis(100);
        }
        cc.cwnd
    });
    assert!(windows[0].abs_diff(windows[1]) < 2 * 1448, "{windows:?}");
}

/// RFC 9438 section 4.9: undo restores everything, the curve included.
/// RFC 9438 4.9-a.
#[test]
fn cubic_goes_on_as_before_after_an_undo() {
    let windows = [false, true].map(|loss| {
        let mut cc = grown(Algorithm::Cubic);
        cc.cwnd = 500 * 1448;
        let flight = cc.cwnd;
        lost(&mut cc, flight);
        let mut now = Instant::from_nanos(1);
        for round in 0..60 {
            if loss && round == 30 {
                let flight = cc.cwnd;
                lost(&mut cc, flight);
                cc.undo();
            }
            let flight = cc.cwnd;
            acked(&mut cc, flight, now, Duration::from_millis(100));
            now += Duration::from_millis(100);
        }
        cc.cwnd
    });
    assert_eq!(windows[0], windows[1]);
}

/// RFC 9406 4.2-d.
#[test]
fn the_first_slow_start_ends_before_a_loss_when_the_round_trip_grows() {
    for &algorithm in &[Algorithm::Cubic, Algorithm::NewReno] {
        let mut cc = grown(algorithm);
        let (mut una, mut now) = (SeqNumber(0), Instant::from_nanos(1));
        for round in 0..12u64 {
            // From the fourth round on the path is full, and each round trip is 20 ms longer.
            let rtt = Duration::from_millis(100 + 20 * round.saturating_sub(3).min(4));
            for _ in 0..cc.cwnd / 1448 {
                una += 1448;
                let nxt = una + cc.cwnd as u32;
                cc.on_ack(&Ack { una, nxt, now, ..ack_of(1448, now, rtt) });
            }
            now += rtt;
        }
        assert!(cc.ssthresh < u64::MAX, "slow start did not end");
        assert!(cc.cwnd < (10 * 1448) << 8, "doubling would have made {}", 10 << 12);
    }
}

/// Where the curve is steep, a round trip adds at most half of cwnd.
/// RFC 9438 4.2-a.
#[test]
fn cubic_grows_by_half_in_a_round_trip_at_most() {
    let mut cc = grown(Algorithm::Cubic);
    lost(&mut cc, 100 * 1448);
    let (start, minute) = (Instant::from_nanos(1), Duration::from_secs(60));
    acked(&mut cc, 1448, start, minute);
    let before = cc.cwnd;
    acked(&mut cc, before, start + minute, minute);
    assert!((before * 3 / 2 - 2..=before * 3 / 2).contains(&cc.cwnd), "{before} {}", cc.cwnd);
}

/// Later slow starts have a measured ssthresh, so a longer round trip does not end them.
/// RFC 9406 4.3-b.
#[test]
fn only_the_first_slow_start_ends_by_round_trips() {
    let mut cc = grown(Algorithm::NewReno);
    cc.on_timeout(1000 * 1448, true);
    let (mut una, mut now) = (SeqNumber(0), Instant::from_nanos(1));
    for round in 0..8 {
        let rtt = Duration::from_millis(100 + 50 * round);
        for _ in 0..cc.cwnd / 1448 {
            una += 1448;
            let nxt = una + cc.cwnd as u32;
            cc.on_ack(&Ack { una, nxt, now, ..ack_of(1448, now, rtt) });
        }
        now += rtt;
    }
    assert_eq!((cc.cwnd, cc.ssthresh), (256 * 1448, 500 * 1448));
}

/// RFC 9438 4.6-b.
#[test]
fn cubic_leaves_two_segments_at_least() {
    let mut cc = grown(Algorithm::Cubic);
    lost(&mut cc, 1448);
    assert_eq!((cc.ssthresh, cc.cwnd), (2 * 1448, 2 * 1448));
}

#[test]
fn a_window_of_a_byte_is_no_reason_to_wait_for_minutes() {
    let mut cc = Cc::new(Algorithm::NewReno);
    cc.start(1448, false);
    // PRR leaves this cwnd when everything except a FIN has arrived.
    cc.cwnd = 1;
    cc.ssthresh = 5000;
    let rate = cc.pacing_rate(Duration::from_millis(500));
    assert!(rate >= 2 * 1448 * 2, "{rate} bytes a second");
}

/// cwnd is counted in bytes, so a path that carries larger segments again does not enlarge it.
#[test]
fn larger_segments_are_no_larger_window() {
    let (mut cc, mut now) = (grown(Algorithm::Cubic), Instant::ZERO);
    cc.set_mss(186);
    lost(&mut cc, 10 * 186);
    let rtt = Duration::from_millis(10);
    for _ in 0..500 {
        now += Duration::from_millis(1);
        acked(&mut cc, 186, now, rtt);
    }
    let before = cc.cwnd;
    cc.set_mss(1448);
    acked(&mut cc, 186, now, rtt);
    assert!(cc.cwnd <= before + 1448, "{before} bytes became {}", cc.cwnd);
}
