//! A virtual machine at the other end of a socket, in QEMU's framing: `-netdev stream`, where each
//! frame has its length in front (32 bits, big-endian), and `-netdev dgram`, a frame a datagram.
//!
//! Called by: the stack, once a burst; programs that open one. Counters:
//! [`drops`](crate::Device::drops), by name. Source: QEMU, `docs/system/devices/net.rst`,
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
//! There are no offloads and no link check: a frame arrives as it was sent.
//!
//! # When the other end goes
//! - A [`Stream`] that listens: frames for it are freed and counted as
//!   [`DropReason::DeviceLinkDown`] until the next machine connects, which then has the link.
//! - A [`Stream`] that connected: gone for good.
//! - A length that no frame has: the stream has lost its step, and the connection is closed.
//! - A [`Dgram`] is not connected: frames without a receiver are lost and counted.
//!
//! # Sleeping
//! [`Device::as_fd`](crate::Device::as_fd) is one descriptor for a port's whole life, whoever
//! connects. It is readable for frames, for a machine that comes or goes, and when there is room
//! for what waits, which need not be asked for.

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

/// The longest frame that QEMU sends or takes, `NET_BUFSIZE`.
const LONGEST: usize = 4096 + 65536;

/// Frames that a socket's buffers hold; only a hint.
const DEPTH: usize = 256;

fn limits(mtu: Mtu) -> Limits {
    Limits {
        link: LinkKind::Ethernet,
        mtu,
        // An Ethernet header with two tags.
        max_frame: mtu.bytes() + 14 + 8,
        max_segments: 1,
        min_first_segment: 0,
        alignment: 1,
        tx_depth: DEPTH,
        offloads: Offloads::default(),
    }
}

/// Why a frame of this length cannot be received, if so.
fn refused(len: usize, limits: &Limits) -> Option<DropReason> {
    (len > limits.max_frame).then_some(DropReason::DeviceFrameTooBig)
}

/// Is one of these events there now, or the end of it?
fn is_ready(fd: &impl AsFd, events: PollFlags) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(fd, events)], Some(&now)).is_ok_and(|n| n > 0)
}
