//! How many bytes a write may take and how it is cut, and send buffer auto-tuning: the buffer
//! follows cwnd while memory permits.
//!
//! Called by: usrreq (how much a write may take) and info. Limit: `send_buffer_bytes`. Decision
//! 0027.

use base::Limit;
use mbuf::Class;

use crate::Cx;
use crate::marks::Marks;
use crate::state::{CallError, State};
use crate::tcb::Tcb;

/// The current send buffer in bytes: three windows plus the unsent limit. Two windows are sent
/// after a lost segment until its retransmission is acknowledged, and that takes longer if a queue
/// grows meanwhile.
pub(crate) fn send_buffer(tcb: &Tcb) -> usize {
    let start = tcb.config.send_buffer_bytes as usize;
    let most = tcb.config.send_buffer_max_bytes as usize;
    let window = usize::try_from(tcb.cc.cwnd).unwrap_or(usize::MAX).min(most);
    let wanted = 3 * window + tcb.config.unsent_limit_bytes as usize;
    start.max(wanted.min(most))
}

/// How many more bytes a write may queue once the initial send buffer is full: as many as cwnd
/// calls for, if memory permits.
#[cold]
#[inline(never)]
pub(crate) fn send_room(tcb: &Tcb, queued: usize, cx: &mut Cx) -> usize {
    let start = tcb.config.send_buffer_bytes as usize;
    let buffer = send_buffer(tcb);
    if buffer <= start {
        return start.saturating_sub(queued);
    }
    let in_use = cx.pool.in_use_bytes();
    let most = cx.budget.of(Limit::MbufBytes) / 2;
    let used = if in_use < most { in_use } else { usize::MAX };
    if cx.budget.admits(Limit::SendBufferBytes, used) {
        buffer.saturating_sub(queued)
    } else {
        start.saturating_sub(queued)
    }
}

/// An mbuf with fewer bytes takes more than four times as much memory as its contents.
pub(crate) const SMALL_BYTES: usize = Class::K2.stride() / 4;

/// How many of `bytes` may be queued so that the buffers take at most four times as much memory.
/// The peer chooses the segment size (CVE-2019-11479), and many such peers could otherwise exhaust
/// the buffers. receive/reass.rs limits received data in the same way.
pub(crate) fn affordable(tcb: &Tcb, bytes: usize) -> usize {
    let unit = unit_bytes(tcb);
    if unit >= SMALL_BYTES { bytes } else { bytes / SMALL_BYTES * unit }
}

/// How many bytes a write would take now.
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
    let least = affordable(tcb, tcb.config.send_buffer_bytes as usize);
    let buffer = least.saturating_sub(queued);
    // At least two units, because the last one waits for more data. Also a sixteenth of the window,
    // so that a writer woken by ACKs is back before everything has been sent.
    let window = tcb.cc.cwnd.min(u64::from(tcb.snd_wnd)) as usize;
    let most = affordable(tcb, tcb.config.unsent_limit_bytes as usize);
    let most = most.max(2 * unit_bytes(tcb)).max(window / 16);
    let ahead = most.saturating_sub(tcb.sendq.unsent_bytes());
    let grows = tcb.config.send_buffer_max_bytes > tcb.config.send_buffer_bytes;
    if buffer < ahead && grows && unit_bytes(tcb) >= SMALL_BYTES {
        return Ok(send_room(tcb, queued, cx).min(ahead));
    }
    Ok(buffer.min(ahead))
}

/// Bytes of one mbuf of written data: one segment, or one super-segment of whole segments.
/// RFC 9293 SHLD-28.
#[inline]
pub fn unit_bytes(tcb: &Tcb) -> usize {
    let mss = tcb.snd_mss.bytes();
    let most = tcb.super_max_bytes as usize;
    if most > mss { most - most % mss } else { mss }
}
