//! BBR's model of the path (its bandwidth, its minimum round trip, the volume of data that may be
//! in flight), and cwnd and pacing rate, which follow from the model. draft-ietf-ccwg-bbr-06
//! sections 5.5 and 5.6; the methods have the names of the draft's functions, without the prefix
//! BBR.
//!
//! Called by: `mod.rs`, in the draft's order, with each ACK.

use base::Duration;

use super::{BETA, Bbr, HEADROOM, INFINITE, LOSS_THRESH, PACING_MARGIN, State};

/// The draft's MinRTTFilterLen, and its ProbeRTTInterval.
const MIN_RTT_FILTER: Duration = Duration::from_secs(10);
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// Half of the draft's ExtraAckedFilterLen of ten rounds: the filter keeps a maximum for each half.
const EXTRA_ACKED_HALF: u64 = 5;
/// The draft's BBRStartupFullLossCnt: Startup ends after this many ACKs in one round have reported
/// losses.
const STARTUP_LOSSES: u32 = 6;
/// Maximum of the send quantum, in bytes. The quantum is what the pacing rate sends in a
/// millisecond.
const QUANTUM_MOST: f64 = 65_536.0;

impl Bbr {
    pub(super) fn update_latest_delivery_signals(&mut self) {
        self.loss_round_start = false;
        self.bw_latest = self.bw_latest.max(self.sample.rate);
        self.inflight_latest = self.inflight_latest.max(self.sample.delivered);
        if self.sample.prior_delivered.is_some_and(|prior| prior >= self.loss_round_delivered) {
            self.loss_round_delivered = self.sampler.delivered;
            self.loss_round_start = true;
        }
    }

    pub(super) fn advance_latest_delivery_signals(&mut self) {
        if self.loss_round_start {
            self.bw_latest = self.sample.rate;
            self.inflight_latest = self.sample.delivered;
        }
    }

    pub(super) fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        self.bw_latest = 0.0;
        self.inflight_latest = 0;
    }

    /// Section 5.5.1: note whether this ACK begins a round.
    pub(super) fn update_round(&mut self) {
        self.round_start =
            self.sample.prior_delivered.is_some_and(|prior| prior >= self.next_round_delivered);
        if self.round_start {
            self.start_round();
            self.round_count += 1;
            self.rounds_since_probe_up += 1;
            self.limited = [false, self.limited[0]];
        }
    }

    pub(super) fn start_round(&mut self) {
        self.next_round_delivered = self.sampler.delivered;
    }

    pub(super) fn update_max_bw(&mut self) {
        let rate = self.sample.rate;
        if rate > 0.0 && (rate >= self.max_bw || !self.sample.app_limited) {
            self.max_bw_cycles[1] = self.max_bw_cycles[1].max(rate);
            self.max_bw = self.max_bw_cycles[0].max(self.max_bw_cycles[1]);
        }
    }

    /// Begin another cycle of bandwidth probing: the filter keeps the maxima of two cycles. A cycle
    /// without samples is skipped, so that it does not displace the maximum of the cycle before it.
    pub(super) fn advance_max_bw_filter(&mut self) {
        if self.max_bw_cycles[1] > 0.0 {
            self.max_bw_cycles = [self.max_bw_cycles[1], 0.0];
        }
    }

    pub(super) fn note_loss(&mut self) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = self.sampler.delivered;
        }
        self.is_loss_in_round = true;
        self.loss_events += 1;
        if self.is_bw_probe_sample && self.is_inflight_too_high() {
            self.handle_inflight_too_high();
        }
    }

    /// Is the share of the data in flight that was lost larger than LossThresh?
    pub(super) fn is_inflight_too_high(&self) -> bool {
        self.sample.lost as f64 > self.sample.tx_in_flight as f64 * LOSS_THRESH
    }

    /// Section 5.5.10.3, once a round: lower the short-term limits after a loss. Also checks
    /// whether losses end Startup.
    pub(super) fn update_congestion_signals(&mut self) {
        if !self.loss_round_start {
            return;
        }
        self.check_startup_high_loss();
        if self.is_loss_in_round && !self.state.is_probing() {
            if self.bw_shortterm == f64::INFINITY {
                self.bw_shortterm = self.max_bw;
            }
            if self.inflight_shortterm == INFINITE {
                self.inflight_shortterm = self.cwnd;
            }
            self.bw_shortterm = self.bw_latest.max(BETA * self.bw_shortterm);
            let least = (BETA * self.inflight_shortterm as f64) as u64;
            self.inflight_shortterm = self.inflight_latest.max(least);
        }
        self.is_loss_in_round = false;
        self.loss_events = 0;
    }

    /// Section 5.3.1.3: Startup ends if recovery has lasted a whole round with many losses.
    fn check_startup_high_loss(&mut self) {
        let repaired = self.repair_round.is_some_and(|began| self.round_count > began);
        if self.full_bw_reached
            || !repaired
            || self.loss_events < STARTUP_LOSSES
            || !self.is_inflight_too_high()
        {
            return;
        }
        self.undo.state = Some(State::Startup);
        self.full_bw_reached = true;
        self.inflight_longterm = self.bdp(1.0).max(self.inflight_latest);
    }

    pub(super) fn reset_short_term(&mut self) {
        self.bw_shortterm = f64::INFINITY;
        self.inflight_shortterm = INFINITE;
    }

    /// Section 5.5.9: how many bytes more than the bandwidth explains are acknowledged in bursts.
    pub(super) fn update_ack_aggregation(&mut self, newly_acked: u64) {
        let interval = self.now.since(self.extra_acked_from).as_secs_f64();
        let mut expected = (self.bw * interval) as u64;
        if self.extra_acked_delivered <= expected {
            self.extra_acked_delivered = 0;
            self.extra_acked_from = self.now;
            expected = 0;
        }
        self.extra_acked_delivered += newly_acked;
        let extra = (self.extra_acked_delivered - expected).min(self.cwnd);
        if self.round_start {
            self.extra_acked_rounds += 1;
            let half = if self.full_bw_reached { EXTRA_ACKED_HALF } else { 1 };
            if self.extra_acked_rounds >= half {
                self.extra_acked_rounds = 0;
                let kept = if self.full_bw_reached { self.extra_acked[0] } else { 0 };
                self.extra_acked = [0, kept];
            }
        }
        self.extra_acked[0] = self.extra_acked[0].max(extra);
    }

    /// Section 5.3.4.3: the minimum round trip, and when to measure it again (ProbeRTT). In the
    /// draft only a sample below the minimum postpones ProbeRTT. Here a sample at most 1/64 above
    /// the minimum does so too: the queue was empty, so there is no need to drain it.
    pub(super) fn update_min_rtt(&mut self, rtt: Option<Duration>) {
        self.probe_rtt_expired = self.now > self.probe_rtt_min_stamp + PROBE_RTT_INTERVAL;
        if let Some(rtt) = rtt
            && (rtt < self.probe_rtt_min_delay || self.probe_rtt_expired)
        {
            self.probe_rtt_min_delay = rtt;
            self.probe_rtt_min_stamp = self.now;
        } else if rtt.is_some_and(|rtt| rtt.as_nanos() <= self.min_rtt.as_nanos() / 64 * 65) {
            self.probe_rtt_min_stamp = self.now;
        }
        let expired = self.now > self.min_rtt_stamp + MIN_RTT_FILTER;
        if self.probe_rtt_min_delay < self.min_rtt || expired {
            self.min_rtt = self.probe_rtt_min_delay;
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
    }

    /// The bandwidth-delay product times `gain`, in bytes; the initial cwnd before the first round
    /// trip is measured.
    pub(super) fn bdp(&self, gain: f64) -> u64 {
        self.bdp_at(self.bw, gain)
    }

    pub(super) fn bdp_at(&self, bw: f64, gain: f64) -> u64 {
        if self.min_rtt == Duration::MAX {
            return self.initial_cwnd;
        }
        (gain * bw * self.min_rtt.as_secs_f64()) as u64
    }

    /// `volume` in bytes, raised to the least that sending and acknowledging in batches needs.
    pub(super) fn with_budget(&self, volume: u64) -> u64 {
        let quantum = (self.pacing_rate * 0.001).min(QUANTUM_MOST).max(2.0 * self.mss as f64);
        let volume = volume.max(3 * quantum as u64).max(4 * self.mss);
        if self.state == State::Up { volume + 2 * self.mss } else { volume }
    }

    /// The bytes in flight that leave room for other flows. Without a limit as long as no loss has
    /// shown one.
    pub(super) fn inflight_with_headroom(&self) -> u64 {
        if self.inflight_longterm == INFINITE {
            return INFINITE;
        }
        let headroom = ((HEADROOM * self.inflight_longterm as f64) as u64).max(self.mss);
        self.inflight_longterm.saturating_sub(headroom).max(4 * self.mss)
    }

    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp(State::ProbeRtt.gains().1).max(4 * self.mss)
    }

    /// Section 5.6.2: set the pacing rate to `gain` times the bandwidth. The rate does not fall
    /// before the pipe has been full once.
    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let rate = gain * self.bw * PACING_MARGIN;
        if rate > 0.0 && (self.full_bw_reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    /// Section 5.6.4.6: let cwnd grow by what was acknowledged, up to what the model permits.
    pub(super) fn set_cwnd(&mut self, newly_acked: u64) {
        let extra = self.extra_acked[0].max(self.extra_acked[1]);
        let most = self.with_budget(self.bdp(self.state.gains().1) + extra);
        if self.full_bw_reached {
            self.cwnd = (self.cwnd + newly_acked).min(most);
        } else if self.cwnd < most || self.sampler.delivered < self.initial_cwnd {
            self.cwnd += newly_acked;
        }
        self.bound_cwnd();
    }

    /// Sections 5.6.4.5 and 5.6.4.7: bound cwnd in ProbeRTT, and by the limits that losses have
    /// shown.
    pub(super) fn bound_cwnd(&mut self) {
        let least = 4 * self.mss;
        self.cwnd = self.cwnd.max(least);
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        let cap = match self.state {
            State::Down | State::Refill | State::Up => self.inflight_longterm,
            State::ProbeRtt | State::Cruise => self.inflight_with_headroom(),
            State::Startup | State::Drain => INFINITE,
        };
        self.cwnd = self.cwnd.min(cap.min(self.inflight_shortterm).max(least));
    }
}
