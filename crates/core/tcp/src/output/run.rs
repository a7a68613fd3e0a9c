//! A run: the segments that one connection sends in one go. Only the first segment goes through all
//! checks. The following segments differ from it only in sequence number and checksum.
//!
//! Called by: `output.rs`, and `stack/tx.rs`, which copies the first segment's headers to the
//! others.

use base::{Instant, SeqNumber};
use mbuf::Mbuf;

use crate::tcb::Tcb;

/// State of a run: how many segments were sent, and whether more equal ones may follow.
#[derive(Default)]
pub struct Run {
    pub(super) segments: u32,
    /// Payload bytes of the last segment, if it was full, plain data and more data follows; else 0.
    pub(super) len: u32,
    /// The last segment is new data of a connection that sends ECT.
    pub(super) ecn_capable: bool,
}

impl Run {
    /// The number of segments sent so far.
    #[inline(always)]
    pub fn segments(&self) -> u32 {
        self.segments
    }

    /// May [`others`] follow the last segment from `next`?
    #[inline(always)]
    pub fn goes_on(&self) -> bool {
        self.len > 0
    }

    /// Does the last segment from `next` leave with ECT(0) in its IP header? Only new data does
    /// (RFC 3168 sections 6.1.4 to 6.1.6).
    #[inline(always)]
    pub fn is_ecn_capable(&self) -> bool {
        self.ecn_capable
    }
}

/// Bytes of new data that the peer's window and the congestion window admit.
/// RFC 9293 MUST-34, SHLD-15. RFC 7323 2.4-a. RFC 5681 3.1-a.
#[inline(always)]
pub(super) fn room(tcb: &Tcb) -> (u32, u32) {
    let window = (tcb.snd_una + tcb.snd_wnd).since(tcb.snd_nxt).max(0) as u32;
    let congestion = tcb.cc.cwnd.saturating_sub(u64::from(tcb.pipe()));
    (window, u32::try_from(congestion).unwrap_or(u32::MAX))
}

/// Do the windows admit the next new segment whole?
#[inline(always)]
pub fn admits_front(tcb: &Tcb) -> bool {
    let (window, congestion) = room(tcb);
    tcb.sendq.front().is_some_and(|front| front.len <= window.min(congestion))
}

/// How many segments [`others`] may send: as many as the windows admit now.
#[inline(always)]
pub fn admitted(tcb: &Tcb, run: &Run) -> usize {
    let (window, congestion) = room(tcb);
    (window.min(congestion) / run.len.max(1)) as usize
}

/// After `next`, if [`Run::goes_on`]: send segments whose headers differ from the last one's only
/// in sequence number and checksum. Sends at most `most` segments, which must be [`admitted`], and
/// never the last one of the queue, which is subject to Nagle, PSH and FIN.
///
/// `make` gets a payload and its first sequence number. If the payload is as long as the last one,
/// `make` shares it, prepends the headers and sends the frame; else it returns `false`. Returns how
/// many segments were sent, and whether there may be more.
#[inline(always)]
pub fn others(
    tcb: &mut Tcb,
    run: &mut Run,
    most: usize,
    now: Instant,
    mut make: impl FnMut(&mut Mbuf, SeqNumber) -> bool,
) -> (usize, bool) {
    let len = run.len;
    let mut seq = tcb.snd_nxt;
    let (count, more) = tcb.sendq.send_alike(len, most, |piece| {
        let is_sent = piece.mbuf.as_mut().is_some_and(|payload| make(payload, seq));
        if is_sent {
            piece.seq = seq;
            piece.sent_at = now;
            seq += len;
        }
        is_sent
    });
    tcb.snd_nxt = seq;
    run.segments += count as u32;
    (count, more)
}

/// The payload of the last segment from `next`, if [`Run::goes_on`].
#[inline(always)]
pub fn last_payload(tcb: &Tcb) -> Option<&Mbuf> {
    tcb.sendq.last_sent()?.mbuf.as_ref()
}
