//! The one door between a stack and a wire: [`Device`], bursts in and bursts out, with declared
//! [`Limits`]; [`mem`], the wire inside a process; and [`Doorbell`], which wakes who sleeps.
//!
//! Called by: the stack, once a burst, and driver threads around it. Must not know: any protocol
//! above the link header, who reads the frames, what time it is (only [`Doorbell::sleep`] waits).
//!
//! # Rules for every device
//! - A full queue pushes back: what was not taken stays in the caller's burst, in order.
//! - A frame that can never go (too long, nobody at the other end) is freed and counted.
//! - Frames that come in may be another pool's; [`Pool::free`] sends them home.

mod doorbell;
pub mod mem;

use core::task::Waker;

use arrayvec::ArrayVec;
use base::{LinkKind, Mtu};
use mbuf::{Mbuf, Pool};

pub use doorbell::Doorbell;

/// Most frames in one call, as Linux takes in one turn of NAPI: past 24 the fixed cost of a call is
/// small (8 frames: +6 ns each); from 32 to 64 it was 40 instructions a segment and 3 % more.
pub const BURST: usize = 64;

/// Frames on their way through one call, oldest first.
pub type Burst = ArrayVec<Mbuf, BURST>;

/// What a device does so that the stack need not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// It finishes the transport checksum of frames flagged [`mbuf::Flags::CSUM_PARTIAL`].
    pub tx_checksum: bool,
    /// It may flag frames [`mbuf::Flags::CSUM_VERIFIED`].
    pub rx_checksum: bool,
    /// The largest super-segment, headers and payload, that it takes in bytes; 0 for none.
    pub tso_max_bytes: usize,
}

/// What a device takes and gives. Constant while it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What frames begin with.
    pub link: LinkKind,
    /// The largest packet, link header not included.
    pub mtu: Mtu,
    /// The longest frame, link header and two tags included, in bytes.
    pub max_frame: usize,
    /// The most pieces of memory one frame may lie in; 1: contiguous.
    pub max_segments: usize,
    /// Bytes that the first piece must hold at least, or the whole frame; 0: no demand.
    pub min_first_segment: usize,
    /// A frame's first byte must lie on a multiple of this; 1: no demand.
    pub alignment: usize,
    /// Frames that the transmit queue holds.
    pub tx_depth: usize,
    /// What it does so that the stack need not.
    pub offloads: Offloads,
}

/// A port: where frames come in and go out, a burst at a time.
///
/// One thread uses it at a time. A driver that is about to sleep asks `rx_ready` first (or calls
/// the device's own wait, which does): a device may hold back news for its peer until then.
pub trait Device: Send {
    /// What it takes and gives.
    fn limits(&self) -> Limits;

    /// Append received frames to `into`, up to its free room; returns how many.
    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize;

    /// Take frames from the front of `from`, as many as there is room for; the rest stays.
    /// Returns how many were taken; a frame that can never go is taken, freed and counted.
    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize;

    /// Is there anything to receive right now?
    fn rx_ready(&self) -> bool;

    /// Is there room to send: for the frame that was pushed back last, or else for any one?
    fn tx_ready(&self) -> bool;

    /// Is the other end still there?
    fn link_up(&self) -> bool;

    /// Ask to be woken, once, when a frame can be received or when there is room for what was
    /// pushed back. `true`: asked, and nothing is ready now. `false`: something is ready, or (the
    /// default) the device cannot wake; then its driver has to look at an interval. Whoever asked
    /// before is forgotten. Room counts for frames pushed back before this call alone: who pushes
    /// later asks again.
    fn arm(&mut self, waker: &Waker) -> bool {
        let _ = waker;
        false
    }
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn limits(&self) -> Limits {
        (**self).limits()
    }

    #[inline]
    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        (**self).rx_burst(pool, into)
    }

    #[inline]
    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        (**self).tx_burst(pool, from)
    }

    #[inline]
    fn rx_ready(&self) -> bool {
        (**self).rx_ready()
    }

    #[inline]
    fn tx_ready(&self) -> bool {
        (**self).tx_ready()
    }

    fn link_up(&self) -> bool {
        (**self).link_up()
    }

    fn arm(&mut self, waker: &Waker) -> bool {
        (**self).arm(waker)
    }
}
