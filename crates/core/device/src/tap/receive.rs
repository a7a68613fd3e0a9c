//! Reads one frame from the descriptor into a buffer of suitable size.
//!
//! Called by: `tap.rs`. Counters: none; it returns the reason of a drop.
//!
//! # Which buffer
//! A frame's length is known only after the read, and with offloads a frame may have 40 bytes or 64
//! KB. So each read scatters into two buffers: the first 1,920 bytes into a 2 KB buffer, the rest
//! into a buffer that holds the longest frame, at its byte 1,920. Both buffers are kept until a
//! frame uses them.
//! - A frame of up to 1,920 bytes is the small buffer: no copy, no waste.
//! - A long frame is the big buffer; its first 1,920 bytes are copied in front of the rest, so that
//!   it is contiguous: 30 cache lines beside the 1,000 that the kernel wrote.
//! - In between, a frame that fits a smaller class (up to 16,256 bytes, with offloads) is copied
//!   into a buffer of that class. That is a second pass over bytes that the kernel has just brought
//!   into the cache, and bounds the memory of a sockbuf with short super-segments: a buffer larger
//!   than 2 KB is always at least a quarter full. Full super-segments of bulk traffic are not
//!   copied.

use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;

use base::DropReason;
use mbuf::{Class, Mbuf, Pool, copy};
use rustix::io::{Errno, read, readv};

use crate::vnet::{self, Header};

/// The result of one read.
pub(super) enum Taken {
    /// A frame.
    Frame(Mbuf),
    /// A frame was read and dropped.
    Dropped(DropReason),
    /// The read returned 0 bytes: the peer has closed, or has sent an empty datagram.
    Empty,
}

/// Bytes of the first buffer, if there is a second.
const HEAD: usize = Class::K2.capacity();

/// The buffers for the next frame.
pub(super) struct Receiver {
    /// Bytes of virtio header before each frame; 0 for none.
    header_len: usize,
    /// The longest frame that is accepted, in bytes.
    max_frame: usize,
    /// Bytes to allocate for the first buffer, and for the second; 0 for none.
    head_len: usize,
    big_len: usize,
    /// The longest frame that is copied out of the second buffer, in bytes.
    copy_max: usize,
    head: Option<Mbuf>,
    big: Option<Mbuf>,
}

impl Receiver {
    /// A receiver for frames of at most `max_frame` bytes, which follow a virtio header of
    /// `header_len` bytes.
    pub(super) fn new(max_frame: usize, header_len: usize) -> Receiver {
        // The buffer has one byte more than a frame may have: a frame that fills it was truncated.
        let wanted = (max_frame + 1).min(Class::K64.capacity());
        let (head_len, big_len) = if wanted <= HEAD { (wanted, 0) } else { (HEAD, wanted) };
        let smaller = [Class::K2, Class::K4, Class::K16].map(Class::capacity);
        let copy_max = smaller.into_iter().filter(|&c| c < big_len).max().unwrap_or(0);
        Receiver { header_len, max_frame, head_len, big_len, copy_max, head: None, big: None }
    }

    /// Read one frame.
    ///
    /// # Errors
    /// The errors of read(2); `AGAIN` when there is no frame.
    #[inline]
    pub(super) fn take(&mut self, fd: BorrowedFd<'_>, pool: &mut Pool) -> Result<Taken, Errno> {
        if self.head.is_none() {
            self.head = pool.alloc(self.head_len);
        }
        if self.big.is_none() && self.big_len > 0 {
            self.big = pool.alloc(self.big_len);
        }
        let Some(head) = &mut self.head else { return discard(fd) };
        let first = head.tail_mut();
        let mut header = [0; vnet::LEN_MAX];
        let mut room = first.len();
        let got = if self.header_len == 0 && self.big.is_none() {
            read(fd, first)?
        } else {
            let rest = self.big.as_mut().and_then(|big| big.tail_mut().get_mut(HEAD..));
            let rest = rest.unwrap_or_default();
            room += rest.len();
            let (header, _) = header.split_at_mut(self.header_len.min(vnet::LEN_MAX));
            readv(fd, &mut [header, first, rest].map(IoSliceMut::new))?
        };
        if got == 0 {
            return Ok(Taken::Empty);
        }
        let Some(len) = got.checked_sub(self.header_len) else {
            return Ok(Taken::Dropped(DropReason::DeviceBadHeader));
        };
        if len > self.max_frame || len >= room {
            // Without the second buffer even a valid frame is truncated.
            let starved = self.big.is_none() && self.big_len > 0;
            let starved = starved.then_some(DropReason::MbufExhausted);
            return Ok(Taken::Dropped(starved.unwrap_or(DropReason::DeviceFrameTooBig)));
        }
        let Some(mut frame) = self.collect(len, pool) else {
            return Ok(Taken::Dropped(DropReason::MbufExhausted));
        };
        if self.header_len > 0 && Header::from_bytes(&header).describe(&mut frame).is_err() {
            pool.free(frame);
            return Ok(Taken::Dropped(DropReason::DeviceBadHeader));
        }
        Ok(Taken::Frame(frame))
    }

    /// The `len` bytes that were just read, in one contiguous buffer.
    #[inline]
    fn collect(&mut self, len: usize, pool: &mut Pool) -> Option<Mbuf> {
        let head = self.head.as_mut()?;
        if self.big_len == 0 || len <= HEAD {
            head.extend(len);
            return self.head.take();
        }
        let front = head.tail_mut().get(..HEAD)?;
        let big = self.big.as_mut()?.tail_mut();
        if len <= self.copy_max
            && let Some(mut frame) = pool.alloc(len)
        {
            let rest = big.get(HEAD..len)?;
            frame.put(len, |bytes| {
                copy(front, &mut bytes[..HEAD]);
                copy(rest, &mut bytes[HEAD..]);
            })?;
            return Some(frame);
        }
        copy(front, big.get_mut(..HEAD)?);
        let mut frame = self.big.take()?;
        frame.extend(len);
        Some(frame)
    }

    /// Give the kept buffers back.
    pub(super) fn release(&mut self, pool: &mut Pool) {
        self.head.take().into_iter().chain(self.big.take()).for_each(|m| pool.free(m));
    }
}

/// Without a buffer, read a frame and drop it, as a network card does. If the frame stayed in the
/// kernel, a driver that sleeps on the descriptor would wake up for nothing. The read has room for
/// a virtio header, because the kernel refuses a shorter read, and that would look as if the TAP
/// were gone.
#[cold]
fn discard(fd: BorrowedFd<'_>) -> Result<Taken, Errno> {
    let got = read(fd, &mut [0; vnet::LEN_MAX])?;
    Ok(if got == 0 { Taken::Empty } else { Taken::Dropped(DropReason::MbufExhausted) })
}
