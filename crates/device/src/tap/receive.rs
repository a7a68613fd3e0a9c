//! One frame out of the descriptor, into a buffer that fits it.
//!
//! Called by: `tap.rs`. Counters: none; what it drops it says.
//!
//! # Which buffer
//! A frame's length is known only when it was read, and with offloads it may be 40 bytes or 64 KB.
//! So each read is offered two pieces of memory: a 2 KB buffer, and behind it a buffer that holds
//! the longest frame, 1,920 bytes into it. Both are kept until a frame fills them.
//! - Up to 1,920 bytes, the small buffer is the frame: no copy, no waste.
//! - A long frame lies in the big buffer but for its first 1,920 bytes, which are copied in front
//!   of the rest, so that it is contiguous: 30 cache lines beside the 1,000 that the kernel wrote.
//! - Between the two, a frame that a smaller class would hold (16,256 bytes, with offloads) is
//!   copied into one. That costs a second pass over bytes that the kernel has just brought into
//!   the cache, and bounds what a socket buffer of short super-segments takes: a buffer past 2 KB
//!   is always at least a quarter full. Bulk traffic, in full super-segments, never pays it.

use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;

use base::DropReason;
use mbuf::{Class, Mbuf, Pool, copy};
use rustix::io::{Errno, read, readv};

use crate::vnet::{self, Header};

/// What came of one read.
pub(super) enum Taken {
    /// A frame.
    Frame(Mbuf),
    /// A frame came and went.
    Dropped(DropReason),
    /// A read of nothing: a closed peer, or a datagram without bytes.
    Empty,
}

/// Most bytes of the first piece where there is a second.
const HEAD: usize = Class::K2.capacity();

/// The buffers that wait for the next frame.
pub(super) struct Receiver {
    /// Bytes of virtio header in front of each frame; 0 for none.
    header_len: usize,
    /// The longest frame that is let in, in bytes.
    max_frame: usize,
    /// Bytes asked of the pool for the first piece, and for the second; 0 for none.
    head_len: usize,
    big_len: usize,
    /// The longest frame that is copied out of the second piece, in bytes.
    copy_max: usize,
    head: Option<Mbuf>,
    big: Option<Mbuf>,
}

impl Receiver {
    /// For frames of at most `max_frame` bytes behind `header_len` bytes of virtio header.
    pub(super) fn new(max_frame: usize, header_len: usize) -> Receiver {
        // A byte more than is allowed: a frame that fills it was cut short.
        let wanted = (max_frame + 1).min(Class::K64.capacity());
        let (head_len, big_len) = if wanted <= HEAD { (wanted, 0) } else { (HEAD, wanted) };
        let smaller = [Class::K2, Class::K4, Class::K16].map(Class::capacity);
        let copy_max = smaller.into_iter().filter(|&c| c < big_len).max().unwrap_or(0);
        Receiver { header_len, max_frame, head_len, big_len, copy_max, head: None, big: None }
    }

    /// Read one frame.
    ///
    /// # Errors
    /// Whatever `read` says; `AGAIN` when there is nothing.
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
            // Without the second piece the frame may have been in order.
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

    /// The `len` bytes that were just read, in one piece.
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

/// Without a buffer a frame is read and lost, as a network card would lose it: leaving it with the
/// kernel would have a driver that sleeps on the descriptor wake up for nothing. A read that is
/// shorter than the virtio header is refused, and would look as if the TAP were gone.
#[cold]
fn discard(fd: BorrowedFd<'_>) -> Result<Taken, Errno> {
    let got = read(fd, &mut [0; vnet::LEN_MAX])?;
    Ok(if got == 0 { Taken::Empty } else { Taken::Dropped(DropReason::MbufExhausted) })
}
