//! Segment text: in-order data goes to the receive buffer, out-of-order data to reassembly.
//!
//! Called by: input (seventh and eighth check) and, for in-order data, predict.

use base::{DropReason, Limit, SeqNumber};
use mbuf::Mbuf;

use crate::deadlines::Timers;
use crate::marks::{Events, Marks, Todo};
use crate::receive::reass::Reassembly;
use crate::state::State;
use crate::tcb::Tcb;
use crate::{Cx, Fate, Segment};

/// Append in-order data to the receive buffer.
#[inline(always)]
pub(crate) fn deliver(tcb: &mut Tcb, m: Mbuf, cx: &mut Cx) {
    let len = m.len() as u32;
    if len > u32::from(tcb.rcv_mss) {
        larger_segment(tcb, &m);
    }
    arrived(tcb, len);
    tcb.receive.append(m, &mut cx.pool);
}

/// Account for `len` bytes of in-order data.
#[inline(always)]
pub(crate) fn arrived(tcb: &mut Tcb, len: u32) {
    tcb.rcv_nxt += len;
    tcb.ack_owed_bytes += len;
    tcb.stats.bytes_received += u64::from(len);
    tcb.events.set(Events::READABLE);
}

/// The segment is larger than all before, or several segments merged into one mbuf: update
/// `rcv_mss`.
#[cold]
fn larger_segment(tcb: &mut Tcb, m: &Mbuf) {
    let size = match m.segment_size() {
        0 => m.len().min(usize::from(u16::MAX)) as u16,
        size => size,
    };
    tcb.rcv_mss = tcb.rcv_mss.max(size);
}

/// The seventh check of RFC 9293 section 3.10.7.4: `m` is the payload, cut to the window. `was_old`
/// is true if the segment began before RCV.NXT and was cut there: the part before RCV.NXT is its
/// first duplicate.
/// RFC 9293 SHLD-31.
pub(crate) fn accept(tcb: &mut Tcb, seq: SeqNumber, m: Mbuf, was_old: bool, cx: &mut Cx) -> Fate {
    if !tcb.state.peer_may_send() {
        // CLOSE-WAIT and later: the peer has sent its FIN (RFC 9293).
        return Err(DropReason::TcpDuplicate);
    }
    // RFC 9293 SHLD-3.
    if let Some(reason) = tcb.nobody_reads() {
        // RFC 9293 section 3.6.1: the stack answers data after a full close with a RST. The RST's
        // sequence number is the segment's ACK (section 3.5.2), which the peer certainly accepts
        // (RFC 5961 section 3), even if our FIN has not arrived.
        tcb.fail(crate::state::Error::Aborted);
        return Err(reason);
    }
    if seq == tcb.rcv_nxt {
        if !tcb.reassembly.is_empty() {
            // RFC 5681 4.2-c.
            // The segment fills all or part of a gap: acknowledge at once (RFC 5681 section 4.2).
            tcb.todo.set(Todo::ACK_NOW);
            if !was_old {
                report_held(tcb, seq, m.len());
            }
        }
        take_in(tcb, m, cx);
        while let Some(next) = tcb.reassembly.take(tcb.stats.bytes_received, &mut cx.pool) {
            take_in(tcb, next, cx);
        }
        tcb.sack_blocks.advance(tcb.rcv_nxt);
        note_early(tcb);
        return Ok(());
    }
    tcb.stats.rare.out_of_order += 1;
    // RFC 5681 4.2-b.
    // Out of order: an immediate duplicate ACK (RFC 5681 section 4.2).
    tcb.todo.set(Todo::ACK_NOW);
    let waiting = tcb.reassembly.pieces();
    let affordable = waiting < Reassembly::affordable(tcb.receive.limit_bytes());
    let used = if affordable { waiting } else { usize::MAX };
    if !cx.budget.admits(Limit::ReassemblySegments, used) {
        return Err(DropReason::TcpReassemblyFull);
    }
    report_held(tcb, seq, m.len());
    let end = seq + m.len() as u32;
    let new = tcb.reassembly.insert(offset_of(tcb, seq), m, &mut cx.pool);
    tcb.sack_blocks.add(seq, end);
    note_early(tcb);
    if new { Ok(()) } else { Err(DropReason::TcpDuplicate) }
}

/// The stream offset of a sequence number at or after RCV.NXT.
fn offset_of(tcb: &Tcb, seq: SeqNumber) -> u64 {
    tcb.stats.bytes_received + seq.since(tcb.rcv_nxt) as u64
}

/// If a segment of `len` bytes at `seq` contains bytes held out of order, the next ACK reports the
/// first run of them as a D-SACK. Called only for a segment without an earlier duplicate part.
/// RFC 2883 4.2-a.
fn report_held(tcb: &mut Tcb, seq: SeqNumber, len: usize) {
    let from = offset_of(tcb, seq);
    if let Some((left, right)) = tcb.reassembly.first_held(from, from + len as u64) {
        let at = |offset: u64| seq + (offset - from) as u32;
        tcb.note_duplicate(at(left), at(right));
    }
}

/// Set or clear [`Tcb::EARLY`], which prediction checks.
fn note_early(tcb: &mut Tcb) {
    let early = !tcb.reassembly.is_empty() || !tcb.sack_blocks.is_empty();
    tcb.trouble = (tcb.trouble & !Tcb::EARLY) | if early { Tcb::EARLY } else { 0 };
}

fn take_in(tcb: &mut Tcb, m: Mbuf, cx: &mut Cx) {
    if tcb.marks.has(Marks::SHUT_READ) {
        let len = m.len() as u32;
        tcb.rcv_nxt += len;
        tcb.ack_owed_bytes += len;
        tcb.stats.bytes_received += u64::from(len);
        cx.pool.free(m);
    } else {
        deliver(tcb, m, cx);
    }
}

/// Eighth check: process a FIN once all data before it was received.
pub(crate) fn check_fin(tcb: &mut Tcb, seg: &Segment) {
    if !tcb.state.is_synchronised() && tcb.state != State::SynReceived {
        return;
    }
    if seg.flags.contains(wire::tcp::Flags::FIN) && !tcb.marks.has(Marks::FIN_RECEIVED) {
        tcb.reassembly.fin = Some(seg.seq + seg.len);
        note_early(tcb);
    }
    let Some(at) = tcb.reassembly.fin else { return };
    if at.lt(tcb.rcv_nxt) {
        // The peer sent data past its own FIN: ignore the FIN.
        tcb.reassembly.fin = None;
        note_early(tcb);
    }
    if at != tcb.rcv_nxt || tcb.marks.has(Marks::FIN_RECEIVED) {
        if seg.flags.contains(wire::tcp::Flags::FIN) {
            // An out-of-order FIN gets an immediate ACK like out-of-order data (RFC 5681 section
            // 4.2).
            tcb.todo.set(Todo::ACK_NOW);
        }
        return;
    }
    tcb.reassembly.fin = None;
    note_early(tcb);
    tcb.rcv_nxt += 1;
    tcb.rcv_adv = tcb.rcv_adv.max(tcb.rcv_nxt);
    tcb.marks.set(Marks::FIN_RECEIVED);
    tcb.todo.set(Todo::ACK_NOW);
    tcb.events.set(Events::READABLE | Events::PEER_CLOSED);
    tcb.state = match tcb.state {
        State::SynReceived | State::Established => State::CloseWait,
        State::FinWait1 => State::Closing,
        State::FinWait2 => {
            // The TIME-WAIT record has its own timer; keepalive must not run for a closed
            // connection.
            tcb.timers = Timers::default();
            State::TimeWait
        }
        other => other,
    };
}
