//! The timers of a connection: four deadlines, so that a stack needs one timer-wheel entry per
//! connection. Setting a deadline is a store; deadlines are compared when the wheel entry fires.
//!
//! Called by: the stack, at the earliest deadline. The deadlines are in deadlines.rs. RFC 9293
//! section 3.8.

use base::{Counter, Duration, Instant};

use crate::marks::{Events, Marks, Todo};
use crate::recovery::tlp;
use crate::state::State;
use crate::tcb::Tcb;
use crate::{Cx, output, path, recovery, user_timeout};

impl Tcb {
    /// When [`expire`] must be called next; [`Instant::NEVER`] if no deadline is set.
    #[inline(always)]
    pub fn next_deadline(&self) -> Instant {
        let t = &self.timers;
        t.retransmit.min(t.ack).min(t.idle).min(t.pace)
    }

    /// Restart the retransmission timer, RFC 6298 rules 5.1 and 5.3. Without signs of loss the
    /// timer fires for a tail loss probe first (RFC 8985 section 7.2); [`expire`] checks the same
    /// conditions to know which of the two is due.
    /// RFC 6298 5-a, 5-b. RFC 8985 7.2-a.
    #[inline(always)]
    pub(crate) fn restart_retransmit(&mut self, now: Instant) {
        let well = self.trouble & (Tcb::REPAIRING | Tcb::OPENING) == 0 && self.rtt.backoff == 0;
        if well && self.marks.has(Marks::SACK) {
            self.timers.retransmit = now + self.probe_timeout();
        } else {
            self.restart_timeout(now);
        }
    }

    /// How long to wait for ACKs before a tail loss probe. The peer may delay the ACK of less than
    /// two segments; unsent data counts as in flight, because it is about to be sent.
    #[inline(always)]
    pub(crate) fn probe_timeout(&self) -> Duration {
        let bytes = self.in_flight() as usize + self.sendq.unsent_bytes();
        self.rtt.probe_timeout(bytes < 2 * self.snd_mss.bytes())
    }

    /// Restart the retransmission time-out; the RACK reordering timer may fire before it.
    pub(crate) fn restart_timeout(&mut self, now: Instant) {
        self.recovery.timeout_due = now + self.rtt.rto();
        self.timers.retransmit = self.recovery.timeout_due.min(self.recovery.reorder_due);
    }

    /// Run RACK's loss detection again at `due`, before any time-out.
    pub(crate) fn await_reordered(&mut self, due: Instant) {
        self.recovery.reorder_due = due;
        if self.in_flight() > 0 {
            self.timers.retransmit = self.recovery.timeout_due.min(due);
        }
    }

    /// Restart the retransmission timer after a time-out; `first` if it is the first in a row. The
    /// timer does not run beyond the user timeout. Returns `false` if the user timeout has expired.
    fn again(&mut self, first: bool, waited: Duration, now: Instant) -> bool {
        if first {
            self.timers.silent_since = now - waited;
        }
        self.restart_retransmit(now);
        let Some(most) = user_timeout::of(self) else { return true };
        let end = self.timers.silent_since + most;
        self.timers.retransmit = self.timers.retransmit.min(end);
        end > now
    }

    /// Move the next of several consecutive time-outs to the end of the user timeout, if it would
    /// come later.
    pub(crate) fn heed_user_timeout(&mut self) {
        if self.rtt.retries > 0
            && let Some(most) = user_timeout::of(self)
        {
            let end = self.timers.silent_since + most;
            self.timers.retransmit = self.timers.retransmit.min(end);
        }
    }

    /// An acceptable segment arrived: reset the probe count, restart keepalive.
    #[inline(always)]
    pub(crate) fn heard_from_peer(&mut self, now: Instant) {
        self.probes = 0;
        if self.timers.idle != Instant::NEVER
            && let Some(idle) = self.config.keepalive_idle
            && !matches!(self.state, State::FinWait2)
        {
            self.timers.idle = now + idle;
        }
    }

    /// Turn keepalive on or off, RFC 9293 section 3.8.4.
    /// RFC 9293 MUST-24.
    pub fn set_keepalive(&mut self, idle: Option<Duration>, now: Instant) {
        if self.config.keepalive_idle != idle {
            std::sync::Arc::make_mut(&mut self.config).keepalive_idle = idle;
        }
        if !matches!(self.state, State::FinWait2 | State::TimeWait | State::Closed) {
            self.timers.idle = idle.map_or(Instant::NEVER, |idle| now + idle);
        }
    }
}

/// Act on every deadline that has passed.
pub fn expire(tcb: &mut Tcb, cx: &mut Cx) {
    if tcb.timers.ack <= cx.now {
        tcb.timers.ack = Instant::NEVER;
        tcb.todo.set(Todo::ACK_NOW);
    }
    if tcb.timers.pace <= cx.now {
        tcb.timers.pace = Instant::NEVER;
        tcb.todo.set(Todo::OUTPUT);
    }
    if tcb.timers.retransmit <= cx.now && !not_yet_a_timeout(tcb, cx) {
        tcb.timers.retransmit = Instant::NEVER;
        cx.counters.add(Counter::TcpTimeouts, 1);
        tcb.stats.rare.timeouts += 1;
        retransmit_expired(tcb, cx);
    }
    if tcb.timers.idle <= cx.now {
        tcb.timers.idle = Instant::NEVER;
        idle_expired(tcb, cx);
    }
}

/// Handle what precedes a time-out: RACK's reordering timer, or a tail loss probe. `true` if one of
/// them was due.
fn not_yet_a_timeout(tcb: &mut Tcb, cx: &mut Cx) -> bool {
    if tcb.recovery.reorder_due <= cx.now {
        tcb.timers.retransmit = tcb.recovery.timeout_due;
        recovery::reorder_expired(tcb, cx);
        return tcb.timers.retransmit > cx.now;
    }
    if tlp::is_due(tcb) {
        tlp::expired(tcb, cx);
        return true;
    }
    false
}

/// The retransmission timer fired: retransmit, and double the time-out (RFC 6298 5-d: rules 5.5 and
/// 5.6).
fn retransmit_expired(tcb: &mut Tcb, cx: &mut Cx) {
    let waited = tcb.rtt.rto();
    match tcb.state {
        // RFC 9293 MUST-22.
        State::SynSent | State::SynReceived => {
            if tcb.rtt.backoff >= tcb.config.syn_retries_max {
                tcb.give_up();
                return;
            }
            let first = tcb.rtt.backoff == 0;
            tcb.rtt.backoff += 1;
            tcb.todo.set(Todo::SYN);
            if !tcb.again(first, waited, cx.now) {
                tcb.give_up();
            }
        }
        // RFC 9293 MUST-20, SHLD-16, SHLD-17, MUST-35.
        _ if tcb.in_flight() > 0 => {
            // A peer that has closed its window on data in flight but still answers is not given up
            // (RFC 9293 section 3.8.6.1): each segment from it resets `probes`. On an orphan the
            // retransmissions are counted nevertheless.
            let shut = tcb.snd_wnd == 0 && !tcb.marks.has(Marks::ORPHAN);
            let most = user_timeout::retries_max(tcb);
            let tried = if shut { &mut tcb.probes } else { &mut tcb.rtt.retries };
            if *tried >= most {
                tcb.give_up();
                return;
            }
            let first = *tried == 0;
            if first {
                // RFC 9293 SHLD-9.
                tcb.events.set(Events::UNANSWERED);
            }
            *tried = tried.saturating_add(1);
            tcb.rtt.backoff = (tcb.rtt.backoff + 1).min(20);
            if !tcb.again(first, waited, cx.now) {
                tcb.give_up();
                return;
            }
            recovery::timed_out(tcb, cx);
            path::timed_out(tcb, cx);
            tcb.todo.set(Todo::OUTPUT);
        }
        _ if tcb.state.may_send() && output::has_more(tcb) => persist_expired(tcb, cx),
        // A writer found no buffers: let the writer try again.
        _ if tcb.marks.has(Marks::WRITE_BLOCKED) => {
            tcb.marks.clear(Marks::WRITE_BLOCKED);
            tcb.events.set(Events::WRITABLE);
        }
        _ => {}
    }
}

/// Probe a zero window with exponential backoff for as long as the peer answers (RFC 9293 3.8.6.1).
/// A probe that could not be sent (no link address, no buffer) counts as a try.
/// RFC 9293 MUST-36, MUST-37, SHLD-30.
fn persist_expired(tcb: &mut Tcb, cx: &mut Cx) {
    let stuck = tcb.todo.has(Todo::PROBE);
    if tcb.snd_wnd > 0 && !stuck {
        // Only silly-window avoidance holds data back: its override time-out has passed.
        tcb.todo.set(Todo::PROBE);
        tcb.restart_retransmit(cx.now);
        return;
    }
    let most = user_timeout::retries_max(tcb);
    let abandoned = tcb.marks.has(Marks::ORPHAN) && tcb.rtt.backoff >= most;
    if tcb.probes >= most || abandoned {
        tcb.give_up();
        return;
    }
    let (first, waited) = (tcb.probes == 0, tcb.rtt.rto());
    tcb.probes = tcb.probes.saturating_add(1);
    tcb.rtt.backoff = (tcb.rtt.backoff + 1).min(20);
    tcb.todo.set(Todo::PROBE);
    if !tcb.again(first, waited, cx.now) {
        tcb.give_up();
    }
}

/// The idle deadline passed: an orphan in FIN-WAIT-2 ends, or a keepalive probe is due.
/// RFC 9293 MUST-26, MUST-29.
fn idle_expired(tcb: &mut Tcb, cx: &mut Cx) {
    if tcb.state == State::FinWait2 && tcb.marks.has(Marks::ORPHAN) {
        tcb.state = State::TimeWait;
        return;
    }
    let Some(idle) = tcb.config.keepalive_idle.filter(|_| tcb.state.is_synchronised()) else {
        return;
    };
    if tcb.in_flight() > 0 || tcb.sendq.unsent_count() > 0 {
        // A retransmission or a window probe solicits an answer already.
        tcb.timers.idle = cx.now + idle;
        return;
    }
    if tcb.probes >= tcb.config.keepalive_probes_max {
        tcb.todo.set(Todo::RST);
        tcb.give_up();
        return;
    }
    tcb.probes += 1;
    tcb.todo.set(Todo::KEEPALIVE);
    tcb.timers.idle = cx.now + tcb.config.keepalive_interval;
}
