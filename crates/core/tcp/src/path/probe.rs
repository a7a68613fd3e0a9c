//! Path MTU probing: larger segments, one at a time, that carry data to be sent anyway (RFC 4821
//! section 7). A probe that arrives raises the segment size. A probe that is lost was too large,
//! and is no sign of congestion (section 7.5).
//!
//! Called by: output (is a probe due?), recovery and ack (losses), rare (retransmissions). Probing
//! needs SACK, which shows that the probe alone was lost.

use base::{Counter, Instant, SeqNumber};

use crate::marks::{Marks, Todo};
use crate::path::{self, LIFE};
use crate::sendq::Piece;
use crate::tcb::{Tcb, sums};
use crate::{Cx, MtuProbing};

/// A probe must gain at least this many bytes. So the search ends within 16 bytes of the largest
/// size that arrives (Linux: 8).
const WORTH: u16 = 8;
/// How often a size is tried; a probe may be lost for other reasons.
const TRIES: u8 = 2;
/// Segments that must be ready to follow, so that their SACKs reveal a loss (section 7.4).
const FOLLOWERS: u32 = 3;

/// What `output` does instead of sending the next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing special: send the next segment.
    None,
    /// Send the front piece of the queue, which is a probe now.
    Send,
    /// Wait for ACKs to make room in cwnd.
    Wait,
}

/// Is a probe to be sent now? The windows admit `window` and `congestion` bytes.
/// RFC 4821 7.4-a.
#[cold]
pub(crate) fn step(tcb: &mut Tcb, window: u32, congestion: u32, cx: &mut Cx) -> Step {
    prove(tcb);
    if let Some((seq, end)) = tcb.path.probe {
        if tcb.snd_una.lt(end) {
            return Step::None;
        }
        arrived(tcb, end.since(seq) as u16, cx);
    }
    let repairing = tcb.is_repairing();
    if cx.now < tcb.path.next_search || repairing || !tcb.marks.has(Marks::SACK) {
        return Step::None;
    }
    if !choose(tcb, cx.now) {
        return Step::None;
    }
    let size = u32::from(asked(tcb));
    let enough = size + FOLLOWERS * u32::from(tcb.snd_mss.0);
    let cwnd = tcb.cc.cwnd;
    if tcb.sendq.unsent_bytes() < enough as usize || window < enough || cwnd < u64::from(enough) {
        return Step::None;
    }
    if congestion < size {
        // ACKs of small segments free a little room each, and the next small segment would take it:
        // the probe would never fit.
        return if tcb.in_flight() > 0 { Step::Wait } else { Step::None };
    }
    let sums = sums(tcb, cx);
    if tcb.sendq.join_front(size as usize, sums, &mut cx.pool) { Step::Send } else { Step::None }
}

/// The probe was sent from `seq` on, or could not be sent.
#[cold]
pub(crate) fn sent(tcb: &mut Tcb, seq: SeqNumber, cx: &mut Cx) {
    let end = seq + u32::from(asked(tcb));
    if tcb.snd_nxt == end {
        tcb.path.probe = Some((seq, end));
        tcb.path.excused = None;
        cx.counters.add(Counter::PathMtuProbes, 1);
    } else if let Some(front) = tcb.sendq.front_mut() {
        front.marks &= !Piece::PROBE;
    }
}

/// The size to try next.
fn asked(tcb: &Tcb) -> u16 {
    tcb.path.ask.min(tcb.path_most)
}

/// Check whether there is a size to try next.
fn choose(tcb: &mut Tcb, now: Instant) -> bool {
    let size = tcb.snd_mss.0;
    if size >= tcb.path_most {
        tcb.marks.clear(Marks::PATH_SEARCH);
        return false;
    }
    if asked(tcb) < size.saturating_add(WORTH).min(tcb.path_most) {
        // The next size is not worth a probe. Paths change, so start over after a while.
        tcb.path.forget_bounds();
        tcb.path.next_search = now + LIFE;
        return false;
    }
    true
}

/// Large segments had vanished. If a small one has arrived since, their size was the cause.
fn prove(tcb: &mut Tcb) {
    if tcb.path.unproved.is_some_and(|head| tcb.snd_una.gt(head)) {
        tcb.path.unproved = None;
        tcb.path.is_worse = true;
        tcb.marks.set(Marks::PATH_NEWS);
    }
}

/// A probe of `size` bytes arrived: segments have that size from now on. RFC 4821 7.6-b.
fn arrived(tcb: &mut Tcb, size: u16, cx: &mut Cx) {
    tcb.path.probe = None;
    tcb.path.failures = 0;
    if size <= tcb.snd_mss.0 {
        return;
    }
    path::set_size(tcb, size);
    tcb.path.ask = tcb.path.next_size(size, tcb.path_most);
    tcb.path.unproved = None;
    tcb.path.is_worse = false;
    tcb.marks.set(Marks::PATH_NEWS);
    cx.counters.add(Counter::PathMtuRaised, 1);
}

/// The probe was lost: try that size once more, or take it as too large.
/// RFC 4821 7.6-a.
fn failed(tcb: &mut Tcb) {
    tcb.path.probe = None;
    tcb.path.failures += 1;
    if tcb.path.failures >= TRIES {
        tcb.path.failures = 0;
        tcb.path.too_much = asked(tcb);
        tcb.path.ask = tcb.path.next_size(tcb.snd_mss.0, tcb.path_most);
    }
}

/// Losses were found: if only the probe is lost, it was too large.
/// RFC 4821 7.5-a.
pub(crate) fn note_losses(tcb: &mut Tcb) {
    let Some((left, right)) = tcb.path.probe else { return };
    let Some((first, end)) = tcb.recovery.lost.first().filter(|(l, r)| l.lt(right) && r.gt(left))
    else {
        return;
    };
    failed(tcb);
    let alone = left.le(first) && end.le(right);
    if alone && tcb.recovery.lost.bytes() == end.since(first) as u32 {
        tcb.path.excused = Some((first, end));
        tcb.recovery.resend_now = true;
        tcb.todo.set(Todo::OUTPUT);
    }
}

/// The lost bytes whose loss is no sign of congestion.
pub(crate) fn excused_bytes(tcb: &Tcb) -> u32 {
    let (Some((left, right)), Some((first, end))) = (tcb.path.excused, tcb.recovery.lost.first())
    else {
        return 0;
    };
    if left.le(first) && end.le(right) { end.since(first) as u32 } else { 0 }
}

/// Note that `seq..end` is retransmitted: if it is lost again, that counts as an ordinary loss.
pub(crate) fn resent(tcb: &mut Tcb, seq: SeqNumber, end: SeqNumber) {
    if let Some((left, right)) = tcb.path.excused
        && seq.lt(right)
        && end.gt(left)
    {
        tcb.path.excused = end.lt(right).then_some((end, right));
    }
    if tcb.path.probe.is_some_and(|(left, right)| seq.lt(right) && end.gt(left)) {
        failed(tcb);
    }
}

/// After a time-out the cause of each loss is unknown.
pub(crate) fn timed_out(tcb: &mut Tcb) {
    tcb.path.excused = None;
    if tcb.path.probe.is_some_and(|(_, end)| tcb.snd_una.lt(end)) {
        failed(tcb);
    }
}

/// A router reports that the path carries `payload` bytes a segment. Is that less than the probe in
/// flight?
pub(crate) fn refused(tcb: &mut Tcb, payload: u16) -> bool {
    let Some((seq, end)) = tcb.path.probe else { return false };
    if tcb.snd_una.ge(end) || u32::from(payload) >= end.since(seq) as u32 {
        return false;
    }
    tcb.path.probe = None;
    tcb.path.failures = 0;
    tcb.path.too_much = payload.saturating_add(1);
    tcb.path.ask = payload;
    // Its bytes are retransmitted when their loss is found, without a reduction of cwnd.
    tcb.path.excused = Some((seq.max(tcb.snd_una), end));
    true
}

/// Probe for larger sizes from `at` on, unless that is turned off.
/// RFC 4821 7.3-a.
pub(crate) fn search_from(tcb: &mut Tcb, at: Instant) {
    if tcb.config.mtu_probing != MtuProbing::Off {
        tcb.marks.set(Marks::PATH_SEARCH);
        tcb.path.next_search = at;
    }
}
