//! Tail loss probe, RFC 8985 section 7: after two round trips without an ACK the next new segment
//! is sent, or the last one again, so that its ACK reveals a loss long before the retransmission
//! time-out.
//!
//! Called by: timer, when the retransmission timer fires, and recovery, for each ACK while losses
//! are repaired or a probe is in flight; output/rare.rs sends the probe.

use base::{Counter, Switch};

use crate::marks::{Marks, Todo};
use crate::recovery::scoreboard::{News, Probe};
use crate::tcb::Tcb;
use crate::{Cx, recovery};

/// The retransmission timer fired: is a probe due instead of a time-out? `false` if a probe was
/// sent already ([`Tcb::REPAIRING`]), and while our SYN-ACK, which is not data, is unacknowledged.
/// RFC 8985 7.3-a.
pub(crate) fn is_due(tcb: &Tcb) -> bool {
    tcb.trouble & (Tcb::REPAIRING | Tcb::OPENING) == 0
        && tcb.state.is_synchronised()
        && tcb.marks.has(Marks::SACK)
        && tcb.rtt.backoff == 0
        && tcb.snd_wnd > 0
        && tcb.in_flight() > 0
}

/// Request a probe, and start the retransmission time-out.
/// RFC 8985 7.3-d.
pub(crate) fn expired(tcb: &mut Tcb, cx: &mut Cx) {
    let waited = tcb.probe_timeout();
    recovery::begin(tcb, cx.now);
    let (end, sent_at) = (tcb.snd_nxt, cx.now);
    if !cx.switches.on(Switch::TailProbe) {
        // Send no probe, but behave as if one were in flight. The time-out is due one RTO after the
        // timer was started, as without tail loss probes.
        tcb.recovery.probe = Some(Probe { end, repeats: false, sent_at });
        tcb.restart_timeout(cx.now - waited);
        return;
    }
    tcb.stats.rare.tail_probes += 1;
    cx.counters.add(Counter::TcpTailProbes, 1);
    tcb.todo.set(Todo::TAIL | Todo::OUTPUT);
    tcb.recovery.probe = Some(Probe { end, repeats: true, sent_at });
}

/// Process an ACK: does it answer the probe, and did the probe repair a loss (section 7.4.2)?
/// RFC 8985 7.4.2-a, 7.4.2-b.
pub(crate) fn repaired_a_loss(tcb: &mut Tcb, news: &News, echo: Option<u32>) -> bool {
    let Some(probe) = tcb.recovery.probe.filter(|probe| tcb.snd_una.ge(probe.end)) else {
        return false;
    };
    let twice = news.duplicate.is_some_and(|(_, right)| right == probe.end);
    if !probe.repeats || twice || news.original_bytes > 0 {
        tcb.recovery.probe = None;
        return false;
    }
    let by_echo = tcb.marks.has(Marks::TIMESTAMPS)
        && echo.is_some_and(|e| (e.wrapping_sub(tcb.ts_at(probe.sent_at)) as i32) >= 0);
    if by_echo || tcb.snd_una.gt(probe.end) {
        tcb.recovery.probe = None;
        return true;
    }
    if news.repeats && news.delivered == 0 {
        // The peer has received the segment twice: neither transmission was lost.
        tcb.recovery.probe = None;
    }
    false
}
