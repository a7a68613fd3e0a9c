//! Finding and repairing losses: fast retransmit and recovery with SACK (RFC 6675) and without
//! (RFC 6582), and the retransmission time-out (RFC 6298, RFC 5681).
//!
//! Called by: ack, sack, timer, output. The state of an episode is in scoreboard. Work per
//! ACK does not grow with the window: counters run along, and `lost_to` and `resend_from` only ever
//! move forward within an episode.

use crate::marks::{Marks, Todo};
pub(crate) use crate::scoreboard::Phase;
use crate::scoreboard::Recovery;
use crate::sendq::{Acked, Piece};
use crate::tcb::Tcb;

/// Duplicate ACKs that mean a loss: DupThresh of RFC 6675, section 3.2 of RFC 5681.
const DUPLICATE_THRESHOLD: u32 = 3;

impl Tcb {
    /// Bytes that are thought to be on the way: "pipe" of RFC 6675.
    #[inline(always)]
    pub(crate) fn pipe(&self) -> u32 {
        self.in_flight().saturating_sub(self.recovery.sacked_bytes + self.recovery.lost_bytes)
    }
}

/// Tell prediction whether all is well.
pub(crate) fn refresh(tcb: &mut Tcb) {
    let r = &tcb.recovery;
    let repairing = r.phase != Phase::Open || r.duplicate_acks > 0 || r.sacked_bytes > 0;
    tcb.trouble = (tcb.trouble & !Tcb::REPAIRING) | if repairing { Tcb::REPAIRING } else { 0 };
}

/// The first sign of trouble: start from a clean sheet, which is not kept up while all is well.
pub(crate) fn begin(tcb: &mut Tcb) {
    if tcb.trouble & Tcb::REPAIRING == 0 {
        let una = tcb.snd_una;
        tcb.recovery = Recovery { lost_to: una, resend_from: una, ..Recovery::default() };
        tcb.trouble |= Tcb::REPAIRING;
    }
}

/// SND.UNA advanced by `bytes` while something was being repaired.
pub(crate) fn new_ack(tcb: &mut Tcb, bytes: u32, acked: Acked) {
    if tcb.trouble & Tcb::REPAIRING == 0 {
        return;
    }
    let with_sack = tcb.marks.has(Marks::SACK);
    let una = tcb.snd_una;
    let r = &mut tcb.recovery;
    r.lost_bytes -= acked.lost.min(r.lost_bytes);
    if with_sack {
        r.sacked_bytes -= acked.sacked.min(r.sacked_bytes);
        r.sacked_below =
            if r.lost_to.le(una) { 0 } else { r.sacked_below.saturating_sub(acked.sacked) };
    } else {
        r.sacked_bytes = r.sacked_bytes.saturating_sub(bytes);
    }
    r.lost_to = r.lost_to.max(una);
    r.resend_from = r.resend_from.max(una);
    if r.phase == Phase::Open || una.ge(r.recover) {
        finish(tcb, with_sack);
    } else if r.phase == Phase::Fast && !with_sack {
        // A partial ACK: the next segment is lost as well (RFC 6582 section 3.2 step 3).
        mark_lost(tcb, 0);
        tcb.recovery.resend_now = true;
    }
    if with_sack {
        judge(tcb);
        if tcb.recovery.phase == Phase::Open && tcb.recovery.lost_bytes > 0 {
            enter_fast(tcb);
        }
    }
}

/// The episode is over; what the peer still holds out of order stays known.
fn finish(tcb: &mut Tcb, with_sack: bool) {
    if tcb.recovery.phase == Phase::Fast {
        tcb.cc.cwnd = tcb.cc.cwnd.min(tcb.cc.ssthresh);
    }
    let r = &mut tcb.recovery;
    r.phase = Phase::Open;
    r.resend_now = false;
    r.duplicate_acks = 0;
    if !with_sack {
        r.sacked_bytes = 0;
    }
}

/// A duplicate ACK, or one with news in its SACK blocks.
pub(crate) fn duplicate_ack(tcb: &mut Tcb) {
    let with_sack = tcb.marks.has(Marks::SACK);
    let flight = tcb.in_flight();
    let mss = tcb.snd_mss.bytes() as u32;
    let r = &mut tcb.recovery;
    r.duplicate_acks += 1;
    if !with_sack {
        // Each tells that a segment has left the network; never more than were sent.
        r.sacked_bytes = (r.sacked_bytes + mss).min(flight.saturating_sub(mss + r.lost_bytes));
    }
    if with_sack {
        judge(tcb);
    }
    let r = &tcb.recovery;
    let lost = r.lost_bytes > 0 || r.duplicate_acks >= DUPLICATE_THRESHOLD;
    // One reduction for a window: an episode lasts until all that was in flight at its beginning
    // is acknowledged (RFC 6582 section 3.2), so here none is open.
    if r.phase == Phase::Open && lost {
        enter_fast(tcb);
    }
}

fn enter_fast(tcb: &mut Tcb) {
    tcb.stats.fast_recoveries += 1;
    tcb.cc.on_congestion(u64::from(tcb.in_flight()));
    tcb.cc.recovered();
    tcb.recovery.phase = Phase::Fast;
    tcb.recovery.recover = tcb.snd_nxt;
    tcb.recovery.resend_from = tcb.snd_una;
    tcb.recovery.resend_now = true;
    mark_lost(tcb, 0);
    tcb.todo.set(Todo::OUTPUT);
}

/// IsLost of RFC 6675 section 4 for every segment that SACKs have passed: lost when more than
/// two full segments behind it have arrived.
fn judge(tcb: &mut Tcb) {
    let enough = (DUPLICATE_THRESHOLD - 1) * tcb.snd_mss.bytes() as u32;
    if tcb.recovery.lost_to.lt(tcb.snd_una) {
        tcb.recovery.lost_to = tcb.snd_una;
        tcb.recovery.sacked_below = 0;
    }
    let mut index = tcb.sendq.find(tcb.recovery.lost_to);
    while let Some(sent) = tcb.sendq.in_flight(index) {
        let r = &mut tcb.recovery;
        let end = sent.end();
        if sent.has(Piece::SACKED) {
            r.sacked_below += sent.space();
        } else if r.sacked_bytes - r.sacked_below > enough {
            mark_lost(tcb, index);
        } else {
            break;
        }
        tcb.recovery.lost_to = end;
        index += 1;
    }
}

fn mark_lost(tcb: &mut Tcb, index: usize) {
    if let Some(sent) = tcb.sendq.in_flight_mut(index)
        && !sent.has(Piece::LOST | Piece::SACKED)
    {
        sent.marks |= Piece::LOST;
        tcb.recovery.lost_bytes += sent.space();
        tcb.recovery.resend_from = tcb.recovery.resend_from.min(sent.seq);
    }
}

/// The retransmission timer fired: all that is not acknowledged is lost, what the peer said it
/// holds included (RFC 2018 section 8: it may have thrown that away).
pub(crate) fn timed_out(tcb: &mut Tcb) {
    let first = tcb.recovery.phase != Phase::Loss;
    tcb.cc.on_timeout(u64::from(tcb.in_flight()), first);
    let mut lost_bytes = 0;
    for sent in tcb.sendq.all_in_flight() {
        sent.marks = (sent.marks | Piece::LOST) & !Piece::SACKED;
        lost_bytes += sent.space();
    }
    tcb.recovery = Recovery {
        phase: Phase::Loss,
        resend_now: true,
        duplicate_acks: 0,
        recover: tcb.snd_nxt,
        sacked_bytes: 0,
        lost_bytes,
        lost_to: tcb.snd_nxt,
        sacked_below: 0,
        resend_from: tcb.snd_una,
    };
    refresh(tcb);
}

/// The path does not carry more than `payload` bytes a segment: what is larger in flight is lost,
/// for a reason that is no congestion.
pub(crate) fn resend_larger(tcb: &mut Tcb, payload: u32) {
    begin(tcb);
    let mut index = 0;
    while let Some(sent) = tcb.sendq.in_flight(index) {
        if sent.len > payload {
            mark_lost(tcb, index);
        }
        index += 1;
    }
    if tcb.recovery.lost_bytes > 0 {
        if tcb.recovery.phase == Phase::Open {
            tcb.recovery.phase = Phase::Fast;
            tcb.recovery.recover = tcb.snd_nxt;
        }
        tcb.recovery.resend_from = tcb.snd_una;
        tcb.recovery.resend_now = true;
    }
    refresh(tcb);
}

/// The next lost segment to send again, if the window admits it: its index.
pub(crate) fn next_lost(tcb: &mut Tcb) -> Option<usize> {
    if tcb.recovery.lost_bytes == 0 {
        return None;
    }
    let admitted = u64::from(tcb.pipe()) < tcb.cc.cwnd;
    if !(admitted || tcb.recovery.resend_now) {
        tcb.marks.set(Marks::CWND_LIMITED);
        return None;
    }
    let mut index = tcb.sendq.find(tcb.recovery.resend_from);
    while let Some(sent) = tcb.sendq.in_flight(index) {
        if sent.has(Piece::LOST) {
            return Some(index);
        }
        tcb.recovery.resend_from = sent.end();
        index += 1;
    }
    None
}
