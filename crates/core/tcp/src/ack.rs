//! SEG.ACK: how an acknowledgement frees data, measures the round trip and lets more be sent. RFC
//! 9293 section 3.10.7.4 (fifth check), RFC 5681, RFC 6298, RFC 7323 section 4.
//!
//! Called by: predict (ACKs without signs of loss) and input (all others).

use base::{Duration, Instant, SeqNumber};
use wire::tcp::{Options, Timestamps};

use crate::marks::{Events, Marks, Todo};
use crate::path::probe;
use crate::recovery::sack;
use crate::recovery::scoreboard::News;
use crate::recovery::{self, Phase};
use crate::tcb::Tcb;
use crate::{Cx, Segment, cc, ecn};

/// SND.UNA advances to `ack`: free the data before it, measure the round trip, restart or stop the
/// retransmission timer. `news` is given during loss recovery; its `sent_at` then replaces the send
/// time found here. Returns the bytes acknowledged, and the send time of the newest acknowledged
/// segment that was sent only once.
#[inline(always)]
pub(crate) fn advance(
    tcb: &mut Tcb,
    ack: SeqNumber,
    timestamps: Option<Timestamps>,
    news: Option<&News>,
    cx: &mut Cx,
) -> (u32, Option<Instant>) {
    let bytes = ack.since(tcb.snd_una) as u32;
    let newest = tcb.sendq.acknowledge(ack, &mut cx.pool);
    // A segment that was SACKed earlier is no sample of the path now.
    let newest = news.map_or(newest, |news| news.sent_at);
    tcb.snd_una = ack;
    tcb.stats.bytes_acked += u64::from(bytes);
    match newest {
        // RFC 9293 MUST-18. RFC 6298 3-a, 3-b.
        // Karn's algorithm: only a segment that was sent once measures the round trip (RFC 6298
        // section 3).
        Some(sent_at) => tcb.rtt.sample(cx.now.since(sent_at)),
        None => retransmitted_sample(tcb, timestamps, cx),
    }
    if tcb.snd_una == tcb.snd_nxt {
        tcb.timers.retransmit = Instant::NEVER;
    } else {
        tcb.restart_retransmit(cx.now);
    }
    tcb.todo.set(Todo::OUTPUT);
    if tcb.marks.has(Marks::WRITE_BLOCKED) {
        tcb.marks.clear(Marks::WRITE_BLOCKED);
        tcb.events.set(Events::WRITABLE);
    }
    (bytes, newest)
}

/// The timestamp echo tells which of two transmissions was acknowledged, RFC 7323 section 4.1.
/// RFC 7323 4.1-a.
#[cold]
fn retransmitted_sample(tcb: &mut Tcb, timestamps: Option<Timestamps>, cx: &Cx) {
    // Without timestamps the backoff stays until a segment sent once is acknowledged (RFC 6298
    // section 5).
    tcb.rtt.retries = 0;
    if let Some(ts) = timestamps
        && tcb.marks.has(Marks::TIMESTAMPS)
    {
        let elapsed_ms = tcb.ts_value(cx).wrapping_sub(ts.echo);
        // Ignore an echo from the future or from 60 s ago and more: it is forged or stale.
        if ts.echo != 0 && elapsed_ms < 60_000 {
            tcb.rtt.sample(Duration::from_millis(u64::from(elapsed_ms.max(1))));
        }
    }
}

/// Report to congestion control that `bytes` were acknowledged, the newest of them sent at
/// `sent_at`. Called only if cwnd was the limit, or if the algorithm needs every ACK.
#[inline(always)]
pub(crate) fn grow_window(tcb: &mut Tcb, bytes: u32, sent_at: Option<Instant>, cx: &Cx) {
    if tcb.marks.has(Marks::CWND_LIMITED) || tcb.cc.hears_all() {
        let news = News { acked: bytes, delivered: bytes, sent_at, ..News::default() };
        notify_congestion_control(tcb, &news, 0, cx);
    }
}

/// Was more than half of cwnd in use in this round? `acked` bytes were just acknowledged.
#[cold]
fn half_was_used(tcb: &mut Tcb, acked: u32) -> bool {
    let (flight, nxt, before) = (tcb.in_flight() + acked, tcb.snd_nxt, tcb.snd_una - acked);
    let rare = &mut tcb.stats.rare;
    if rare.used_bytes < flight || before.ge(rare.used_until) {
        (rare.used_bytes, rare.used_until) = (flight, nxt);
    }
    tcb.cc.in_slow_start() && 2 * u64::from(tcb.stats.rare.used_bytes) > tcb.cc.cwnd
}

#[inline(always)]
fn notify_congestion_control(tcb: &mut Tcb, news: &News, lost_bytes: u32, cx: &Cx) {
    let ack = cc::Ack {
        now: cx.now,
        acked_bytes: news.acked,
        delivered_bytes: news.delivered,
        lost_bytes,
        rtt: news.rtt(cx.now),
        srtt: tcb.rtt.srtt(),
        sent_at: news.sent_at.unwrap_or(cx.now),
        una: tcb.snd_una,
        nxt: tcb.snd_nxt,
        pipe_bytes: tcb.pipe(),
        cwnd_limited: tcb.marks.has(Marks::CWND_LIMITED)
            || (tcb.cc.half_is_enough() && half_was_used(tcb, news.acked)),
        repairing: tcb.is_in_fast_recovery(),
    };
    tcb.marks.clear(Marks::CWND_LIMITED);
    tcb.cc.on_ack(&ack);
}

/// Update SND.WND if the segment is newer than the last one that set it (RFC 9293): SND.WL1 and
/// SND.WL2 keep an old segment from undoing a new one. Returns whether the window changed.
#[inline(always)]
pub(crate) fn update_send_window(tcb: &mut Tcb, seg: &Segment) -> bool {
    is_newer(tcb, seg) && take_send_window(tcb, seg)
}

/// Set SND.WND from a segment that is known to be the newest. A segment that advances SND.UNA is
/// the newest even if it is a retransmission with an old sequence number. Keeping the earlier
/// window with the new SND.UNA would allow more than was ever offered. RFC 9293 section 3.10.7.4
/// checks SND.WL1 in this case too; Linux does as we do.
/// RFC 9293 MUST-1, REC-1. RFC 5961 5.2-b. RFC 7323 2.3-b.
#[inline(always)]
pub(crate) fn take_send_window(tcb: &mut Tcb, seg: &Segment) -> bool {
    let window = tcb.snd_wscale.unscale(seg.window);
    let changed = window != tcb.snd_wnd;
    tcb.snd_wnd = window;
    tcb.max_snd_wnd = tcb.max_snd_wnd.max(window);
    tcb.snd_wl1 = seg.seq;
    tcb.snd_wl2 = seg.ack;
    changed
}

/// Is this segment newer than the one that last set the window?
#[inline(always)]
pub(crate) fn is_newer(tcb: &Tcb, seg: &Segment) -> bool {
    tcb.snd_wl1.lt(seg.seq) || (tcb.snd_wl1 == seg.seq && tcb.snd_wl2.le(seg.ack))
}

/// Process an acceptable ACK on a synchronised connection (slow path).
pub(crate) fn process(tcb: &mut Tcb, seg: &Segment, options: &Options, cx: &mut Cx) {
    let was_shut = tcb.snd_wnd == 0;
    let was_fast = tcb.recovery.phase == Phase::Fast;
    let flight = tcb.flight();
    let lost_before = tcb.recovery.lost.bytes();
    let mut news = News::default();
    let advances = seg.ack.gt(tcb.snd_una);
    if advances {
        take_new(tcb, seg, &mut news, cx);
    }
    if !options.sack.is_empty() {
        sack::take(tcb, seg.ack, &options.sack, &mut news, cx);
    }
    if !advances && seg.ack == tcb.snd_una {
        if let Some(rtt) = news.rtt(cx.now) {
            tcb.rtt.sample(rtt);
        }
        let window_changed = update_send_window(tcb, seg);
        news.repeats = seg.space() == 0 && !window_changed && tcb.in_flight() > 0;
        if news.delivered > 0 || news.repeats {
            tcb.stats.rare.duplicate_acks += 1;
        }
        if news.repeats && !tcb.marks.has(Marks::SACK) {
            recovery::begin(tcb, cx.now);
        }
    }
    recovery::after_ack(tcb, &news, seg.timestamps.map(|ts| ts.echo), cx);
    let by_delivery = news.acked > news.delivered && tcb.config.compat.growth_by_delivery;
    if tcb.recovery.phase == Phase::Loss || by_delivery {
        // Slow start after a time-out counts the bytes delivered, not the jumps of SND.UNA.
        news.acked = news.acked.min(news.delivered);
    }
    let marked = ecn::echoed(tcb, seg, flight, cx);
    let limited = tcb.marks.has(Marks::CWND_LIMITED) && news.acked > 0 && !marked;
    let grows = limited && !(was_fast && tcb.cc.by_prr());
    if grows || (news.delivered > 0 && tcb.cc.hears_all()) {
        // The ACK that ends recovery sets cwnd (RFC 6582 section 3.2) and does not grow it.
        let lost =
            tcb.recovery.lost.bytes().saturating_sub(lost_before + probe::excused_bytes(tcb));
        notify_congestion_control(tcb, &news, lost, cx);
    }
    if was_shut && tcb.snd_wnd > 0 {
        window_opened(tcb);
    }
    tcb.todo.set(Todo::OUTPUT);
}

/// SND.UNA advances.
fn take_new(tcb: &mut Tcb, seg: &Segment, news: &mut News, cx: &mut Cx) {
    let (bytes, newest) = if !tcb.is_repairing() {
        advance(tcb, seg.ack, seg.timestamps, None, cx)
    } else {
        sack::take_up_to(tcb, seg.ack, seg.timestamps, news, cx.now);
        let done = advance(tcb, seg.ack, seg.timestamps, Some(news), cx);
        tcb.recovery.sacked.drop_below(seg.ack);
        tcb.recovery.lost.drop_below(seg.ack);
        done
    };
    news.acked = bytes;
    news.sent_at = newest;
    if !tcb.is_repairing() {
        news.delivered = bytes;
    } else if !tcb.marks.has(Marks::SACK) {
        news.delivered = bytes.saturating_sub(tcb.recovery.duplicate_bytes);
    }
    take_send_window(tcb, seg);
}

/// The peer's window opened from zero: stop probing and send.
fn window_opened(tcb: &mut Tcb) {
    tcb.rtt.backoff = 0;
    tcb.probes = 0;
    if tcb.in_flight() == 0 {
        tcb.timers.retransmit = Instant::NEVER;
    }
}
