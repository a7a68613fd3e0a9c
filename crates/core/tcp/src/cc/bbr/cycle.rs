//! BBR's states: Startup, Drain, the ProbeBW cycle, ProbeRTT. draft-ietf-ccwg-bbr-06 section 5.3.
//!
//! Called by: `mod.rs`, with each ACK.

use base::Duration;

use super::{AckPhase, BETA, Bbr, INFINITE, State};

/// ProbeRTTDuration.
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// Growth of the rate in a round that shows that the pipe was not full.
const FULL_BW_GROWTH: f64 = 1.25;
/// Rounds without such growth after which the pipe is full.
const FULL_BW_ROUNDS: u8 = 3;
/// Limit of T_reno_bound, in rounds: the longest time between two bandwidth probes.
const RENO_ROUNDS_MOST: u64 = 63;

impl Bbr {
    pub(super) fn reset_full_bw(&mut self) {
        self.full_bw = 0.0;
        self.full_bw_count = 0;
        self.full_bw_now = false;
    }

    /// Section 5.3.1.2: the pipe is full once the delivery rate has not grown by a quarter in three
    /// rounds.
    pub(super) fn check_full_bw_reached(&mut self) {
        if self.full_bw_now || !self.round_start || self.sample.app_limited {
            return;
        }
        if self.sample.rate >= self.full_bw * FULL_BW_GROWTH {
            self.reset_full_bw();
            self.full_bw = self.sample.rate;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= FULL_BW_ROUNDS;
        self.full_bw_reached |= self.full_bw_now;
    }

    pub(super) fn check_startup_done(&mut self) {
        if self.state == State::Startup && self.full_bw_reached {
            self.state = State::Drain;
            self.drain_start_round = self.round_count;
        }
    }

    /// Section 5.3.2: Drain ends when the data in flight fits the pipe, or after three rounds.
    pub(super) fn check_drain_done(&mut self) {
        let drained = self.in_flight <= self.with_budget(self.bdp(1.0));
        let long = self.round_count > self.drain_start_round + 3;
        if self.state == State::Drain && (drained || long) {
            self.start_down();
        }
    }

    fn start_down(&mut self) {
        self.reset_congestion_signals();
        self.probe_up_acked_per_inc = INFINITE;
        self.rounds_since_probe_up = u64::from(self.draw() < 0.5);
        self.bw_probe_wait = Duration::from_nanos(2_000_000_000 + (self.draw() * 1e9) as u64);
        self.cycle_stamp = self.now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round();
        self.state = State::Down;
    }

    pub(super) fn start_refill(&mut self) {
        self.reset_short_term();
        self.bw_probe_up_rounds = 0;
        self.bw_probe_up_acked = 0;
        self.prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = State::Refill;
    }

    fn start_up(&mut self) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round();
        self.reset_full_bw();
        self.full_bw = self.sample.rate;
        self.state = State::Up;
        self.raise_inflight_longterm_slope();
    }

    /// Section 5.3.3.6: advance the ProbeBW cycle to its next state if it is time to.
    pub(super) fn update_probe_bw_cycle(&mut self, newly_acked: u64) {
        if !self.full_bw_reached || self.adapt_long_term_model(newly_acked) {
            return;
        }
        match self.state {
            State::Down if self.is_time_to_probe() => self.start_refill(),
            State::Down if self.is_time_to_cruise() => self.state = State::Cruise,
            State::Cruise if self.is_time_to_probe() => self.start_refill(),
            State::Refill if self.round_start => {
                self.is_bw_probe_sample = true;
                self.start_up();
            }
            State::Up => self.probe_up(),
            _ => {}
        }
    }

    fn is_time_to_probe(&self) -> bool {
        let waited = self.now > self.cycle_stamp + self.bw_probe_wait;
        let reno_rounds = self.target_inflight() / self.mss;
        waited || self.rounds_since_probe_up >= reno_rounds.min(RENO_ROUNDS_MOST)
    }

    fn is_time_to_cruise(&self) -> bool {
        self.in_flight <= self.inflight_with_headroom()
            && self.in_flight <= self.with_budget(self.bdp_at(self.max_bw, 1.0))
    }

    /// Probe up until losses show a limit, until the limit of the previous probe is reached, or
    /// until the pipe is full.
    fn probe_up(&mut self) {
        let precautionary = self.prev_probe_too_high && self.in_flight >= self.inflight_longterm;
        if precautionary {
            self.prev_probe_precautionary = true;
        } else if self.is_cwnd_limited() && self.cwnd >= self.inflight_longterm {
            self.reset_full_bw();
            self.full_bw = self.sample.rate;
            return;
        }
        if precautionary || self.full_bw_now {
            self.prev_probe_too_high = false;
            self.start_down();
        }
    }

    fn target_inflight(&self) -> u64 {
        self.bdp(1.0).min(self.cwnd)
    }

    fn raise_inflight_longterm_slope(&mut self) {
        let growth = 1u64 << self.bw_probe_up_rounds;
        self.bw_probe_up_rounds = (self.bw_probe_up_rounds + 1).min(30);
        self.probe_up_acked_per_inc = (self.cwnd / growth).max(self.mss);
    }

    fn probe_inflight_longterm_upward(&mut self, newly_acked: u64) {
        if !self.is_cwnd_limited() || self.cwnd < self.inflight_longterm {
            return;
        }
        self.bw_probe_up_acked += newly_acked;
        let steps = self.bw_probe_up_acked / self.probe_up_acked_per_inc.max(1);
        self.bw_probe_up_acked -= steps * self.probe_up_acked_per_inc;
        self.inflight_longterm += steps * self.mss;
        if self.round_start {
            self.raise_inflight_longterm_slope();
        }
    }

    /// Adapt the limits on data in flight after an ACK. Returns `true` if this began the next
    /// state.
    fn adapt_long_term_model(&mut self, newly_acked: u64) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.is_bw_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() && !self.sample.app_limited {
                self.advance_max_bw_filter();
            }
            let again = self.prev_probe_precautionary && !self.prev_probe_too_high;
            if self.state.is_probe_bw() && again {
                self.start_refill();
                return true;
            }
        }
        if !self.is_inflight_too_high() && self.inflight_longterm != INFINITE {
            self.inflight_longterm = self.inflight_longterm.max(self.sample.tx_in_flight);
            if self.state == State::Up {
                self.probe_inflight_longterm_upward(newly_acked);
            }
        }
        false
    }

    /// Section 5.5.10.2: the path could not carry what was in flight.
    pub(super) fn handle_inflight_too_high(&mut self) {
        self.prev_probe_too_high = true;
        self.is_bw_probe_sample = false;
        if !self.sample.app_limited {
            let least = (self.target_inflight() as f64 * BETA) as u64;
            self.inflight_longterm = self.sample.tx_in_flight.max(least);
        }
        if self.state == State::Up {
            self.undo.state = Some(State::Up);
            self.start_down();
        }
    }

    /// Section 5.3.4.3: enter ProbeRTT when the minimum round trip has to be measured again.
    pub(super) fn check_probe_rtt(&mut self) {
        if self.state != State::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            self.save_cwnd(self.cwnd);
            self.state = State::ProbeRtt;
            self.probe_rtt_done = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt();
        }
        if self.sample.delivered > 0 {
            self.idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self) {
        // Samples are low now because little is sent.
        self.sampler.mark_app_limited(self.in_flight);
        if self.probe_rtt_done.is_some() {
            self.probe_rtt_round_done |= self.round_start;
            if self.probe_rtt_round_done {
                self.check_probe_rtt_done();
            }
        } else if self.in_flight <= self.probe_rtt_cwnd() {
            self.probe_rtt_done = Some(self.now + PROBE_RTT_DURATION);
            self.probe_rtt_round_done = false;
            self.start_round();
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self) {
        if self.probe_rtt_done.is_none_or(|done| self.now <= done) {
            return;
        }
        self.probe_rtt_min_stamp = self.now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.reset_short_term();
        if self.full_bw_reached {
            self.start_down();
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }
}
