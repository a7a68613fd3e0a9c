//! TIME-WAIT as a small record: only what is needed to answer a late segment.
//!
//! Called by: the stack, which keeps the records in a table with a limit. RFC 9293 section 3.10.7.4
//! (TIME-WAIT), RFC 6191, RFC 1337.

use base::{Budget, DropReason, Duration, Instant, Limit, PerSecond, SeqNumber};
use wire::tcp::Flags;

use crate::marks::Marks;
use crate::tcb::Tcb;
use crate::{Cx, Segment};

/// A connection in TIME-WAIT.
#[derive(Clone, Copy, Debug)]
pub struct TimeWait {
    /// SND.NXT.
    pub snd_nxt: SeqNumber,
    /// RCV.NXT.
    pub rcv_nxt: SeqNumber,
    /// TS.Recent.
    pub ts_recent: u32,
    /// Added to the clock for TSval.
    pub ts_offset: u32,
    /// When the record expires.
    pub expires: Instant,
    /// How long the record is kept.
    pub wait: Duration,
    /// Rate limit of the answers.
    answers: PerSecond,
    /// The window field of the answers.
    pub window: u16,
    /// Timestamps were agreed.
    pub timestamps: bool,
}

/// What the stack does with a segment for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// Drop it.
    Ignore(DropReason),
    /// Answer with an ACK, if [`TimeWait::answer`] permits.
    Answer,
    /// Remove the record and drop the segment.
    End,
    /// A new connection may replace this one: remove the record and pass the segment to the
    /// listener.
    Reopen,
}

impl TimeWait {
    /// The record for a connection that has closed on both sides.
    pub fn new(tcb: &Tcb, cx: &Cx) -> TimeWait {
        TimeWait {
            snd_nxt: tcb.snd_nxt,
            rcv_nxt: tcb.rcv_nxt,
            ts_recent: tcb.ts_recent,
            ts_offset: tcb.ts_offset,
            expires: cx.now + tcb.config.time_wait,
            wait: tcb.config.time_wait,
            answers: PerSecond::default(),
            window: tcb.rcv_wscale.scale(tcb.rcv_wnd()),
            timestamps: tcb.marks.has(Marks::TIMESTAMPS),
        }
    }

    /// May an ACK be sent for this segment now? A repeated FIN of the peer always gets an ACK, and
    /// only such a FIN restarts the wait (RFC 9293 section 3.10.7.4). Other answers are limited per
    /// second, like the answers of an open connection to segments outside its window. So an
    /// attacker cannot make us answer without end, and two ends that doubt each other's ACKs do not
    /// loop (docs/decisions/0014).
    pub fn answer(&mut self, seg: &Segment, now: Instant, budget: &mut Budget) -> bool {
        let fin_again = seg.flags.contains(Flags::FIN)
            && !seg.flags.contains(Flags::SYN)
            && seg.end() == self.rcv_nxt;
        if fin_again {
            self.expires = now + self.wait;
        }
        fin_again || self.answers.admits(Limit::OutOfWindowAcksPerSecond, now, budget)
    }

    /// Decide about a segment. A RST at RCV.NXT, not older by its timestamp, ends the wait (RFC
    /// 9293 section 3.10.7.4): the peer has restarted and will connect again. PAWS averts the
    /// danger that RFC 1337 describes (decision 0107). A SYN that is newer by timestamp or sequence
    /// number may reopen the connection (RFC 6191, RFC 9293 section 3.6.1).
    /// RFC 9293 SHLD-4.
    pub fn input(&self, seg: &Segment) -> Late {
        if seg.flags.contains(Flags::RST) {
            let old = self.timestamps
                && seg
                    .timestamps
                    .is_some_and(|ts| SeqNumber(ts.value).lt(SeqNumber(self.ts_recent)));
            return if seg.seq == self.rcv_nxt && !old {
                Late::End
            } else {
                Late::Ignore(DropReason::TcpTimeWait)
            };
        }
        if seg.flags.contains(Flags::SYN) && !seg.flags.contains(Flags::ACK) {
            let newer = match seg.timestamps {
                Some(ts) if self.timestamps => {
                    let age = ts.value.wrapping_sub(self.ts_recent) as i32;
                    age > 0 || (age == 0 && seg.seq.gt(self.rcv_nxt))
                }
                _ => seg.seq.gt(self.rcv_nxt),
            };
            return if newer { Late::Reopen } else { Late::Answer };
        }
        if seg.space() == 0 && seg.seq == self.rcv_nxt {
            return Late::Ignore(DropReason::TcpTimeWait);
        }
        Late::Answer
    }
}
