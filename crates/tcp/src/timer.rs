//! The timers of a connection: four deadlines, so that a stack needs one wheel entry for each
//! connection. Setting one is a store; what is due is looked at when the wheel's entry comes up.
//!
//! Called by: the stack, when the earliest deadline has come. They are kept in deadlines.rs.
//! RFC 9293 section 3.8.

use base::{Counter, Duration, Instant};

use crate::marks::{Events, Marks, Todo};
use crate::recovery::tlp;
use crate::state::State;
use crate::tcb::Tcb;
use crate::{Cx, output, path, recovery, user_timeout};

impl Tcb {
    /// When [`expire`] wants to be called next; [`Instant::NEVER`] for not at all.
    #[inline(always)]
    pub fn next_deadline(&self) -> Instant {
        let t = &self.timers;
        t.retransmit.min(t.ack).min(t.idle).min(t.pace)
    }

    /// Start the retransmission timer anew, RFC 6298 rules 5.1 and 5.3. While all is well a tail
    /// loss probe comes first (RFC 8985 section 7.2), which [`expire`] finds out by the same signs.
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

    /// How long to wait for ACKs. A peer may keep back the one for less than two segments; what
    /// waits to be sent is about to be.
    #[inline(always)]
    pub(crate) fn probe_timeout(&self) -> Duration {
        let bytes = self.in_flight() as usize + self.sendq.unsent_bytes();
        self.rtt.probe_timeout(bytes < 2 * self.snd_mss.bytes())
    }

    /// Start the time-out anew, behind what may come before it.
    pub(crate) fn restart_timeout(&mut self, now: Instant) {
        self.recovery.timeout_due = now + self.rtt.rto();
        self.timers.retransmit = self.recovery.timeout_due.min(self.recovery.reorder_due);
    }

    /// Judge what may have been overtaken once more at `due`, before any time-out.
    pub(crate) fn await_reordered(&mut self, due: Instant) {
        self.recovery.reorder_due = due;
        if self.in_flight() > 0 {
            self.timers.retransmit = self.recovery.timeout_due.min(due);
        }
    }

    /// The retransmission timer after a time-out, which `first` says is the first in a row: not
    /// behind the end of the user time-out. `false` if that has come.
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

    /// A time-out that follows on others comes no later than the end of the user time-out.
    pub(crate) fn heed_user_timeout(&mut self) {
        if self.rtt.retries > 0
            && let Some(most) = user_timeout::of(self)
        {
            let end = self.timers.silent_since + most;
            self.timers.retransmit = self.timers.retransmit.min(end);
        }
    }

    /// Something came in: the connection is alive.
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

    /// Set or end keepalive, RFC 9293 section 3.8.4.
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

/// Act on every deadline that has come.
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

/// What comes before a time-out: a look at what may have been overtaken, or a tail loss probe.
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

/// RFC 6298 5-d.
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
            // A peer that shut its window on what is in flight but answers is not given up (RFC
            // 9293 section 3.8.6.1): `probes` starts anew with each segment from it.
            // Of an orphan the probes are counted all the same.
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
        // There was no memory for a writer: it may try again.
        _ if tcb.marks.has(Marks::WRITE_BLOCKED) => {
            tcb.marks.clear(Marks::WRITE_BLOCKED);
            tcb.events.set(Events::WRITABLE);
        }
        _ => {}
    }
}

/// Probe a shut window, ever more slowly, for as long as the peer answers (RFC 9293 3.8.6.1). What
/// could not leave when it was asked for (no link address, no buffer) is a try all the same.
/// RFC 9293 MUST-36, MUST-37, SHLD-30.
fn persist_expired(tcb: &mut Tcb, cx: &mut Cx) {
    let stuck = tcb.todo.has(Todo::PROBE);
    if tcb.snd_wnd > 0 && !stuck {
        // Only silly-window avoidance holds data back: its time is over.
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

/// Nothing came for a while: the end of an orphan in FIN-WAIT-2, or a keepalive probe.
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
        // What is sent again, or probes a shut window, asks the peer already.
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
