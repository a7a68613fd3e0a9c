//! BBR on a simulated bottleneck with a drop-tail queue; ACKs arrive a round trip later.

use std::collections::VecDeque;

use base::SeqNumber;

use super::*;
use crate::cc::{Algorithm, Cc, Law};

const MSS: u64 = 1448;

struct Path {
    cc: Cc,
    now: u64,
    /// The transmission time of a segment and the round trip, both in ns; the length of the queue
    /// in segments.
    segment_ns: u64,
    rtt_ns: u64,
    queue: u64,
    /// Every n-th segment is lost.
    lose_every: u64,
    busy_until: u64,
    next_send: u64,
    /// The segments in flight, including lost ones: when the ACK arrives, when the segment was
    /// sent, and whether it is lost.
    flying: VecDeque<(u64, u64, bool)>,
    sent: u64,
    delivered: u64,
    lost: u64,
    /// Lost bytes that the sender has not detected yet.
    missed_bytes: u32,
    states: Vec<State>,
}

impl Path {
    fn new(segments_per_s: u64, rtt_ms: u64, queue_segments: u64) -> Path {
        let mut cc = Cc::new(Algorithm::Bbr);
        cc.start(MSS as usize, false);
        Path {
            cc,
            now: 1_000_000_000,
            segment_ns: 1_000_000_000 / segments_per_s,
            rtt_ns: rtt_ms * 1_000_000,
            queue: queue_segments,
            lose_every: u64::MAX,
            busy_until: 0,
            next_send: 0,
            flying: VecDeque::new(),
            sent: 0,
            delivered: 0,
            lost: 0,
            missed_bytes: 0,
            states: Vec::new(),
        }
    }

    fn bbr(&self) -> &Bbr {
        let Law::Bbr(bbr) = &self.cc.law else { panic!("another law") };
        bbr
    }

    fn in_flight(&self) -> u64 {
        self.flying.len() as u64 * MSS
    }

    /// Sends a segment if allowed; returns whether it was sent.
    fn send(&mut self) -> bool {
        if self.now < self.next_send || self.in_flight() + MSS > self.cc.cwnd {
            return false;
        }
        let before = self.in_flight();
        let backlog = self.busy_until.saturating_sub(self.now) / self.segment_ns;
        self.sent += 1;
        let lost = backlog >= self.queue || self.sent.is_multiple_of(self.lose_every);
        if !lost {
            self.busy_until = self.busy_until.max(self.now) + self.segment_ns;
        }
        // A lost segment is detected when the next one is acknowledged.
        self.flying.push_back((self.busy_until + self.rtt_ns, self.now, lost));
        self.cc.on_send(Instant::from_nanos(self.now), before, before + MSS, false);
        let rate = self.cc.pacing_rate(Duration::from_nanos(self.rtt_ns)).max(1);
        self.next_send = self.now + MSS * 1_000_000_000 / rate;
        true
    }

    fn acknowledge(&mut self) {
        while let Some(&(at, sent_at, lost)) = self.flying.front() {
            if at > self.now {
                break;
            }
            self.flying.pop_front();
            if lost {
                self.lost += 1;
                self.missed_bytes += MSS as u32;
                continue;
            }
            self.delivered += 1;
            let rtt = Duration::from_nanos(self.now - sent_at);
            let una = SeqNumber((self.delivered * MSS) as u32);
            self.cc.on_ack(&Ack {
                now: Instant::from_nanos(self.now),
                acked_bytes: MSS as u32,
                delivered_bytes: MSS as u32,
                lost_bytes: core::mem::take(&mut self.missed_bytes),
                rtt: Some(rtt),
                srtt: rtt,
                sent_at: Instant::from_nanos(sent_at),
                una,
                nxt: una + self.in_flight() as u32,
                pipe_bytes: self.in_flight() as u32,
                cwnd_limited: self.in_flight() + 2 * MSS > self.cc.cwnd,
                repairing: false,
            });
            let state = self.bbr().state;
            if self.states.last() != Some(&state) {
                self.states.push(state);
            }
        }
    }

    /// Returns what was delivered, as a share of the path's capacity.
    fn run(&mut self, ms: u64) -> f64 {
        let (until, before) = (self.now + ms * 1_000_000, self.delivered);
        while self.now < until {
            self.acknowledge();
            while self.send() {}
            let ack = self.flying.front().map_or(until, |f| f.0);
            let room = self.in_flight() + MSS <= self.cc.cwnd;
            let send = if room { self.next_send } else { until };
            self.now = ack.min(send).clamp(self.now + 1, until);
        }
        ((self.delivered - before) * self.segment_ns) as f64 / (ms * 1_000_000) as f64
    }
}

#[test]
fn bbr_finds_the_rate_and_the_round_trip_and_leaves_a_short_queue() {
    let mut path = Path::new(5000, 40, 1000);
    path.run(2000);
    let share = path.run(3000);
    assert!(share > 0.95, "{share}");
    let bbr = path.bbr();
    let rate = bbr.max_bw / MSS as f64;
    assert!((4900.0..5100.0).contains(&rate), "{rate}");
    assert!((40..42).contains(&bbr.min_rtt.as_millis()), "{:?}", bbr.min_rtt);
    assert!(bbr.full_bw_reached && bbr.inflight_longterm == INFINITE);
    // 200 segments fit the path: in Cruise there is nearly no queue.
    assert!(path.in_flight() < 280 * MSS, "{}", path.in_flight() / MSS);
    assert_eq!(path.lost, 0);
}

#[test]
fn bbr_takes_its_states_in_order() {
    let mut path = Path::new(5000, 40, 1000);
    path.run(4900);
    let order =
        [State::Startup, State::Drain, State::Cruise, State::Refill, State::Up, State::Down];
    assert_eq!(path.states[..6], order, "wrong order of states (without a queue Down is skipped)");
    // Each cycle finds an empty queue, so there is nothing to drain.
    path.run(20_000);
    assert!(!path.states.contains(&State::ProbeRtt), "{:?}", path.states);
    assert!(path.bbr().min_rtt.as_millis() <= 41);
}

/// The round trip grows: five seconds later ProbeRTT measures it again.
#[test]
fn bbr_probes_for_the_round_trip_when_nothing_confirms_it() {
    let mut path = Path::new(5000, 40, 1000);
    path.run(4900);
    path.rtt_ns += 10_000_000;
    path.run(8000);
    assert!(path.states.contains(&State::ProbeRtt), "{:?}", path.states);
}

/// The loss rate is less than the 2 percent of LossThresh.
#[test]
fn bbr_holds_its_rate_under_random_loss() {
    for (lose_every, least) in [(1000, 0.9), (100, 0.82)] {
        let mut path = Path::new(8000, 100, 800);
        path.lose_every = lose_every;
        path.run(3000);
        let share = path.run(20_000);
        assert!(share > least, "one of {lose_every}: {share}");
    }
}

#[test]
fn bbr_learns_from_losses_what_a_shallow_queue_holds() {
    let mut path = Path::new(16_000, 100, 100);
    path.run(5000);
    let (sent, lost) = (path.sent, path.lost);
    let share = path.run(20_000);
    assert!(path.bbr().inflight_longterm < 2000 * MSS, "{}", path.bbr().inflight_longterm / MSS);
    assert!(share > 0.85, "{share}");
    let loss = (path.lost - lost) as f64 / (path.sent - sent) as f64;
    assert!(loss < 0.03, "{loss}");
}

#[test]
fn bbr_halves_the_volume_to_see_the_round_trip_anew() {
    let mut path = Path::new(5000, 40, 1000);
    path.run(4000);
    // A route with a round trip 10 ms longer is accepted once the old minimum is 10 s old.
    path.rtt_ns += 10_000_000;
    path.run(16_000);
    assert!(path.bbr().min_rtt.as_millis() >= 50, "{:?}", path.bbr().min_rtt);
    assert!(path.run(2000) > 0.9);
}

#[test]
fn bbr_does_not_take_too_little_data_for_a_slow_path() {
    let mut path = Path::new(5000, 40, 1000);
    path.run(3000);
    let before = path.bbr().max_bw;
    // One segment a second, for ten seconds.
    for _ in 0..10 {
        path.now += 1_000_000_000;
        path.acknowledge();
        let now = Instant::from_nanos(path.now);
        path.cc.on_send(now, 0, MSS, true);
        path.flying.push_back((path.now + path.rtt_ns, path.now, false));
    }
    path.now += 1_000_000_000;
    path.acknowledge();
    assert!(path.bbr().max_bw >= before * 0.99, "{} of {before}", path.bbr().max_bw);
}

#[test]
fn bbr_goes_back_to_startup_if_nothing_was_lost() {
    let mut path = Path::new(5000, 40, 1000);
    path.run(150);
    assert_eq!(path.bbr().state, State::Startup);
    path.cc.on_congestion(path.in_flight());
    let Law::Bbr(bbr) = &mut path.cc.law else { return };
    bbr.full_bw_reached = true;
    bbr.undo.state = Some(State::Startup);
    bbr.check_startup_done();
    assert_eq!(bbr.state, State::Drain);
    let window = path.cc.cwnd;
    path.cc.undo();
    assert_eq!(path.bbr().state, State::Startup);
    assert!(!path.bbr().full_bw_reached && path.cc.cwnd >= window);
}

#[test]
fn bbr_sends_one_segment_after_a_timeout_and_comes_back() {
    let mut path = Path::new(5000, 40, 1000);
    path.run(3000);
    let window = path.cc.cwnd;
    path.cc.on_timeout(path.in_flight(), true);
    assert_eq!(path.cc.cwnd, MSS);
    path.flying.clear();
    path.run(1000);
    assert!(path.cc.cwnd > window / 2, "{} of {window}", path.cc.cwnd);
}

#[test]
fn bbr_is_the_same_again() {
    let run = || {
        let mut path = Path::new(5000, 40, 100);
        path.lose_every = 300;
        path.run(9000);
        (path.delivered, path.sent, path.states)
    };
    assert_eq!(run(), run());
}

/// The peer never answers: the number of records is limited.
#[test]
fn bbr_records_are_bounded() {
    let mut sampler = Sampler::default();
    for i in 0..100_000 {
        sampler.on_send(Instant::from_nanos(i), i, i + 1);
    }
    assert!(sampler.records_len() <= 16_384);
}
