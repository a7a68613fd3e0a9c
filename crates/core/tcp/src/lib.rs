//! TCP without I/O: segments and the time go in; segments, deadlines and events come out.
//!
//! Called by: `stack`, the only crate that joins TCP to IP and to devices. This crate knows no IP
//! header, no device and no clock.
//!
//! A received segment goes through [`predict`] (header prediction) or [`input`] (the steps of RFC
//! 9293 section 3.10.7). Both only set flags on the [`Tcb`]; after a burst the stack calls
//! [`output`] for every connection that has flags set. The time is an argument of each call, and
//! [`timer::expire`] acts on deadlines.

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

pub use config::{Compat, Config, Ecn, MtuProbing};
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
use wire::tcp::{Flags, Header, Options, Timestamps};

/// State that a stack passes to TCP with each call: clock, buffers, counters, limits and switches.
pub struct Cx {
    /// Monotone time of this burst.
    pub now: Instant,
    /// `now` in milliseconds, for timestamps.
    pub now_ms: u32,
    /// The buffer pool.
    pub pool: Pool,
    /// Counters.
    pub counters: Counters,
    /// Limits, and how often each was hit.
    pub budget: Budget,
    /// Which optimisations are on.
    pub switches: Switches,
    /// The checksum implementation in use.
    pub ladder: Ladder,
    /// Key for values that an attacker must not predict.
    pub secret: KeyedHash,
}

impl Cx {
    /// Run `act` with `then`, a later time, as the current time.
    pub(crate) fn at<T>(&mut self, then: Instant, act: impl FnOnce(&mut Cx) -> T) -> T {
        let (now, now_ms) = (self.now, self.now_ms);
        (self.now, self.now_ms) = (then, then.as_millis() as u32);
        let done = act(self);
        (self.now, self.now_ms) = (now, now_ms);
        done
    }
}

/// A received segment: a copy of its header fields. The payload is passed separately.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// SEG.SEQ.
    pub seq: SeqNumber,
    /// SEG.ACK; valid only with the ACK flag.
    pub ack: SeqNumber,
    /// Bytes of payload.
    pub len: u32,
    /// SEG.WND as in the header, not scaled.
    pub window: u16,
    /// The urgent pointer.
    pub urgent: u16,
    /// Control bits.
    pub flags: Flags,
    /// A router marked the packet as congestion experienced (CE), RFC 3168 section 5.
    pub ce: bool,
    /// The timestamps option.
    pub timestamps: Option<Timestamps>,
}

impl Segment {
    /// The segment with this header. `len` is the length of header and payload in bytes; `ce` is
    /// true if a router marked the packet.
    #[inline(always)]
    pub fn new(header: &Header, len: usize, timestamps: Option<Timestamps>, ce: bool) -> Segment {
        Segment {
            seq: header.seq,
            ack: header.ack,
            len: (len - header.header_len) as u32,
            window: header.window,
            urgent: header.urgent,
            flags: header.flags,
            ce,
            timestamps,
        }
    }

    /// Parse the header and options of any segment, for the slower paths.
    /// RFC 9293 MUST-5.
    ///
    /// The named reason why the header or the options are invalid.
    /// The reason why they are invalid.
    pub fn parse(bytes: &[u8], ce: bool) -> Result<(Header, Segment, Options), DropReason> {
        let header = Header::parse(bytes)?;
        let options = Options::parse(header.options(bytes))?;
        let seg = Segment::new(&header, bytes.len(), options.timestamps, ce);
        Ok((header, seg, options))
    }

    /// The sequence number that follows the segment: payload, SYN and FIN each take space.
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

/// The fate of a segment: accepted, or the named reason why not.
pub type Fate = Result<(), DropReason>;

#[cfg(test)]
mod tests;
