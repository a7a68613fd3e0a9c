//! The interface between a stack and a link: [`Device`], which receives and sends bursts of frames
//! and declares its [`Limits`]. Devices: [`mem`], a link inside a process; [`nic`], a simulated
//! interface whose link takes time; [`channel`], frames as byte slices; on Linux `tap`, `packet`,
//! `xdp` and `vm`. Wrappers around any device: [`counted`], [`fault`], `capture`. [`vlan`] splits a
//! device into ports. [`Doorbell`] wakes sleeping threads.
//!
//! Called by: the stack, once per burst, and driver threads. Except for offload headers, nothing
//! here parses a protocol above the link header.
//!
//! # Bring your own
//! A stack runs over anything that implements [`Device`]. Six methods are required, the others have
//! defaults. `crates/top/wirespeed/examples/bring_your_own.rs` is a complete example: a device over
//! a socket, with a stack at each end. Code without mbufs uses [`channel::pair`] and byte slices.
//!
//! ## What a frame is
//! One [`Mbuf`]: contiguous bytes, with the link header first if the link kind has one, without
//! preamble and frame check sequence. [`Mbuf::as_slice`] reads the bytes; [`Pool::copy_of`] makes a
//! frame from bytes.
//!
//! ## The contract
//! 1. **A full queue pushes back.** `tx_burst` takes frames from the front of the burst; the rest
//!    stays, in order, and is offered again. A device never drops because of a full queue.
//! 2. **A frame that can never be sent** (too long, no other end) is taken, freed and counted under
//!    a [`base::DropReason`]: otherwise it would block the frames behind it for ever.
//! 3. **A taken frame belongs to the device**, which returns it with [`Pool::free`] once it is
//!    sent; plain `drop` is correct too, but slower. Its bytes may be shared with the sender's
//!    retransmission queue: read them, do not write them ([`Mbuf::as_mut_slice`] is `None` then).
//! 4. **A received frame belongs to the stack.** It may come from another pool: [`Pool::free`]
//!    returns it there. It is exclusive: no other code reads or writes its bytes any more.
//! 5. **No call waits** for the link, for a lock that is held for long, or for memory: without a
//!    buffer a frame is dropped and counted ([`base::DropReason::MbufExhausted`]).
//! 6. **[`Limits`] are constant.** The stack reads them once, when the port is made.
//! 7. **No input panics.** A frame from the link may have any length and content; the stack checks
//!    it, and the device checks only its own framing.
//! 8. **A dead device is silent.** When the other end is gone, `link_up` and `rx_ready` are false,
//!    `as_fd` is `None` and [`Device::failure`] has the reason, so that no driver spins. If the
//!    other end will not come back, [`Device::is_gone`] is true, and the port's connections fail.
//!
//! ## Threads
//! One thread at a time uses a device, and not always the same one (`Send`, not `Sync`). The
//! [`Pool`] belongs to that thread too. A device synchronises with the threads at its other end by
//! itself: [`mem`] has rings, [`channel`] a lock.
//!
//! ## Sleeping
//! A driver that has no more work calls `rx_ready` on its devices. Then it sleeps until a
//! descriptor ([`Device::as_fd`]) is readable, a device wakes it ([`Device::arm`]), the time comes
//! at which a device will be ready ([`Device::wakes_at`]), or the stack's next deadline comes. A
//! device that offers none of these is polled at an interval, and so is a device that cannot wake
//! while it [`Device::is_unfinished`].
//!
//! ## What a stack expects, and what it does not
//! - Order: as on the link. Reordering costs throughput, not correctness.
//! - Loss, duplication and corruption may happen. With [`Offloads::rx_checksum`] the stack trusts
//!   frames that the device flags [`mbuf::Flags::CSUM_VERIFIED`] and does not verify them again.
//! - The stack respects `max_frame`, and `max_segments`, which is at least 1. Every frame is one
//!   segment, at any address.
//! - The device need not filter frames for other stations, nor join group addresses.
//! - The MTU does not change while the device is in use.

#[cfg(target_os = "linux")]
mod alarm;
pub mod busy;
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
pub mod pty;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub mod tap;
pub mod vlan;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub mod vm;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub mod vnet;
mod wrap;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub mod xdp;

use core::task::Waker;

use arrayvec::ArrayVec;
use base::{Drops, Instant, LinkKind, Mtu};
use mbuf::{Mbuf, Pool};

use mitigation::Threshold;

#[cfg(target_os = "linux")]
pub use alarm::Alarm;
pub use doorbell::Doorbell;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub use peer_groups::peer_groups;
pub use wrap::copy_of;

/// The most frames of one call; NAPI's weight in Linux is 64 too. From 24 frames on the fixed cost
/// of a call is small (with 8 frames it is 6 ns a frame more). With 64 frames instead of 32, a
/// segment cost 40 instructions less, and the throughput was 3 % higher.
pub const BURST: usize = 64;

/// The frames of one call, oldest first.
pub type Burst = ArrayVec<Mbuf, BURST>;

/// Work that a device does instead of the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// The device finishes the transport checksum of frames flagged `mbuf::Flags::CSUM_PARTIAL`.
    pub tx_checksum: bool,
    /// The device may flag frames [`mbuf::Flags::CSUM_VERIFIED`].
    pub rx_checksum: bool,
    /// The largest super-segment that the device takes, headers included, in bytes; 0 if it takes
    /// none.
    pub tso_max_bytes: usize,
    /// The largest super-datagram that the device takes, headers included, in bytes; 0 if it takes
    /// none. A super-datagram contains UDP payloads of one size, of which the last may be shorter,
    /// after one header whose checksum is unfinished (Linux's USO). Only with `tx_checksum`.
    pub uso_max_bytes: usize,
    /// Does a frame cost the device more than a copy of its bytes? Then a router merges segments of
    /// one flow that arrived separately into super-segments for this device (Linux's GRO). Only
    /// with `tx_checksum` and `tso_max_bytes`.
    pub gro: bool,
}

/// The limits of a device; constant while it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The kind of link header.
    pub link: LinkKind,
    /// The largest packet, link header not included.
    pub mtu: Mtu,
    /// The longest frame, link header and two tags included, in bytes.
    pub max_frame: usize,
    /// The most segments of memory that one frame may consist of; 1: contiguous.
    pub max_segments: usize,
    /// Frames that the transmit queue holds.
    pub tx_depth: usize,
    /// What the device does instead of the stack.
    pub offloads: Offloads,
}

/// A network device: receives and sends frames, one burst per call.
///
/// One thread at a time uses it. A driver that is about to sleep calls `rx_ready` first (or the
/// device's own wait, which does): a device may delay notifications to its peer until then.
pub trait Device: Send {
    /// The device's limits.
    fn limits(&self) -> Limits;

    /// Append received frames to `into` while it has room. Returns how many were appended.
    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize;

    /// Take frames from the front of `from`, as many as there is room for; the rest stays. Returns
    /// how many were taken. A frame that can never be sent is taken, freed and counted.
    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize;

    /// Is there anything to receive right now?
    fn rx_ready(&self) -> bool;

    /// Is there room to send? If a frame was pushed back last, is there room for that frame?
    fn tx_ready(&self) -> bool;

    /// Is the other end still there?
    fn link_up(&self) -> bool;

    /// Ask the link itself whether frames pass; from then on [`Device::link_up`] returns the
    /// answer. This may cost a system call. A router asks a few times a second, so that it notices
    /// if a link is cut or works again, although nothing is sent. The default returns
    /// [`Device::link_up`].
    fn check_link(&mut self) -> bool {
        self.link_up()
    }

    /// Is the other end gone for good? A link that is merely down is not gone. The connections of a
    /// port whose device is gone fail, with [`Device::failure`] as the reason.
    fn is_gone(&self) -> bool {
        false
    }

    /// Is there work that proceeds only when the device is called, although nothing was received
    /// and no room is awaited? An example is frames that were taken and that the kernel has not
    /// sent yet. If the device cannot wake its driver, the driver then polls it at an interval,
    /// whatever else it waits on.
    fn is_unfinished(&self) -> bool {
        false
    }

    /// A descriptor that is readable when there are frames to receive, if the device has one. The
    /// driver borrows it each time before it sleeps: a device that is gone has none.
    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    /// Like [`Device::rx_burst`], for a stack that shares the device with other stacks and passes
    /// their frames on to them itself. Frames that the others have handed to this stack come first.
    /// Returns the number of those, then the number of all frames.
    fn rx_burst_unsteered(&mut self, pool: &mut Pool, into: &mut Burst) -> (usize, usize) {
        (0, self.rx_burst(pool, into))
    }

    /// The VLAN tags that frames have on the wire but not in the mbufs, because a port of a trunk
    /// inserts and removes them. Taps show these tags.
    fn tags(&self) -> vlan::Tags {
        vlan::Tags::default()
    }

    /// The tag that [`Device::rx_burst`] removes from frames and [`Device::tx_burst`] inserts. With
    /// the two methods below the caller handles the tag itself: a router writes a new link header
    /// anyway. The tag is constant. `None` (the default) means that there is no tag.
    fn own_tag(&self) -> Option<vlan::Tag> {
        None
    }

    /// Like [`Device::rx_burst`], but the frames keep [`Device::own_tag`] after their addresses.
    fn rx_burst_tagged(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        self.rx_burst(pool, into)
    }

    /// Like [`Device::tx_burst`], but the first `tagged` frames have [`Device::own_tag`] already.
    /// Afterwards `tagged` is the number of these frames that stay in the burst.
    fn tx_burst_tagged(&mut self, pool: &mut Pool, from: &mut Burst, tagged: &mut usize) -> usize {
        let taken = self.tx_burst(pool, from);
        *tagged = tagged.saturating_sub(taken);
        taken
    }

    /// The reason why no frames pass, while `link_up` is false. Its text says what to do about it.
    fn failure(&self) -> Option<&(dyn core::error::Error + 'static)> {
        None
    }

    /// Capacity of the receive queue in frames; 0 (the default): unknown. If the queue is limited
    /// in bytes, a frame counts as a quarter of a full-size one, as [`mitigation`] counts.
    fn rx_depth(&self) -> usize {
        0
    }

    /// The device's drop counters by reason, if it counts drops.
    fn drops(&self) -> Option<&Drops> {
        None
    }

    /// Wake `waker` once, when a frame can be received or when there is room for what was pushed
    /// back. `true`: armed, and nothing is ready now. `false`: something is ready, or (the default)
    /// the device cannot wake its driver, which has to poll at an interval. The waker of an earlier
    /// call is replaced. Only frames that were pushed back before this call count: after a later
    /// push back, arm again.
    fn arm(&mut self, waker: &Waker) -> bool {
        let _ = waker;
        false
    }

    /// After the last [`Device::arm`]: a time at which the device will be ready without calling the
    /// waker, and without its descriptor being readable, so that the caller has to poll then. It
    /// counts if `arm` returned `true`, and for a device with a descriptor. [`Instant::NEVER`] (the
    /// default): there is no such time.
    fn wakes_at(&self) -> Instant {
        Instant::NEVER
    }

    /// From the next [`Device::arm`] on, wake for received frames only when `threshold.frames` or
    /// `threshold.bytes` are waiting; the caller polls by itself after `threshold.within`. `false`
    /// (the default): not supported; if the device wakes, it does so for each frame.
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

    fn check_link(&mut self) -> bool {
        (**self).check_link()
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

    #[inline]
    fn rx_burst_unsteered(&mut self, pool: &mut Pool, into: &mut Burst) -> (usize, usize) {
        (**self).rx_burst_unsteered(pool, into)
    }

    fn tags(&self) -> vlan::Tags {
        (**self).tags()
    }

    fn own_tag(&self) -> Option<vlan::Tag> {
        (**self).own_tag()
    }

    #[inline]
    fn rx_burst_tagged(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        (**self).rx_burst_tagged(pool, into)
    }

    #[inline]
    fn tx_burst_tagged(&mut self, pool: &mut Pool, from: &mut Burst, tagged: &mut usize) -> usize {
        (**self).tx_burst_tagged(pool, from, tagged)
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
