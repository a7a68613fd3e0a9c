//! Copies one set of headers in front of many payloads, and makes a share of each payload to send
//! it.
//!
//! Called by: the stack, for a run of segments with nearly equal headers. The mbuf headers of a
//! run's payloads mostly have equal fields (length, count, flags, class), which are compared as one
//! word. This comparison replaces the checks of [`Pool::share_for_send`]. A payload that differs
//! takes the general path.
#![allow(unsafe_code)]

use core::marker::PhantomData;
use core::ptr::NonNull;
use std::sync::Arc;

use crate::Pool;
use crate::class::{Class, HEADROOM, LINE};
use crate::mbuf::{Flags, Mbuf};
use crate::store::{Header, Meta};

/// Maximum bytes of headers in a [`Front`].
pub const FRONT_MAX: usize = 96;

/// The bytes that one instruction copies; a vector stays in its register between payloads.
#[cfg(target_arch = "x86_64")]
type Chunk = core::arch::x86_64::__m128i;
#[cfg(not(target_arch = "x86_64"))]
type Chunk = [u8; 16];

type Chunks = [Chunk; FRONT_MAX / size_of::<Chunk>()];

/// Headers to copy in front of many payloads.
pub struct Front {
    chunks: Chunks,
    len: usize,
    /// Metadata of the frame, not of its payload.
    framing: u64,
    flags: u8,
    like: Like,
}

/// The words (see [`held`]) in the headers of payloads that need no further check, and of their
/// shares.
struct Like {
    /// The word of a payload with one handle and nothing but headroom in front of its data.
    alone: u64,
    /// The word of the same payload when it has two handles.
    kept: u64,
    /// The word of the share that is sent, headers included.
    sent: u64,
}

impl Front {
    /// The headers of `frame`, which was made from `payload`, to copy in front of similar payloads.
    /// `None` if they are too long, or if other handles may write them.
    #[inline(always)]
    pub fn of(frame: &Mbuf, payload: &Mbuf) -> Option<Front> {
        // Under loom the fields are not in one word.
        if cfg!(loom) {
            return None;
        }
        let len = frame.len().checked_sub(payload.len()).filter(|&len| len <= FRONT_MAX)?;
        let end = frame.offset() + len;
        if end < FRONT_MAX || !frame.writable_up_to(end) {
            return None;
        }
        // SAFETY: the `FRONT_MAX` bytes before `end` are in the cluster and belong to this handle
        // alone; any bytes are a valid chunk.
        let chunks = unsafe {
            let from = frame.header().data.get().add(len).sub(FRONT_MAX).cast::<Chunk>();
            core::array::from_fn(|i| from.add(i).read_unaligned())
        };
        let (framing, flags) = (frame.header().framing(), frame.header().flags.get());
        Some(Front { chunks, len, framing, flags, like: Like::of(payload, frame) })
    }

    /// Bytes of headers, at most [`FRONT_MAX`].
    #[inline(always)]
    pub fn headers_len(&self) -> usize {
        self.len
    }

    /// The headers, at the end of an array that begins with the bytes before them.
    fn headers(&self) -> [u8; FRONT_MAX] {
        let mut headers = [0; FRONT_MAX];
        // SAFETY: the array has as many bytes as the chunks, and chunks are plain bytes.
        unsafe { write(headers.as_mut_ptr().cast(), self.chunks) };
        headers
    }
}

impl Like {
    /// The words for payloads like `payload`, before it was sent in `frame`.
    #[inline(always)]
    fn of(payload: &Mbuf, frame: &Mbuf) -> Like {
        let (p, f) = (payload.header(), frame.header());
        // A share gets a word that no header has: a count of 0 without the flag SHARED.
        let refs = if p.class == Class::Share { 0 } else { 1 };
        let own = p.flags.get();
        let asked = f.flags.get() & Flags::CSUM_PARTIAL;
        let flags = (own & !Flags::SUMMED) | asked | Flags::SHARED;
        Like {
            alone: held(p.len.get(), refs, own & !Flags::SHARED, p.class),
            kept: held(p.len.get(), 2, own | Flags::SHARED, p.class),
            sent: held(f.len.get(), HEADROOM as u16, flags, Class::Share),
        }
    }
}

/// One store instruction per chunk; a loop would copy from memory.
///
/// # Safety
/// `to` is valid for writes of all chunks.
#[inline(always)]
unsafe fn write(to: *mut Chunk, [a, b, c, d, e, f]: Chunks) {
    // SAFETY: by contract.
    unsafe {
        to.write_unaligned(a);
        to.add(1).write_unaligned(b);
        to.add(2).write_unaligned(c);
        to.add(3).write_unaligned(d);
        to.add(4).write_unaligned(e);
        to.add(5).write_unaligned(f);
    }
}

/// A pool that is borrowed to make many shares.
pub struct Shares<'p> {
    pool: &'p mut Pool,
    /// The pool's free list of shares; the pool's own list is empty meanwhile.
    free: Option<NonNull<Header>>,
    taken: usize,
}

impl Pool {
    /// Let `work` make many shares.
    #[inline(always)]
    pub fn shares<R>(&mut self, work: impl FnOnce(&mut Shares) -> R) -> R {
        let free = self.store.free[Class::Share as usize].take();
        // Passed by reference, so that `work` cannot forget it and its drop always updates the
        // count.
        work(&mut Shares { pool: self, free, taken: 0 })
    }

    /// Shares any payload as [`Shares::behind`] does. Returns `None` if there is no memory.
    #[cold]
    pub fn share_behind(
        &mut self,
        mbuf: &mut Mbuf,
        front: &Front,
        fill: impl FnOnce(&mut [u8; FRONT_MAX]),
    ) -> Option<Mbuf> {
        let mut headers = front.headers();
        fill(&mut headers);
        let mut m = match self.share_for_send(mbuf) {
            Some(share) => share,
            None => self.copy_range(mbuf, 0, mbuf.len())?,
        };
        m.prepend(front.len)?.copy_from_slice(headers.get(FRONT_MAX - front.len..)?);
        m.clear(Flags::SUMMED);
        m.set(front.flags & Flags::CSUM_PARTIAL);
        // SAFETY: the handle is exclusive to this function.
        unsafe { Header::frame(m.header.as_ptr(), front.framing) };
        Some(m)
    }
}

impl Shares<'_> {
    /// [`Pool::share_for_send`] with headers in front, which `fill` may change: the headers are at
    /// the end of the array that `fill` gets, and the bytes before them are written to the
    /// headroom. `None` if the payload is not like that of [`Front::of`], or if the free list is
    /// empty: then call [`Pool::share_behind`].
    #[inline(always)]
    pub fn behind(
        &mut self,
        mbuf: &mut Mbuf,
        front: &Front,
        fill: impl FnOnce(&mut [u8; FRONT_MAX]),
    ) -> Option<Mbuf> {
        let from = mbuf.header.as_ptr();
        // Not used for a share, which never matches.
        let data = from.wrapping_byte_add(LINE + HEADROOM).cast::<u8>();
        let h = mbuf.header();
        let is_ours = h.owner.as_ptr().cast_const() == Arc::as_ptr(&self.pool.shared);
        // Only the pool that owns a cluster may read its count.
        if !is_ours || h.held() != front.like.alone || h.data.get() != data {
            return None;
        }
        let header = self.take()?;
        // SAFETY: the cluster is this pool's and has one handle, so the count may be set here. The
        // bytes before its data belong to the new handle from here on: they are in front of all
        // that `mbuf` can see, and before `private_end`. There are `HEADROOM` of them, at least as
        // many as the front has; so the new handle's data, which is `len` bytes longer, is inside
        // the cluster.
        unsafe {
            Header::hold(from, front.like.kept);
            let area = data.sub(FRONT_MAX);
            write(area.cast(), front.chunks);
            fill(&mut *area.cast());
            let to = header.as_ref();
            to.data.set(data.sub(front.len));
            to.base.set(mbuf.header);
            to.meta.set((*from).meta.get());
            Header::frame(header.as_ptr(), front.framing);
            Header::hold(header.as_ptr(), front.like.sent);
        }
        Some(Mbuf { header, _owns: PhantomData })
    }

    /// Like `Store::take`, but without a prefetch: the next share is close by.
    #[inline(always)]
    fn take(&mut self) -> Option<NonNull<Header>> {
        let header = self.free?;
        // SAFETY: a header on a free list belongs to the holder of the list.
        self.free = unsafe { header.as_ref().next.get() };
        self.taken += 1;
        Some(header)
    }
}

impl Drop for Shares<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.pool.store.free[Class::Share as usize] = self.free;
        self.pool.store.outstanding += self.taken;
    }
}

const HELD_AT: usize = core::mem::offset_of!(Header, len);
const FRAMING_AT: usize = core::mem::offset_of!(Header, meta) + core::mem::offset_of!(Meta, csum);
const _: () = assert!(cfg!(loom) || HELD_AT == LINE - 8 && FRAMING_AT == LINE - 16);

/// Length, count, flags and class of a header as one word, as it is in memory.
#[inline(always)]
fn held(len: u32, refs_or_private_end: u16, flags: u8, class: Class) -> u64 {
    let low = (u64::from(refs_or_private_end), u64::from(flags), class as u64);
    if cfg!(target_endian = "little") {
        u64::from(len) | low.0 << 32 | low.1 << 48 | low.2 << 56
    } else {
        u64::from(len) << 32 | low.0 << 16 | low.1 << 8 | low.2
    }
}

impl Header {
    /// [`held`] of this header.
    #[inline(always)]
    fn held(&self) -> u64 {
        // SAFETY: the fields from `len` on are eight bytes without padding, aligned as a word.
        unsafe { (&raw const *self).byte_add(HELD_AT).cast::<u64>().read() }
    }

    /// Set all fields of [`held`].
    ///
    /// # Safety
    /// The caller has exclusive access to `this` and to the count; the class does not change.
    #[inline(always)]
    unsafe fn hold(this: *mut Header, held: u64) {
        // SAFETY: by contract, and as in `held`; the word has a valid class.
        unsafe { this.byte_add(HELD_AT).cast::<u64>().write(held) }
    }

    /// The metadata of a frame as one word, as it is in memory: `csum`, `in_port`, `segment_size`
    /// and `vlan`.
    #[inline(always)]
    fn framing(&self) -> u64 {
        // SAFETY: as in `held`.
        unsafe { (&raw const *self).byte_add(FRAMING_AT).cast::<u64>().read() }
    }

    /// Set all fields of [`Header::framing`].
    ///
    /// # Safety
    /// The caller has exclusive access to `this`.
    #[inline(always)]
    unsafe fn frame(this: *mut Header, framing: u64) {
        // SAFETY: by contract, and as in `held`.
        unsafe { this.byte_add(FRAMING_AT).cast::<u64>().write(framing) }
    }
}

const _: () = assert!(FRONT_MAX <= HEADROOM);
