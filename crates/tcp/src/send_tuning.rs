//! How large a send buffer has to be: it follows the congestion window, while memory lasts.
//!
//! Called by: usrreq (how much a write may take) and info. Limit: `send_buffer_bytes`. Decision
//! 0027.

use base::Limit;
use mbuf::Class;

use crate::Cx;
use crate::tcb::Tcb;
use crate::usrreq::unit_bytes;

/// The send buffer as it is now, in bytes: room for three windows and what waits behind them. Two
/// are behind a lost segment before its loss is found and the retransmission acknowledged, and that
/// takes longer where a queue has grown meanwhile.
pub(crate) fn send_buffer(tcb: &Tcb) -> usize {
    let start = tcb.config.send_buffer_bytes as usize;
    let most = tcb.config.send_buffer_max_bytes as usize;
    let window = usize::try_from(tcb.cc.cwnd).unwrap_or(usize::MAX).min(most);
    let wanted = 3 * window + tcb.config.unsent_limit_bytes as usize;
    start.max(wanted.min(most))
}

/// Bytes that a writer may queue beyond what is there, where the buffer that it began with is full:
/// while memory lasts, as much as the congestion window asks for.
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

/// A buffer with less than this in it costs more than four times what it holds.
pub(crate) const SMALL_BYTES: usize = Class::K2.stride() / 4;

/// What of `bytes` may be queued so that the buffers cost no more than four times as much. A peer
/// chooses the size of segments (CVE-2019-11479), and many such peers would have all the buffers
/// there are. What comes in is bounded alike (receive/reass.rs).
pub(crate) fn affordable(tcb: &Tcb, bytes: usize) -> usize {
    let unit = unit_bytes(tcb);
    if unit >= SMALL_BYTES { bytes } else { bytes / SMALL_BYTES * unit }
}
