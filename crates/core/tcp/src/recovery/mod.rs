//! Loss recovery: when an episode begins and ends, what is retransmitted, and cwnd meanwhile. Fast
//! recovery with SACK (RACK, RFC 8985; RFC 6675) and without (RFC 6582), and the retransmission
//! time-out (RFC 6298, RFC 5681).
//!
//! Called by: ack, sack, timer, path, output. scoreboard holds the state, loss finds losses, undo
//! finds spurious ones, prr computes cwnd.

mod loss;
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
use loss::mark_lost;
use prr::{AckReport, Prr};
use rack::DUPLICATE_THRESHOLD;
use scoreboard::{Evidence, Frto, News};
pub(crate) use scoreboard::{Phase, Resent};

impl Tcb {
    /// Bytes that are estimated to be in the network: "pipe" of RFC 6675.
    /// RFC 6675 4-b.
    #[inline(always)]
    pub(crate) fn pipe(&self) -> u32 {
        if !self.is_repairing() {
            return self.in_flight();
        }
        self.in_flight().saturating_sub(self.recovery.gone_bytes())
    }

    /// Is a loss being repaired that SACKs or duplicate ACKs reported?
    #[inline(always)]
    pub(crate) fn is_in_fast_recovery(&self) -> bool {
        self.is_repairing() && self.recovery.phase == Phase::Fast
    }

    /// Is anything deemed lost and not retransmitted yet? Without signs of loss this reads one
    /// byte.
    #[inline(always)]
    pub(crate) fn has_lost(&self) -> bool {
        self.is_repairing() && self.recovery.lost.bytes() > 0
    }

    /// FlightSize for ssthresh: bytes in flight, at most cwnd; or cwnd, by configuration.
    pub(crate) fn flight(&self) -> u64 {
        if self.config.compat.reduces_whole_window {
            return self.cc.cwnd;
        }
        u64::from(self.in_flight()).min(self.cc.cwnd)
    }
}

/// Set or clear [`Tcb::REPAIRING`], which prediction checks.
fn refresh(tcb: &mut Tcb) {
    let flight = tcb.in_flight();
    let r = &mut tcb.recovery;
    // Duplicate ACKs do not name the bytes that they stand for, but those are not the lost bytes.
    r.duplicate_bytes = r.duplicate_bytes.min(flight.saturating_sub(r.lost.bytes()));
    let repairing = r.phase != Phase::Open
        || r.duplicate_acks > 0
        || r.gone_bytes() > 0
        || r.probe.is_some()
        || r.reorder_due != Instant::NEVER;
    tcb.trouble = (tcb.trouble & !Tcb::REPAIRING) | if repairing { Tcb::REPAIRING } else { 0 };
}

/// The first sign of loss: reset the recovery state, which is not maintained without one.
pub(crate) fn begin(tcb: &mut Tcb, now: Instant) {
    if !tcb.is_repairing() {
        tcb.recovery.begin(tcb.snd_una);
        tcb.trouble |= Tcb::REPAIRING;
        if tcb.in_flight() > 0 {
            // From here on the retransmission time-out runs instead of the tail loss probe's.
            tcb.restart_retransmit(now);
        }
    }
}

/// Called once an ACK's news is complete: act on it.
#[inline]
pub(crate) fn after_ack(tcb: &mut Tcb, news: &News, echo: Option<u32>, cx: &Cx) {
    if tcb.is_repairing() || news.duplicate.is_some() {
        consequences(tcb, news, echo, cx);
    }
}

/// Decide what the ACK means for the episode. RFC 8985 4-a. RFC 6675 5-a.
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
        loss::detect(tcb, cx);
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

/// Set cwnd during fast recovery, by PRR.
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

/// Without SACK: a duplicate ACK means that some segment arrived; a partial ACK means that the next
/// segment is lost too (RFC 6582 section 3.2 step 3). Returns the bytes that a duplicate ACK
/// reports as arrived.
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
        // Count no more bytes than were sent (in fast recovery: before the episode began).
        // Otherwise a peer that repeats duplicate ACKs for ever would get a segment for each (RFC
        // 5681 section 3.2 step 4).
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
    // One segment, even if it was sent within a super-segment (RFC 6582).
    let first = |front: &Piece| if front.len > mss { front.seq + mss } else { front.end() };
    if let Some((seq, end)) = tcb.sendq.in_flight(0).map(|front| (front.seq, first(front))) {
        mark_lost(tcb, seq, end);
    }
}

/// Mark as lost the first segment, and all that were sent `patience` or more ago.
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

/// End the episode, if there is one. The record of the data that the peer holds out of order is
/// kept.
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

/// Enter fast recovery. There is one reduction per episode, which lasts until all that was in
/// flight at its beginning is acknowledged (RFC 6582 section 3.2).
/// RFC 5681 4.3-a. RFC 9937 6.1-a. RFC 6582 3.2-a. RFC 6675 5-b. RFC 2018 5.1-a.
fn enter_fast(tcb: &mut Tcb, acked: u32, delivered: u32, cx: &Cx) {
    tcb.stats.rare.fast_recoveries += 1;
    let (flight, cwnd) = (tcb.flight(), tcb.cc.cwnd);
    // A CE mark may have reported the same congestion (RFC 3168 section 6.1.2).
    if !ecn::is_reduced(tcb) {
        tcb.cc.on_congestion(flight);
        ecn::reduced(tcb);
    }
    let repairs = tcb.cc.fast_recovery();
    if !tcb.cc.by_prr() {
        // BBR and Tahoe set cwnd themselves.
    } else if !cx.switches.on(Switch::Prr) {
        tcb.cc.recovered();
    } else if repairs {
        // PRR decides with each ACK what may be sent beyond pipe.
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
        // Tahoe has slow start only, which begins at the first missing segment.
        tcb.recovery.duplicate_acks = 0;
        tcb.recovery.duplicate_bytes = 0;
        lose_older(tcb, Duration::ZERO, cx.now);
    }
}

/// The losses were spurious: bytes that are deemed lost and were not retransmitted count as in
/// flight again.
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

/// RACK's reordering timer fired: run loss detection again.
pub(crate) fn reorder_expired(tcb: &mut Tcb, cx: &Cx) {
    after_ack(tcb, &News::default(), None, cx);
    tcb.todo.set(Todo::OUTPUT);
}

/// The retransmission timer fired: the first segment is lost, and so are all that had time to
/// arrive (RFC 8985 section 6.3). Without SACK or RACK all segments in flight are.
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
        // The peer SACKed the bytes at SND.UNA but does not acknowledge them: it has discarded that
        // data (RFC 2018 section 8), and perhaps other data as well.
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

/// The path carries at most `payload` bytes a segment: larger segments in flight are lost, but not
/// by congestion.
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

/// The lowest lost range, which is to be retransmitted, if cwnd admits any of it.
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

/// Record that `seq..end` is retransmitted as one piece.
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
