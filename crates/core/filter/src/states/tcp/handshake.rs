//! The handshake: the first segment, SYN-SENT, repeated SYNs, SYN-ACKs, simultaneous open, and SYNs
//! on a connection that one side has forgotten.
//!
//! Called by: `tcp.rs`, `insert.rs` through it. RFC 9293 sections 3.5 and 3.10.7.3, RFC 5961
//! section 4, RFC 7323 section 2.2, RFC 7413 section 4.2, RFC 5382 section 4.2.

use base::DropReason::{self, FilterNoState, FilterTcpState, FilterWindow};
use base::SeqNumber;
use wire::tcp::Flags;

use super::{
    Effect, SYN_DATA_MAX, is_in_window, loose, phase_of, scale_of_syn, side_of_syn, window,
};
use crate::states::record::{Common, Side, flag};
use crate::states::segment::{NO_SCALE, Segment};
use crate::states::timeouts::Phase;

/// How a connection may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::states) enum Opening {
    /// By a SYN alone.
    Syn,
    /// By any segment but a RST: its rule is loose.
    Any,
}

/// Begin to track with the first segment, in the original direction.
///
/// # Errors
/// [`FilterNoState`] for a segment that begins no connection.
pub(in crate::states) fn begin(
    c: &mut Common,
    seg: &Segment,
    opening: Opening,
) -> Result<(), DropReason> {
    if seg.flags.contains(Flags::RST) || !seg.is_first() && opening == Opening::Syn {
        return Err(FilterNoState);
    }
    c.phase = Phase::TcpSynSent;
    open(c, seg);
    if opening == Opening::Any {
        c.flags |= flag::LOOSE;
        loose(c, 0, seg);
    }
    Ok(())
}

/// Remember a SYN of the original side, and forget all else.
fn open(c: &mut Common, seg: &Segment) {
    c.sides = [side_of_syn(seg), Side::default()];
    c.set_scale(0, scale_of_syn(seg));
    c.set_scale(1, NO_SCALE);
    c.flags &= !(flag::SYN_ACKED | flag::SYN_ACKED << 1 | flag::EARLY_DATA | flag::UNSURE);
    c.flags &= !(flag::FIN | flag::FIN << 1 | flag::PENDING_SYN);
    c.phase = Phase::TcpSynSent;
}

/// Does this number acknowledge the SYN of the original side, and no more than that and its data?
fn acks_syn(c: &Common, seg: &Segment) -> bool {
    seg.ack.ge(c.sides[0].max_end) && seg.ack.le(c.sides[0].end)
}

/// A segment while only the original side has sent.
pub(super) fn syn_sent(c: &mut Common, from: usize, seg: &Segment) -> Result<Effect, DropReason> {
    let (syn, ack) = (seg.flags.contains(Flags::SYN), seg.flags.contains(Flags::ACK));
    let is_reset = seg.flags.contains(Flags::RST);
    match (from, syn, ack) {
        // Repeated, or a new attempt with another number.
        (0, true, false) => open(c, seg),
        (0, ..) if is_reset => {
            // A client that the server's old connection has answered resets that one, and sends
            // its SYN again (RFC 9293 section 3.5.1, figure 9).
            if c.sides[1].max_window != 0 && seg.seq == c.sides[1].end {
                return Ok(Effect::Counts);
            }
            let is_own = seg.seq.ge(c.sides[0].max_end - 1) && seg.seq.le(c.sides[0].end);
            return if is_own { Ok(refuse(c, from)) } else { Err(FilterWindow) };
        }
        (0, ..) => return Err(FilterTcpState),
        (_, true, false) => simultaneous(c, seg),
        (_, true, true) if acks_syn(c, seg) => answer(c, seg),
        // RFC 9293 section 3.10.7.3: a RST counts only if its ACK is acceptable.
        _ if is_reset && ack && acks_syn(c, seg) => return Ok(refuse(c, from)),
        _ if is_reset || syn => return Err(FilterWindow),
        // The server has an old connection of this tuple and says where that is.
        _ if seg.len == 0 && !seg.flags.contains(Flags::FIN) => {
            c.sides[1] = Side { end: seg.ack, max_end: seg.ack, max_window: 1 };
        }
        _ => return Err(FilterTcpState),
    }
    Ok(Effect::Counts)
}

fn refuse(c: &mut Common, from: usize) -> Effect {
    c.sides[1] = Side::default();
    c.flags |= flag::RST_EXACT | if from == 1 { flag::RST_IN_REPLY } else { 0 };
    c.phase = Phase::TcpReset;
    Effect::Counts
}

/// Both sides have sent a SYN: RFC 9293 section 3.5 figure 7. RFC 5382 REQ-2a.
fn simultaneous(c: &mut Common, seg: &Segment) {
    receive_syn(c, seg);
    let [original, reply] = &mut c.sides;
    original.max_end = original.end + reply.max_window;
    c.phase = Phase::TcpSynReceived;
}

/// The SYN-ACK.
fn answer(c: &mut Common, seg: &Segment) {
    receive_syn(c, seg);
    c.sides[0].max_end = seg.ack + u32::from(seg.window).max(1);
    c.flags |= flag::SYN_ACKED;
    if seg.len > 0 {
        c.flags |= flag::EARLY_DATA;
    }
    c.phase = Phase::TcpSynReceived;
}

/// Remember the SYN of the reply side. Windows are scaled only if both sides offer it (RFC 7323
/// section 2.2).
fn receive_syn(c: &mut Common, seg: &Segment) {
    let reply = side_of_syn(seg);
    c.sides[1] = Side { max_end: seg.seq + 1 + c.sides[0].max_window, ..reply };
    let scales = [c.scale(0), scale_of_syn(seg)];
    let both = scales.iter().all(|&scale| scale != NO_SCALE);
    c.set_scale(0, if both { scales[0] } else { 0 });
    c.set_scale(1, if both { scales[1] } else { 0 });
}

/// Is this the SYN that the side has sent before, perhaps without its data?
fn is_repeated(c: &Common, from: usize, seg: &Segment) -> bool {
    c.sides[from & 1].end.0.wrapping_sub((seg.seq + 1).0) <= SYN_DATA_MAX
}

/// A SYN without ACK once both sides have sent something, and the connection is not over.
pub(super) fn syn(c: &mut Common, from: usize, seg: &Segment) -> Result<Effect, DropReason> {
    if c.phase == Phase::TcpSynReceived {
        return match (from, is_repeated(c, from, seg)) {
            (_, true) => Ok(Effect::Counts),
            // The client gave up, and tries again from the same port.
            (0, false) => {
                open(c, seg);
                Ok(Effect::Counts)
            }
            _ => Err(FilterTcpState),
        };
    }
    if from != 0 {
        // A server does not open a connection to its client's port: rules did not pass that.
        return Err(FilterTcpState);
    }
    // The client has forgotten the connection. Its peer answers with a challenge ACK (RFC 5961
    // section 4.2), or with a SYN-ACK if it has forgotten it too. An old SYN means nothing.
    if !is_in_window(c, from, seg.seq) {
        let scale = u32::from(scale_of_syn(seg));
        c.pair = [seg.end().0, scale << 16 | u32::from(seg.window)];
        c.flags |= flag::PENDING_SYN;
    }
    Ok(Effect::Counts)
}

/// A SYN-ACK once both sides have sent something.
pub(super) fn syn_ack(c: &mut Common, from: usize, seg: &Segment) -> Result<Effect, DropReason> {
    if c.phase == Phase::TcpSynReceived {
        return opening_syn_ack(c, from, seg);
    }
    if c.sides[1].max_window == 0 {
        return Err(FilterTcpState);
    }
    let Err(reason) = window(c, from, seg) else { return Ok(Effect::Late) };
    let answers = from == 1 && c.has(flag::PENDING_SYN) && seg.ack.0 == c.pair[0];
    if !answers {
        return Err(reason);
    }
    // Both sides have forgotten the old connection: the state goes on with the new one, which the
    // same rule passes, because the SYN came in the original direction.
    let [end, said] = c.pair;
    let window = (said & 0xffff).max(1);
    c.sides[0] = Side { end: SeqNumber(end), max_end: SeqNumber(end), max_window: window };
    c.set_scale(0, (said >> 16) as u8);
    c.flags &= !(flag::PENDING_SYN | flag::FIN | flag::FIN << 1);
    c.flags &= !(flag::SYN_ACKED | flag::SYN_ACKED << 1 | flag::EARLY_DATA | flag::UNSURE);
    answer(c, seg);
    Ok(Effect::Counts)
}

/// A SYN-ACK before the handshake is complete: repeated, of a server whose number depends on the
/// time (SYN cookies), or of a simultaneous open.
fn opening_syn_ack(c: &mut Common, from: usize, seg: &Segment) -> Result<Effect, DropReason> {
    let other = c.sides[from & 1 ^ 1];
    let acks = other.end.0.wrapping_sub(seg.ack.0) <= SYN_DATA_MAX;
    if !acks {
        return Err(FilterWindow);
    }
    if !is_repeated(c, from, seg) {
        let may_change = from == 1 && !c.has(flag::SYN_ACKED << 1);
        if !may_change {
            return Err(FilterWindow);
        }
        let scale = c.scale(0);
        answer(c, seg);
        c.set_scale(0, scale);
        c.flags |= flag::UNSURE;
        return Ok(Effect::Counts);
    }
    let window = u32::from(seg.window).max(1);
    let [a, b] = &mut c.sides;
    let (me, other) = if from == 0 { (a, b) } else { (b, a) };
    me.end = me.end.max(seg.end());
    other.max_end = other.max_end.max(seg.ack + window);
    me.max_window = me.max_window.max(window);
    c.flags |= flag::SYN_ACKED << (from & 1 ^ 1);
    c.phase = phase_of(c, false);
    Ok(Effect::Counts)
}
