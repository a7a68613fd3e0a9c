//! TIME-WAIT as a record of a few words: what is needed to answer a late segment, nothing else.
//!
//! Called by: the stack, which keeps the records in a table of their own with a limit.
//! RFC 9293 section 3.10.7.4 (TIME-WAIT), RFC 6191, RFC 1337.

use base::{Budget, DropReason, Duration, Instant, Limit, PerSecond, SeqNumber};
use wire::tcp::Flags;

use crate::marks::Marks;
use crate::tcb::Tcb;
use crate::{Cx, Segment};

/// A connection in TIME-WAIT.
#[derive(Clone, Copy, Debug)]
pub struct TimeWait {
    /// What we would send next.
    pub snd_nxt: SeqNumber,
    /// What we expect next.
    pub rcv_nxt: SeqNumber,
    /// TS.Recent.
    pub ts_recent: u32,
    /// Added to the clock for TSval.
    pub ts_offset: u32,
    /// When the record goes.
    pub expires: Instant,
    /// How long it stays.
    pub wait: Duration,
    /// Answers in the second that runs.
    answers: PerSecond,
    /// The window field to answer with.
    pub window: u16,
    /// Timestamps were agreed.
    pub timestamps: bool,
}

/// What to do about a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// Drop it.
    Ignore(DropReason),
    /// Answer with an ACK, if [`TimeWait::answer`] says so.
    Answer,
    /// A new connection may take this one's place: forget the record and go to the listener.
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

    /// May an answer to this go out now? The peer's FIN again always gets its ACK, and it alone
    /// starts the wait anew (RFC 9293 section 3.10.7.4). Like any connection's answers to what is
    /// outside its window the others are few in a second and all say the same: a stranger cannot
    /// make us answer without end, nor can a peer that takes our ACK for as doubtful as we took its
    /// own (docs/decisions/0014).
    pub fn answer(&mut self, seg: &Segment, now: Instant, budget: &mut Budget) -> bool {
        let fin_again = seg.flags.contains(Flags::FIN)
            && !seg.flags.contains(Flags::SYN)
            && seg.end() == self.rcv_nxt;
        if fin_again {
            self.expires = now + self.wait;
        }
        fin_again || self.answers.admits(Limit::OutOfWindowAcksPerSecond, now, budget)
    }

    /// What to do about a segment. A RST does not end the wait (RFC 1337); a SYN that is newer by
    /// timestamp or sequence number may reopen (RFC 6191, RFC 9293 section 3.6.1).
    /// RFC 9293 SHLD-4.
    pub fn input(&self, seg: &Segment) -> Late {
        if seg.flags.contains(Flags::RST) {
            return Late::Ignore(DropReason::TcpTimeWait);
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
