//! TCP tracking: may this segment be of this connection? Windows as both sides have advertised
//! them, the phases of a connection, and the cases in which correct peers seem not to be correct.
//!
//! Called by: `pass.rs`, `insert.rs`. Guido van Rooij, "Real Stateful TCP Packet Filtering in IP
//! Filter", 2000, whose four bounds `window` checks; RFC 9293, RFC 5961 (challenge ACKs), RFC 7323
//! (scaling), RFC 7413 (data on SYN), RFC 5382 section 4.2. Counters: `filter_window`,
//! `filter_tcp_state`.

mod handshake;
mod pickup;

use base::DropReason::{self, FilterTcpState, FilterWindow};
use base::SeqNumber;
use wire::tcp::Flags;

use super::record::{Common, Side, flag};
use super::segment::{NO_SCALE, Segment, Usual};
use super::timeouts::Phase;

pub(super) use handshake::{Opening, begin};
pub(super) use pickup::pick_up;

/// An ACK may be this far behind the data that was sent, if the windows are smaller than that: the
/// paper's constant, a little more than the largest window without scaling.
const ACK_DISTANCE_MIN: u32 = 66_000;
/// A repeated SYN may lack the data that the first one had, at most this much.
const SYN_DATA_MAX: u32 = 65_535;

/// What a segment does to its state, if it passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It is counted, and the state lives on.
    Counts,
    /// It is counted, but the state does not live longer for it.
    Late,
    /// It begins a new connection.
    NewFlow,
}

/// Judge a segment that goes in the direction `from`: 0 is the original direction, 1 the reply's.
/// RFC 5382 REQ-2.
#[inline(always)]
pub(super) fn judge(c: &mut Common, from: usize, seg: &Segment) -> Result<Effect, DropReason> {
    const CONTROLS: u8 = Flags::SYN.0 | Flags::FIN.0 | Flags::RST.0;
    let is_plain = seg.flags.0 & CONTROLS == 0;
    if is_plain && c.phase == Phase::TcpEstablished && !c.has(flag::LOOSE) {
        window(c, from, seg)?;
        return Ok(Effect::Counts);
    }
    // The copy lets the usual segment stay in registers.
    let seg = *seg;
    rare(c, from, &seg)
}

#[cold]
#[inline(never)]
fn rare(c: &mut Common, from: usize, seg: &Segment) -> Result<Effect, DropReason> {
    if seg.is_first() && c.phase.is_over() {
        // RFC 9293 MUST-13's exception, and what a peer without TIME-WAIT does.
        return Ok(Effect::NewFlow);
    }
    if pickup::is_picking_up(c) {
        return Ok(pickup::segment(c, from, seg));
    }
    if c.has(flag::LOOSE) {
        return Ok(loose(c, from, seg));
    }
    if c.phase == Phase::TcpSynSent {
        return handshake::syn_sent(c, from, seg);
    }
    if seg.is_first() {
        return handshake::syn(c, from, seg);
    }
    if seg.flags.contains(Flags::RST) {
        return reset(c, from, seg);
    }
    if seg.flags.contains(Flags::SYN) {
        return handshake::syn_ack(c, from, seg);
    }
    if c.phase == Phase::TcpReset {
        return after_reset(c, from, seg);
    }
    synchronized(c, from, seg)?;
    Ok(Effect::Counts)
}

/// Judge a segment as nearly all are, of an established connection whose windows are checked.
#[inline(always)]
pub(super) fn usual(c: &mut Common, from: usize, seg: &Usual) -> Result<(), DropReason> {
    let advertised = u32::from(seg.window) << c.scale(from);
    bounds(c, from, seg.end, (seg.ack, seg.ack), advertised)
}

/// The four bounds of the paper for any segment.
#[inline(always)]
fn window(c: &mut Common, from: usize, seg: &Segment) -> Result<(), DropReason> {
    // The window of a SYN is never scaled, RFC 7323 section 2.2.
    let is_syn = seg.flags.contains(Flags::SYN);
    let scale = if is_syn { 0 } else { c.scale(from) };
    bounds(c, from, seg.end(), (seg.ack, seg.sack), u32::from(seg.window) << scale)
}

/// The four bounds of the paper, and what the segment says of windows.
#[inline(always)]
fn bounds(
    c: &mut Common,
    from: usize,
    end: SeqNumber,
    (ack, sack): (SeqNumber, SeqNumber),
    advertised: u32,
) -> Result<(), DropReason> {
    let [a, b] = &mut c.sides;
    let (me, other) = if from == 0 { (a, b) } else { (b, a) };
    let ack_distance = me.max_window.max(ACK_DISTANCE_MIN);
    // Data up to the right edge of the other side's window. A FIN may be right behind a full
    // window, and a probe of a closed window is one byte behind it.
    let fits = end.le(me.max_end + 1)
        // Nothing that ends before the last window: the receiver has all of it. The paper takes the
        // first byte, which drops old data with new data behind it, cut in another way and
        // overtaken. A FIN or a probe that went over the edge of a full window makes it a byte
        // longer. A keep-alive is one byte older than the next data.
        & end.ge(me.end - other.max_window.max(1) - 1)
        // No ACK for data that was not sent.
        & ack.le(other.end)
        // An ACK lags behind the data by a window. With a hole, the edge of SACK blocks is nearer.
        & sack.ge(other.end - ack_distance);
    if !fits {
        return Err(FilterWindow);
    }
    me.end = me.end.max(end);
    me.max_window = me.max_window.max(advertised);
    other.max_end = other.max_end.max(ack + advertised.max(1));
    Ok(())
}

/// A segment with ACK, without SYN and RST, once both SYNs were seen.
fn synchronized(c: &mut Common, from: usize, seg: &Segment) -> Result<(), DropReason> {
    if c.has(flag::UNSURE) && from == 0 {
        let right = seg.ack + (u32::from(seg.window) << c.scale(0)).max(1);
        (c.sides[1].end, c.sides[1].max_end) = (seg.ack, right);
        c.flags &= !flag::UNSURE;
    }
    let is_opening = c.phase == Phase::TcpSynReceived;
    // Only the exact number completes a handshake, so that a spoofed source does not. With data
    // before the end of the handshake (RFC 7413) the window has to do.
    let completes = c.has(flag::EARLY_DATA) || seg.ack == c.sides[from ^ 1].end;
    if is_opening && !completes && from == 0 {
        return Err(FilterWindow);
    }
    let before = c.sides[from].end;
    window(c, from, seg)?;
    if is_opening && completes {
        c.flags |= flag::SYN_ACKED << (from ^ 1);
    }
    if is_opening && from == 1 && seg.len > 0 {
        c.flags |= flag::EARLY_DATA;
    }
    if seg.flags.contains(Flags::FIN) {
        c.flags |= flag::FIN << from;
    } else if c.sides[from].end != before {
        // Data behind a FIN: the FIN was forged.
        c.flags &= !(flag::FIN << from);
    }
    let all_acked = seg.ack == c.sides[from ^ 1].end;
    c.phase = if c.phase == Phase::TcpTimeWait && has_both_fins(c) {
        Phase::TcpTimeWait
    } else {
        phase_of(c, all_acked)
    };
    Ok(())
}

fn has_both_fins(c: &Common) -> bool {
    const BOTH: u16 = flag::FIN | flag::FIN << 1;
    c.flags & BOTH == BOTH
}

/// The phase that the flags mean; `all_acked` if this segment acknowledges all that the other side
/// has sent.
fn phase_of(c: &Common, all_acked: bool) -> Phase {
    const SYNS: u16 = flag::SYN_ACKED | flag::SYN_ACKED << 1;
    if c.flags & SYNS != SYNS {
        Phase::TcpSynReceived
    } else if has_both_fins(c) && all_acked {
        Phase::TcpTimeWait
    } else if has_both_fins(c) {
        Phase::TcpClosing
    } else if c.has(flag::FIN | flag::FIN << 1) {
        Phase::TcpHalfClosed
    } else {
        Phase::TcpEstablished
    }
}

/// Is the sequence number of a RST within the window? RFC 5961 section 3.2.
fn is_in_window(c: &Common, from: usize, seq: SeqNumber) -> bool {
    let (me, other) = (&c.sides[from & 1], &c.sides[from & 1 ^ 1]);
    seq.ge(me.end - other.max_window.max(1)) && seq.le(me.max_end + 1)
}

/// A RST once both SYNs were seen. It passes if it is in the window, and shortens the timeout. The
/// endpoint accepts it at the next sequence number alone, and answers others with a challenge ACK
/// (RFC 5961 section 3.2), which contradicts it here too: `after_reset`. RFC 5382 9-a.
fn reset(c: &mut Common, from: usize, seg: &Segment) -> Result<Effect, DropReason> {
    let answers_syn = from == 1
        && c.has(flag::PENDING_SYN)
        && seg.flags.contains(Flags::ACK)
        && seg.ack.0 == c.pair[0];
    if !answers_syn && !is_in_window(c, from, seg.seq) {
        return Err(FilterWindow);
    }
    if c.phase == Phase::TcpReset {
        return Ok(Effect::Late);
    }
    let is_exact = answers_syn || seg.seq == c.sides[from & 1].end;
    c.flags &= !(flag::PENDING_SYN | flag::RST_EXACT | flag::RST_IN_REPLY);
    c.flags |= if is_exact { flag::RST_EXACT } else { 0 };
    c.flags |= if from == 1 { flag::RST_IN_REPLY } else { 0 };
    c.phase = Phase::TcpReset;
    Ok(Effect::Counts)
}

/// A segment after a RST. The sender of a RST sends nothing more, so a segment of its side says
/// that the RST was forged. A segment of the other side says so only if the RST was not exact:
/// else it was on its way already.
fn after_reset(c: &mut Common, from: usize, seg: &Segment) -> Result<Effect, DropReason> {
    if c.sides[from & 1].max_window == 0 || c.sides[from & 1 ^ 1].max_window == 0 {
        return Err(FilterTcpState);
    }
    let is_of_sender = c.has(flag::RST_IN_REPLY) == (from == 1);
    if !is_of_sender && c.has(flag::RST_EXACT) {
        window(c, from, seg)?;
        return Ok(Effect::Late);
    }
    let (phase, flags) = (c.phase, c.flags);
    c.phase = phase_of(c, false);
    if let Err(reason) = synchronized(c, from, seg) {
        (c.phase, c.flags) = (phase, flags);
        return Err(reason);
    }
    Ok(Effect::Counts)
}

/// A segment of a loose state, whose router sees perhaps one direction only. Every one passes, and
/// its flags decide on the phase. A state that has seen one direction alone
/// stays in SYN-RECEIVED, whose timeout is shorter, and which is evicted first: its next segment
/// makes it again.
fn loose(c: &mut Common, from: usize, seg: &Segment) -> Effect {
    c.sides[from & 1].max_window = 1;
    let both_seen = c.sides.iter().all(|side| side.max_window != 0);
    if seg.flags.contains(Flags::RST) {
        c.phase = Phase::TcpReset;
        return Effect::Counts;
    }
    if seg.flags.contains(Flags::FIN) {
        c.flags |= flag::FIN << (from & 1);
    }
    c.phase = if seg.is_first() && !both_seen {
        Phase::TcpSynSent
    } else if has_both_fins(c) && !seg.flags.contains(Flags::FIN) {
        Phase::TcpTimeWait
    } else if has_both_fins(c) {
        Phase::TcpClosing
    } else if both_seen && c.has(flag::FIN | flag::FIN << 1) {
        Phase::TcpHalfClosed
    } else if both_seen {
        Phase::TcpEstablished
    } else {
        Phase::TcpSynReceived
    };
    Effect::Counts
}

/// A side that has sent this SYN.
fn side_of_syn(seg: &Segment) -> Side {
    let window = u32::from(seg.window).max(1);
    Side { end: seg.end(), max_end: seg.seq + 1, max_window: window }
}

fn scale_of_syn(seg: &Segment) -> u8 {
    seg.scale.unwrap_or(NO_SCALE)
}

#[cfg(test)]
mod tests;
