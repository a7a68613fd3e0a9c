//! Output: each call returns the next segment of a connection, with its headers, until there is
//! none.
//!
//! Called by: `stack/tx.rs` for every connection on the dirty list, after a burst, a write, a read
//! or a timer. RFC 9293 sections 3.7.4 (Nagle), 3.8.6 (windows), 3.10.7; RFC 5681; RFC 7323.
//! `rare.rs` makes the segments that carry no new data.

mod fast_path;
mod rare;
mod run;

pub use fast_path::{FastSegment, fast_path, has_few};
pub(crate) use rare::has_more;
pub use rare::hold_back;
pub use run::{Run, admits_front, admitted, last_payload, others};

use base::{Counter, Duration, Instant, SeqNumber, Switch};
use mbuf::Mbuf;
use wire::tcp::Flags;

pub use crate::header::sum_of;
use crate::header::{offer_window, put_header, write_with_sack};
use crate::marks::{EcnBits, Events, Marks, Todo};
use crate::path::probe::{self, Step};
use crate::sendq::Piece;
use crate::state::State;
use crate::tcb::Tcb;
use crate::{Cx, pacing, recovery, urgent};
use run::room;

/// The next segment of `tcb`, with its TCP header and checksum. `None` if there is nothing (more)
/// to send, or no buffer for it; without a buffer `Todo::OUTPUT` stays set. The caller passes the
/// same `run` until it gets `None`, then passes the run's count of segments to [`close`]. Nothing
/// else may change `tcb` in between.
#[inline(always)]
pub fn next(tcb: &mut Tcb, run: &mut Run, cx: &mut Cx) -> Option<Mbuf> {
    run.len = 0;
    run.ecn_capable = false;
    if nothing_left(tcb) && !ack_is_due(tcb, cx) {
        tcb.todo.clear(Todo::OUTPUT);
        return None;
    }
    let segment = single(tcb, run, cx)?;
    run.segments += 1;
    Some(segment)
}

/// Is there nothing to send, no ACK owed and no event to report?
#[inline(always)]
pub fn is_idle(tcb: &mut Tcb) -> bool {
    let idle = nothing_left(tcb) && tcb.ack_owed_bytes == 0 && tcb.events == Events::default();
    if idle {
        tcb.todo.clear(Todo::OUTPUT);
    }
    idle
}

/// Is there nothing to send and nothing to report now, as is usual after the first of two segments?
/// If an ACK is owed, its timer runs.
#[inline(always)]
pub fn is_quiet(tcb: &mut Tcb, cx: &Cx) -> bool {
    let quiet = nothing_left(tcb)
        && tcb.state == State::Established
        && !tcb.has_path_news()
        && !ack_is_due(tcb, cx);
    if quiet {
        tcb.todo.clear(Todo::OUTPUT);
    }
    quiet
}

/// Is a delayed ACK all there is to send, and has the user something to read? Data that the user
/// writes after reading can carry the ACK.
#[inline(always)]
pub fn owes_ack_alone(tcb: &Tcb) -> bool {
    nothing_left(tcb)
        && tcb.ack_owed_bytes > 0
        && tcb.events.has(Events::READABLE)
        && tcb.state == State::Established
        && !tcb.has_path_news()
}

/// Is there no data, FIN, retransmission or special segment to send? An ACK may be owed.
#[inline(always)]
fn nothing_left(tcb: &Tcb) -> bool {
    tcb.sendq.unsent_count() == 0
        && !tcb.todo.has(!Todo::OUTPUT)
        && !tcb.has_lost()
        && !tcb.marks.has(Marks::SHUT_WRITE)
}

/// The smoothed round trip, if unsent data waits for an ACK: the ACK should arrive within this
/// time.
#[inline(always)]
pub fn awaits_ack(tcb: &Tcb) -> Option<Duration> {
    (tcb.sendq.unsent_count() > 0).then(|| tcb.rtt.srtt())
}

/// Add the segments of a finished run to the connection's statistics.
#[inline(always)]
pub fn close(tcb: &mut Tcb, segments: u32, cx: &mut Cx) {
    tcb.stats.segments_out = tcb.stats.segments_out.wrapping_add(segments);
    cx.counters.add(Counter::TcpSegmentsOut, u64::from(segments));
}

/// One segment, in this order of preference: special, retransmission, data, FIN, ACK.
#[inline(never)]
fn single(tcb: &mut Tcb, run: &mut Run, cx: &mut Cx) -> Option<Mbuf> {
    if tcb.todo.has(!(Todo::OUTPUT | Todo::ACK_NOW)) {
        if tcb.todo.has(Todo::URGENT) {
            let segment = urgent::announced(tcb, cx, |tcb, cx| single(tcb, run, cx));
            // The next segment has an urgent pointer of its own, so the headers cannot be copied.
            run.len = 0;
            return segment;
        }
        return pacing::behind(tcb, cx, rare::special);
    }
    if tcb.todo.has(Todo::OUTPUT) {
        let paced = pacing::applies(tcb, cx);
        let segment = if paced { rare::paced(tcb, run, cx) } else { data(tcb, run, cx) };
        if segment.is_some() {
            return segment;
        }
    }
    if ack_is_due(tcb, cx) {
        return pacing::behind(tcb, cx, pure_ack);
    }
    None
}

/// A segment that takes sequence space: a retransmission or new data.
/// RFC 6675 4-c.
#[inline(always)]
fn data(tcb: &mut Tcb, run: &mut Run, cx: &mut Cx) -> Option<Mbuf> {
    if tcb.has_lost()
        && let Some((seq, end)) = recovery::next_lost(tcb)
    {
        return rare::retransmit(tcb, seq, end, cx);
    }
    let out_of_buffers = cx.pool.exhausted();
    let segment = new_data(tcb, run, cx);
    if segment.is_none() {
        run.ecn_capable = false;
        if cx.pool.exhausted() == out_of_buffers {
            tcb.todo.clear(Todo::OUTPUT);
        } else {
            // There may be nothing in flight whose ACK would trigger output again.
            ask_later(tcb, cx);
        }
    }
    segment
}

/// Is an ACK due for what was received since our last one? RFC 5681 section 4.2: at least for every
/// second full-sized segment. Also when the peer has sent as much as it ever sent between two ACKs,
/// because it is then waiting for us (Cray's send-space estimate, 1989).
/// RFC 9293 SHLD-18, SHLD-19. RFC 5681 4.2-a.
#[inline(always)]
fn ack_is_due(tcb: &mut Tcb, cx: &Cx) -> bool {
    if tcb.todo.has(Todo::ACK_NOW) {
        return true;
    }
    let owed = tcb.ack_owed_bytes;
    if owed == 0 {
        return false;
    }
    let full = u32::from(tcb.rcv_mss);
    if owed >= 2 * full {
        return true;
    }
    let all_it_can = owed >= tcb.send_space_bytes && owed >= full;
    if all_it_can && cx.switches.on(Switch::SendSpace) && !tcb.early_acks.holds() {
        return true;
    }
    if tcb.timers.ack == Instant::NEVER {
        tcb.timers.ack = cx.now + tcb.config.ack_delay;
    }
    false
}

/// Send new data, if the windows, Nagle and silly-window avoidance permit; then the FIN.
#[inline(always)]
fn new_data(tcb: &mut Tcb, run: &mut Run, cx: &mut Cx) -> Option<Mbuf> {
    if !tcb.may_send() || tcb.marks.has(Marks::FIN_SENT) {
        return None;
    }
    let Some(front) = tcb.sendq.front() else {
        return if tcb.marks.has(Marks::SHUT_WRITE) { send_fin(tcb, cx) } else { None };
    };
    let (len, rest_follows) = (front.len, front.has(Piece::REST));
    run.ecn_capable = tcb.ecn.has(EcnBits::SENDS);
    if tcb.in_flight() == 0 {
        restart_after_idle(tcb, cx);
    }
    let (window, congestion) = room(tcb);
    if tcb.marks.has(Marks::PATH_SEARCH) {
        match probe::step(tcb, window, congestion, cx) {
            Step::None => {}
            Step::Send => return rare::send_probe(tcb, cx),
            Step::Wait => {
                tcb.marks.set(Marks::CWND_LIMITED);
                return None;
            }
        }
    }
    let mss = tcb.snd_mss.bytes() as u32;
    if len > tcb.super_max_bytes.max(mss) || len > window || len > congestion {
        return rare::part_of_front(tcb, window, congestion, cx);
    }
    let last = tcb.sendq.unsent_count() == 1;
    // The rest of an mbuf that was cut: it is sent alone only if the window admits a full segment,
    // or is large for this peer.
    if len < mss && !last && window < mss.min(tcb.max_snd_wnd / 2) {
        ask_later(tcb, cx);
        return None;
    }
    // RFC 9293 SHLD-7, MUST-60. RFC 1122 4.2.3.4-a.
    // Nagle: a small segment waits while anything is in flight, unless a FIN follows. Without Nagle
    // it waits only if more bytes of the same write follow.
    if last && !tcb.marks.has(Marks::SHUT_WRITE) {
        let waits = rest_follows || !tcb.marks.has(Marks::NO_DELAY);
        if len < mss && tcb.in_flight() > 0 && waits {
            return None;
        }
        if tcb.marks.has(Marks::CORK) && !len.is_multiple_of(mss) {
            return rare::corked(tcb, len - len % mss, cx);
        }
    }
    // The segments that follow this one differ only in sequence number and checksum. CWR is sent
    // once.
    run.len = if last || len < mss || tcb.ecn.has(EcnBits::CWR_DUE) { 0 } else { len };
    send_front(tcb, last, cx)
}

/// Nothing is in flight whose ACK would trigger output: start the timer, which then probes for a
/// window.
/// RFC 9293 SHLD-29.
#[cold]
fn ask_later(tcb: &mut Tcb, cx: &Cx) {
    if tcb.in_flight() == 0 && tcb.timers.retransmit == Instant::NEVER {
        tcb.restart_retransmit(cx.now);
    }
}

/// RFC 5681 section 4.1: after an idle time longer than the RTO, restart from the initial window. A
/// paced connection is subject to RFC 7661 instead.
/// RFC 5681 4.1-a.
#[inline(always)]
fn restart_after_idle(tcb: &mut Tcb, cx: &Cx) {
    let silence = cx.now.since(tcb.last_sent_at);
    if silence > tcb.rtt.shortest() && silence > tcb.rtt.rto() && !pacing::applies(tcb, cx) {
        tcb.cc.on_idle();
    }
}

/// Send the front piece whole. PSH is set on the last piece of the queue (RFC 9293 section 3.9.1.2)
/// and on a super-segment, where it ends up on the last segment on the wire: a receiver that merges
/// segments (GRO) then delivers them at once instead of waiting for more. Decision 0046.
#[inline(always)]
fn send_front(tcb: &mut Tcb, last: bool, cx: &mut Cx) -> Option<Mbuf> {
    let mss = u32::from(tcb.snd_mss.0);
    let (share, piece) = share_front(tcb, cx)?;
    let ends = (last && !piece.has(Piece::GOES_ON)) || piece.has(Piece::RECORD);
    let push = ends || piece.len > mss;
    let fin = last && tcb.marks.has(Marks::SHUT_WRITE);
    // RFC 9293 MUST-61, SHLD-27.
    let mut flags = if push { Flags::ACK | Flags::PSH } else { Flags::ACK };
    flags = flags | Flags(tcb.ecn.0 & EcnBits::CWR_DUE);
    tcb.ecn.clear(EcnBits::CWR_DUE);
    // A super-segment's own PSH is not recorded: its parts are retransmitted as plain segments.
    let mut marks = if ends { Piece::PUSH } else { 0 };
    if fin {
        flags = flags | Flags::FIN;
        marks |= Piece::FIN;
        fin_sent(tcb);
    }
    let seq = go(tcb, marks, cx);
    sent_something(tcb, cx);
    finish(tcb, share, seq, flags, cx)
}

/// Returns a handle to send the front piece, which stays in the queue.
#[inline(always)]
fn share_front<'a>(tcb: &'a mut Tcb, cx: &mut Cx) -> Option<(Mbuf, &'a Piece)> {
    let mss = tcb.snd_mss.0;
    let piece = tcb.sendq.front_mut()?;
    let payload = piece.mbuf.as_mut()?;
    let is_super = piece.len > u32::from(mss) && piece.marks & Piece::PROBE == 0;
    payload.set_segment_size(if is_super { mss } else { 0 });
    Some((share_or_copy(payload, cx)?, piece))
}

/// Move the front piece to those in flight; returns its first sequence number.
/// RFC 8985 4-b.
#[inline(always)]
fn go(tcb: &mut Tcb, marks: u8, cx: &Cx) -> SeqNumber {
    let seq = tcb.snd_nxt;
    if let Some(piece) = tcb.sendq.send_front() {
        piece.seq = seq;
        piece.sent_at = cx.now;
        piece.marks = marks;
        tcb.snd_nxt = piece.end();
    }
    seq
}

fn send_fin(tcb: &mut Tcb, cx: &mut Cx) -> Option<Mbuf> {
    let m = cx.pool.alloc(0)?;
    let seq = tcb.snd_nxt;
    tcb.sendq.send_fin(seq, cx.now);
    tcb.snd_nxt += 1;
    fin_sent(tcb);
    sent_something(tcb, cx);
    // The FIN is the tail that a tail loss probe covers (RFC 8985 section 7.2).
    tcb.restart_retransmit(cx.now);
    finish(tcb, m, seq, Flags::ACK | Flags::FIN, cx)
}

fn fin_sent(tcb: &mut Tcb) {
    tcb.marks.set(Marks::FIN_SENT);
    tcb.state = match tcb.state {
        State::Established => State::FinWait1,
        State::CloseWait => State::LastAck,
        other => other,
    };
}

#[inline(always)]
fn sent_something(tcb: &mut Tcb, cx: &Cx) {
    tcb.last_sent_at = cx.now;
    // If nothing was in flight before, the timer that runs is the persist timer: restart it.
    if tcb.timers.retransmit == Instant::NEVER || tcb.sendq.sent_count() == 1 {
        tcb.restart_retransmit(cx.now);
    }
}

/// Returns a handle to send `m` while the original waits for its ACK. It is a copy if an earlier
/// handle is still in use.
#[inline(always)]
pub(crate) fn share_or_copy(m: &mut Mbuf, cx: &mut Cx) -> Option<Mbuf> {
    match cx.pool.share_for_send(m) {
        Some(share) => Some(share),
        None => rare::copy(m, cx),
    }
}

fn pure_ack(tcb: &mut Tcb, cx: &mut Cx) -> Option<Mbuf> {
    let m = cx.pool.alloc(0)?;
    cx.counters.add(Counter::TcpAcksOut, 1);
    finish(tcb, m, tcb.snd_nxt, Flags::ACK, cx)
}

/// Prepend the header to the payload `m` of a segment of an established connection.
/// RFC 9293 MUST-65.
fn finish(tcb: &mut Tcb, mut m: Mbuf, seq: SeqNumber, flags: Flags, cx: &mut Cx) -> Option<Mbuf> {
    let flags = flags | Flags(tcb.ecn.0 & EcnBits::ECHO);
    if tcb.sack_blocks.nothing_to_report() {
        put_header(tcb, &mut m, seq, flags, cx)?;
    } else {
        let window = offer_window(tcb);
        write_with_sack(tcb, &mut m, seq, flags, window, cx)?;
    }
    ack_went_out(tcb);
    Some(m)
}

/// Note that an ACK was sent: it covers all data received so far, and no segment gets a second ACK
/// (RFC 5681 4.2-d).
#[inline(always)]
fn ack_went_out(tcb: &mut Tcb) {
    if tcb.ack_owed_bytes > 0 {
        tcb.send_space_bytes = tcb.send_space_bytes.max(tcb.ack_owed_bytes);
        tcb.early_acks.sent();
    }
    tcb.last_ack_sent = tcb.rcv_nxt;
    tcb.ack_owed_bytes = 0;
    tcb.todo.clear(Todo::ACK_NOW);
    tcb.timers.ack = Instant::NEVER;
}
