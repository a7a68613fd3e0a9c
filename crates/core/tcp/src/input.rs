//! The slow path: the steps of RFC 9293 sections 3.10.7.3 and 3.10.7.4 in their order (sequence,
//! RST, SYN, ACK, URG, text, FIN), with PAWS (RFC 7323) before them and RFC 5961 inside them.
//!
//! Called by: `stack/rx.rs` for a segment that header prediction refused. `input` owns the payload
//! and frees it on an error. Answers are requested through `Tcb::todo`.

use base::{Counter, DropReason, Limit};
use mbuf::Mbuf;
use wire::tcp::{Flags, Options};

use crate::deadlines::Timers;
use crate::marks::{Marks, Todo};
use crate::receive::text;
use crate::state::{Error, State};
use crate::tcb::Tcb;
use crate::{Cx, Fate, Segment, ack, ecn, handshake, urgent, user_timeout};

/// Process a segment for a connection in any state but LISTEN and TIME-WAIT; `m` is its payload.
///
/// # Errors
/// The named reason why the segment was not accepted; `m` is freed.
pub fn input(tcb: &mut Tcb, seg: &Segment, options: &Options, m: Mbuf, cx: &mut Cx) -> Fate {
    tcb.stats.segments_in = tcb.stats.segments_in.wrapping_add(1);
    match tcb.state {
        State::Closed | State::TimeWait => return Err(DropReason::TcpNoSocket),
        State::SynSent => return handshake::in_syn_sent(tcb, seg, options, m, cx),
        _ => {}
    }
    check_timestamps(tcb, seg, cx)?;
    check_sequence(tcb, seg, cx)?;
    tcb.heard_from_peer(cx.now);
    check_rst(tcb, seg, cx)?;
    check_syn(tcb, seg, cx)?;
    check_ack(tcb, seg, options, cx)?;
    user_timeout::heard(tcb, options);
    remember_timestamp(tcb, seg, cx);
    ecn::arrived(tcb, seg, cx);
    urgent::arrived(tcb, seg);
    let fate = check_text(tcb, seg, m, cx);
    text::check_fin(tcb, seg);
    fate
}

/// PAWS, RFC 7323 section 5.3 step R1: drop a segment whose timestamp is older than TS.Recent,
/// unless it brings new data that is only late (see [`crate::receive::paws`]). RST passes (section
/// 5.2), and so does any segment after 24 days of silence (section 5.5).
/// RFC 7323 3.2-b, 5.2-a, 5.3-a.
fn check_timestamps(tcb: &mut Tcb, seg: &Segment, cx: &mut Cx) -> Fate {
    if !tcb.marks.has(Marks::TIMESTAMPS) || seg.flags.contains(Flags::RST) {
        return Ok(());
    }
    let received = tcb.stats.bytes_received;
    let brings_data = seg.len > 0 && seg.seq.ge(tcb.rcv_nxt);
    tcb.paws.note(tcb.ts_recent, received);
    match seg.timestamps {
        Some(ts) if brings_data && tcb.paws.is_of_this_life(ts.value, received) => Ok(()),
        Some(ts) if tcb.is_old_timestamp(ts.value, cx) => {
            Err(answer(tcb, seg, DropReason::TcpPaws, cx))
        }
        // Section 3.2: once timestamps are agreed, a segment without them is dropped, if the
        // configuration asks for that (decision 0106). A SYN may come from a peer that lost its
        // state; `check_syn` challenges it.
        // RFC 7323 3.2-d.
        None if !seg.flags.contains(Flags::SYN) && tcb.config.timestamps_required => {
            Err(DropReason::TcpPaws)
        }
        _ => Ok(()),
    }
}

/// First check: is any of the segment in the window (the four cases of RFC 9293 table 6)?
fn check_sequence(tcb: &mut Tcb, seg: &Segment, cx: &mut Cx) -> Fate {
    let window = tcb.rcv_wnd();
    let edge = tcb.rcv_nxt + window;
    let in_window = |s: base::SeqNumber| s.ge(tcb.rcv_nxt) && s.lt(edge);
    let acceptable = match (seg.space(), window) {
        (0, 0) => seg.seq == tcb.rcv_nxt,
        (0, _) => in_window(seg.seq),
        (_, 0) => false,
        (space, _) => in_window(seg.seq) || in_window(seg.seq + (space - 1)),
    };
    if acceptable {
        return Ok(());
    }
    if seg.flags.contains(Flags::RST) {
        // RFC 5961 3.2-a.
        return Err(DropReason::TcpOutOfWindow);
    }
    // RFC 9293: with a zero window, valid ACKs, URGs and RSTs are still accepted.
    // RFC 9293 MUST-66.
    if window == 0 && seg.seq == tcb.rcv_nxt && seg.flags.contains(Flags::ACK) {
        tcb.todo.set(Todo::ACK_NOW);
        return Ok(());
    }
    let lone_syn = seg.flags.contains(Flags::SYN) && !seg.flags.contains(Flags::ACK);
    if tcb.state == State::SynReceived && lone_syn && seg.seq == tcb.irs {
        // The peer retransmitted its SYN: our SYN-ACK was lost.
        ecn::syn_again(tcb, seg);
        tcb.todo.set(Todo::SYN);
        return Err(DropReason::TcpDuplicate);
    }
    let duplicate = seg.end().le(tcb.rcv_nxt);
    let reason = if duplicate { DropReason::TcpDuplicate } else { DropReason::TcpOutOfWindow };
    Err(answer(tcb, seg, reason, cx))
}

/// Second check: a RST ends the connection only if its sequence number is RCV.NXT (RFC 5961 section
/// 3).
/// RFC 9293 SHLD-2. RFC 5961 3.2-b, 3.2-c.
fn check_rst(tcb: &mut Tcb, seg: &Segment, cx: &mut Cx) -> Fate {
    if !seg.flags.contains(Flags::RST) {
        return Ok(());
    }
    if seg.seq != tcb.rcv_nxt {
        return Err(challenge(tcb, DropReason::TcpBadRst, cx));
    }
    let error = match tcb.state {
        State::SynReceived if tcb.marks.has(Marks::ACTIVE) => Error::Refused,
        _ => Error::Reset,
    };
    tcb.fail(error);
    Err(DropReason::TcpRst)
}

/// Fourth check: a SYN on an open connection gets a challenge ACK and has no other effect (RFC 5961
/// section 4).
/// RFC 5961 4.2-a, 4.2-b.
fn check_syn(tcb: &mut Tcb, seg: &Segment, cx: &mut Cx) -> Fate {
    if !seg.flags.contains(Flags::SYN) {
        return Ok(());
    }
    Err(challenge(tcb, DropReason::TcpSynInWindow, cx))
}

/// Fifth check: process the ACK, and the state changes that it causes.
fn check_ack(tcb: &mut Tcb, seg: &Segment, options: &Options, cx: &mut Cx) -> Fate {
    if !seg.flags.contains(Flags::ACK) {
        return Err(DropReason::TcpNoAck);
    }
    if tcb.state == State::SynReceived {
        handshake::finish_passive(tcb, seg, cx)?;
    }
    // RFC 5961 5.2-a.
    if seg.ack.gt(tcb.snd_nxt) {
        if !tcb.config.compat.unsent_acks_answered {
            return Err(DropReason::TcpAckUnsent);
        }
        // RFC 9293: an ACK of data never sent is answered with an ACK and dropped.
        return Err(challenge(tcb, DropReason::TcpAckUnsent, cx));
    }
    if seg.ack.lt(tcb.snd_una - tcb.max_snd_wnd) {
        // RFC 5961 section 5.2: the ACK is too old to come from the peer.
        return Err(challenge(tcb, DropReason::TcpAckTooOld, cx));
    }
    ack::process(tcb, seg, options, cx);
    if tcb.marks.has(Marks::FIN_SENT) && tcb.snd_una == tcb.snd_nxt {
        fin_acknowledged(tcb, cx);
    }
    Ok(())
}

/// Our FIN is acknowledged: advance the state.
fn fin_acknowledged(tcb: &mut Tcb, cx: &Cx) {
    match tcb.state {
        State::FinWait1 => {
            tcb.state = State::FinWait2;
            // A lingering close waits for this event.
            tcb.events.set(crate::Events::WRITABLE);
            if tcb.marks.has(Marks::ORPHAN) {
                tcb.timers.idle = cx.now + tcb.config.fin_wait_2;
            }
        }
        State::Closing => {
            tcb.state = State::TimeWait;
            tcb.timers = Timers::default();
            tcb.events.set(crate::Events::WRITABLE);
        }
        State::LastAck => {
            tcb.state = State::Closed;
            tcb.events.set(crate::Events::CLOSED);
        }
        _ => {}
    }
}

/// RFC 7323 section 4.3: TS.Recent is taken from the segment that spans Last.ACK.sent.
/// RFC 7323 4.3-a.
fn remember_timestamp(tcb: &mut Tcb, seg: &Segment, cx: &Cx) {
    if let Some(ts) = seg.timestamps
        && tcb.marks.has(Marks::TIMESTAMPS)
        && seg.seq.le(tcb.last_ack_sent)
        && !tcb.is_old_timestamp(ts.value, cx)
    {
        tcb.set_ts_recent(ts.value, cx);
        tcb.tuning.echo = ts.echo;
    }
}

/// Seventh check: cut the segment to the window and take its text.
fn check_text(tcb: &mut Tcb, seg: &Segment, mut m: Mbuf, cx: &mut Cx) -> Fate {
    if m.is_empty() {
        cx.pool.free(m);
        return Ok(());
    }
    let mut seq = seg.seq;
    let old = tcb.rcv_nxt.since(seq);
    if old > 0 {
        // Part of the segment is a duplicate: answer at once, because the peer retransmitted it.
        tcb.note_duplicate(seq, tcb.rcv_nxt.min(seg.end()));
        m.trim_front(old as usize);
        seq = tcb.rcv_nxt;
        tcb.todo.set(Todo::ACK_NOW);
    }
    let room = tcb.rcv_adv.since(seq).max(0) as usize;
    let cut = m.len() > room;
    m.truncate(room);
    if m.is_empty() {
        return Err(if old > 0 && !cut {
            DropReason::TcpDuplicate
        } else {
            DropReason::TcpReceiveFull
        });
    }
    if cut {
        tcb.todo.set(Todo::ACK_NOW);
    }
    text::accept(tcb, seq, m, old > 0, cx)
}

/// Request an ACK for a segment that is dropped for `reason` because it is old or outside the
/// window. Such a segment can be a probe by a silent peer or of a zero window, an attacker's guess,
/// or part of an ACK loop. So these ACKs are limited per second. No information is lost: all of
/// them are equal. A retransmission always gets an ACK, because the previous ACK was lost
/// (docs/decisions/0014).
fn answer(tcb: &mut Tcb, seg: &Segment, reason: DropReason, cx: &mut Cx) -> DropReason {
    if is_retransmission(tcb, seg) {
        tcb.note_duplicate(seg.seq, seg.end());
        tcb.todo.set(Todo::ACK_NOW);
    } else if seg.flags.contains(Flags::SYN) {
        // RFC 5961 4.2-a.
        // RFC 5961 section 4 requires a challenge ACK whatever the sequence number.
        return challenge(tcb, reason, cx);
    } else if tcb.out_of_window_acks.admits(Limit::OutOfWindowAcksPerSecond, cx.now, &mut cx.budget)
    {
        tcb.todo.set(Todo::ACK_NOW);
    }
    reason
}

/// Does the segment contain only what the peer sent before and may still lack an ACK for? That is
/// the last window of received data, a SYN-ACK, or a FIN after the data. A SYN without ACK on an
/// open connection is challenged instead.
fn is_retransmission(tcb: &Tcb, seg: &Segment) -> bool {
    let window = tcb.stats.bytes_received.min(tcb.receive.limit_bytes() as u64) as u32;
    seg.space() > 0
        && seg.end().le(tcb.rcv_nxt)
        && seg.seq.ge(tcb.rcv_nxt - window.saturating_add(1))
        && (!seg.flags.contains(Flags::SYN)
            || (seg.flags.contains(Flags::ACK) && seg.seq == tcb.irs))
}

/// Request a challenge ACK for a segment that is dropped for `reason`. Each connection has its own
/// limit: with a shared one, an attacker could measure on his own connection how many challenge
/// ACKs another connection has used (RFC 5961 section 7, CVE-2016-5696, docs/decisions/0013). The
/// limit of each second is drawn at random for each connection, so that the connection's own peer
/// learns nothing by counting either.
/// RFC 5961 7-a, 7-b.
fn challenge(tcb: &mut Tcb, reason: DropReason, cx: &mut Cx) -> DropReason {
    let (limit, secret) = (Limit::ChallengeAcksPerSecond, cx.secret);
    let connection = u64::from(tcb.iss.0) << 32 | u64::from(tcb.irs.0);
    let draw = |second| secret.hash([connection, second]);
    if !tcb.challenge_acks.admits_drawn(limit, cx.now, &mut cx.budget, draw) {
        return DropReason::TcpChallengeLimited;
    }
    cx.counters.add(Counter::TcpChallengeAcks, 1);
    tcb.todo.set(Todo::ACK_NOW);
    reason
}
