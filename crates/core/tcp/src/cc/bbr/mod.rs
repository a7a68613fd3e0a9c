//! BBR version 3, draft-ietf-ccwg-bbr-06: a model of the path (rate, round trip, volume without
//! loss) instead of a response to losses. Names are the draft's; volumes are bytes, rates bytes a
//! second.
//!
//! Called by: `cc/mod.rs` with every ACK and every transmission. ECN is left out. The draft
//! examines each lost packet; this code examines the newest delivered one, which was sent at about
//! the same time. model.rs has the model, cycle.rs the states, samples.rs the rate samples.
//! Decision 0028.

mod cycle;
mod model;
mod samples;

use base::{Duration, Instant};

use super::Ack;
use samples::{Sample, Sampler};

/// No bound.
const INFINITE: u64 = u64::MAX;

const STARTUP_PACING_GAIN: f64 = 2.77;
const DEFAULT_CWND_GAIN: f64 = 2.0;
/// PacingMarginPercent: 1.
const PACING_MARGIN: f64 = 0.99;
const LOSS_THRESH: f64 = 0.02;
const BETA: f64 = 0.7;
const HEADROOM: f64 = 0.15;

/// The states of section 5.3; Down, Cruise, Refill and Up are those of ProbeBW.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    /// Is it one of the four states of ProbeBW?
    fn is_probe_bw(self) -> bool {
        matches!(self, State::Down | State::Cruise | State::Refill | State::Up)
    }

    /// Does this state send more than the path is known to carry?
    fn is_probing(self) -> bool {
        matches!(self, State::Startup | State::Refill | State::Up)
    }

    /// The table of section 5.6.1.
    fn gains(self) -> (f64, f64) {
        match self {
            State::Startup => (STARTUP_PACING_GAIN, DEFAULT_CWND_GAIN),
            State::Drain => (0.5, DEFAULT_CWND_GAIN),
            State::Down => (0.9, DEFAULT_CWND_GAIN),
            State::Cruise | State::Refill => (1.0, DEFAULT_CWND_GAIN),
            State::Up => (1.25, 2.25),
            State::ProbeRtt => (1.0, 0.5),
        }
    }
}

/// Which part of a bandwidth probe the ACKs of this round report on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// State of BBR; allocated only if it is in use.
#[derive(Clone, Debug)]
pub(super) struct Bbr {
    state: State,
    sampler: Sampler,
    sample: Sample,
    // Values at the last ACK.
    now: Instant,
    mss: u64,
    initial_cwnd: u64,
    pub(super) cwnd: u64,
    in_flight: u64,
    repairing: bool,
    /// cwnd was the limit in this round, and in the one before.
    limited: [bool; 2],
    last_sent_at: Instant,
    random: u64,
    /// Bytes a second; 0 before the first sample.
    pacing_rate: f64,
    // Rounds.
    round_count: u64,
    round_start: bool,
    next_round_delivered: u64,
    // The rate.
    max_bw: f64,
    /// The maximum of the previous cycle, and of this one.
    max_bw_cycles: [f64; 2],
    bw_shortterm: f64,
    bw: f64,
    // The round trip.
    min_rtt: Duration,
    min_rtt_stamp: Instant,
    probe_rtt_min_delay: Duration,
    probe_rtt_min_stamp: Instant,
    probe_rtt_expired: bool,
    probe_rtt_done: Option<Instant>,
    probe_rtt_round_done: bool,
    // The volume.
    inflight_longterm: u64,
    inflight_shortterm: u64,
    prior_cwnd: u64,
    extra_acked: [u64; 2],
    extra_acked_rounds: u64,
    extra_acked_from: Instant,
    extra_acked_delivered: u64,
    // Losses.
    bw_latest: f64,
    inflight_latest: u64,
    loss_round_delivered: u64,
    loss_round_start: bool,
    is_loss_in_round: bool,
    /// ACKs in this round that reported a loss, and the round in which recovery began.
    loss_events: u32,
    repair_round: Option<u64>,
    // Full pipe.
    full_bw_reached: bool,
    full_bw_now: bool,
    full_bw: f64,
    full_bw_count: u8,
    drain_start_round: u64,
    idle_restart: bool,
    // The cycle.
    ack_phase: AckPhase,
    cycle_stamp: Instant,
    bw_probe_wait: Duration,
    rounds_since_probe_up: u64,
    bw_probe_up_rounds: u32,
    bw_probe_up_acked: u64,
    probe_up_acked_per_inc: u64,
    is_bw_probe_sample: bool,
    prev_probe_too_high: bool,
    prev_probe_precautionary: bool,
    undo: Undo,
}

/// State to restore if losses turn out to be spurious.
#[derive(Clone, Copy, Debug)]
struct Undo {
    state: Option<State>,
    bw_shortterm: f64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
}

impl Bbr {
    /// Section 5.2.1: the state before cwnd is known.
    pub(super) fn new() -> Bbr {
        Bbr {
            state: State::Startup,
            sampler: Sampler::default(),
            sample: Sample::default(),
            now: Instant::ZERO,
            mss: 1,
            initial_cwnd: 0,
            cwnd: 0,
            in_flight: 0,
            repairing: false,
            limited: [false; 2],
            last_sent_at: Instant::ZERO,
            random: 0,
            pacing_rate: 0.0,
            round_count: 0,
            round_start: false,
            next_round_delivered: 0,
            max_bw: 0.0,
            max_bw_cycles: [0.0; 2],
            bw_shortterm: f64::INFINITY,
            bw: 0.0,
            min_rtt: Duration::MAX,
            min_rtt_stamp: Instant::ZERO,
            probe_rtt_min_delay: Duration::MAX,
            probe_rtt_min_stamp: Instant::ZERO,
            probe_rtt_expired: false,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            inflight_longterm: INFINITE,
            inflight_shortterm: INFINITE,
            prior_cwnd: 0,
            extra_acked: [0; 2],
            extra_acked_rounds: 0,
            extra_acked_from: Instant::ZERO,
            extra_acked_delivered: 0,
            bw_latest: 0.0,
            inflight_latest: 0,
            loss_round_delivered: 0,
            loss_round_start: false,
            is_loss_in_round: false,
            loss_events: 0,
            repair_round: None,
            full_bw_reached: false,
            full_bw_now: false,
            full_bw: 0.0,
            full_bw_count: 0,
            drain_start_round: 0,
            idle_restart: false,
            ack_phase: AckPhase::Init,
            cycle_stamp: Instant::ZERO,
            bw_probe_wait: Duration::ZERO,
            rounds_since_probe_up: 0,
            bw_probe_up_rounds: 0,
            bw_probe_up_acked: 0,
            probe_up_acked_per_inc: INFINITE,
            is_bw_probe_sample: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            undo: Undo {
                state: None,
                bw_shortterm: f64::INFINITY,
                inflight_shortterm: INFINITE,
                inflight_longterm: INFINITE,
            },
        }
    }

    /// Begin with the initial cwnd, in bytes.
    pub(super) fn start(&mut self, cwnd: u64) {
        self.initial_cwnd = cwnd;
    }

    /// The pacing rate in bytes a second.
    pub(super) fn pacing_rate(&self, srtt: Duration) -> f64 {
        if self.pacing_rate > 0.0 {
            return self.pacing_rate;
        }
        let srtt = if srtt == Duration::ZERO { Duration::from_millis(1) } else { srtt };
        STARTUP_PACING_GAIN * self.initial_cwnd as f64 / srtt.as_secs_f64()
    }

    /// Section 5.2.2: a segment leaves at `sent_at`. `starved`: there had been nothing to send.
    pub(super) fn on_send(&mut self, sent_at: Instant, before: u64, after: u64, starved: bool) {
        if starved {
            self.sampler.mark_app_limited(before);
        }
        if before == 0 && self.sampler.is_app_limited() {
            self.idle_restart = true;
            self.extra_acked_from = sent_at;
            if self.state.is_probe_bw() {
                self.set_pacing_rate(1.0);
            } else if self.state == State::ProbeRtt {
                self.now = sent_at;
                self.check_probe_rtt_done();
            }
        }
        self.sampler.on_send(sent_at, before, after);
        self.last_sent_at = sent_at;
    }

    /// Section 5.2.3: process an ACK. `cwnd` is the current window, which recovery may have
    /// changed.
    pub(super) fn on_ack(&mut self, ack: &Ack, cwnd: u64, mss: u64) {
        if self.random == 0 {
            // The sequence number comes from a keyed hash (RFC 6528), so connections draw different
            // values.
            self.random = u64::from(ack.una.0) << 1 | 1;
            self.min_rtt_stamp = ack.now;
            self.probe_rtt_min_stamp = ack.now;
            self.extra_acked_from = ack.now;
        }
        self.now = ack.now;
        self.mss = mss;
        self.cwnd = cwnd;
        self.repairing = ack.repairing;
        // Segments that wait for their departure are not in the network yet.
        let waiting = self.last_sent_at.since(ack.now).as_secs_f64() * self.pacing_rate;
        self.in_flight = u64::from(ack.pipe_bytes).saturating_sub(waiting as u64);
        self.limited[0] |= ack.cwnd_limited;
        self.sample = self.sampler.on_ack(ack);
        self.update_model(ack);
        self.set_pacing_rate(self.state.gains().0);
        self.set_cwnd(u64::from(ack.delivered_bytes));
    }

    fn update_model(&mut self, ack: &Ack) {
        let newly_acked = u64::from(ack.delivered_bytes);
        self.update_latest_delivery_signals();
        self.update_round();
        self.update_max_bw();
        if ack.lost_bytes > 0 {
            self.note_loss();
        }
        self.update_congestion_signals();
        self.update_ack_aggregation(newly_acked);
        self.check_full_bw_reached();
        self.check_startup_done();
        self.check_drain_done();
        self.update_probe_bw_cycle(newly_acked);
        self.update_min_rtt(ack.rtt);
        self.check_probe_rtt();
        self.advance_latest_delivery_signals();
        self.bw = self.max_bw.min(self.bw_shortterm);
    }

    /// Was cwnd the limit at some time of this round or the last?
    fn is_cwnd_limited(&self) -> bool {
        self.limited[0] || self.limited[1]
    }

    /// Fast recovery begins.
    pub(super) fn on_congestion(&mut self, cwnd: u64) {
        self.save_cwnd(cwnd);
        self.save_state();
        self.repair_round = Some(self.round_count);
    }

    /// The retransmission timer fired.
    pub(super) fn on_timeout(&mut self, cwnd: u64) {
        self.save_cwnd(cwnd);
        self.save_state();
    }

    /// Recovery has ended; returns cwnd.
    pub(super) fn recovered(&mut self, cwnd: u64) -> u64 {
        self.repair_round = None;
        self.repairing = false;
        self.cwnd = cwnd.max(self.prior_cwnd);
        self.bound_cwnd();
        self.cwnd
    }

    /// Section 5.5.11.2: the losses were spurious; returns cwnd.
    pub(super) fn undo(&mut self, cwnd: u64) -> u64 {
        self.is_loss_in_round = false;
        self.reset_full_bw();
        let undo = self.undo;
        self.bw_shortterm = self.bw_shortterm.max(undo.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(undo.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(undo.inflight_longterm);
        match undo.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_bw_reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => {
                self.start_refill();
            }
            _ => {}
        }
        self.undo.state = None;
        self.recovered(cwnd)
    }

    fn save_state(&mut self) {
        self.undo = Undo {
            state: None,
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        };
    }

    fn save_cwnd(&mut self, cwnd: u64) {
        self.prior_cwnd = if !self.repairing && self.state != State::ProbeRtt {
            cwnd
        } else {
            self.prior_cwnd.max(cwnd)
        };
    }

    /// xorshift64*: the same seed gives the same draws.
    fn draw(&mut self) -> f64 {
        let mut x = self.random;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random = x;
        (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests;
