//! The user's calls on a connection: open, write, shut down, close, abort; `read.rs` reads.
//!
//! Called by: `stack/socket/`. Each call only changes state; the stack then calls `output`.
//! RFC 9293 section 3.9.1 (the user interface) and 3.10.

mod read;

use std::sync::Arc;

use base::Instant;
use mbuf::Mbuf;
use wire::checksum::Sum;
use wire::tcp::FastOpen;

use crate::marks::{Events, Marks, Todo};
use crate::opening::Opening;
use crate::receive::tuning;
use crate::send_tuning::{SMALL_BYTES, write_room};
use crate::sendq::Piece;
use crate::state::{Error, State};
use crate::stats::Role;
use crate::tcb::Tcb;
use crate::{Config, Cx, fast_open, handshake};

pub use crate::send_tuning::unit_bytes;
pub use crate::state::CallError;
pub use crate::tcb::sums;
pub use read::{is_one_buffer, peek, read, read_alone, read_in_place, read_mbuf};

/// Active open, RFC 9293 section 3.10.1: a connection in SYN-SENT.
pub fn connect(config: &Arc<Config>, opening: &Opening, cx: &mut Cx) -> Tcb {
    let mut tcb = Tcb::new(config, opening);
    tcb.marks.set(Marks::ACTIVE);
    tcb.state = State::SynSent;
    handshake::send_syn(&mut tcb, cx);
    tcb
}

/// Active open with the first data in the SYN, RFC 7413 section 4.2.1. `says` is the cookie, a
/// request for a cookie, or `None` if the peer is known to want neither. `first` is the data that
/// fits the SYN; it is retransmitted automatically if the peer does not accept it.
pub fn connect_fast_open(
    config: &Arc<Config>,
    opening: &Opening,
    says: Option<FastOpen>,
    first: &[u8],
    cx: &mut Cx,
) -> Tcb {
    let mut tcb = connect(config, opening, cx);
    // The mark makes the stack examine the outcome.
    tcb.marks.set(Marks::EMBRYONIC);
    fast_open::keep(&mut tcb, Role::Client, says);
    let sums = sums(&tcb, cx);
    if !first.is_empty()
        && tcb.sendq.append(first, 0, (first.len(), 0), sums, &mut cx.pool) == first.len()
    {
        let seq = tcb.snd_nxt;
        if let Some(piece) = tcb.sendq.send_front() {
            (piece.seq, piece.sent_at) = (seq, cx.now);
        }
        tcb.snd_nxt += first.len() as u32;
        if let Some(kept) = &mut tcb.stats.rare.fast_open {
            kept.syn_bytes = first.len() as u32;
        }
    }
    tcb
}

/// Queue data: as much as the send buffer admits, but only a few units beyond what has been sent,
/// so that copying and sending overlap. `behind` more bytes of the same write follow. Returns how
/// many bytes were queued.
///
/// # Errors
/// [`CallError::WouldBlock`] if there is no room; an event reports when there is.
#[inline(always)]
pub fn write(tcb: &mut Tcb, data: &[u8], behind: usize, cx: &mut Cx) -> Result<usize, CallError> {
    let room =
        if has_room(tcb, data.len()) { data.len() } else { write_room(tcb, cx)?.min(data.len()) };
    let cuts = (unit_bytes(tcb), tcb.snd_mss.bytes());
    let taken = tcb.sendq.append(&data[..room], behind, cuts, sums(tcb, cx), &mut cx.pool);
    if taken < data.len() {
        tcb.marks.set(Marks::WRITE_BLOCKED);
        if taken < room {
            no_memory(tcb, cx);
        }
    }
    if taken == 0 && !data.is_empty() {
        return Err(CallError::WouldBlock);
    }
    tcb.todo.set(Todo::OUTPUT);
    Ok(taken)
}

/// Do `len` bytes fit one segment, is there room for all of them, and is no other data unsent?
#[inline(always)]
pub fn is_alone(tcb: &Tcb, len: usize) -> bool {
    (1..=tcb.snd_mss.bytes()).contains(&len) && tcb.sendq.unsent_count() == 0 && has_room(tcb, len)
}

/// [`write`] for data that [`is_alone`].
///
/// # Errors
/// [`CallError::WouldBlock`] without a buffer; an event reports when there is one.
#[inline(never)]
pub fn write_alone(tcb: &mut Tcb, data: &[u8], cx: &mut Cx) -> Result<usize, CallError> {
    if tcb.sendq.append_alone(data, sums(tcb, cx), &mut cx.pool).is_none() {
        no_memory(tcb, cx);
        return Err(CallError::WouldBlock);
    }
    tcb.todo.set(Todo::OUTPUT);
    Ok(data.len())
}

/// The pool has no buffers for a write. If nothing is in flight whose ACK would let the writer try
/// again, start the timer that does.
#[cold]
fn no_memory(tcb: &mut Tcb, cx: &Cx) {
    tcb.marks.set(Marks::WRITE_BLOCKED);
    if tcb.in_flight() == 0 && tcb.may_send() && tcb.timers.retransmit == Instant::NEVER {
        tcb.restart_retransmit(cx.now);
    }
}

/// Queue a buffer that the user filled, without a copy. It has at most [`unit_bytes`] bytes. `sum`,
/// if known, is the checksum of all its bytes.
///
/// # Errors
/// The buffer is returned with the reason.
pub fn write_mbuf(
    tcb: &mut Tcb,
    m: Mbuf,
    sum: Option<Sum>,
    cx: &mut Cx,
) -> Result<(), (CallError, Mbuf)> {
    let room = if has_room(tcb, m.len()) { Ok(1) } else { write_room(tcb, cx) };
    match room {
        Ok(1..) => {}
        Ok(0) | Err(CallError::WouldBlock) => {
            tcb.marks.set(Marks::WRITE_BLOCKED);
            return Err((CallError::WouldBlock, m));
        }
        Err(error) => return Err((error, m)),
    }
    if m.is_empty() {
        cx.pool.free(m);
        return Ok(());
    }
    let ladder = sums(tcb, cx).map(|(ladder, _)| ladder);
    tcb.sendq.append_mbuf(m, ladder, sum);
    tcb.todo.set(Todo::OUTPUT);
    Ok(())
}

/// How many bytes a write would take now; never 0.
///
/// # Errors
/// [`CallError::WouldBlock`] if there is no room; an event reports when there is.
pub fn writable(tcb: &mut Tcb, cx: &mut Cx) -> Result<usize, CallError> {
    if tcb.state == State::SynSent {
        return Err(tcb.error.map_or(CallError::WouldBlock, CallError::Failed));
    }
    let room = write_room(tcb, cx)?;
    if room == 0 {
        tcb.marks.set(Marks::WRITE_BLOCKED);
        return Err(CallError::WouldBlock);
    }
    Ok(room)
}

/// Do `len` bytes fit the smallest send buffer and the lowest unsent limit? [`write_room`] would
/// admit them too, but takes more time.
#[inline(always)]
fn has_room(tcb: &Tcb, len: usize) -> bool {
    let ahead = tcb.sendq.unsent_bytes() + len;
    tcb.state == State::Established
        && tcb.snd_mss.bytes() >= SMALL_BYTES
        && !tcb.marks.has(Marks::SHUT_WRITE)
        && ahead <= tcb.config.unsent_limit_bytes as usize
        && ahead + tcb.in_flight() as usize <= tcb.config.send_buffer_bytes as usize
}

/// Turn Nagle's algorithm on or off (RFC 9293 section 3.7.4). Turning it off sends the data that it
/// held back.
/// RFC 9293 MUST-17.
pub fn set_no_delay(tcb: &mut Tcb, on: bool) {
    if on {
        tcb.marks.set(Marks::NO_DELAY);
        tcb.sendq.unmark_last(Piece::GOES_ON);
        tcb.todo.set(Todo::OUTPUT);
    } else {
        tcb.marks.clear(Marks::NO_DELAY);
    }
}

/// Is Nagle's algorithm off?
pub fn no_delay(tcb: &Tcb) -> bool {
    tcb.marks.has(Marks::NO_DELAY)
}

/// Hold back partial segments until more is written (TCP_CORK), or release them.
pub fn set_cork(tcb: &mut Tcb, on: bool) {
    if on {
        tcb.marks.set(Marks::CORK);
    } else {
        tcb.marks.clear(Marks::CORK);
        tcb.todo.set(Todo::OUTPUT);
    }
}

/// Are partial segments held back?
pub fn cork(tcb: &Tcb) -> bool {
    tcb.marks.has(Marks::CORK)
}

/// The last write ends a record: the next write begins a new segment.
pub fn end_record(tcb: &mut Tcb) {
    tcb.sendq.mark_last(Piece::RECORD);
}

/// The user will write more at once: the last segment written is not pushed. The cork, which is set
/// during the call, holds that segment back until an ACK or a time-out.
pub fn more_follows(tcb: &mut Tcb) {
    tcb.sendq.mark_last(Piece::MORE);
}

/// More bytes of the same write follow: the last segment written is not pushed, and a short one
/// waits for these bytes while anything is in flight.
pub fn rest_follows(tcb: &mut Tcb) {
    tcb.sendq.mark_last(Piece::REST);
}

/// Turn the cork off for later writes. Data that is held back now stays until a time-out, an ACK or
/// the next write.
pub fn forget_cork(tcb: &mut Tcb) {
    tcb.marks.clear(Marks::CORK);
}

/// Change settings that take effect at once: buffers, user timeout, keepalive. Values that the
/// handshake negotiated stay.
pub fn configure(tcb: &mut Tcb, change: impl FnOnce(&mut Config), cx: &mut Cx) {
    let mut config = *tcb.config;
    change(&mut config);
    let keepalive = config.keepalive_idle;
    // `set_keepalive` below compares with the old value.
    config.keepalive_idle = tcb.config.keepalive_idle;
    let receive = |c: &Config| (c.receive_buffer_bytes, c.receive_buffer_max_bytes);
    let resized = receive(&config) != receive(&tcb.config);
    if resized {
        tuning::release(tcb, cx);
    }
    if config != *tcb.config {
        *Arc::make_mut(&mut tcb.config) = config;
    }
    if resized {
        tuning::start(tcb);
    }
    if keepalive != tcb.config.keepalive_idle {
        tcb.set_keepalive(keepalive, cx.now);
    }
}

/// No more will be written: a FIN follows the queued data.
pub fn shutdown_write(tcb: &mut Tcb) {
    if tcb.marks.has(Marks::SHUT_WRITE) {
        return;
    }
    tcb.marks.set(Marks::SHUT_WRITE);
    tcb.todo.set(Todo::OUTPUT);
}

/// No more will be read: data that arrives is acknowledged and discarded.
pub fn shutdown_read(tcb: &mut Tcb, cx: &mut Cx) {
    tcb.marks.set(Marks::SHUT_READ);
    tcb.receive.clear(&mut cx.pool);
    tcb.events.set(Events::READABLE);
}

/// The user closes the connection. If data is unread, the peer gets a RST (RFC 2525 section 2.17);
/// otherwise the queued data is sent, then a FIN.
/// RFC 9293 SHLD-3.
pub fn close(tcb: &mut Tcb, cx: &mut Cx) {
    tcb.marks.set(Marks::ORPHAN);
    if tcb.state == State::SynSent {
        tcb.fail(Error::Aborted);
        return;
    }
    if !tcb.receive.is_empty() {
        abort(tcb, cx);
        return;
    }
    if tcb.state == State::FinWait2 {
        tcb.timers.idle = cx.now + tcb.config.fin_wait_2;
    }
    shutdown_write(tcb);
}

/// End the connection at once: send a RST, discard the queues (RFC 9293 section 3.10.5).
pub fn abort(tcb: &mut Tcb, cx: &mut Cx) {
    let tell = tcb.state.is_synchronised() && tcb.state != State::TimeWait
        || tcb.state == State::SynReceived;
    clear(tcb, cx);
    tcb.fail(Error::Aborted);
    if tell {
        tcb.todo.set(Todo::RST);
    }
}

/// End a half-open connection without a RST, to make room for another.
pub fn give_way(tcb: &mut Tcb) {
    tcb.todo = Todo::default();
    tcb.fail(Error::Aborted);
}

/// The port was removed: nothing is sent any more; received data can still be read.
pub fn lose_network(tcb: &mut Tcb, cx: &mut Cx) {
    tcb.sendq.clear(&mut cx.pool);
    tcb.reassembly.clear(&mut cx.pool);
    tcb.todo = Todo::default();
    tcb.fail(Error::NetworkDown);
}

/// Return every buffer to the pool.
pub fn clear(tcb: &mut Tcb, cx: &mut Cx) {
    tcb.sendq.clear(&mut cx.pool);
    tcb.receive.clear(&mut cx.pool);
    tcb.reassembly.clear(&mut cx.pool);
    tuning::release(tcb, cx);
}
