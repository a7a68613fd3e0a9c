//! Undo: evidence that a retransmission was spurious, because the original had arrived. The
//! reduction of cwnd is then taken back.
//!
//! Called by: recovery. Eifel detection by timestamps (RFC 3522), D-SACK (RFC 2883, RFC 3708), and
//! F-RTO (RFC 5682) after a time-out without timestamps.

use base::{SeqNumber, Switch};

use crate::Cx;
use crate::marks::Marks;
use crate::recovery::sack::News;
use crate::recovery::scoreboard::Phase;
use crate::tcb::Tcb;

/// Evidence about the losses of an episode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// cwnd was reduced, and that can be undone.
    reduced: bool,
    /// SND.UNA at that time.
    from: SeqNumber,
    /// Bytes retransmitted since.
    resent: u32,
    /// How many of them an echoed timestamp shows to have arrived at the first transmission.
    by_echo: u32,
    /// For how many of them a D-SACK reports that both transmissions arrived.
    by_duplicate: u32,
    /// State of F-RTO.
    pub(crate) frto: Frto,
}

/// RFC 5682 section 3: is a time-out genuine?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frto {
    /// Not active.
    Off,
    /// The first segment was retransmitted; the next ACK decides.
    First,
    /// That ACK advanced SND.UNA: send new data instead of further retransmissions.
    NewData,
}

impl Evidence {
    pub(crate) const NONE: Evidence = Evidence {
        reduced: false,
        from: SeqNumber(0),
        resent: 0,
        by_echo: 0,
        by_duplicate: 0,
        frto: Frto::Off,
    };

    /// cwnd has just been reduced.
    pub(crate) fn begin(una: SeqNumber) -> Evidence {
        Evidence { reduced: true, from: una, ..Evidence::NONE }
    }

    /// Count retransmitted bytes.
    pub(crate) fn resent(&mut self, bytes: u32) {
        self.resent = self.resent.saturating_add(bytes);
    }

    /// Bytes retransmitted in this episode.
    pub(crate) fn resent_bytes(&self) -> u32 {
        self.resent
    }
}

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

/// One step of F-RTO with SACK (RFC 5682 section 3.1): if data arrives that was not retransmitted,
/// the time-out was spurious.
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
