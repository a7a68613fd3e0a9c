//! Segments that carry no new data (SYN, RST, probes, retransmissions), and the rare cases of new
//! data.
//!
//! Called by: `output.rs`, which decides when. RFC 9293 sections 3.8.6.1 (probes) and 3.10.7; RFC
//! 7323 section 2.2.

use base::{Counter, Duration, SeqNumber};
use mbuf::{Flags as MbufFlags, Mbuf};
use wire::tcp::{Flags, Options, Timestamps};

use super::{Run, ack_went_out, ask_later, data, finish, send_front, share_or_copy};
use crate::header::write_header;
use crate::marks::{EcnBits, Marks, Todo};
use crate::path::probe;
use crate::recovery::scoreboard::Probe;
use crate::sendq::Piece;
use crate::state::State;
use crate::stats::Role;
use crate::tcb::Tcb;
use crate::{Cx, ecn, pacing, path, recovery, user_timeout};

/// Returns a segment with a departure time. It is made as if that were the current time. `None` if
/// there is nothing to send, or if the departure is too far ahead.
#[cold]
#[inline(never)]
pub(super) fn paced(tcb: &mut Tcb, run: &mut Run, cx: &mut Cx) -> Option<Mbuf> {
    // A connection with nothing to send is not always visited, so a visit must not change its
    // state.
    let departure = if has_more(tcb) { pacing::departure(tcb, cx.now) } else { None };
    let Some(departure) = departure else {
        tcb.todo.clear(Todo::OUTPUT);
        return None;
    };
    let before = tcb.pipe();
    let mut m = cx.at(departure, |cx| data(tcb, run, cx))?;
    // The segments that follow have departure times of their own.
    run.len = 0;
    pacing::sent(tcb, &mut m, departure, before, cx);
    Some(m)
}

/// Is there data to send, new or lost, or an unsent FIN?
pub(crate) fn has_more(tcb: &Tcb) -> bool {
    let fin = tcb.marks.has(Marks::SHUT_WRITE) && !tcb.marks.has(Marks::FIN_SENT);
    tcb.sendq.unsent_count() > 0 || tcb.has_lost() || fin
}

/// Nothing of this connection can be sent now. The waiting segments are tried again after a
/// retransmission time-out, as many times as other unanswered segments. After that the connection
/// is given up.
#[cold]
pub fn hold_back(tcb: &mut Tcb, cx: &Cx) {
    if has_more(tcb) {
        ask_later(tcb, cx);
    }
}

/// Send the front piece, which is a path MTU probe: a segment larger than the MSS.
#[cold]
pub(super) fn send_probe(tcb: &mut Tcb, cx: &mut Cx) -> Option<Mbuf> {
    let seq = tcb.snd_nxt;
    let segment = send_front(tcb, false, cx);
    probe::sent(tcb, seq, cx);
    segment
}

/// Retransmit the first of the lost bytes `seq..end`, as much as the window admits.
#[cold]
pub(super) fn retransmit(
    tcb: &mut Tcb,
    seq: SeqNumber,
    end: SeqNumber,
    cx: &mut Cx,
) -> Option<Mbuf> {
    let (suspected, size) = (tcb.recovery.large_resends, tcb.snd_mss);
    path::suspect(tcb, seq, cx);
    let mss = tcb.snd_mss.bytes() as u32;
    let room = tcb.cc.cwnd.saturating_sub(u64::from(tcb.pipe())).max(u64::from(mss));
    let room = u32::try_from(room).unwrap_or(u32::MAX).min(tcb.super_max_bytes.max(mss));
    let len = end.since(seq) as u32;
    let end = if len > room { seq + (room - room % mss) } else { end };
    let segment = resend(tcb, seq, end, cx);
    if segment.is_none() && tcb.snd_mss == size {
        // Without a buffer nothing was sent, so the path dropped nothing.
        tcb.recovery.large_resends = suspected;
    }
    segment
}

/// Retransmit `seq..end`, or the part of it in the piece that holds `seq`. If there is no buffer to
/// cut that piece, nothing is sent, because the whole piece may be larger than a segment is now.
fn resend(tcb: &mut Tcb, seq: SeqNumber, end: SeqNumber, cx: &mut Cx) -> Option<Mbuf> {
    let mss = tcb.snd_mss.bytes() as u32;
    let index = tcb.sendq.find(seq);
    let index = tcb.sendq.cut(index, seq, &mut cx.pool)?;
    tcb.sendq.cut(index, end, &mut cx.pool)?;
    let piece = tcb.sendq.in_flight_mut(index)?;
    let share = match &mut piece.mbuf {
        Some(m) => {
            // A part of a super-segment may be an ordinary segment.
            m.set_segment_size(if piece.len > mss { mss as u16 } else { 0 });
            share_or_copy(m, cx)?
        }
        None => cx.pool.alloc(0)?,
    };
    piece.marks |= Piece::RETRANSMITTED;
    piece.sent_at = cx.now;
    let (seq, end) = (piece.seq, piece.end());
    let push = piece.has(Piece::PUSH) || piece.len > mss;
    let mut flags = if push { Flags::ACK | Flags::PSH } else { Flags::ACK };
    if piece.has(Piece::FIN) {
        flags = flags | Flags::FIN;
    }
    recovery::resent(tcb, seq, end, cx);
    tcb.stats.rare.retransmits += 1;
    cx.counters.add(Counter::TcpRetransmits, 1);
    finish(tcb, share, seq, flags, cx)
}

/// Send a SYN, a RST, a window probe, a tail loss probe or a keepalive probe.
#[cold]
pub(super) fn special(tcb: &mut Tcb, cx: &mut Cx) -> Option<Mbuf> {
    if tcb.todo.0 & (Todo::SYN | Todo::RST | Todo::PROBE) == Todo::PROBE && tcb.snd_wnd > 0 {
        // The override time-out of silly-window avoidance: send what fits (RFC 9293, 3.8.6.2.1).
        tcb.todo.clear(Todo::PROBE);
        let send = tcb.snd_wnd.min(tcb.snd_mss.bytes() as u32);
        let Some(front) = tcb.sendq.front_mut() else {
            // Only a FIN was waiting.
            return data(tcb, &mut Run::default(), cx);
        };
        front.marks &= !Piece::GOES_ON;
        return if tcb.in_flight() == 0 { send_part(tcb, send, cx) } else { None };
    }
    if tcb.todo.0 & (Todo::SYN | Todo::RST | Todo::TAIL) == Todo::TAIL {
        return send_tail_probe(tcb, cx);
    }
    let m = cx.pool.alloc(0)?;
    if tcb.todo.has(Todo::RST) {
        tcb.todo = Todo::default();
        tcb.ecn = EcnBits::default();
        cx.counters.add(Counter::TcpResetsOut, 1);
        return finish(tcb, m, tcb.snd_nxt, Flags::RST | Flags::ACK, cx);
    }
    if tcb.todo.has(Todo::SYN) {
        tcb.todo.clear(Todo::SYN | Todo::ACK_NOW);
        return syn(tcb, m, cx);
    }
    // RFC 9293 SHLD-12: a keepalive probe carries no data.
    // A segment before the window elicits an ACK with the current window (RFC 9293 3.10.7.4).
    tcb.todo.clear(Todo::PROBE | Todo::KEEPALIVE);
    finish(tcb, m, tcb.snd_una - 1, Flags::ACK, cx)
}

fn syn(tcb: &mut Tcb, mut m: Mbuf, cx: &mut Cx) -> Option<Mbuf> {
    if tcb.syn_goes_again() {
        cx.counters.add(Counter::TcpRetransmits, 1);
        tcb.stats.rare.retransmits += 1;
    }
    // A SYN offers the configured options, a SYN-ACK those that were agreed.
    let answer = tcb.state != State::SynSent;
    // RFC 7323 3.2-e.
    let agreed = |mark: u16, offered: bool| if answer { tcb.marks.has(mark) } else { offered };
    // RFC 7323 2.2-a.
    let scaling = tcb.config.window_scaling && (!answer || tcb.peer_scales);
    let mut options = Options {
        // RFC 9293 MUST-14, SHLD-5.
        mss: Some(tcb.advertised_mss.0),
        window_scale: scaling.then_some(tcb.rcv_wscale),
        // RFC 2018 2-a.
        sack_permitted: agreed(Marks::SACK, tcb.config.sack),
        // RFC 7323 3.2-f.
        timestamps: agreed(Marks::TIMESTAMPS, tcb.config.timestamps)
            .then(|| Timestamps { value: tcb.ts_value(cx), echo: tcb.ts_recent }),
        user_timeout_s: user_timeout::advertised_s(tcb),
        ..Options::default()
    };
    first_syn(tcb, &mut m, &mut options, cx);
    let flags = if answer { Flags::SYN | Flags::ACK } else { Flags::SYN };
    let flags = flags | ecn::setup_flags(tcb, answer);
    // RFC 7323 2.2-c.
    // The window of a SYN is never scaled, RFC 7323 section 2.2.
    // A retransmitted SYN-ACK does not shrink the window offered before: RFC 9293 SHLD-14.
    let offered = if answer { tcb.rcv_wnd() as usize } else { 0 };
    let window = tcb.receive.space().max(offered).min(65_535) as u16;
    tcb.rcv_adv = tcb.rcv_adv.max(tcb.rcv_nxt + u32::from(window));
    write_header(tcb, &mut m, tcb.iss, flags, window, &options, cx)?;
    if answer {
        ack_went_out(tcb);
    }
    Some(m)
}

/// On a corked connection send the `whole` bytes that make full segments. The rest of the data
/// waits for more data or for a time-out, as on Linux.
#[cold]
pub(super) fn corked(tcb: &mut Tcb, whole: u32, cx: &mut Cx) -> Option<Mbuf> {
    if whole > 0 {
        return send_part(tcb, whole, cx);
    }
    if tcb.in_flight() == 0 && tcb.timers.retransmit == base::Instant::NEVER {
        tcb.restart_timeout(cx.now);
    }
    None
}

#[cold]
pub(super) fn copy(m: &mut Mbuf, cx: &mut Cx) -> Option<Mbuf> {
    let mut copy = cx.pool.copy_of(m.as_slice())?;
    copy.set_segment_size(m.segment_size());
    if m.has(MbufFlags::SUMMED) {
        copy.set_csum(m.csum());
        copy.set(MbufFlags::SUMMED);
    }
    Some(copy)
}

/// How long after the last transmission a super-segment may still wait for room.
const HOLD_MOST: Duration = Duration::from_millis(1);

/// Send part of the first unsent mbuf: as many whole segments as fit, or, if the peer's window is
/// the limit, a part worth sending (RFC 9293 section 3.8.6.2.1).
/// RFC 9293 MUST-38.
#[cold]
pub(super) fn part_of_front(
    tcb: &mut Tcb,
    window: u32,
    congestion: u32,
    cx: &mut Cx,
) -> Option<Mbuf> {
    let mss = tcb.snd_mss.bytes() as u32;
    let len = tcb.sendq.front().map_or(0, |front| front.len);
    if congestion < len.min(window) {
        tcb.marks.set(Marks::CWND_LIMITED);
    }
    let room = window.min(congestion);
    // A super-segment that is cut in two costs as much as two super-segments. So it waits while the
    // room is less than a part (by default a third) of the window: the ACKs of the data in flight
    // will make room. Linux does the same. It does not wait during loss recovery, when a segment
    // for each ACK finds the loss (RFC 3042), when ACKs come slowly, or when the next ACK is more
    // than half a round trip away.
    let windows = tcb.snd_wnd.min(u32::try_from(tcb.cc.cwnd).unwrap_or(u32::MAX));
    let part = windows / u32::from(tcb.config.compat.super_room_part.max(1));
    let oldest = tcb.sendq.in_flight(0).map_or(cx.now, |piece| piece.sent_at);
    let near = cx.now.since(oldest) >= tcb.rtt.srtt().div(2);
    let soon = near && cx.now.since(tcb.last_sent_at) < HOLD_MOST && !tcb.is_repairing();
    if len > mss && tcb.in_flight() > 0 && room < len.min(part) && soon {
        return None;
    }
    let room = room.min(tcb.super_max_bytes.max(mss));
    let send = if room >= mss {
        room - room % mss
    } else if window < congestion && room > 0 && room >= tcb.max_snd_wnd / 2 {
        room
    } else {
        0
    };
    if send == 0 {
        ask_later(tcb, cx);
        return None;
    }
    send_part(tcb, send, cx)
}

/// Send at most `send` bytes of the first unsent mbuf.
#[cold]
fn send_part(tcb: &mut Tcb, send: u32, cx: &mut Cx) -> Option<Mbuf> {
    let len = tcb.sendq.front().map_or(0, |front| front.len);
    if send < len && !tcb.sendq.cut_front(send, &mut cx.pool) {
        return None;
    }
    let last = tcb.sendq.unsent_count() == 1;
    send_front(tcb, last, cx)
}

/// Put the Fast Open option and the data into the first SYN or SYN-ACK. Retransmissions carry
/// neither, because they may be the reason why a middlebox dropped the first one (RFC 7413 sections
/// 4.1.3 and 4.2.1).
fn first_syn(tcb: &mut Tcb, m: &mut Mbuf, options: &mut Options, cx: &mut Cx) {
    if tcb.syn_goes_again() {
        return;
    }
    let Some(kept) = tcb.stats.rare.fast_open.as_ref() else { return };
    let client = kept.role == Role::Client;
    if client && tcb.state != State::SynSent {
        // Simultaneous open: our SYN is sent again as a SYN-ACK, without the option and the data.
        return;
    }
    options.fast_open = kept.says;
    if !client {
        return;
    }
    let Some(payload) = tcb.sendq.in_flight_mut(0).and_then(|piece| piece.mbuf.as_mut()) else {
        return;
    };
    payload.set_segment_size(0);
    if let Some(share) = share_or_copy(payload, cx) {
        cx.pool.free(core::mem::replace(m, share));
    }
}

/// Send the tail loss probe: the next new segment if the peer's window admits one, else the last
/// one again.
/// RFC 8985 7.3-b, 7.3-c.
#[cold]
pub(super) fn send_tail_probe(tcb: &mut Tcb, cx: &mut Cx) -> Option<Mbuf> {
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
        resend(tcb, from, end, cx)
    } else {
        send_part(tcb, next, cx)
    };
    let (end, sent_at) = (tcb.snd_nxt, cx.now);
    tcb.recovery.probe = probe.is_some().then_some(Probe { end, repeats, sent_at });
    probe
}
