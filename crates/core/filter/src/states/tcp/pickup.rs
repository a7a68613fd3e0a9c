//! Windows of a connection that another router has tracked so far: they are taken from the first
//! segments of both directions that fit each other, and checked from then on.
//!
//! Called by: `tcp.rs` for a copy of the partner's state (`copied.rs`). A copy is some seconds old
//! when its router goes away, in which a fast connection moves by more than its sequence space, so
//! that its numbers are no bounds. Of each direction the last segment is kept. When a segment of
//! the other one fits it, each side counts as having sent all that its window allows: the other
//! router may have seen as much, and an ACK for that must pass. The bounds are exact once a window
//! was sent. docs/decisions/0151.

use base::SeqNumber;
use wire::tcp::Flags;

use super::{ACK_DISTANCE_MIN, Effect, has_both_fins, phase_of};
use crate::states::record::{Common, flag};
use crate::states::segment::Segment;
use crate::states::timeouts::Phase;

/// Take windows from the next segments. Meanwhile the state is loose, and a bit for a SYN that was
/// acknowledged says that the side has sent a segment since.
pub(in crate::states) fn pick_up(c: &mut Common) {
    const HEARD: u16 = flag::SYN_ACKED | flag::SYN_ACKED << 1;
    c.flags &= !(HEARD | flag::EARLY_DATA | flag::PENDING_SYN);
    c.flags |= flag::LOOSE | flag::UNSURE;
}

/// Is it a state of that kind?
#[inline]
pub(super) fn is_picking_up(c: &Common) -> bool {
    c.has(flag::LOOSE) && c.has(flag::UNSURE)
}

/// Pass a segment, and take what it says.
pub(super) fn segment(c: &mut Common, from: usize, seg: &Segment) -> Effect {
    let from = from & 1;
    if seg.flags.contains(Flags::RST) {
        // Later segments contradict one that was forged: they set the phase again.
        c.phase = Phase::TcpReset;
        return Effect::Counts;
    }
    if seg.flags.contains(Flags::SYN) {
        // A peer that has forgotten the connection: the other one decides. RFC 5961 section 4.
        c.set_scale(from, seg.scale.unwrap_or(0));
        return Effect::Late;
    }
    if !seg.flags.contains(Flags::ACK) {
        return Effect::Late;
    }
    let window = (u32::from(seg.window) << c.scale(from)).max(1);
    let (heard, other) = (flag::SYN_ACKED << from, flag::SYN_ACKED << (from ^ 1));
    c.sides[from].max_window = c.sides[from].max_window.max(window);
    let fits = c.has(other) && fits(c, from, seg);
    let was_heard = c.has(heard);
    let [a, b] = &mut c.sides;
    let (me, peer) = if from == 0 { (a, b) } else { (b, a) };
    let (before, right) = (*me, seg.ack + window);
    if fits {
        // Of two segments the later one says more, whichever came first.
        me.end = if was_heard && is_near(before.end, seg.end()) {
            before.end.max(seg.end())
        } else {
            seg.end()
        };
        me.end = me.end.max(me.max_end);
        peer.end = peer.end.max(right);
        me.max_end = me.end;
        peer.max_end = peer.end;
        c.flags &= !(flag::LOOSE | flag::UNSURE);
        c.flags |= flag::SYN_ACKED | flag::SYN_ACKED << 1;
    } else {
        me.end = seg.end();
        peer.max_end = right;
        c.flags |= heard;
    }
    if seg.flags.contains(Flags::FIN) {
        c.flags |= flag::FIN << from;
    }
    c.phase = phase(c, seg);
    Effect::Counts
}

/// The phase that the flags mean: both SYNs were acknowledged long ago.
fn phase(c: &Common, seg: &Segment) -> Phase {
    let tracked = Common { flags: c.flags | flag::SYN_ACKED | flag::SYN_ACKED << 1, ..*c };
    let is_last_ack = has_both_fins(c) && !seg.flags.contains(Flags::FIN);
    phase_of(&tracked, is_last_ack)
}

/// Does a segment fit the last one of the other direction? Its ACK is for data near that one, and
/// its data are near the window that the other one has opened.
fn fits(c: &Common, from: usize, seg: &Segment) -> bool {
    let (me, peer) = (&c.sides[from & 1], &c.sides[from & 1 ^ 1]);
    let distance = |window: u32| window.max(ACK_DISTANCE_MIN);
    let (mine, theirs) = (distance(me.max_window), distance(peer.max_window));
    let is_ack_near = is_within(seg.ack, peer.end, mine, mine);
    is_ack_near && is_within(seg.end(), me.max_end, theirs.saturating_mul(2), theirs)
}

/// Is a number from `below` before to `above` behind another one?
fn is_within(number: SeqNumber, of: SeqNumber, below: u32, above: u32) -> bool {
    let distance = i64::from(number.since(of));
    (-i64::from(below)..=i64::from(above)).contains(&distance)
}

fn is_near(one: SeqNumber, other: SeqNumber) -> bool {
    let window = 1 << 30;
    is_within(one, other, window, window)
}
