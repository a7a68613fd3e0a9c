//! TCP without I/O: state in, packets and time in; packets, timers and events out.
//!
//! Called by: `stack`, which alone joins it to IP and to devices. It knows no IP header, no device
//! and no clock.
//!
//! A segment's way in: [`predict`] (the header-prediction path) or [`input`] (the steps of
//! RFC 9293 section 3.10.7). Effects are flags on the [`Tcb`]; after a burst the stack calls
//! [`output`] for every connection that has some. Time comes in with each call and through
//! [`timer::expire`].

mod ack;
pub mod cc;
pub mod config;
pub mod cookie;
mod deadlines;
mod early_acks;
mod ecn;
pub mod fast_open;
pub mod handshake;
mod header;
pub mod info;
pub mod input;
pub mod isn;
mod marks;
pub mod opening;
pub mod output;
mod pacing;
pub mod path;
pub mod predict;
mod rare;
mod receive;
mod recovery;
mod rtt;
mod send_tuning;
mod sendq;
mod state;
mod stats;
pub mod tcb;
pub mod timer;
pub mod timewait;
pub mod urgent;
mod user_timeout;
pub mod usrreq;

pub use config::{Config, Ecn, MtuProbing};
pub use info::Info;
pub use input::input;
pub use marks::{EcnBits, Events, Marks, Todo};
pub use opening::Opening;
pub use state::{Error, State};
pub use tcb::Tcb;
pub use timewait::TimeWait;

use base::{Budget, Counters, DropReason, Instant, KeyedHash, SeqNumber, Switches};
use mbuf::Pool;
use wire::checksum::Ladder;
use wire::tcp::{Flags, Timestamps};

/// What a stack lends to TCP with each call: its clock, its buffers, what it counts and allows.
pub struct Cx {
    /// Monotone time of this burst.
    pub now: Instant,
    /// The same in milliseconds, for timestamps.
    pub now_ms: u32,
    /// Buffers.
    pub pool: Pool,
    /// What is counted.
    pub counters: Counters,
    /// Limits, and how often each was hit.
    pub budget: Budget,
    /// What is turned on.
    pub switches: Switches,
    /// The checksum rung in use.
    pub ladder: Ladder,
    /// For what a stranger must not foresee.
    pub secret: KeyedHash,
}

impl Cx {
    /// Do something as if it were later already.
    pub(crate) fn at<T>(&mut self, then: Instant, act: impl FnOnce(&mut Cx) -> T) -> T {
        let (now, now_ms) = (self.now, self.now_ms);
        (self.now, self.now_ms) = (then, then.as_millis() as u32);
        let done = act(self);
        (self.now, self.now_ms) = (now, now_ms);
        done
    }
}

/// A received segment, its header fields copied out; the payload travels beside it.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// SEG.SEQ.
    pub seq: SeqNumber,
    /// SEG.ACK; means something only with the ACK flag.
    pub ack: SeqNumber,
    /// Bytes of payload.
    pub len: u32,
    /// SEG.WND as it stands in the header, not scaled.
    pub window: u16,
    /// The urgent pointer.
    pub urgent: u16,
    /// Control bits.
    pub flags: Flags,
    /// The packet was marked on its way: congestion experienced, RFC 3168 section 5.
    pub ce: bool,
    /// The timestamps option.
    pub timestamps: Option<Timestamps>,
}

impl Segment {
    /// The sequence number behind the segment: payload, SYN and FIN each take space.
    #[inline]
    pub fn end(&self) -> SeqNumber {
        self.seq + self.space()
    }

    /// SEG.LEN of RFC 9293: payload bytes, and one each for SYN and FIN.
    #[inline]
    pub fn space(&self) -> u32 {
        self.len
            + u32::from(self.flags.contains(Flags::SYN))
            + u32::from(self.flags.contains(Flags::FIN))
    }
}

/// What became of a segment: accepted, or the named reason why not.
pub type Fate = Result<(), DropReason>;

#[cfg(test)]
mod tests;
