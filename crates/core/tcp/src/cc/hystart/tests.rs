use base::{Duration, Instant};

use super::*;

const MSS: u64 = 1448;

/// Rounds of ten segments; every ACK of one round has the same round trip time.
struct Path {
    hystart: HyStart,
    una: SeqNumber,
}

impl Path {
    fn new() -> Path {
        Path { hystart: HyStart::new(), una: SeqNumber(u32::MAX - 20_000) }
    }

    /// Runs one round; returns the growth of cwnd in segments, and whether slow start has ended.
    fn round(&mut self, rtt_ms: u64) -> (f64, bool) {
        let mut gained = 0;
        for _ in 0..10 {
            self.una += MSS as u32;
            let ack = Ack {
                now: Instant::ZERO,
                acked_bytes: MSS as u32,
                delivered_bytes: MSS as u32,
                lost_bytes: 0,
                rtt: Some(Duration::from_millis(rtt_ms)),
                srtt: Duration::from_millis(rtt_ms),
                sent_at: Instant::ZERO,
                una: self.una,
                nxt: self.una + 10 * MSS as u32,
                pipe_bytes: 0,
                cwnd_limited: true,
                repairing: false,
            };
            match self.hystart.on_ack(&ack, MSS) {
                Growth::By(bytes) => gained += bytes,
                Growth::Last(bytes) => return ((gained + bytes) as f64 / MSS as f64, true),
            }
        }
        (gained as f64 / MSS as f64, false)
    }
}

#[test]
fn a_steady_round_trip_leaves_slow_start_alone() {
    let mut path = Path::new();
    for _ in 0..100 {
        assert_eq!(path.round(100), (10.0, false));
    }
}

/// RFC 9406 section 4.2: an increase by an eighth, at least 4 and at most 16 ms, indicates a queue.
/// Then cwnd grows a quarter as fast for five rounds, including the rest of this one, and
/// congestion avoidance follows.
/// RFC 9406 4.2-a, 4.2-b, 4.3-a.
#[test]
fn a_rise_means_a_quarter_of_the_growth_and_the_end_after_five_rounds() {
    for (before, rise) in [(10, 4), (64, 8), (400, 16)] {
        let mut path = Path::new();
        for _ in 0..3 {
            path.round(before);
        }
        assert_eq!(path.round(before + rise - 1).0, 10.0, "a smaller increase indicated a queue");
        let (gained, over) = path.round(before + 2 * rise);
        assert!(gained < 10.0 && !over, "{gained}: not detected at the eighth sample");
        let rounds = (1..20).find(|_| path.round(before + 2 * rise).1).expect("it ends");
        assert_eq!(rounds, 5);
    }
}

/// RFC 9406 4.2-c.
#[test]
fn a_round_trip_that_falls_again_goes_back_to_slow_start() {
    let mut path = Path::new();
    for rtt in [50, 50, 60, 60] {
        path.round(rtt);
    }
    assert!(path.round(60).0 < 3.0, "cwnd grew more than a quarter as fast");
    path.round(50);
    for _ in 0..20 {
        assert_eq!(path.round(50), (10.0, false));
    }
}

/// RFC 9406 4.2-a.
#[test]
fn seven_samples_are_not_enough() {
    let mut path = Path::new();
    path.round(50);
    path.round(50);
    path.hystart.samples = 0;
    path.hystart.this_round_us = 90_000;
    path.hystart.samples = SAMPLES - 2;
    path.hystart.check();
    assert_eq!(path.hystart.conservative, None);
}
