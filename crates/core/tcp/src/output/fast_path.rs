//! The fast path of output: a connection that has one segment to send, or a few (a request, a
//! reply, an ACK), with the usual header.
//!
//! Called by: `stack/tx.rs`, before `next`, which would send the same segment. A single check
//! covers every unusual condition; if it fails, or if there are many segments, the caller uses
//! `next`. Switch `output-fast-path` turns this off; a differential test compares both.

use base::{Counter, SeqNumber};
use mbuf::{Flags as MbufFlags, Mbuf};
use wire::checksum::Sum;
use wire::tcp::{Established, Flags, Timestamps};

use super::{ack_is_due, ack_went_out, go, room, sent_something, share_or_copy};
use crate::Cx;
use crate::header::offer_window;
use crate::marks::{EcnBits, Marks, Todo};
use crate::pacing;
use crate::sendq::Piece;
use crate::state::State;
use crate::tcb::Tcb;

/// A segment whose headers are not written yet.
pub struct FastSegment {
    /// Its payload.
    pub m: Mbuf,
    /// Its TCP header without the checksum.
    pub header: Established,
    /// The payload's checksum.
    pub payload: Sum,
    /// The sum of the pseudo-header without the length.
    pub pseudo: Sum,
    /// No other segment follows it.
    pub is_last: bool,
}

/// If there are more segments than this, a run is cheaper (`run.rs`).
const FEW: usize = 3;

/// Is there data for at most `FEW` segments to send?
#[inline(always)]
pub fn has_few(tcb: &Tcb) -> bool {
    tcb.sendq.unsent_count() <= FEW
}

/// Returns the next segment to send of `tcb`, if it is an ordinary one. `None`: nothing has
/// changed, and the caller uses [`super::next`].
#[inline(always)]
pub fn fast_path(tcb: &mut Tcb, cx: &mut Cx) -> Option<FastSegment> {
    const UNUSUAL: u16 =
        Marks::SHUT_WRITE | Marks::FIN_SENT | Marks::PATH_SEARCH | Marks::PATH_NEWS | Marks::CORK;
    let usual = tcb.marks.0 & (UNUSUAL | Marks::TIMESTAMPS) == Marks::TIMESTAMPS
        && tcb.trouble == 0
        && !tcb.todo.has(!(Todo::OUTPUT | Todo::ACK_NOW))
        && !tcb.ecn.has(EcnBits::SENDS | EcnBits::ECHO | EcnBits::CWR_DUE)
        && tcb.reports_nothing()
        && tcb.makes_checksums(cx)
        && tcb.state == State::Established
        && !pacing::applies(tcb, cx);
    if !usual {
        return None;
    }
    let unsent = tcb.sendq.unsent_count();
    let is_last = unsent <= 1;
    let (m, seq, flags, payload) = match unsent {
        1.. if tcb.todo.has(Todo::OUTPUT) => data(tcb, is_last, cx)?,
        0 if ack_is_due(tcb, cx) => {
            let m = cx.pool.alloc(0)?;
            cx.counters.add(Counter::TcpAcksOut, 1);
            (m, tcb.snd_nxt, Flags::ACK, Sum::ZERO)
        }
        _ => return None,
    };
    let header = Established {
        ports: tcb.ports,
        seq,
        ack: tcb.rcv_nxt,
        flags,
        window: offer_window(tcb),
        timestamps: Some(Timestamps { value: tcb.ts_value(cx), echo: tcb.ts_recent }),
    };
    ack_went_out(tcb);
    tcb.todo.clear(if is_last { Todo::OUTPUT } else { 0 });
    Some(FastSegment { m, header, payload, pseudo: tcb.pseudo_sum, is_last })
}

/// Returns the first unsent piece, if the windows and Nagle admit all of it. A piece that is not
/// the last has to be full.
#[inline(always)]
fn data(tcb: &mut Tcb, is_last: bool, cx: &mut Cx) -> Option<(Mbuf, SeqNumber, Flags, Sum)> {
    let (window, congestion) = room(tcb);
    let (flight, mss) = (tcb.in_flight(), tcb.snd_mss.bytes() as u32);
    let front = tcb.sendq.front()?;
    let fits = front.len <= window.min(congestion).min(mss) && front.marks == 0;
    let fits = fits && (is_last || front.len == mss);
    let nagle = front.len < mss && flight > 0 && !tcb.marks.has(Marks::NO_DELAY);
    // After an idle time longer than the RTO, `next` may have to reset the congestion window.
    let rested = flight == 0 && cx.now.since(tcb.last_sent_at) > tcb.rtt.shortest();
    if !fits || nagle || rested {
        return None;
    }
    let mbuf = tcb.sendq.front_mut()?.mbuf.as_mut()?;
    if !mbuf.has(MbufFlags::SUMMED) {
        return None;
    }
    mbuf.set_segment_size(0);
    let payload = Sum(mbuf.csum());
    let mut share = share_or_copy(mbuf, cx)?;
    share.clear(MbufFlags::SUMMED);
    let (marks, flags) =
        if is_last { (Piece::PUSH, Flags::ACK | Flags::PSH) } else { (0, Flags::ACK) };
    let seq = go(tcb, marks, cx);
    sent_something(tcb, cx);
    Some((share, seq, flags, payload))
}
