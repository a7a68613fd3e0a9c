//! Urgent data, RFC 9293 section 3.8.5: a mark in the stream that is announced to the peer before
//! it has read up to the mark. The bytes always stay in the stream, as RFC 6093 section 6 requires.
//! Decision 0043.
//!
//! Called by: the stack (write, mark, bytes left), input (an urgent pointer arrived), usrreq (reads
//! end at the mark) and output (segments with URG).

use mbuf::Mbuf;
use wire::tcp::{Flags, Header, set_urgent};

use crate::marks::{Events, Marks, Todo};
use crate::state::{CallError, State};
use crate::tcb::Tcb;
use crate::usrreq;
use crate::{Cx, Segment};

/// Queue one byte and mark it as the last urgent byte. Until the peer has acknowledged the byte,
/// every segment that begins before its end carries the urgent pointer. A zero window does not
/// delay the announcement.
///
/// # Errors
/// Those of [`usrreq::write`].
/// RFC 9293 MUST-30.
pub fn write(tcb: &mut Tcb, byte: u8, cx: &mut Cx) -> Result<(), CallError> {
    usrreq::write(tcb, &[byte], 0, cx)?;
    // RFC 9293 MUST-62: the pointer is just past the byte.
    tcb.rare.snd_up = tcb.snd_nxt + tcb.sendq.unsent_bytes() as u32;
    tcb.todo.set(Todo::URGENT);
    if tcb.state.may_send() {
        // Announce the byte now even if it cannot be sent yet.
        tcb.todo.set(Todo::ACK_NOW);
    }
    Ok(())
}

/// Make a segment with `make` while urgent data is pending: without super-segments (a device would
/// copy one pointer to every part), without Nagle and without the cork.
#[cold]
#[inline(never)]
pub(crate) fn announced(
    tcb: &mut Tcb,
    cx: &mut Cx,
    make: impl FnOnce(&mut Tcb, &mut Cx) -> Option<Mbuf>,
) -> Option<Mbuf> {
    const HOLDS: u16 = Marks::NO_DELAY | Marks::CORK;
    tcb.todo.clear(Todo::URGENT);
    if tcb.snd_una.ge(tcb.rare.snd_up) {
        return make(tcb, cx);
    }
    let super_max_bytes = core::mem::replace(&mut tcb.super_max_bytes, 0);
    let held = tcb.marks.0 & HOLDS;
    tcb.marks.clear(Marks::CORK);
    tcb.marks.set(Marks::NO_DELAY);
    let made = make(tcb, cx);
    tcb.marks.clear(HOLDS);
    tcb.marks.set(held);
    tcb.super_max_bytes = super_max_bytes;
    if tcb.state != State::Closed {
        tcb.todo.set(Todo::URGENT);
    }
    let mut m = made?;
    point(tcb, &mut m, cx);
    Some(m)
}

/// Put the urgent pointer into the header of a segment that begins before the end of the urgent
/// data. If the distance exceeds the 16-bit field, a later segment carries the pointer; a smaller
/// value would set a wrong mark.
/// RFC 9293 MUST-31, MUST-62.
fn point(tcb: &Tcb, m: &mut Mbuf, cx: &Cx) {
    let Ok(header) = Header::parse(m.as_slice()) else { return };
    let ahead = u16::try_from(tcb.rare.snd_up.since(header.seq)).unwrap_or(0);
    if ahead == 0 || header.flags.contains(Flags::SYN) || header.flags.contains(Flags::RST) {
        return;
    }
    if let Some(head) = m.headers_mut(wire::tcp::HEADER_LEN) {
        set_urgent(head, ahead, tcb.makes_checksums(cx));
    }
}

/// Sixth step of RFC 9293 section 3.10.7.4: a pointer beyond what was read and announced moves the
/// mark, and the user gets an event. The value is not trusted for anything else.
/// RFC 9293 MUST-31, MUST-32, MUST-62.
pub(crate) fn arrived(tcb: &mut Tcb, seg: &Segment) {
    let deaf = Marks::SHUT_READ | Marks::ORPHAN;
    if !seg.flags.contains(Flags::URG) || !tcb.state.peer_may_send() || tcb.marks.has(deaf) {
        return;
    }
    let up = seg.seq + u32::from(seg.urgent);
    let ahead = i64::from(up.since(tcb.rcv_nxt));
    let Some(up) = tcb.stats.bytes_received.checked_add_signed(ahead) else { return };
    if up > read_bytes(tcb) && up > tcb.rare.rcv_up {
        tcb.rare.rcv_up = up;
        tcb.marks.set(Marks::URGENT);
        tcb.events.set(Events::URGENT);
    }
}

/// Bytes of the stream that the user has read.
fn read_bytes(tcb: &Tcb) -> u64 {
    tcb.stats.bytes_received - tcb.receive.len() as u64
}

/// How many bytes the user has still to read up to the end of the urgent data, including those not
/// received yet; 0 if there are none. The peer's FIN ends urgent data as well.
/// RFC 9293 MUST-33.
pub fn left(tcb: &Tcb) -> u64 {
    if !tcb.marks.has(Marks::URGENT) {
        return 0;
    }
    let end = if tcb.receive_finished() { tcb.stats.bytes_received } else { u64::MAX };
    tcb.rare.rcv_up.min(end).saturating_sub(read_bytes(tcb))
}

/// Is the next byte to read the last urgent one? SIOCATMARK, sockatmark(3).
pub fn at_mark(tcb: &Tcb) -> bool {
    tcb.marks.has(Marks::URGENT) && tcb.rare.rcv_up == read_bytes(tcb) + 1
}

/// The last urgent byte, if it was received and not read, for sockets that deliver it separately.
/// The byte stays in the stream.
pub fn byte(tcb: &mut Tcb) -> Option<u8> {
    let at = left(tcb).checked_sub(1)?;
    let (mut taken, mut before, mut found) = (Vec::new(), 0, None);
    while found.is_none() {
        let Some(m) = tcb.receive.take() else { break };
        found = m.as_slice().get(usize::try_from(at - before).unwrap_or(usize::MAX)).copied();
        before += m.len() as u64;
        taken.push(m);
    }
    taken.into_iter().rev().for_each(|m| tcb.receive.put_back(m));
    found
}

/// How many of `len` bytes a read takes while urgent data is pending: it stops before the last
/// urgent byte, and only the next read goes past it.
#[cold]
pub(crate) fn up_to_mark(tcb: &mut Tcb, len: usize) -> usize {
    match left(tcb) {
        0 => {
            tcb.marks.clear(Marks::URGENT);
            len
        }
        1 => len,
        left => len.min(usize::try_from(left - 1).unwrap_or(usize::MAX)),
    }
}

/// Take the oldest received buffer. If the mark is inside it, it is cut at the mark; if there is no
/// memory for the part, the whole buffer is returned, because data matters more than the mark.
#[cold]
pub(crate) fn take(tcb: &mut Tcb, cx: &mut Cx) -> Option<Mbuf> {
    let mut m = tcb.receive.take()?;
    // Put it back first: the mark is computed from the unread bytes.
    let len = m.len();
    tcb.receive.put_back(m);
    let most = up_to_mark(tcb, len);
    m = tcb.receive.take()?;
    if most < len
        && let Some(part) = cx.pool.copy_of(&m.as_slice()[..most])
    {
        m.trim_front(most);
        tcb.receive.put_back(m);
        return Some(part);
    }
    Some(m)
}
