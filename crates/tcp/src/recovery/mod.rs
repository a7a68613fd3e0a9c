//! Repairing losses: when an episode begins and ends, what is sent again, what the window is
//! meanwhile. Fast recovery with SACK (RACK, RFC 8985; RFC 6675) and without (RFC 6582), and the
//! retransmission time-out (RFC 6298, RFC 5681).
//!
//! Called by: ack, sack, timer, path, output. State is in scoreboard; what is lost is found by
//! rack, whether it was by undo, the window by prr.

pub(crate) mod prr;
pub(crate) mod rack;
pub(crate) mod ranges;
pub(crate) mod sack;
pub(crate) mod scoreboard;
pub(crate) mod tlp;
pub(crate) mod undo;

use base::{Duration, Instant, SeqNumber, Switch};

use crate::marks::{Marks, Todo};
use crate::path::probe;
use crate::sendq::Piece;
use crate::tcb::Tcb;
use crate::{Cx, ecn, pacing};
use prr::{AckReport, Prr};
use rack::{DUPLICATE_THRESHOLD, mark_lost};
use sack::News;
pub(crate) use scoreboard::{Phase, Resent};
use undo::{Evidence, Frto};

impl Tcb {
    /// Bytes that are thought to be on the way: "pipe" of RFC 6675.
    /// RFC 6675 4-b.
    #[inline(always)]
    pub(crate) fn pipe(&self) -> u32 {
        if !self.is_repairing() {
            return self.in_flight();
        }
        self.in_flight().saturating_sub(self.recovery.gone_bytes())
    }

    /// Is a loss being repaired that duplicate ACKs or SACKs reported?
    #[inline(always)]
    pub(crate) fn is_in_fast_recovery(&self) -> bool {
        self.is_repairing() && self.recovery.phase == Phase::Fast
    }

    /// Is anything deemed lost and not sent again? While all is well one byte says that it is not.
    #[inline(always)]
    pub(crate) fn has_lost(&self) -> bool {
        self.is_repairing() && self.recovery.lost.bytes() > 0
    }

    /// Bytes in flight as far as the window let them, for the threshold.
    pub(crate) fn flight(&self) -> u64 {
        if self.config.reduces_whole_window {
            return self.cc.cwnd;
        }
        u64::from(self.in_flight()).min(self.cc.cwnd)
    }
}

/// Tell prediction whether all is well.
fn refresh(tcb: &mut Tcb) {
    let r = &tcb.recovery;
    let repairing = r.phase != Phase::Open
        || r.duplicate_acks > 0
        || r.gone_bytes() > 0
        || r.probe.is_some()
        || r.reorder_due != Instant::NEVER;
    tcb.trouble = (tcb.trouble & !Tcb::REPAIRING) | if repairing { Tcb::REPAIRING } else { 0 };
}

/// The first sign of trouble: start from a clean sheet, which is not kept up while all is well.
pub(crate) fn begin(tcb: &mut Tcb, now: Instant) {
    if !tcb.is_repairing() {
        tcb.recovery.begin(tcb.snd_una);
        tcb.trouble |= Tcb::REPAIRING;
        if tcb.in_flight() > 0 {
            // From here on it is the time-out that runs, no tail probe.
            tcb.restart_retransmit(now);
        }
    }
}

/// All that an ACK told has been noted: draw the consequences.
#[inline]
pub(crate) fn after_ack(tcb: &mut Tcb, news: &News, echo: Option<u32>, cx: &Cx) {
    if tcb.is_repairing() || news.duplicate.is_some() {
        consequences(tcb, news, echo, cx);
    }
}

/// RFC 8985 4-a. RFC 6675 5-a.
fn consequences(tcb: &mut Tcb, news: &News, echo: Option<u32>, cx: &Cx) {
    let with_sack = tcb.marks.has(Marks::SACK);
    if undo::was_for_nothing(tcb, news, cx) {
        undo(tcb);
    }
    if !tcb.is_repairing() {
        return;
    }
    if tlp::repaired_a_loss(tcb, news, echo) && tcb.recovery.phase == Phase::Open {
        let flight = tcb.flight();
        tcb.cc.on_congestion(flight);
        tcb.cc.recovered();
        ecn::reduced(tcb);
    }
    let r = &tcb.recovery;
    let whole = tcb.snd_una.ge(r.recover) || (news.acked > 0 && !tcb.cc.partial_acks());
    if r.phase == Phase::Open || whole {
        finish(tcb, news);
    }
    let lost_before = tcb.recovery.lost.bytes();
    let mut delivered = news.delivered;
    if with_sack {
        rack::detect(tcb, cx);
    } else {
        delivered += count_duplicates(tcb, news);
    }
    probe::note_losses(tcb);
    let lost = tcb.recovery.lost.bytes();
    if tcb.recovery.phase == Phase::Open && lost > probe::excused_bytes(tcb) {
        enter_fast(tcb, news.acked, delivered, cx);
    }
    if tcb.recovery.reducing && tcb.cc.by_prr() && cx.switches.on(Switch::Prr) {
        reduce_in_proportion(tcb, delivered, news.acked > 0, lost_before);
    }
    refresh(tcb);
}

/// The window during fast recovery.
fn reduce_in_proportion(tcb: &mut Tcb, delivered: u32, advanced: bool, lost_before: u32) {
    if delivered == 0 {
        return;
    }
    let r = &tcb.recovery;
    let new_data = tcb.snd_nxt.since(r.recover).max(0) as u32;
    let report = AckReport {
        delivered,
        pipe: tcb.pipe(),
        sent: new_data + r.evidence.resent_bytes(),
        safe: advanced && r.lost.bytes() <= lost_before,
    };
    let (ssthresh, mss) = (tcb.cc.ssthresh, tcb.snd_mss.bytes() as u64);
    tcb.cc.cwnd = tcb.recovery.prr.window(&report, ssthresh, mss);
}

/// Without SACK: a duplicate ACK says that some segment arrived; a partial one, that the next is
/// lost as well (RFC 6582 section 3.2 step 3). Returns bytes that a duplicate stands for.
/// RFC 5681 3.2-a, 3.2-b, 3.2-c, 3.2-f. RFC 6582 3.2-c.
fn count_duplicates(tcb: &mut Tcb, news: &News) -> u32 {
    let mss = tcb.snd_mss.bytes() as u32;
    let flight = tcb.in_flight();
    let r = &mut tcb.recovery;
    if news.acked > 0 {
        r.duplicate_bytes = r.duplicate_bytes.saturating_sub(news.acked);
        if r.phase == Phase::Fast {
            lose_front(tcb);
            tcb.recovery.resend_now = true;
        }
    } else if news.repeats {
        r.duplicate_acks += 1;
        // Never more than were sent, in a repair before it began: a peer that repeats itself for
        // ever would have a segment sent for each (RFC 5681 section 3.2 step 4).
        let sent = match r.phase {
            Phase::Fast => flight.min(r.recover.since(tcb.snd_una).max(0) as u32),
            _ => flight,
        };
        let known = r.duplicate_bytes;
        r.duplicate_bytes = (known + mss).min(sent.saturating_sub(mss + r.lost.bytes()));
        let delivered = r.duplicate_bytes.saturating_sub(known);
        if r.phase == Phase::Open && r.duplicate_acks >= DUPLICATE_THRESHOLD {
            lose_front(tcb);
        }
        return delivered;
    }
    0
}

fn lose_front(tcb: &mut Tcb) {
    let mss = tcb.snd_mss.bytes() as u32;
    // One segment, although it may have left with others in a super-segment (RFC 6582).
    let first = |front: &Piece| if front.len > mss { front.seq + mss } else { front.end() };
    if let Some((seq, end)) = tcb.sendq.in_flight(0).map(|front| (front.seq, first(front))) {
        mark_lost(tcb, seq, end);
    }
}

/// The first segment is lost, and all that were sent `patience` ago.
fn lose_older(tcb: &mut Tcb, patience: Duration, now: Instant) {
    let mut index = 0;
    while let Some(piece) = tcb.sendq.in_flight(index) {
        let (seq, end, late) = (piece.seq, piece.end(), piece.sent_at + patience <= now);
        if index == 0 || late {
            mark_lost(tcb, seq, end);
        }
        index += 1;
    }
}

/// The episode is over, or there was none; what the peer holds out of order stays known.
/// RFC 6582 3.2-b.
fn finish(tcb: &mut Tcb, news: &News) {
    if tcb.recovery.reducing {
        tcb.cc.recovered();
    }
    if tcb.recovery.phase != Phase::Open {
        tcb.recovery.rack.episode_over();
    }
    let r = &mut tcb.recovery;
    r.phase = Phase::Open;
    r.reducing = false;
    r.resend_now = false;
    if news.acked > 0 {
        r.duplicate_acks = 0;
        r.duplicate_bytes = 0;
    }
}

/// One reduction for a window: an episode lasts until all that was in flight at its beginning is
/// acknowledged (RFC 6582 section 3.2).
/// RFC 5681 4.3-a. RFC 9937 6.1-a. RFC 6582 3.2-a. RFC 6675 5-b. RFC 2018 5.1-a.
fn enter_fast(tcb: &mut Tcb, acked: u32, delivered: u32, cx: &Cx) {
    tcb.stats.rare.fast_recoveries += 1;
    let (flight, cwnd) = (tcb.flight(), tcb.cc.cwnd);
    // A mark may have reported the same congestion (RFC 3168 section 6.1.2).
    if !ecn::is_reduced(tcb) {
        tcb.cc.on_congestion(flight);
        ecn::reduced(tcb);
    }
    let repairs = tcb.cc.fast_recovery();
    if !tcb.cc.by_prr() {
        // Its own affair.
    } else if !cx.switches.on(Switch::Prr) {
        tcb.cc.recovered();
    } else if repairs {
        // What goes beyond what is on its way is for the ACKs to say.
        tcb.cc.cwnd = tcb.cc.cwnd.min(u64::from(tcb.pipe()));
    }
    let una = tcb.snd_una;
    let arrived_before = tcb.recovery.arrived_bytes().saturating_sub(delivered);
    let r = &mut tcb.recovery;
    let flight = (tcb.snd_nxt.since(una) as u32 + acked).saturating_sub(arrived_before);
    r.prr = Prr::begin(flight, cwnd);
    r.evidence = Evidence::begin(una);
    r.phase = if repairs { Phase::Fast } else { Phase::Loss };
    r.reducing = repairs;
    r.recover = tcb.snd_nxt;
    r.resend_now = true;
    tcb.todo.set(Todo::OUTPUT);
    if !repairs {
        // Tahoe knows slow start alone, from the first segment that is missing.
        tcb.recovery.duplicate_acks = 0;
        tcb.recovery.duplicate_bytes = 0;
        lose_older(tcb, Duration::ZERO, cx.now);
    }
}

/// The losses were none: what is deemed lost and did not go again is on its way.
fn undo(tcb: &mut Tcb) {
    if tcb.cc.undo() {
        ecn::undone(tcb);
    }
    tcb.stats.rare.undone += 1;
    let r = &mut tcb.recovery;
    r.lost.clear();
    r.judged_to = tcb.snd_una;
    r.phase = Phase::Open;
    r.reducing = false;
    r.resend_now = false;
    r.duplicate_acks = 0;
    r.evidence = Evidence::NONE;
    tcb.todo.set(Todo::OUTPUT);
}

/// Time has come to judge anew what may have been overtaken.
pub(crate) fn reorder_expired(tcb: &mut Tcb, cx: &Cx) {
    after_ack(tcb, &News::default(), None, cx);
    tcb.todo.set(Todo::OUTPUT);
}

/// The retransmission timer fired: the first segment is lost, and all that had its time (RFC 8985
/// section 6.3); without SACK everything is.
/// RFC 6298 5-c. RFC 8985 6.3-a. RFC 6582 3.2-e. RFC 6675 5.1-a. RFC 2018 5-c.
pub(crate) fn timed_out(tcb: &mut Tcb, cx: &Cx) {
    begin(tcb, cx.now);
    probe::timed_out(tcb);
    pacing::timed_out(tcb, cx.now);
    let first = tcb.recovery.phase != Phase::Loss;
    let flight = tcb.flight();
    tcb.cc.on_timeout(flight, first);
    ecn::reduced(tcb);
    let una = tcb.snd_una;
    // RFC 2018 5-b.
    if tcb.recovery.sacked.holding(una).is_some() {
        // It holds what comes next and does not acknowledge it: it threw it away (RFC 2018
        // section 8), and who knows what else.
        tcb.recovery.sacked.clear();
    }
    let patience = if tcb.marks.has(Marks::SACK) && cx.switches.on(Switch::Rack) {
        tcb.rtt.srtt() + tcb.rtt.min().div(4)
    } else {
        Duration::ZERO
    };
    lose_older(tcb, patience, cx.now);
    let r = &mut tcb.recovery;
    if first {
        r.evidence = Evidence::begin(una);
        r.evidence.frto = if r.phase == Phase::Open { Frto::First } else { Frto::Off };
    }
    r.phase = Phase::Loss;
    r.reducing = false;
    r.resend_now = true;
    r.duplicate_acks = 0;
    r.duplicate_bytes = 0;
    r.recover = tcb.snd_nxt;
    r.probe = None;
    refresh(tcb);
}

/// The path does not carry more than `payload` bytes a segment: what is larger in flight is lost,
/// for a reason that is no congestion.
pub(crate) fn resend_larger(tcb: &mut Tcb, payload: u32, now: Instant) {
    begin(tcb, now);
    let mut index = 0;
    while let Some(piece) = tcb.sendq.in_flight(index) {
        let (seq, end) = (piece.seq, piece.end());
        if piece.len > payload {
            mark_lost(tcb, seq, end);
        }
        index += 1;
    }
    if tcb.recovery.lost.bytes() > 0 {
        if tcb.recovery.phase == Phase::Open {
            tcb.recovery.phase = Phase::Fast;
            tcb.recovery.recover = tcb.snd_nxt;
        }
        tcb.recovery.resend_now = true;
    }
    refresh(tcb);
}

/// The lowest lost bytes to send again, if the window admits any.
/// RFC 6675 4-c, 5-d.
pub(crate) fn next_lost(tcb: &mut Tcb) -> Option<(SeqNumber, SeqNumber)> {
    let range = tcb.recovery.lost.first()?;
    if tcb.recovery.resend_now {
        return Some(range);
    }
    // RFC 5682 3.1-c.
    if tcb.recovery.evidence.frto == Frto::NewData && tcb.sendq.unsent_count() > 0 {
        return None;
    }
    if u64::from(tcb.pipe()) >= tcb.cc.cwnd {
        tcb.marks.set(Marks::CWND_LIMITED);
        return None;
    }
    Some(range)
}

/// `seq..end` goes again, as one piece.
pub(crate) fn resent(tcb: &mut Tcb, seq: SeqNumber, end: SeqNumber, cx: &Cx) {
    let sent_at = cx.now;
    probe::resent(tcb, seq, end);
    let r = &mut tcb.recovery;
    r.lost.remove(seq, end);
    r.evidence.resent(end.since(seq) as u32);
    match r.resent.back_mut() {
        Some(last) if last.sent_at == sent_at && last.range.1 == seq => last.range.1 = end,
        _ => r.resent.push_back(Resent { range: (seq, end), sent_at }),
    }
    if r.resend_now {
        r.resend_now = false;
        tcb.restart_retransmit(cx.now);
        tcb.heed_user_timeout();
    }
}
