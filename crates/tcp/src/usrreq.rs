//! What the user of a connection can ask for: open, write, read, shut down, close, abort.
//!
//! Called by: `stack/socket/`. Each call only changes state; the stack then
//! calls `output`.
//! RFC 9293 section 3.9.1 (the user interface) and 3.10.

use std::sync::Arc;

use base::{Instant, Switch};
use mbuf::Mbuf;
use wire::checksum::{Ladder, Sum};

use crate::marks::{Events, Marks, Todo};
use crate::opening::Opening;
use crate::receive::tuning;
use crate::sendq::Piece;
use crate::state::{Error, State};
use crate::tcb::Tcb;
use crate::{Config, Cx, handshake, send_tuning, urgent};

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError {
    /// Nothing can be taken or given now; an event will tell when.
    WouldBlock,
    /// This side was closed for writing, or never was open.
    Closed,
    /// The connection ended.
    Failed(Error),
}

/// Active open, RFC 9293 section 3.10.1: a connection in SYN-SENT.
pub fn connect(config: &Arc<Config>, opening: &Opening, cx: &mut Cx) -> Tcb {
    let mut tcb = Tcb::new(config, opening);
    tcb.marks.set(Marks::ACTIVE);
    tcb.state = State::SynSent;
    handshake::send_syn(&mut tcb, cx);
    tcb
}

/// Queue data: as much as the send buffer admits, but no more than a few units beyond what could
/// be sent so far, so that copying and sending overlap. Returns how many bytes were taken.
///
/// # Errors
/// [`CallError::WouldBlock`] when there is no room; an event tells when there is.
#[inline(always)]
pub fn write(tcb: &mut Tcb, data: &[u8], cx: &mut Cx) -> Result<usize, CallError> {
    let room =
        if has_room(tcb, data.len()) { data.len() } else { write_room(tcb, cx)?.min(data.len()) };
    let unit = unit_bytes(tcb);
    let taken = tcb.sendq.append(&data[..room], unit, sums(tcb, cx), &mut cx.pool);
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

/// Is data of `len` bytes a segment at most, with room for all of it and nothing waiting before it?
#[inline(always)]
pub fn is_alone(tcb: &Tcb, len: usize) -> bool {
    (1..=tcb.snd_mss.bytes()).contains(&len) && tcb.sendq.unsent_count() == 0 && has_room(tcb, len)
}

/// [`write`] for data that [`is_alone`].
///
/// # Errors
/// [`CallError::WouldBlock`] without a buffer; an event tells when there is one.
#[inline(never)]
pub fn write_alone(tcb: &mut Tcb, data: &[u8], cx: &mut Cx) -> Result<usize, CallError> {
    if tcb.sendq.append_alone(data, sums(tcb, cx), &mut cx.pool).is_none() {
        no_memory(tcb, cx);
        return Err(CallError::WouldBlock);
    }
    tcb.todo.set(Todo::OUTPUT);
    Ok(data.len())
}

/// The stack has no buffers for a writer. If nothing is in flight whose ACK would have it try
/// again, a timer does.
#[cold]
fn no_memory(tcb: &mut Tcb, cx: &Cx) {
    tcb.marks.set(Marks::WRITE_BLOCKED);
    if tcb.in_flight() == 0 && tcb.may_send() && tcb.timers.retransmit == Instant::NEVER {
        tcb.restart_retransmit(cx.now);
    }
}

/// Queue a buffer that the user filled: no byte is copied. At most [`unit_bytes`] long. Its sum, if
/// it is known already, is that of all its bytes.
///
/// # Errors
/// The buffer comes back with the reason.
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

/// Bytes that a write would take now: not 0.
///
/// # Errors
/// [`CallError::WouldBlock`] when there is no room; an event tells when there is.
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

/// Is there room for `len` bytes by the least that every connection has? [`write_room`] would say
/// so as well, after it had asked what more there is.
#[inline(always)]
fn has_room(tcb: &Tcb, len: usize) -> bool {
    let ahead = tcb.sendq.unsent_bytes() + len;
    tcb.state == State::Established
        && tcb.snd_mss.bytes() >= send_tuning::SMALL_BYTES
        && !tcb.marks.has(Marks::SHUT_WRITE)
        && ahead <= tcb.config.unsent_limit_bytes as usize
        && ahead + tcb.in_flight() as usize <= tcb.config.send_buffer_bytes as usize
}

/// Bytes a write would take now.
pub(crate) fn write_room(tcb: &Tcb, cx: &mut Cx) -> Result<usize, CallError> {
    if let Some(error) = tcb.error {
        return Err(CallError::Failed(error));
    }
    let open = matches!(
        tcb.state,
        State::SynSent | State::SynReceived | State::Established | State::CloseWait
    );
    if !open || tcb.marks.has(Marks::SHUT_WRITE) {
        return Err(CallError::Closed);
    }
    let queued = tcb.sendq.unsent_bytes() + tcb.in_flight() as usize;
    let least = send_tuning::affordable(tcb, tcb.config.send_buffer_bytes as usize);
    let buffer = least.saturating_sub(queued);
    // Two units at least: the last one waits for more. Of a large window a part, so that a writer
    // who is woken by ACKs is back before all of it has left.
    let window = tcb.cc.cwnd.min(u64::from(tcb.snd_wnd)) as usize;
    let most = send_tuning::affordable(tcb, tcb.config.unsent_limit_bytes as usize);
    let most = most.max(2 * unit_bytes(tcb)).max(window / 16);
    let ahead = most.saturating_sub(tcb.sendq.unsent_bytes());
    let grows = tcb.config.send_buffer_max_bytes > tcb.config.send_buffer_bytes;
    if buffer < ahead && grows && unit_bytes(tcb) >= send_tuning::SMALL_BYTES {
        return Ok(send_tuning::send_room(tcb, queued, cx).min(ahead));
    }
    Ok(buffer.min(ahead))
}

/// Bytes of the mbufs that data is cut into: one segment, or one super-segment of whole ones.
/// RFC 9293 SHLD-28.
#[inline]
pub fn unit_bytes(tcb: &Tcb) -> usize {
    let mss = tcb.snd_mss.bytes();
    let most = tcb.super_max_bytes as usize;
    if most > mss { most - most % mss } else { mss }
}

/// How sums are taken while copying, and whether in the same pass; not at all where a device
/// finishes checksums.
#[inline]
pub fn sums(tcb: &Tcb, cx: &Cx) -> Option<(Ladder, bool)> {
    tcb.makes_checksums(cx).then(|| (cx.ladder, cx.switches.on(Switch::FusedSum)))
}

/// Copy received data out, up to a mark of urgent data; 0 means the peer has closed and all was
/// read.
///
/// # Errors
/// [`CallError::WouldBlock`] when nothing is there yet.
#[inline(never)]
pub fn read(tcb: &mut Tcb, into: &mut [u8], cx: &mut Cx) -> Result<usize, CallError> {
    let mut into = into;
    if tcb.marks.has(Marks::URGENT) {
        let most = urgent::up_to_mark(tcb, into.len());
        into = &mut into[..most];
    }
    let n = tcb.receive.read(into, &mut cx.pool);
    if n == 0 && !into.is_empty() {
        return nothing_to_read(tcb);
    }
    tuning::after_read(tcb, cx);
    window_may_open(tcb);
    Ok(n)
}

/// Is one buffer of `len` bytes at most all that waits to be read?
#[inline(always)]
pub fn is_one_buffer(tcb: &Tcb, len: usize) -> bool {
    tcb.receive.is_one(len) && !tcb.marks.has(Marks::URGENT)
}

/// [`read`] where [`is_one_buffer`].
///
/// # Errors
/// As of [`read`].
#[inline(never)]
pub fn read_alone(tcb: &mut Tcb, into: &mut [u8], cx: &mut Cx) -> Result<usize, CallError> {
    let Some(n) = tcb.receive.read_one(into, &mut cx.pool) else {
        return nothing_to_read(tcb);
    };
    tuning::after_read(tcb, cx);
    window_may_open(tcb);
    Ok(n)
}

/// [`read`], but `look` is shown all that waits where it lies, in order and piece by piece, and
/// nothing is copied; up to a mark of urgent data one piece. Returns how many bytes were shown.
///
/// # Errors
/// [`CallError::WouldBlock`] when nothing is there yet.
pub fn read_in_place(
    tcb: &mut Tcb,
    cx: &mut Cx,
    mut look: impl FnMut(&[u8]),
) -> Result<usize, CallError> {
    if tcb.marks.has(Marks::URGENT) {
        let Some(m) = read_mbuf(tcb, cx)? else { return Ok(0) };
        look(m.as_slice());
        let n = m.len();
        cx.pool.free(m);
        return Ok(n);
    }
    let n = tcb.receive.use_up(&mut cx.pool, look);
    if n == 0 {
        return nothing_to_read(tcb);
    }
    tuning::after_read(tcb, cx);
    window_may_open(tcb);
    Ok(n)
}

/// [`read`], but what is copied stays to be read.
///
/// # Errors
/// [`CallError::WouldBlock`] when nothing is there yet.
pub fn peek(tcb: &mut Tcb, into: &mut [u8]) -> Result<usize, CallError> {
    if tcb.receive.is_empty() && !into.is_empty() {
        return nothing_to_read(tcb);
    }
    let mut into = into;
    if tcb.marks.has(Marks::URGENT) {
        let most = urgent::up_to_mark(tcb, into.len());
        into = &mut into[..most];
    }
    let (mut taken, mut done) = (Vec::new(), 0);
    while done < into.len() {
        let Some(m) = tcb.receive.take() else { break };
        let n = m.len().min(into.len() - done);
        mbuf::copy(&m.as_slice()[..n], &mut into[done..done + n]);
        done += n;
        taken.push(m);
    }
    taken.into_iter().rev().for_each(|m| tcb.receive.put_back(m));
    Ok(done)
}

/// Take the oldest received buffer itself; `None` means the peer has closed and all was read.
///
/// # Errors
/// [`CallError::WouldBlock`] when nothing is there yet.
pub fn read_mbuf(tcb: &mut Tcb, cx: &mut Cx) -> Result<Option<Mbuf>, CallError> {
    let urgent = tcb.marks.has(Marks::URGENT);
    match if urgent { urgent::take(tcb, cx) } else { tcb.receive.take() } {
        Some(m) => {
            tuning::after_read(tcb, cx);
            window_may_open(tcb);
            Ok(Some(m))
        }
        None => nothing_to_read(tcb).map(|_| None),
    }
}

/// RFC 9293 MUST-12.
fn nothing_to_read(tcb: &Tcb) -> Result<usize, CallError> {
    match tcb.error {
        Some(error) => Err(CallError::Failed(error)),
        None if tcb.receive_finished() || tcb.marks.has(Marks::SHUT_READ) => Ok(0),
        None if tcb.state == State::Closed => Err(CallError::Closed),
        None => Err(CallError::WouldBlock),
    }
}

/// The reader made room: say so once it is worth a segment. RFC 9293 section 3.8.6.2.2 asks for
/// half the buffer or one segment; like 4.4BSD we wait for two segments and a quarter, or half.
/// RFC 9293 MUST-39.
#[inline]
fn window_may_open(tcb: &mut Tcb) {
    // What the header's field cannot say is no gain.
    let most = tcb.rcv_wscale.unscale(u16::MAX);
    let limit = (tcb.receive.limit_bytes() as u32).min(most);
    let gain = (tcb.receive.space() as u32).min(most).saturating_sub(tcb.rcv_wnd());
    let two_segments = 2 * u32::from(tcb.rcv_mss);
    if gain < two_segments.min(limit / 2) {
        // As after most reads: less than any of what is asked for below.
        return;
    }
    let worth_it = (gain >= two_segments && gain >= limit / 4) || gain >= limit / 2;
    // Less than a unit of its scale does not open a window.
    let unit = tcb.rcv_wscale.unscale(1);
    let shut = tcb.rcv_wnd() == 0 && gain >= two_segments.min(limit / 2).max(unit);
    if (worth_it || shut) && tcb.state.peer_may_send() {
        tcb.todo.set(Todo::ACK_NOW);
    }
}

/// Turn Nagle's algorithm on or off (RFC 9293 section 3.7.4); what it held back may leave.
/// RFC 9293 MUST-17.
pub fn set_no_delay(tcb: &mut Tcb, on: bool) {
    if on {
        tcb.marks.set(Marks::NO_DELAY);
        tcb.todo.set(Todo::OUTPUT);
    } else {
        tcb.marks.clear(Marks::NO_DELAY);
    }
}

/// Is Nagle's algorithm off?
pub fn no_delay(tcb: &Tcb) -> bool {
    tcb.marks.has(Marks::NO_DELAY)
}

/// Hold back a segment that is not full until more is written, or let go what was held back.
pub fn set_cork(tcb: &mut Tcb, on: bool) {
    if on {
        tcb.marks.set(Marks::CORK);
    } else {
        tcb.marks.clear(Marks::CORK);
        tcb.todo.set(Todo::OUTPUT);
    }
}

/// Is a segment that is not full held back?
pub fn cork(tcb: &Tcb) -> bool {
    tcb.marks.has(Marks::CORK)
}

/// What was written last ends a record: it shares no segment with what is written next.
pub fn end_record(tcb: &mut Tcb) {
    tcb.sendq.mark_last(Piece::RECORD);
}

/// More is about to be written behind what was written last: its segment is not pushed.
pub fn more_follows(tcb: &mut Tcb) {
    tcb.sendq.mark_last(Piece::MORE);
}

/// Hold back nothing from the next write on; what is held back by now stays, until a time-out, an
/// ACK or that write.
pub fn forget_cork(tcb: &mut Tcb) {
    tcb.marks.clear(Marks::CORK);
}

/// Change settings that count from now on: buffers, user time-out, keepalive. What was agreed in
/// the handshake stays as it is.
pub fn configure(tcb: &mut Tcb, change: impl FnOnce(&mut Config), cx: &mut Cx) {
    let mut config = *tcb.config;
    change(&mut config);
    let keepalive = config.keepalive_idle;
    // `set_keepalive` sees the difference.
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

/// No more will be written: a FIN follows what is queued.
pub fn shutdown_write(tcb: &mut Tcb) {
    if tcb.marks.has(Marks::SHUT_WRITE) {
        return;
    }
    tcb.marks.set(Marks::SHUT_WRITE);
    tcb.todo.set(Todo::OUTPUT);
}

/// No more will be read: what comes is acknowledged and thrown away.
pub fn shutdown_read(tcb: &mut Tcb, cx: &mut Cx) {
    tcb.marks.set(Marks::SHUT_READ);
    tcb.receive.clear(&mut cx.pool);
    tcb.events.set(Events::READABLE);
}

/// The user lets go. With data unread the peer is told by a RST (RFC 2525 section 2.17);
/// otherwise what is queued is still sent, then a FIN.
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

/// End the connection at once: RST to the peer, queues thrown away (RFC 9293 section 3.10.5).
pub fn abort(tcb: &mut Tcb, cx: &mut Cx) {
    let tell = tcb.state.is_synchronised() && tcb.state != State::TimeWait
        || tcb.state == State::SynReceived;
    clear(tcb, cx);
    tcb.fail(Error::Aborted);
    if tell {
        tcb.todo.set(Todo::RST);
    }
}

/// A half-open connection ends without a word to the peer, whose place another gets.
pub fn give_way(tcb: &mut Tcb) {
    tcb.todo = Todo::default();
    tcb.fail(Error::Aborted);
}

/// The path to the peer is gone: nothing is sent any more, received data can be read.
pub fn lose_network(tcb: &mut Tcb, cx: &mut Cx) {
    tcb.sendq.clear(&mut cx.pool);
    tcb.reassembly.clear(&mut cx.pool);
    tcb.todo = Todo::default();
    tcb.fail(Error::NetworkDown);
}

/// Give every buffer back.
pub fn clear(tcb: &mut Tcb, cx: &mut Cx) {
    tcb.sendq.clear(&mut cx.pool);
    tcb.receive.clear(&mut cx.pool);
    tcb.reassembly.clear(&mut cx.pool);
    tuning::release(tcb, cx);
}
