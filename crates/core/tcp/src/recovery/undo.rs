//! Undo: evidence that a retransmission was spurious, because the original had arrived. The
//! reduction of cwnd is then taken back.
//!
//! Called by: recovery. Eifel detection by timestamps (RFC 3522), D-SACK (RFC 2883, RFC 3708), and
//! F-RTO (RFC 5682) after a time-out without timestamps.

use base::Switch;

use crate::Cx;
use crate::marks::Marks;
use crate::recovery::scoreboard::{Frto, News, Phase};
use crate::tcb::Tcb;

/// Evaluate an ACK; `true` if all of the episode's retransmissions were spurious.
pub(crate) fn was_for_nothing(tcb: &mut Tcb, news: &News, cx: &Cx) -> bool {
    let (una, nxt) = (tcb.snd_una, tcb.snd_nxt);
    let r = &mut *tcb.recovery;
    if let Some((left, right)) = news.duplicate
        && left.ge(r.evidence.from)
    {
        let bytes = right.since(left) as u32;
        r.evidence.by_duplicate = r.evidence.by_duplicate.saturating_add(bytes);
        r.rack.widen(una, nxt);
    }
    r.evidence.by_echo += news.original_bytes;
    if news.original_bytes > 0 && r.phase == Phase::Fast {
        r.rack.widen(una, nxt);
    }
    let frto = frto_says(tcb, news);
    let evidence = &tcb.recovery.evidence;
    let echo = evidence.resent > 0 && evidence.by_echo >= evidence.resent;
    let duplicate = evidence.resent > 0 && evidence.by_duplicate >= evidence.resent;
    evidence.reduced && (echo || duplicate || frto) && cx.switches.on(Switch::Undo)
}

/// Take one step of F-RTO with SACK (RFC 5682 section 3.1): if data arrives that was not
/// retransmitted, the time-out was spurious.
/// RFC 5682 3.1-a, 3.1-b, 3.1-d.
fn frto_says(tcb: &mut Tcb, news: &News) -> bool {
    let with_timestamps = tcb.marks.has(Marks::TIMESTAMPS);
    let unsent = tcb.sendq.unsent_count() > 0;
    if news.delivered == 0 && !news.repeats {
        return false;
    }
    let phase = tcb.recovery.phase;
    let frto = &mut tcb.recovery.evidence.frto;
    if *frto == Frto::Off || with_timestamps || phase != Phase::Loss {
        *frto = Frto::Off;
        return false;
    }
    if news.from_before && news.delivered > 0 {
        let spurious = *frto == Frto::NewData;
        if spurious || !unsent {
            *frto = Frto::Off;
            return spurious;
        }
    }
    *frto =
        if *frto == Frto::First && news.acked > 0 && unsent { Frto::NewData } else { Frto::Off };
    false
}
