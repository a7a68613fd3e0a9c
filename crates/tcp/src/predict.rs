//! Header prediction: the segment that comes nearly always, recognised by one predicate.
//!
//! Called by: `stack/rx.rs` for every segment of a known connection, before [`crate::input`].
//! It may only refuse, or do exactly what `input` would do; a differential test holds it to that.
//! The idea is of 1988 ("header prediction", 4.3BSD Reno); but there data and ACK were two cases
//! and a window that moved was neither. Windows move all the time, so here one predicate admits
//! data, ACK and window update together: bulk traffic hits it always, ping-pong too.

use base::{Counter, SeqNumber};
use mbuf::Mbuf;
use wire::tcp::Flags;

use crate::marks::Marks;
use crate::receive::text;
use crate::state::State;
use crate::tcb::Tcb;
use crate::{Cx, Segment, ack};

/// Control bits that are looked at; PSH alone changes nothing.
const LOOKED_AT: u8 = Flags::SYN.0
    | Flags::FIN.0
    | Flags::RST.0
    | Flags::URG.0
    | Flags::ACK.0
    | Flags::ECE.0
    | Flags::CWR.0;

/// Is this the segment we expected? The caller has seen that its options were none, or a lone
/// timestamp.
#[inline(always)]
pub fn matches(tcb: &Tcb, seg: &Segment) -> bool {
    // PAWS, where timestamps were agreed; where not, they mean nothing.
    let fresh = !tcb.marks.has(Marks::TIMESTAMPS)
        || seg.timestamps.is_some_and(|ts| (ts.value.wrapping_sub(tcb.ts_recent) as i32) >= 0);
    let flight = tcb.snd_nxt.since(tcb.snd_una) as u32;
    let newly = seg.ack.since(tcb.snd_una) as u32;
    tcb.state == State::Established
        && seg.flags.0 & LOOKED_AT == Flags::ACK.0
        && fresh
        // A mark is news, and so is its echo: looked at by `input` alone.
        && !seg.ce
        && seg.seq == tcb.rcv_nxt
        // Acknowledges something in flight, or nothing new at all but then carries data or another
        // window (else it may be a duplicate ACK, RFC 5681 section 2).
        && newly <= flight
        && (newly > 0
            || seg.len > 0
            || flight == 0
            || window_is_news(tcb, seg))
        // Nothing is being repaired, on either side.
        && tcb.trouble == 0
        // All of it fits the window that was offered; nobody has let go of it.
        && seg.len <= tcb.rcv_wnd()
        && !tcb.marks.has(Marks::ORPHAN | Marks::SHUT_READ)
        // A window that opens again ends probing; one that shuts is an update like any other.
        && tcb.snd_wnd != 0
}

/// May others follow a segment that [`matches`]? Behind one without text [`expects`] admits none:
/// its headers need not be kept. Its window is about to be taken, so theirs, which is the same,
/// changes nothing (SND.WL1 may be ahead: of an early segment without text).
#[inline(always)]
pub fn leads(tcb: &Tcb, seg: &Segment) -> bool {
    seg.len > 0 && tcb.snd_wl1.le(seg.seq)
}

/// Does it bring another window, and is it new enough to be believed (RFC 9293, SND.WL1)?
#[inline(always)]
fn window_is_news(tcb: &Tcb, seg: &Segment) -> bool {
    tcb.snd_wscale.unscale(seg.window) != tcb.snd_wnd && tcb.snd_wl1.le(seg.seq)
}

/// What is expected of data segments of `len` bytes with headers as in the one before them, which
/// [`matches`] and was taken in this burst with nothing in between: the first byte of the first,
/// and how many the window that was offered admits. Neither state nor trouble can have changed, and
/// ACK, window and timestamp have been taken.
#[inline(always)]
pub fn expects(tcb: &Tcb, len: u32) -> (SeqNumber, usize) {
    (tcb.rcv_nxt, tcb.rcv_wnd().checked_div(len).unwrap_or(0) as usize)
}

/// Take segments that are as [`expects`] says: of `frames`, one at least, the `len` bytes from
/// `from` on.
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

/// Take a segment that [`matches`]; `m` is its payload.
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
        // TS.Recent follows if the segment starts at or before the last ACK we sent.
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
