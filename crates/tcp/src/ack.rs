//! SEG.ACK: what an acknowledgement frees, measures and allows, RFC 9293 section 3.10.7.4 (fifth
//! check), RFC 5681, RFC 6298, RFC 7323 section 4.
//!
//! Called by: predict (good news only) and input (everything else).

use base::{Duration, SeqNumber};
use wire::tcp::{Options, Timestamps};

use crate::marks::{Events, Marks, Todo};
use crate::recovery::{self, Phase};
use crate::sendq::Acked;
use crate::tcb::Tcb;
use crate::{Cx, Segment, cc, sack};

/// `ack` is new: free what it covers, measure the round trip, restart or stop the timer.
#[inline(always)]
pub(crate) fn advance(
    tcb: &mut Tcb,
    ack: SeqNumber,
    timestamps: Option<Timestamps>,
    cx: &mut Cx<'_>,
) -> (u32, Acked) {
    let bytes = ack.since(tcb.snd_una) as u32;
    let acked = tcb.sendq.acknowledge(ack, cx.pool);
    tcb.snd_una = ack;
    tcb.stats.bytes_acked += u64::from(bytes);
    match acked.sent_at {
        // Karn: only a segment that was sent once says how long the way is (RFC 6298 section 3).
        Some(sent_at) => tcb.rtt.sample(cx.now.since(sent_at)),
        None => retransmitted_sample(tcb, timestamps, cx),
    }
    if tcb.snd_una == tcb.snd_nxt {
        tcb.timers.retransmit = base::Instant::NEVER;
    } else {
        tcb.restart_retransmit(cx.now);
    }
    tcb.todo.set(Todo::OUTPUT);
    if tcb.marks.has(Marks::WRITE_BLOCKED) {
        tcb.marks.clear(Marks::WRITE_BLOCKED);
        tcb.events.set(Events::WRITABLE);
    }
    (bytes, acked)
}

/// The timestamp echo tells which of two sendings was acknowledged, RFC 7323 section 4.1.
#[cold]
fn retransmitted_sample(tcb: &mut Tcb, timestamps: Option<Timestamps>, cx: &Cx<'_>) {
    // Without one the backoff stays until something sent once is acknowledged (RFC 6298, 5).
    tcb.rtt.retries = 0;
    if let Some(ts) = timestamps
        && tcb.marks.has(Marks::TIMESTAMPS)
    {
        let elapsed_ms = tcb.ts_value(cx).wrapping_sub(ts.echo);
        // An echo from the future or from long ago is a lie: not taken.
        if ts.echo != 0 && elapsed_ms < 60_000 {
            tcb.rtt.sample(Duration::from_millis(u64::from(elapsed_ms.max(1))));
        }
    }
}

/// Tell congestion control of `bytes` that were acknowledged: the window grows when it was the
/// limit and nothing is being repaired.
#[inline(always)]
pub(crate) fn grow_window(tcb: &mut Tcb, bytes: u32, acked: Acked, cx: &Cx<'_>) {
    let limited = tcb.marks.has(Marks::CWND_LIMITED);
    if !limited && !tcb.cc.watches_all() {
        return;
    }
    tcb.marks.clear(Marks::CWND_LIMITED);
    let ack = cc::Ack {
        now: cx.now,
        acked_bytes: bytes,
        delivered_bytes: bytes,
        lost_bytes: 0,
        rtt: acked.sent_at.map(|sent_at| cx.now.since(sent_at)),
        srtt: tcb.rtt.srtt(),
        sent_at: acked.sent_at.unwrap_or(cx.now),
        una: tcb.snd_una,
        nxt: tcb.snd_nxt,
        pipe_bytes: tcb.pipe(),
        cwnd_limited: limited,
        repairing: false,
    };
    tcb.cc.on_ack(&ack);
}

/// SND.WND from a segment that is newer than the last one that set it, RFC 9293: SND.WL1 and
/// SND.WL2 keep an old segment from undoing a new one. Returns whether the window changed.
#[inline(always)]
pub(crate) fn update_send_window(tcb: &mut Tcb, seg: &Segment) -> bool {
    is_newer(tcb, seg) && take_send_window(tcb, seg)
}

/// SND.WND from a segment that is known to be newer than all before. One that acknowledges more
/// than they did is, also as a retransmission with an old sequence number: with the window of
/// another one, counted from the new SND.UNA, more would be sent than was ever offered. RFC 9293
/// section 3.10.7.4 looks at SND.WL1 there too; Linux does as we do.
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

/// An acceptable ACK on a synchronised connection, the long way.
pub(crate) fn process(tcb: &mut Tcb, seg: &Segment, options: &Options, cx: &mut Cx<'_>) {
    let was_shut = tcb.snd_wnd == 0;
    let news = if options.sack.is_empty() { 0 } else { sack::mark(tcb, &options.sack, cx) };
    if seg.ack.gt(tcb.snd_una) {
        let (bytes, acked) = advance(tcb, seg.ack, seg.timestamps, cx);
        take_send_window(tcb, seg);
        // The ACK that ends a recovery sets the window (RFC 6582 section 3.2); it grows none.
        let repairing = tcb.recovery.phase == Phase::Fast;
        recovery::new_ack(tcb, bytes, acked);
        if !repairing && tcb.recovery.phase != Phase::Fast {
            grow_window(tcb, bytes, acked, cx);
        }
    } else if seg.ack == tcb.snd_una {
        let window_changed = update_send_window(tcb, seg);
        let plain = seg.space() == 0 && !window_changed && tcb.in_flight() > 0;
        if news > 0 || (plain && !tcb.marks.has(Marks::SACK)) {
            tcb.stats.duplicate_acks += 1;
            recovery::begin(tcb);
            recovery::duplicate_ack(tcb);
        } else if plain && tcb.recovery.phase == Phase::Open {
            tcb.stats.duplicate_acks += 1;
        }
    }
    recovery::refresh(tcb);
    if was_shut && tcb.snd_wnd > 0 {
        window_opened(tcb);
    }
    tcb.todo.set(Todo::OUTPUT);
}

/// The peer's window was shut and is not any more: back from probing to sending.
fn window_opened(tcb: &mut Tcb) {
    tcb.rtt.backoff = 0;
    tcb.probes = 0;
    if tcb.in_flight() == 0 {
        tcb.timers.retransmit = base::Instant::NEVER;
    }
}
