//! The rules by which a segment is marked: those of Wireshark's TCP analysis, so that both programs
//! count the same. Wireshark's User's Guide states them (chapter "TCP Analysis"). Where the guide
//! leaves something open, the rule is the behaviour of version 4.0, with which a test compares.
//!
//! Called by: `connection`, for each segment, before it is counted. The rules know only what a
//! capture shows: whether a segment was lost or late is a guess from times.

use base::SeqNumber;
use wire::tcp::Flags;

use crate::marks::Marks;
use crate::packet::Segment;
use crate::side::Side;

/// A retransmission at most this long after the ACK that asks for it is a fast retransmission.
const FAST_NS: u64 = 20_000_000;

/// If the round trip is not known, a segment that is at most this late counts as overtaken, and not
/// as sent again.
const LATE_NS: u64 = 3_000_000;

/// The flags of segments that are neither plain data nor a plain ACK.
const CONTROL: Flags = Flags(Flags::SYN.0 | Flags::FIN.0 | Flags::RST.0);

/// Return the marks of `segment`, which `fwd` sent, and update the state of both directions.
/// `round_trip_ns` is the round trip of the handshake, if the handshake was seen.
pub(crate) fn judge(
    fwd: &mut Side,
    rev: &mut Side,
    segment: &Segment,
    round_trip_ns: Option<u64>,
) -> Marks {
    let mut marks = Marks::NONE;
    probes(fwd, rev, segment, &mut marks);
    if known(segment.ack) != fwd.last_ack {
        fwd.duplicate_acks = 0;
    }
    unseen(rev, segment, &mut marks);
    if segment.space() > 0 && !marks.contains(Marks::KEEP_ALIVE) {
        marks.set(again(fwd, rev, segment, round_trip_ns));
    }
    remember(fwd, segment, marks);
    marks
}

/// Wireshark's rules take the number 0 for "no number", and so does this function. That is wrong
/// for one number in four billion.
fn known(number: SeqNumber) -> Option<SeqNumber> {
    Some(number).filter(|number| number.0 != 0)
}

/// Set the marks that follow from the segment's position, size and window: probes, their answers,
/// gaps, repeated ACKs.
fn probes(fwd: &mut Side, rev: &mut Side, segment: &Segment, marks: &mut Marks) {
    let is_plain = !segment.flags.intersects(CONTROL);
    let (seq, is_next) = (segment.seq, fwd.next == Some(segment.seq));
    if segment.len == 1 && is_next && rev.window == Some(0) {
        marks.set(Marks::ZERO_WINDOW_PROBE);
        return;
    }
    if segment.window == 0 && is_plain {
        marks.set(Marks::ZERO_WINDOW);
    }
    if fwd.next.is_some_and(|next| seq.gt(next)) && !segment.flags.contains(Flags::RST) {
        marks.set(Marks::LOST_SEGMENT);
    }
    if segment.len <= 1 && is_plain && fwd.next.is_some_and(|next| seq == next - 1) {
        marks.set(Marks::KEEP_ALIVE);
    }
    let repeats_ack = fwd.last_ack.is_some() && fwd.last_ack == Some(segment.ack);
    let is_bare = segment.len == 0 && is_plain && is_next;
    let (had, has) = (fwd.window.unwrap_or(0), segment.window);
    if is_bare && repeats_ack && has > 0 && has != had {
        marks.set(Marks::WINDOW_UPDATE);
    }
    if segment.len > 0 && is_plain && fills_window(rev, segment) {
        marks.set(Marks::WINDOW_FULL);
    }
    if !is_bare {
        return;
    }
    if repeats_ack && has > 0 && has == had && rev.last_marks.contains(Marks::KEEP_ALIVE) {
        marks.set(Marks::KEEP_ALIVE_ACK);
        return;
    }
    if repeats_ack && has == 0 && had == 0 && rev.last_marks.contains(Marks::ZERO_WINDOW_PROBE) {
        marks.set(Marks::ZERO_WINDOW_PROBE_ACK);
        return;
    }
    if repeats_ack && has > 0 && has == had {
        fwd.duplicate_acks += 1;
        marks.set(Marks::DUPLICATE_ACK);
    }
}

/// Does the segment end where the receiver's window ends? This is known only if the handshake was
/// seen.
fn fills_window(rev: &Side, segment: &Segment) -> bool {
    let (Some(scale), Some(ack)) = (rev.scale, rev.last_ack) else { return false };
    segment.seq + segment.len == ack + (u32::from(rev.window.unwrap_or(0)) << scale.unwrap_or(0))
}

/// Mark the segment if it acknowledges data that is not in the capture.
fn unseen(rev: &mut Side, segment: &Segment, marks: &mut Marks) {
    if !segment.flags.contains(Flags::ACK) {
        return;
    }
    if rev.ackable.is_some_and(|ackable| segment.ack.gt(ackable)) {
        marks.set(Marks::ACK_LOST_SEGMENT);
        rev.ackable = rev.next;
    }
}

/// The marks of a segment that was sent before or overtaken; none for any other segment.
fn again(fwd: &Side, rev: &Side, segment: &Segment, round_trip_ns: Option<u64>) -> Marks {
    let (seq, end) = (segment.seq, segment.end());
    // A segment that repeats the last byte and continues with other bytes follows a window probe:
    // it counts as new.
    let follows_probe = segment.len > 1 && fwd.next.is_some_and(|next| seq == next - 1);
    let is_old = fwd.next.is_some_and(|next| seq.lt(next)) && !follows_probe;
    if rev.last_ack.is_some_and(|ack| (seq + segment.len).le(ack)) && segment.len > 0 {
        return Marks(Marks::RETRANSMISSION.0 | Marks::SPURIOUS_RETRANSMISSION.0);
    }
    if !is_old {
        return Marks::NONE;
    }
    let is_asked_for = rev.duplicate_acks >= 2 && rev.last_ack == Some(seq);
    if is_asked_for && within(segment.time_ns, rev.last_ack_ns, FAST_NS) {
        return Marks(Marks::RETRANSMISSION.0 | Marks::FAST_RETRANSMISSION.0);
    }
    let late_ns = round_trip_ns.unwrap_or(LATE_NS);
    if within(segment.time_ns, fwd.next_ns, late_ns) && fwd.next != Some(end) {
        return Marks::OUT_OF_ORDER;
    }
    Marks::RETRANSMISSION
}

/// Is `now` less than `limit` after `then`? Times of a capture may go back; then the answer is no.
fn within(now: u64, then: u64, limit: u64) -> bool {
    now.checked_sub(then).is_some_and(|after| after < limit)
}

/// Update the state that the rules need for the next segments.
fn remember(fwd: &mut Side, segment: &Segment, marks: Marks) {
    let end = segment.end();
    if !marks.contains(Marks::ZERO_WINDOW_PROBE) {
        if fwd.next.is_none_or(|next| end.gt(next)) {
            fwd.next = known(end);
            fwd.next_ns = segment.time_ns;
        }
        // Only data without a gap before it can be acknowledged. A segment that fills the gap makes
        // all known data acknowledgeable.
        if fwd.ackable.is_none_or(|ackable| segment.seq == ackable) {
            fwd.ackable = fwd.next;
        }
    }
    fwd.window = Some(segment.window);
    fwd.last_ack = known(segment.ack);
    fwd.last_ack_ns = segment.time_ns;
    fwd.last_marks = marks;
}
