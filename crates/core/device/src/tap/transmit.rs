//! Writes frames to the descriptor, one by one or a burst by one system call.
//!
//! Called by: `tap.rs`. The use of io_uring is in `ring.rs`.

use std::io::IoSlice;
use std::os::fd::AsFd;

use arrayvec::ArrayVec;
use base::DropReason;
use mbuf::{Mbuf, Pool};
use rustix::io::{Errno, write, writev};

use super::ring::Ring;
use super::{Tap, retried};
use crate::vnet::{self, Header};
use crate::{BURST, Burst};

/// What happened to a frame that was offered to the kernel.
enum Offered {
    Sent,
    Dropped(DropReason),
    Full,
    /// The interface is down or gone: no frame passes now.
    LinkDown,
}

/// A virtio header, followed by zeros for adopted descriptors with a longer one.
type HeaderBytes = [u8; vnet::LEN_MAX];

impl Tap {
    /// Send with one system call per frame.
    pub(super) fn send_one_by_one(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        let mut taken = 0;
        while let Some(frame) = from.get(taken) {
            let offered = if self.gone { Offered::LinkDown } else { self.offer(frame) };
            match offered {
                Offered::Sent => taken += 1,
                Offered::Dropped(reason) => {
                    self.drops.count(reason);
                    taken += 1;
                }
                Offered::Full => {
                    self.pushed_back = true;
                    break;
                }
                Offered::LinkDown => {
                    from[taken..].iter().for_each(|_| self.drops.count(DropReason::DeviceLinkDown));
                    taken = from.len();
                }
            }
        }
        from.drain(..taken).for_each(|frame| pool.free(frame));
        taken
    }

    /// Send all frames by one system call. A frame that is pushed back stays, even if a later one
    /// was sent. A TUN never pushes back.
    pub(super) fn send_by_ring(
        &mut self,
        ring: &mut Ring,
        pool: &mut Pool,
        from: &mut Burst,
    ) -> usize {
        let frames = core::mem::take(from);
        let before = frames.len();
        let headers: ArrayVec<Result<HeaderBytes, DropReason>, BURST> =
            frames.iter().map(|frame| self.header(frame)).collect();
        let mut writes = ArrayVec::<[IoSlice<'_>; 2], BURST>::new();
        for (frame, header) in frames.iter().zip(&headers) {
            if let Ok(header) = header {
                writes.push([self.used(header), frame.as_slice()].map(IoSlice::new));
            }
        }
        let results = ring.write(self.fd.as_fd(), &writes);
        drop(writes);
        let mut results = results.into_iter();
        for (frame, header) in frames.into_iter().zip(headers) {
            let offered = match header {
                Err(reason) => Offered::Dropped(reason),
                Ok(_) => self.outcome(results.next().unwrap_or(Err(Errno::AGAIN))),
            };
            match offered {
                Offered::Sent => {}
                Offered::Dropped(reason) => self.drops.count(reason),
                Offered::LinkDown => self.drops.count(DropReason::DeviceLinkDown),
                Offered::Full => {
                    self.pushed_back = true;
                    from.push(frame);
                    continue;
                }
            }
            pool.free(frame);
        }
        before - from.len()
    }

    #[inline]
    fn offer(&mut self, frame: &Mbuf) -> Offered {
        let header = match self.header(frame) {
            Ok(header) => header,
            Err(reason) => return Offered::Dropped(reason),
        };
        let result = if self.header_len == 0 {
            retried(|| write(&self.fd, frame.as_slice()))
        } else {
            let parts = [self.used(&header), frame.as_slice()];
            retried(|| writev(&self.fd, &parts.map(IoSlice::new)))
        };
        self.outcome(result)
    }

    /// The virtio header of a frame, or the reason why it cannot be sent.
    #[inline]
    fn header(&self, frame: &Mbuf) -> Result<HeaderBytes, DropReason> {
        let mut bytes = [0; vnet::LEN_MAX];
        if self.too_long(frame) {
            return Err(DropReason::DeviceFrameTooBig);
        }
        if self.header_len > 0 {
            let header =
                Header::of(frame, self.limits.link).map_err(|_| DropReason::DeviceRefused)?;
            bytes[..vnet::LEN].copy_from_slice(&header.to_bytes());
        }
        Ok(bytes)
    }

    /// The part of a header that this descriptor needs.
    #[inline]
    fn used<'a>(&self, header: &'a HeaderBytes) -> &'a [u8] {
        header.get(..self.header_len).unwrap_or(header)
    }

    #[inline]
    fn too_long(&self, frame: &Mbuf) -> bool {
        let len = frame.len();
        len > self.limits.max_frame
            && (frame.segment_size() == 0 || len > self.limits.offloads.tso_max_bytes)
    }

    #[inline]
    fn outcome(&mut self, result: Result<usize, Errno>) -> Offered {
        match result {
            Ok(_) => {
                if self.trouble.is_some() {
                    self.trouble = None;
                }
                Offered::Sent
            }
            Err(errno) => self.not_sent(errno),
        }
    }

    /// Handle an error of a write.
    #[cold]
    #[inline(never)]
    fn not_sent(&mut self, errno: Errno) -> Offered {
        match errno {
            Errno::AGAIN => Offered::Full,
            // The interface is down.
            Errno::IO | Errno::NETDOWN => {
                self.down();
                Offered::LinkDown
            }
            Errno::BADFD
            | Errno::BADF
            | Errno::NODEV
            | Errno::NXIO
            | Errno::PIPE
            | Errno::CONNRESET
            | Errno::CONNREFUSED
            | Errno::NOTCONN => {
                self.lose(errno);
                Offered::LinkDown
            }
            // This frame was refused, or memory was short. The next frame may pass.
            _ => Offered::Dropped(DropReason::DeviceRefused),
        }
    }
}
