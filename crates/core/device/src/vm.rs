//! A virtual machine at the other end of a socket, in QEMU's framing: `-netdev stream`, where each
//! frame is preceded by its length (32 bits, big-endian), and `-netdev dgram`, one frame per
//! datagram.
//!
//! Called by: the stack, once per burst; programs that open one. Counters:
//! [`drops`](crate::Device::drops), by reason. Source: QEMU, `docs/system/devices/net.rst`,
//! `net/stream.c`.
//!
//! ```no_run
//! use wirespeed_device::vm::Stream;
//!
//! // qemu-system-x86_64 -netdev stream,id=n,server=off,addr.type=unix,addr.path=/run/vm.sock ...
//! let mut port = Stream::listen("/run/vm.sock".as_ref())?;
//! # Ok::<(), wirespeed_device::vm::VmError>(())
//! ```
//!
//! There are no offloads: a frame arrives as it was sent.
//!
//! # When the other end goes
//! - A [`Stream`] that listens: frames for it are freed and counted as
//!   [`DropReason::DeviceLinkDown`] until the next machine connects, which then uses the link.
//! - A [`Stream`] that connected: gone for good.
//! - An invalid length: the stream is out of sync, and the connection is closed.
//! - A [`Dgram`] is not connected: frames without a receiver are dropped and counted.
//!
//! # Sleeping
//! [`Device::as_fd`](crate::Device::as_fd) is one descriptor for a port's whole life, over all
//! connections. It is readable for frames, when a machine connects or disconnects, and when there
//! is room for waiting bytes, without the driver asking for that.

mod dgram;
mod error;
mod interest;
mod name;
mod stream;

use std::os::fd::AsFd;

use base::{DropReason, LinkKind, Mtu};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{Limits, Offloads};

pub use dgram::Dgram;
pub use error::VmError;
pub use stream::Stream;

/// The longest frame that QEMU sends or accepts, `NET_BUFSIZE`.
const LONGEST: usize = 4096 + 65536;

/// The declared transmit depth; only a hint.
const DEPTH: usize = 256;

fn limits(mtu: Mtu) -> Limits {
    Limits {
        link: LinkKind::Ethernet,
        mtu,
        // An Ethernet header with two tags.
        max_frame: mtu.bytes() + 14 + 8,
        max_segments: 1,
        tx_depth: DEPTH,
        offloads: Offloads::default(),
    }
}

/// The reason to drop a received frame of this length, if any.
fn refused(len: usize, limits: &Limits) -> Option<DropReason> {
    (len > limits.max_frame).then_some(DropReason::DeviceFrameTooBig)
}

/// Is one of these events pending now, or an error or hang-up?
fn is_ready(fd: &impl AsFd, events: PollFlags) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(fd, events)], Some(&now)).is_ok_and(|n| n > 0)
}
