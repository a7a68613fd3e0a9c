//! A virtual machine at the other end of a socket, in QEMU's framing: `-netdev stream`, where each
//! frame has its length in front (32 bits, big-endian), and `-netdev dgram`, a frame a datagram.
//!
//! Called by: the stack, once a burst; programs that open one. Must not know: what frames hold.
//! Counters: [`Device::drops`], by name. Source: QEMU, `docs/system/devices/net.rst`,
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
//! - A [`Dgram`] knows of no other end: what nobody takes is lost and counted.

mod dgram;
mod error;
mod name;
mod stream;

use base::{DropReason, LinkKind, Mtu};

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
