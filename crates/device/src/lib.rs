//! The interface between a stack and a wire: [`Device`], bursts in and bursts out, with declared
//! [`Limits`]. Devices: [`mem`], the wire inside a process; [`nic`], one whose wire takes time;
//! [`channel`], frames as plain bytes for code that knows no mbuf; `tap`, the kernel of this
//! machine, and `packet`, an interface it has (Linux). Around any of them: [`counted`], [`fault`],
//! `capture`; [`vlan`] splits one into several ports. [`Doorbell`] wakes sleeping threads.
//!
//! Called by: the stack, once a burst, and driver threads around it. Nothing here knows a protocol
//! above the link header or reads the time; only [`Doorbell::sleep`] waits.
//!
//! # Bring your own
//! A stack runs over anything that implements [`Device`]: six methods are required, the others have
//! defaults. `crates/wirespeed/examples/bring_your_own.rs` is a whole one, over a socket, with
//! a stack at each end. Code that does not want to use mbufs takes [`channel::pair`] and moves
//! byte slices.
//!
//! ## What a frame is
//! One [`Mbuf`]: contiguous bytes, link header first where the link kind has one, no preamble and
//! no frame check sequence. [`Mbuf::as_slice`] has them; [`Pool::copy_of`] makes one.
//!
//! ## The contract
//! 1. **A full queue pushes back.** `tx_burst` takes frames from the front of the burst; what it
//!    does not take stays, in order, and is offered again. Never drop because of a full queue.
//! 2. **A frame that can never go** (too long, no other end) is taken, freed and
//!    counted under a [`base::DropReason`]: otherwise it would block those behind it for ever.
//! 3. **A frame taken is the device's.** It goes back with [`Pool::free`] once it is sent; plain
//!    `drop` is right too, and dearer. Its bytes may be shared with the sender's retransmission
//!    queue: read them, do not write them ([`Mbuf::as_mut_slice`] says no).
//! 4. **A frame given is the stack's.** It may be another pool's: [`Pool::free`] sends it home. It
//!    is exclusive: no other code reads or writes its bytes any more.
//! 5. **No call waits**, for the wire, a lock held for long, or memory: without a buffer a frame is
//!    dropped and counted ([`base::DropReason::MbufExhausted`]) and the call returns.
//! 6. **[`Limits`] hold.** They are asked for once, when the port is made.
//! 7. **Nothing from outside panics.** What comes from the wire may be of any length and content;
//!    the stack checks it, the device only its own framing.
//! 8. **The end is quiet.** When the other end is gone, `link_up` is false, `rx_ready` is false,
//!    `as_fd` is `None` and [`Device::failure`] has the reason: no driver spins on a dead device.
//!    If it will not come back, [`Device::is_gone`] says so, and its connections fail.
//!
//! ## Threads
//! One thread uses a device at a time; it may be another one each time (`Send`, not `Sync`). The
//! [`Pool`] is that thread's too. What another thread shares with the device is the device's
//! affair: [`mem`] has rings, [`channel`] a lock.
//!
//! ## Sleeping
//! A driver that runs out of work asks `rx_ready` of its devices, then sleeps until a descriptor
//! ([`Device::as_fd`]) is readable, the device wakes it ([`Device::arm`]) or the stack's next
//! deadline comes. A device with neither is polled; one that [`Device::is_unfinished`] is looked at
//! beside that.
//!
//! ## What a stack expects, and what it does not
//! - Order is kept as well as the wire keeps it: reordering costs throughput, not correctness.
//! - Loss, duplication and corruption may happen. With [`Offloads::rx_checksum`] the device vouches
//!   for frames it flags [`mbuf::Flags::CSUM_VERIFIED`]: they are not verified again.
//! - The maximum frame is respected by the stack; so is `max_segments`, which is 1 at least. Today
//!   every frame is one piece and starts anywhere: `min_first_segment` and `alignment` are declared
//!   for devices to come, and no stack reads them yet.
//! - Frames for other stations need not be filtered, and group addresses need not be joined.
//! - The MTU does not change while the device is in use.

#[cfg(feature = "capture")]
pub mod capture;
pub mod channel;
pub mod counted;
mod doorbell;
pub mod fault;
#[cfg(all(feature = "linux", target_os = "linux"))]
mod interface;
pub mod mem;
pub mod mitigation;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub mod namespace;
pub mod nic;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub mod packet;
#[cfg(all(feature = "linux", target_os = "linux"))]
mod peer_groups;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub mod tap;
pub mod vlan;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub mod vm;
#[cfg(all(feature = "linux", target_os = "linux"))]
mod vnet;
mod wrap;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub mod xdp;

use core::task::Waker;

use arrayvec::ArrayVec;
use base::{Drops, Instant, LinkKind, Mtu};
use mbuf::{Mbuf, Pool};

use mitigation::Threshold;

pub use doorbell::Doorbell;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub use peer_groups::peer_groups;

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

    /// Will the other end not come back? A link that is merely down is not gone. The connections
    /// of a port whose device is gone fail, with [`Device::failure`] as the reason.
    fn is_gone(&self) -> bool {
        false
    }

    /// Is there work in here that only goes on when the device is called, while there is nothing to
    /// receive and no room to wait for: frames that were taken and that the kernel would not send?
    /// If the device cannot wake, its driver then polls it at an interval, whatever it waits on.
    fn is_unfinished(&self) -> bool {
        false
    }

    /// A descriptor that is readable when there are frames to receive, if the device has one.
    /// Borrowed anew each time the driver is about to sleep: a device that is gone has none.
    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    /// The tags that frames have on the wire and not here: a port of a trunk puts them in and takes
    /// them out. Taps show them.
    fn tags(&self) -> vlan::Tags {
        vlan::Tags::default()
    }

    /// Why frames do not pass, in a sentence with what to do about it, while `link_up` is false.
    fn failure(&self) -> Option<&(dyn core::error::Error + 'static)> {
        None
    }

    /// Frames that the receive queue holds; 0 (the default): not known, or the kernel's affair.
    /// Where bytes are limited, a frame counts for a quarter of a full-size one, as [`mitigation`]
    /// counts them.
    fn rx_depth(&self) -> usize {
        0
    }

    /// What was lost in the device, by name, if it counts so.
    fn drops(&self) -> Option<&Drops> {
        None
    }

    /// Ask to be woken, once, when a frame can be received or when there is room for what was
    /// pushed back. `true`: asked, and nothing is ready now. `false`: something is ready, or (the
    /// default) the device cannot wake; then its driver has to poll at an interval. An earlier
    /// waker is replaced. Room counts for frames pushed back before this call alone: who pushes
    /// later asks again.
    fn arm(&mut self, waker: &Waker) -> bool {
        let _ = waker;
        false
    }

    /// When there will be what an [`Device::arm`] that was just answered `true` waits for, though
    /// there is no wake-up: the caller polls at this time. [`Instant::NEVER`] (the default): not
    /// known.
    fn wakes_at(&self) -> Instant {
        Instant::NEVER
    }

    /// From the next [`Device::arm`] on, wake for received frames only when `threshold.frames` or
    /// `threshold.bytes` wait; the caller looks by itself when `threshold.within` is over. `false`
    /// (the default): it cannot, and wakes for each, if it wakes at all.
    fn coalesce(&mut self, threshold: Threshold) -> bool {
        let _ = threshold;
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

    fn is_gone(&self) -> bool {
        (**self).is_gone()
    }

    fn is_unfinished(&self) -> bool {
        (**self).is_unfinished()
    }

    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        (**self).as_fd()
    }

    fn tags(&self) -> vlan::Tags {
        (**self).tags()
    }

    fn failure(&self) -> Option<&(dyn core::error::Error + 'static)> {
        (**self).failure()
    }

    fn rx_depth(&self) -> usize {
        (**self).rx_depth()
    }

    fn drops(&self) -> Option<&Drops> {
        (**self).drops()
    }

    fn arm(&mut self, waker: &Waker) -> bool {
        (**self).arm(waker)
    }

    fn wakes_at(&self) -> Instant {
        (**self).wakes_at()
    }

    fn coalesce(&mut self, threshold: Threshold) -> bool {
        (**self).coalesce(threshold)
    }
}
