//! Sends a burst by one system call. A socket that another process has opened sends each frame by
//! its own call.
//!
//! Called by: `packet.rs`. sendmmsg(2) stops at a frame that is refused and returns how many it
//! sent; the next call, which begins with that frame, returns the error.

use std::io::IoSlice;

use arrayvec::ArrayVec;
use base::DropReason;
use mbuf::Mbuf;
use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

use super::PacketSocket;
use crate::BURST;
use crate::vnet::{self, Header};

/// Why a call that sends frames ended.
pub(super) enum Sent {
    /// All frames were sent, or the next call will return the error.
    All,
    /// The kernel has no room for the next frame now.
    Full,
    /// The next frame cannot be sent.
    Dropped(DropReason),
    /// The interface is down: no frame can be sent now.
    LinkDown,
}

impl PacketSocket {
    /// Send frames in order. Returns how many were sent, and why sending ended.
    pub(super) fn send(&mut self, frames: &[Mbuf]) -> (usize, Sent) {
        let mut headers = ArrayVec::<[u8; vnet::LEN], BURST>::new();
        let mut ended = Sent::All;
        for frame in frames {
            match self.header(frame) {
                Ok(header) => headers.push(header),
                Err(reason) => {
                    ended = Sent::Dropped(reason);
                    break;
                }
            }
        }
        if headers.is_empty() {
            return (0, ended);
        }
        let result = match self.adopted {
            true => self.send_each(&headers, frames),
            false => self.send_together(&headers, frames),
        };
        match result {
            Ok(sent) if sent == headers.len() => (sent, ended),
            // The next call returns the error of the next frame.
            Ok(sent) if sent > 0 => (sent, Sent::All),
            Ok(_) => (0, Sent::Full),
            Err(errno) => (0, self.not_sent(errno)),
        }
    }

    /// Send frames with these headers by one call; returns how many were sent.
    fn send_together(&self, headers: &[[u8; vnet::LEN]], frames: &[Mbuf]) -> Result<usize, Errno> {
        let parts: ArrayVec<[IoSlice<'_>; 2], BURST> = headers
            .iter()
            .zip(frames)
            .map(|(header, frame)| [header, frame.as_slice()].map(IoSlice::new))
            .collect();
        let mut controls: ArrayVec<SendAncillaryBuffer<'_, '_, '_>, BURST> =
            parts.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let mut messages: ArrayVec<MMsgHdr<'_>, BURST> = parts
            .iter()
            .zip(&mut controls)
            .map(|(parts, control)| MMsgHdr::new(parts, control))
            .collect();
        loop {
            match sendmmsg(&self.fd, &mut messages, SendFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                result => return result,
            }
        }
    }

    /// The virtio header of a frame, or the reason why it cannot be sent.
    #[inline]
    fn header(&self, frame: &Mbuf) -> Result<[u8; vnet::LEN], DropReason> {
        let len = frame.len();
        let cut = frame.segment_size() > 0 && len <= self.limits.offloads.tso_max_bytes;
        if len > self.limits.max_frame && !cut {
            return Err(DropReason::DeviceFrameTooBig);
        }
        let header = Header::of(frame, self.limits.link);
        header.map(Header::to_bytes).map_err(|_| DropReason::DeviceRefused)
    }

    /// Handle an error of a send.
    #[cold]
    fn not_sent(&mut self, errno: Errno) -> Sent {
        match errno {
            Errno::AGAIN => Sent::Full,
            Errno::NETDOWN | Errno::NXIO | Errno::NODEV => {
                self.look();
                Sent::LinkDown
            }
            Errno::MSGSIZE => Sent::Dropped(DropReason::DeviceFrameTooBig),
            // The interface's own queue was full: the kernel took the frame, and freed it.
            Errno::NOBUFS => Sent::Dropped(DropReason::DeviceQueueFull),
            // This frame was refused, or memory was short. The next frame may pass.
            _ => Sent::Dropped(DropReason::DeviceRefused),
        }
    }
}
