//! Reading: by copy or by taking buffers; and the window, which opens when the user has read.
//!
//! Called by: `stack/socket/`. RFC 9293 sections 3.8.6.2.2 and 3.10.4.

use mbuf::Mbuf;

use crate::marks::{Marks, Todo};
use crate::receive::tuning;
use crate::state::{CallError, State};
use crate::tcb::Tcb;
use crate::{Cx, urgent};

/// Copy received data to `into`, up to the urgent mark, and return the number of bytes. 0 means
/// that the peer has closed and all data was read.
///
/// # Errors
/// [`CallError::WouldBlock`] if there is no data yet.
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

/// Is the data that waits to be read a single buffer of at most `len` bytes?
#[inline(always)]
pub fn is_one_buffer(tcb: &Tcb, len: usize) -> bool {
    tcb.receive.is_one(len) && !tcb.marks.has(Marks::URGENT)
}

/// [`read`] if [`is_one_buffer`].
///
/// # Errors
/// Those of [`read`].
#[inline(never)]
pub fn read_alone(tcb: &mut Tcb, into: &mut [u8], cx: &mut Cx) -> Result<usize, CallError> {
    let Some(n) = tcb.receive.read_one(into, &mut cx.pool) else {
        return nothing_to_read(tcb);
    };
    tuning::after_read(tcb, cx);
    window_may_open(tcb);
    Ok(n)
}

/// [`read`] without a copy: `look` is called with each piece of the received data, in order. While
/// urgent data is pending, `look` gets one piece at most, up to the mark. Returns the number of
/// bytes that `look` got.
///
/// # Errors
/// [`CallError::WouldBlock`] if there is no data yet.
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

/// Like [`read`], but the data stays in the receive buffer.
///
/// # Errors
/// [`CallError::WouldBlock`] if there is no data yet.
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

/// Take the oldest received buffer; `None` means that the peer has closed and all data was read.
///
/// # Errors
/// [`CallError::WouldBlock`] if there is no data yet.
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

/// The result of a read without data: RFC 9293 MUST-12, the user learns whether the peer closed or
/// aborted.
fn nothing_to_read(tcb: &Tcb) -> Result<usize, CallError> {
    match tcb.error {
        Some(error) => Err(CallError::Failed(error)),
        None if tcb.receive_finished() || tcb.marks.has(Marks::SHUT_READ) => Ok(0),
        None if tcb.state == State::Closed => Err(CallError::Closed),
        None => Err(CallError::WouldBlock),
    }
}

/// The user read data: send a window update once it is large enough. RFC 9293 section 3.8.6.2.2
/// requires half the buffer or one segment; like 4.4BSD we wait for two segments and a quarter of
/// the buffer, or half of it.
/// RFC 9293 MUST-39.
#[inline]
fn window_may_open(tcb: &mut Tcb) {
    // Space beyond what the window field can express is no gain.
    let most = tcb.rcv_wscale.unscale(u16::MAX);
    let limit = (tcb.receive.limit_bytes() as u32).min(most);
    let gain = (tcb.receive.space() as u32).min(most).saturating_sub(tcb.rcv_wnd());
    let two_segments = 2 * u32::from(tcb.rcv_mss);
    if gain < two_segments.min(limit / 2) {
        // The usual case after a read: less than each threshold below.
        return;
    }
    let worth_it = (gain >= two_segments && gain >= limit / 4) || gain >= limit / 2;
    // A gain of less than one unit of the window scale does not open a window.
    let unit = tcb.rcv_wscale.unscale(1);
    let shut = tcb.rcv_wnd() == 0 && gain >= two_segments.min(limit / 2).max(unit);
    if (worth_it || shut) && tcb.state.peer_may_send() {
        tcb.todo.set(Todo::ACK_NOW);
    }
}
