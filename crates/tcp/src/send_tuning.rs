//! Send buffer auto-tuning: the buffer follows cwnd while memory permits.
//!
//! Called by: usrreq (how much a write may take) and info. Limit: `send_buffer_bytes`. Decision
//! 0027.

use base::Limit;
use mbuf::Class;

use crate::Cx;
use crate::tcb::Tcb;
use crate::usrreq::unit_bytes;

/// The current send buffer in bytes: three windows plus the unsent limit. Two windows are sent
/// behind a lost segment until its retransmission is acknowledged, and it takes longer if a queue
/// grows meanwhile.
pub(crate) fn send_buffer(tcb: &Tcb) -> usize {
    let start = tcb.config.send_buffer_bytes as usize;
    let most = tcb.config.send_buffer_max_bytes as usize;
    let window = usize::try_from(tcb.cc.cwnd).unwrap_or(usize::MAX).min(most);
    let wanted = 3 * window + tcb.config.unsent_limit_bytes as usize;
    start.max(wanted.min(most))
}

/// How many bytes a write may queue when the initial send buffer is full: as much as cwnd calls
/// for, if memory permits.
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

/// An mbuf with fewer bytes takes more than four times its contents in memory.
pub(crate) const SMALL_BYTES: usize = Class::K2.stride() / 4;

/// How many of `bytes` may be queued so that the buffers take at most four times as much memory.
/// The peer chooses the segment size (CVE-2019-11479), and many such peers could otherwise exhaust
/// the buffers. receive/reass.rs limits received data in the same way.
pub(crate) fn affordable(tcb: &Tcb, bytes: usize) -> usize {
    let unit = unit_bytes(tcb);
    if unit >= SMALL_BYTES { bytes } else { bytes / SMALL_BYTES * unit }
}
