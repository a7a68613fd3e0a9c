//! Tail loss probe, RFC 8985 section 7: after two round trips without an ACK one segment is sent
//! (again), so that its ACK reveals a loss long before the retransmission time-out.
//!
//! Called by: timer (it is due), output (which segment) and recovery (its ACK).

use base::{Counter, Instant, SeqNumber, Switch};
use mbuf::Mbuf;

use crate::marks::{Marks, Todo};
use crate::output;
use crate::recovery::sack::News;
use crate::tcb::Tcb;
use crate::{Cx, recovery};

/// A probe in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    /// Just past its last byte ("TLP.end_seq").
    end: SeqNumber,
    /// It is a retransmission, not new data.
    repeats: bool,
    sent_at: Instant,
}

/// The timer fired: is a probe due, rather than a time-out? `false` if one was sent already, and
/// for a SYN-ACK, which is not data.
/// RFC 8985 7.3-a.
pub(crate) fn is_due(tcb: &Tcb) -> bool {
    tcb.trouble & (Tcb::REPAIRING | Tcb::OPENING) == 0
        && tcb.state.is_synchronised()
        && tcb.marks.has(Marks::SACK)
        && tcb.rtt.backoff == 0
        && tcb.snd_wnd > 0
        && tcb.in_flight() > 0
}

/// Request a probe; the retransmission time-out runs from here on.
/// RFC 8985 7.3-d.
pub(crate) fn expired(tcb: &mut Tcb, cx: &mut Cx) {
    let waited = tcb.probe_timeout();
    recovery::begin(tcb, cx.now);
    let (end, sent_at) = (tcb.snd_nxt, cx.now);
    if !cx.switches.on(Switch::TailProbe) {
        // Behave as if a probe were in flight: the time-out comes when it would have come anyway.
        tcb.recovery.probe = Some(Probe { end, repeats: false, sent_at });
        tcb.restart_timeout(cx.now - waited);
        return;
    }
    tcb.stats.rare.tail_probes += 1;
    cx.counters.add(Counter::TcpTailProbes, 1);
    tcb.todo.set(Todo::TAIL | Todo::OUTPUT);
    tcb.recovery.probe = Some(Probe { end, repeats: true, sent_at });
}

/// Send the probe: the next new segment if the peer's window admits one, else the last one again.
/// RFC 8985 7.3-b, 7.3-c.
#[cold]
pub(crate) fn send(tcb: &mut Tcb, cx: &mut Cx) -> Option<Mbuf> {
    tcb.todo.clear(Todo::TAIL);
    tcb.recovery.probe.as_ref()?;
    let mss = tcb.snd_mss.bytes() as u32;
    let window = (tcb.snd_una + tcb.snd_wnd).since(tcb.snd_nxt).max(0) as u32;
    let next = tcb.sendq.front().map_or(0, |front| front.len.min(mss));
    let repeats = next == 0 || next > window || tcb.marks.has(Marks::FIN_SENT);
    let probe = if repeats {
        let last = tcb.sendq.sent_count().checked_sub(1)?;
        let (seq, end) = tcb.sendq.in_flight(last).map(|p| (p.seq, p.end()))?;
        let from = if end.since(seq) as u32 > mss { end - mss } else { seq };
        output::resend(tcb, from, end, cx)
    } else {
        output::send_part(tcb, next, cx)
    };
    let (end, sent_at) = (tcb.snd_nxt, cx.now);
    tcb.recovery.probe = probe.is_some().then_some(Probe { end, repeats, sent_at });
    probe
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
        // The peer has it twice: neither transmission was lost.
        tcb.recovery.probe = None;
    }
    false
}
