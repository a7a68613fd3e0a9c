//! Header prediction: one predicate that recognises the expected segment.
//!
//! Called by: `stack/rx.rs` for every segment of a known connection, before [`crate::input`]. It
//! either refuses a segment or does exactly what `input` would do; a differential test checks that.
//! The idea is that of 4.3BSD Reno ("header prediction", 1988). There, data and ACK were two cases,
//! and a window update was neither. Windows change all the time, so here one predicate admits data,
//! ACK and window update together; it matches all bulk and ping-pong traffic.

use base::{Counter, SeqNumber};
use mbuf::Mbuf;
use wire::tcp::Flags;

use crate::marks::Marks;
use crate::receive::text;
use crate::state::State;
use crate::tcb::Tcb;
use crate::{Cx, Segment, ack};

/// Control bits that must match; PSH may be set or not.
const LOOKED_AT: u8 = Flags::SYN.0
    | Flags::FIN.0
    | Flags::RST.0
    | Flags::URG.0
    | Flags::ACK.0
    | Flags::ECE.0
    | Flags::CWR.0;

/// Is this the expected segment? The caller has checked that it has no options, or only timestamps.
#[inline(always)]
pub fn matches(tcb: &Tcb, seg: &Segment) -> bool {
    // PAWS, if timestamps were agreed; otherwise a timestamp is ignored.
    let fresh = !tcb.marks.has(Marks::TIMESTAMPS)
        || seg.timestamps.is_some_and(|ts| (ts.value.wrapping_sub(tcb.ts_recent) as i32) >= 0);
    let flight = tcb.snd_nxt.since(tcb.snd_una) as u32;
    let newly = seg.ack.since(tcb.snd_una) as u32;
    tcb.state == State::Established
        && seg.flags.0 & LOOKED_AT == Flags::ACK.0
        && fresh
        // CE, ECE and CWR are left to `input`.
        && !seg.ce
        && seg.seq == tcb.rcv_nxt
        // The segment acknowledges data in flight; or it acknowledges nothing new but carries data
        // or a new window. (Otherwise it may be a duplicate ACK, RFC 5681 section 2.)
        && newly <= flight
        && (newly > 0
            || seg.len > 0
            || flight == 0
            || window_is_news(tcb, seg))
        // Nothing is being repaired, on either side.
        && tcb.trouble == 0
        // The segment fits the window that was offered, and the user still reads.
        && seg.len <= tcb.rcv_wnd()
        && !tcb.marks.has(Marks::ORPHAN | Marks::SHUT_READ)
        // A window that opens from zero ends probing, which `input` does; one that closes is an
        // ordinary window update.
        && tcb.snd_wnd != 0
}

/// May the next segments of the burst be accepted as followers of this one, which [`matches`]? Only
/// if it has data, because [`expects`] admits none otherwise. Followers have the leader's window,
/// which is taken with the leader, so their window changes nothing. If an out-of-order segment
/// without data has moved SND.WL1 ahead, the answer is no.
#[inline(always)]
pub fn leads(tcb: &Tcb, seg: &Segment) -> bool {
    seg.len > 0 && tcb.snd_wl1.le(seg.seq)
}

/// Does the segment change the window, and is it newer than SND.WL1 (RFC 9293)?
#[inline(always)]
fn window_is_news(tcb: &Tcb, seg: &Segment) -> bool {
    tcb.snd_wscale.unscale(seg.window) != tcb.snd_wnd && tcb.snd_wl1.le(seg.seq)
}

/// The condition for followers of `len` bytes each: the sequence number of the first one, and how
/// many of them fit the offered window. The leader, which [`matches`], was accepted just before in
/// this burst. So state and `trouble` cannot have changed, and the leader's ACK, window and
/// timestamp have been taken.
#[inline(always)]
pub fn expects(tcb: &Tcb, len: u32) -> (SeqNumber, usize) {
    (tcb.rcv_nxt, tcb.rcv_wnd().checked_div(len).unwrap_or(0) as usize)
}

/// Accept the followers that [`expects`] describes, at least one. The payload of each of `frames`
/// is the `len` bytes from offset `from`.
#[inline(always)]
pub fn accept_alike(
    tcb: &mut Tcb,
    frames: impl ExactSizeIterator<Item = Mbuf>,
    from: usize,
    len: u32,
    cx: &mut Cx,
) {
    let count = frames.len() as u32;
    tcb.receive.append_alike(frames, from, len as usize, &mut cx.pool);
    cx.counters.add(Counter::TcpPredicted, u64::from(count));
    cx.counters.add(Counter::TcpFollowed, u64::from(count));
    tcb.stats.segments_in = tcb.stats.segments_in.wrapping_add(count);
    tcb.todo.set(crate::Todo::OUTPUT);
    text::arrived(tcb, count * len);
    tcb.snd_wl1 = tcb.rcv_nxt - len;
}

/// Accept a segment that [`matches`]; `m` is its payload.
#[inline(always)]
pub fn accept(tcb: &mut Tcb, seg: &Segment, m: Mbuf, cx: &mut Cx) {
    cx.counters.add(Counter::TcpPredicted, 1);
    tcb.stats.segments_in = tcb.stats.segments_in.wrapping_add(1);
    tcb.heard_from_peer(cx.now);
    if seg.ack != tcb.snd_una {
        let (bytes, sent_at) = ack::advance(tcb, seg.ack, seg.timestamps, None, cx);
        ack::grow_window(tcb, bytes, sent_at, cx);
        ack::take_send_window(tcb, seg);
    } else {
        ack::update_send_window(tcb, seg);
    }
    tcb.todo.set(crate::Todo::OUTPUT);
    if let Some(ts) = seg.timestamps {
        tcb.tuning.echo = ts.echo;
        // TS.Recent is updated if the segment starts at or before Last.ACK.sent.
        if seg.seq.le(tcb.last_ack_sent) {
            tcb.set_ts_recent(ts.value, cx);
        }
    }
    if m.is_empty() {
        cx.pool.free(m);
    } else {
        text::deliver(tcb, m, cx);
    }
}
